//! Details, which a fold asks for: enabled kinds, received records, and their places.

use std::sync::Mutex;

use range_report::timeline::{Detail, Details, Item, WaitKind};
use tracing::info_span;
use tracing_gpu::{Gpu, Output, Profiler, ProfilerBuilder, Report};

use crate::fake::{Fake, GRAPH, LAUNCH, Place, RECORD, WAIT};
use crate::profiler::{HANDLE, finish, start, thread_number};

/// A detail with the span of its call, and whether the thread is this one.
type Placed = (Detail, Option<String>, bool);

/// The details seen, and the graph nodes of operations.
static SEEN: Mutex<(Vec<Placed>, Vec<u64>)> = Mutex::new((Vec::new(), Vec::new()));

fn see(item: &Item<'_>) {
    let mut seen = SEEN.lock().expect("no panic");
    match item {
        Item::Detail(placed) => {
            let here = placed.launch.is_some_and(|(thread, at)| thread == thread_of_process() && at > 0);
            seen.0.push((placed.detail, placed.span.map(str::to_owned), here));
        }
        Item::Operation(operation) => seen.1.push(operation.graph_node),
        _ => {}
    }
}

/// The number of the main thread, which is that of the process.
fn thread_of_process() -> u32 {
    std::process::id()
}

fn builder() -> ProfilerBuilder {
    Profiler::builder().gpu(Gpu::Cupti).report([Report::Kernels]).output(Output::None).nvtx(false)
}

pub(crate) fn details(fake: &Fake, tier: &str) {
    assert_eq!(thread_number(), thread_of_process());
    let all = Details::EACH.iter().fold(Details::EVENT_TIMES, |all, (kind, _)| all.and(*kind));
    // By default only kernels, copies and sets; a fold that asks for details adds their kinds.
    let usual = [1, 2, 10, 22];
    for (asked, kinds, of_driver, resources) in [
        (None, vec![], vec![], vec![2]),
        (Some(Details::NONE), vec![], vec![], vec![2]),
        (Some(Details::WAITS), vec![38], vec![17, WAIT], vec![2]),
        (Some(Details::EVENTS), vec![36], vec![RECORD], vec![2]),
        (Some(Details::EVENT_TIMES), vec![0, 36], vec![RECORD], vec![2]),
        (Some(Details::NODES), vec![], vec![], vec![2, 13, 18, 20]),
        (Some(all), vec![0, 17, 36, 37, 38, 49], vec![17, RECORD, WAIT], vec![2, 13, 18, 20]),
    ] {
        let set = |builder: ProfilerBuilder| asked.into_iter().fold(builder, |it, details| it.watch(details, see));
        let profiler = set(builder()).build().expect("settings that can be used");
        let mut expected: Vec<u32> = usual.into_iter().chain(kinds).collect();
        expected.sort_unstable();
        assert_eq!(fake.enabled(0), expected, "{asked:?}");
        let enabled = fake.enabled(1);
        let beside = [17, RECORD, WAIT].into_iter().filter(|number| enabled.contains(number)).collect::<Vec<_>>();
        assert_eq!((beside, fake.enabled(3)), (of_driver, resources), "{asked:?}");
        assert!(fake.enabled(1).contains(&LAUNCH));
        fake.tell("fake_together", 0);
        profiler.finish().expect("nothing to be written");
        assert_eq!(fake.enabled(0), [0; 0], "all is disabled again");
    }
    fake.tell("fake_alone", 0);
    placed(fake, tier, all);
}

/// Creations and their clones are placed in the spans of the captures, a wait and its event in those of their calls.
fn placed(fake: &Fake, tier: &str, all: Details) {
    let profiler = start(builder().watch(all, see), tier);
    fake.place(Place { device: 0, context: 1, stream: 7, node: 201, at: 0 });
    info_span!("encoder").in_scope(|| fake.graph(13, 101, 0));
    info_span!("decoder").in_scope(|| fake.graph(13, 102, 0));
    info_span!("instantiate").in_scope(|| {
        fake.graph(20, 201, 101);
        fake.graph(20, 202, 102);
        fake.graph(18, 0, 0);
    });
    info_span!("produce").in_scope(|| fake.call(RECORD, 30, HANDLE));
    info_span!("consume").in_scope(|| fake.call(WAIT, 31, HANDLE));
    fake.record(36, &[(4, 30), (8, 1), (12, 7), (16, 5), (40, u64::MAX >> 1), (48, 77)]);
    fake.record(38, &[(4, 2), (8, 10), (16, 20), (24, 31), (28, 1), (32, 8), (36, 5), (40, 77)]);
    fake.record(37, &[(4, 1), (8, 8), (12, 0), (16, 2)]);
    fake.record(49, &[(4, 1), (8, 3), (12, 99), (16, 0x7000), (24, 64)]);
    fake.record(17, &[(4, 1 << 16), (24, 5), (32, 6)]);
    info_span!("replay").in_scope(|| fake.call(GRAPH, 40, HANDLE));
    fake.kernel(40, c"spin", 10);
    finish(fake, profiler);
    let (seen, operations) = std::mem::take(&mut *SEEN.lock().expect("no panic"));
    assert_eq!(operations, [201]);
    let of = |is: &dyn Fn(&Detail) -> bool| -> Vec<(Detail, Option<&str>, bool)> {
        let seen = seen.iter().filter(|(detail, ..)| is(detail));
        seen.map(|(detail, span, here)| (*detail, span.as_deref(), *here)).collect()
    };
    let nodes = of(&|detail| matches!(detail, Detail::Node(_))).into_iter().map(|(detail, span, here)| {
        let Detail::Node(node) = detail else { panic!("{detail:?}") };
        assert!(here);
        (node.node, node.original, span.expect("a span"))
    });
    let expected = [(101, 0, "encoder"), (102, 0, "decoder"), (201, 101, "encoder"), (202, 102, "decoder")];
    assert_eq!(nodes.collect::<Vec<_>>(), expected);
    let graphs = of(&|detail| matches!(detail, Detail::Graph(_)));
    assert!(matches!(graphs.as_slice(), [(_, Some("instantiate"), true)]), "{graphs:?}");
    let [(Detail::Event(event), Some("produce"), true)] = of(&|detail| detail.kind() == Details::EVENTS)[..] else {
        panic!("{seen:?}")
    };
    let [(Detail::Wait(wait), Some("consume"), true)] = of(&|detail| detail.kind() == Details::WAITS)[..] else {
        panic!("{seen:?}")
    };
    assert_eq!((event.record, event.stream, wait.record, wait.stream), (77, 7, 77, Some(8)));
    assert!(wait.kind == WaitKind::StreamForEvent && event.at > 0);
    let rest = Details::STREAMS.and(Details::MEMORY).and(Details::OVERHEADS);
    let rest = of(&|detail| rest.has(detail.kind()));
    assert!(rest.len() == 3 && rest.iter().all(|(_, span, here)| span.is_none() && !here), "{rest:?}");
}

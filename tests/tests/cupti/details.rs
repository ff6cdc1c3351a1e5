//! Details, which a fold asks for: enabled kinds, received records, and their places.

use std::sync::Mutex;

use range_model::timeline::{Detail, Details, Item, WaitKind};
use tracing::info_span;
use tracing_gpu::{Gpu, Output, Profiler, ProfilerBuilder, Report};

use crate::fake::{Fake, LAUNCH, OPEN_MEMORY, RECORD, WAIT};
use crate::profiler::{HANDLE, finish, start, thread_number};

/// A detail with the span of its call, and whether the thread is this one.
type Placed = (Detail, Option<String>, bool);

/// The details seen.
static SEEN: Mutex<Vec<Placed>> = Mutex::new(Vec::new());

fn see(item: &Item<'_>) {
    if let Item::Detail(placed) = item {
        let here = placed.launch.is_some_and(|(thread, at)| thread == thread_of_process() && at > 0);
        let mut seen = SEEN.lock().expect("no panic");
        seen.push((placed.detail, placed.span.map(str::to_owned), here));
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
    // By default only kernels, copies, sets and whole graphs; a fold that asks for details adds their kinds.
    let usual = [1, 2, 10, 22, 51];
    let resources = vec![1, 2, 9, 10, 13, 17, 18, 20]; // contexts, and changes of graphs
    for (asked, kinds, of_driver) in [
        (None, vec![], vec![]),
        (Some(Details::NONE), vec![], vec![]),
        (Some(Details::WAITS), vec![38], vec![17, WAIT]),
        (Some(Details::EVENT_WAITS), vec![], vec![WAIT]),
        (Some(Details::EVENTS), vec![36], vec![RECORD]),
        (Some(Details::EVENT_TIMES), vec![0, 36], vec![RECORD]),
        (Some(all), vec![0, 17, 36, 37, 38, 49], vec![17, RECORD, WAIT]),
    ] {
        let set = |builder: ProfilerBuilder| asked.into_iter().fold(builder, |it, details| it.watch(details, see));
        let profiler = set(builder()).build().expect("settings that can be used");
        let mut expected: Vec<u32> = usual.into_iter().chain(kinds).collect();
        expected.sort_unstable();
        assert_eq!(fake.enabled(0), expected, "{asked:?}");
        let enabled = fake.enabled(1);
        let beside = [17, RECORD, WAIT].into_iter().filter(|number| enabled.contains(number)).collect::<Vec<_>>();
        assert_eq!((beside, fake.enabled(3)), (of_driver, resources.clone()), "{asked:?}");
        assert!(fake.enabled(1).contains(&LAUNCH));
        fake.tell("fake_together", 0);
        profiler.finish().expect("nothing to be written");
        assert_eq!(fake.enabled(0), [0; 0], "all is disabled again");
    }
    fake.tell("fake_alone", 0);
    placed(fake, tier, all);
    between_devices(fake);
    from_the_first_wait(fake);
}

/// Records of waits begin with the first wait of a stream for an event, where only such waits are asked for.
fn from_the_first_wait(fake: &Fake) {
    const WAITS: u32 = 38;
    let profiler = builder().watch(Details::EVENT_WAITS, see).build().expect("settings that can be used");
    [LAUNCH, RECORD].into_iter().for_each(|function| fake.call(function, 50, HANDLE));
    assert!(!fake.enabled(0).contains(&WAITS));
    fake.call(WAIT, 51, HANDLE);
    assert!(fake.enabled(0).contains(&WAITS));
    fake.tell("fake_together", 0);
    profiler.finish().expect("nothing to be written");
    assert_eq!(fake.enabled(0), [0; 0], "all is disabled again");
}

/// Where nodes are recorded, copies between devices are once a context of a second device begins, or memory of another
/// process is opened.
fn between_devices(fake: &Fake) {
    const BETWEEN: u32 = 22;
    let seconds: [fn(&Fake); 2] = [|fake| fake.tell("fake_begin", 2), |fake| fake.call(OPEN_MEMORY, 40, HANDLE)];
    for (number, second) in seconds.into_iter().enumerate() {
        let profiler = builder().build().expect("settings that can be used");
        // There is no way back to whole graphs.
        assert_eq!(fake.enabled(0).contains(&BETWEEN), number == 0);
        profiler.record_graph_nodes();
        [1, 1 + 4].into_iter().for_each(|context| fake.tell("fake_begin", context));
        assert!(!fake.enabled(0).contains(&BETWEEN));
        second(fake);
        assert!(fake.enabled(0).contains(&BETWEEN));
        fake.tell("fake_together", 0);
        profiler.finish().expect("nothing to be written");
        assert_eq!(fake.enabled(0), [0; 0], "all is disabled again");
    }
}

/// A wait and its event are placed in the spans of their calls.
fn placed(fake: &Fake, tier: &str, all: Details) {
    let profiler = start(builder().watch(all, see), tier);
    info_span!("produce").in_scope(|| fake.call(RECORD, 30, HANDLE));
    info_span!("consume").in_scope(|| fake.call(WAIT, 31, HANDLE));
    fake.record(36, &[(4, 30), (8, 1), (12, 7), (16, 5), (40, u64::MAX >> 1), (48, 77)]);
    fake.record(38, &[(4, 2), (8, 10), (16, 20), (24, 31), (28, 1), (32, 8), (36, 5), (40, 77)]);
    fake.record(37, &[(4, 1), (8, 8), (12, 0), (16, 2)]);
    fake.record(49, &[(4, 1), (8, 3), (12, 99), (16, 0x7000), (24, 64)]);
    fake.record(17, &[(4, 1 << 16), (24, 5), (32, 6)]);
    finish(fake, profiler);
    let seen = std::mem::take(&mut *SEEN.lock().expect("no panic"));
    let of = |is: &dyn Fn(&Detail) -> bool| -> Vec<(Detail, Option<&str>, bool)> {
        let seen = seen.iter().filter(|(detail, ..)| is(detail));
        seen.map(|(detail, span, here)| (*detail, span.as_deref(), *here)).collect()
    };
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

//! Reads files back strictly. Checks the rules of the Trace Event Format, and that the file has all items.

use crate::tests::with;
use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use range_model::summary::{MemoryKind, RangeStyle};
use range_model::timeline::{
    Api, ApiCall, Call, Ending, Kernel, Link, Mark, Memory, Operation, Projection, Range, Value, Work,
};

#[path = "host/tests.rs"]
mod hosts;
#[path = "line/tests.rs"]
mod kinds;
#[path = "device/tests.rs"]
mod projected;

pub(super) fn plain() -> Range<'static> {
    Range { thread: 7, name: "range", ..Range::default() }
}

const KERNEL: Operation<'static> = Operation {
    start: 0,
    end: 0,
    device: 0,
    context: 1,
    stream: 7,
    correlation: 5,
    graph_node: 0,
    work: Work::Kernel(Kernel {
        name: 1,
        grid: [128, 2, 1],
        block: [256, 1, 1],
        registers: 32,
        static_shared: 1024,
        dynamic_shared: 0,
    }),
    kernel: "void gemm<float>(int)",
    symbol: "_Z4gemmIfEvi",
    launch: None,
    span: None,
    path: &[],
    captured: &[],
    call: 0,
};

const fn copy(kind: MemoryKind, bytes: u64) -> Work {
    Work::Memory(Memory { kind, bytes, source: 1, destination: 3, value: 0 })
}

#[allow(clippy::needless_update)] // whatever else is known of a process
pub(super) fn process() -> Process {
    with(Process::default(), |it| {
        it.pid = 1234;
        it.command = "/opt/bin/serve --model \"a b\"".to_owned();
    })
}

/// The text of a file with these items.
pub(super) fn file(items: &[Item<'_>], lost: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sink = Chrome::new(&mut out);
    sink.begin(&process()).unwrap();
    for item in items {
        sink.item(item).unwrap();
    }
    sink.end(&Summary::default(), lost).unwrap();
    drop(sink);
    out
}

/// The events of a file, each on its own line. Checks the rules first.
pub(super) fn events(file: &[u8]) -> Vec<Json> {
    let text = std::str::from_utf8(file).unwrap();
    let whole: Vec<Json> = serde_json::from_str(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.first(), lines.last(), lines.len()), (Some(&"["), Some(&"]"), whole.len() + 2));
    for (line, event) in lines[1..].iter().zip(&whole) {
        assert_eq!(serde_json::from_str::<Json>(line.trim_end_matches(',')).as_ref().unwrap(), event);
    }
    check(&whole);
    whole
}

fn ns(event: &Json, key: &str) -> u64 {
    // Compares digits. Readers that use doubles get the same number up to 2^53.
    let text = event[key].to_string();
    let value = event[key].as_f64().unwrap_or_else(|| panic!("no {key}: {event}"));
    let ns = (value * 1000.0).round() as u64;
    assert!(ns < 1 << 50 && !text.contains('e'), "{text}");
    ns
}

/// The rules of the Trace Event Format.
fn check(events: &[Json]) {
    let mut slices: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    let (mut open, mut flows, mut counters) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut named = std::collections::HashSet::new();
    for event in events {
        let text = |key: &str| event[key].as_str().unwrap_or_else(|| panic!("no {key}: {event}"));
        let track = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        assert!(event["name"].is_string() && event.get("args").is_none_or(Json::is_object), "{event}");
        let phase = text("ph");
        if phase == "M" {
            let key = match text("name") {
                "process_name" | "thread_name" => "name",
                "process_labels" => "labels",
                "process_sort_index" | "thread_sort_index" => "sort_index",
                other => panic!("{other} is no metadata that chrome://tracing knows"),
            };
            assert!(event["args"][key].is_string() || event["args"][key].as_u64() <= Some(i32::MAX as u64), "{event}");
            named.insert((text("name").to_owned(), track));
            continue;
        }
        let at = ns(event, "ts");
        match phase {
            "X" => slices.entry(track).or_default().push((at, at + ns(event, "dur"))),
            "i" => assert!(["t", "g"].contains(&text("s"))),
            "b" => assert!(open.insert((text("id"), text("cat"), text("name")), at).is_none(), "{event}"),
            "e" => assert!(open.remove(&(text("id"), text("cat"), text("name"))).is_some_and(|begin| begin <= at)),
            "s" => {
                let is_launch = text("cat") == "launch";
                let is_its = |slice: &(u64, u64)| slice.0 == at && (slice.1 == at || !is_launch);
                let bound = slices.get(&track).is_some_and(|slices| slices.iter().any(is_its));
                assert!(bound && flows.insert((text("cat"), text("id")), at).is_none(), "{event}");
            }
            "f" => {
                let began = flows.remove(&(text("cat"), text("id"))).expect("a flow that has begun");
                assert!(began <= at && text("bp") == "e" && ["launch", "batch"].contains(&text("cat")));
                let bound = slices.get(&track).is_some_and(|slices| slices.iter().any(|slice| slice.0 == at));
                assert!(bound, "no slice begins where the flow ends: {event}");
            }
            "C" => {
                let value = event["args"]["bytes"].as_u64().expect("a number");
                let before = counters.insert((track.0, text("name")), (at, value)).unwrap_or_default();
                assert!(before.0 <= at && before.1 <= value, "{event}");
            }
            other => panic!("phase {other}"),
        }
        assert!(phase == "C" || event["cat"].as_str().is_some_and(|cat| !cat.is_empty()), "{event}");
    }
    assert!(open.is_empty() && flows.is_empty(), "{open:?} {flows:?}");
    for (track, slices) in &mut slices {
        assert!(track.0 == 1234 && track.1 < 100 || named.contains(&("thread_name".to_owned(), *track)), "{track:?}");
        slices.sort_by_key(|slice| (slice.0, std::cmp::Reverse(slice.1)));
        let mut above: Vec<(u64, u64)> = Vec::new();
        for slice in slices {
            while above.last().is_some_and(|outer| outer.1 <= slice.0) {
                above.pop();
            }
            assert!(above.last().is_none_or(|outer| slice.1 <= outer.1), "{track:?}: {slice:?} crosses {above:?}");
            above.push(*slice);
        }
    }
}

fn of_phase<'a>(events: &'a [Json], phase: &str) -> Vec<&'a Json> {
    events.iter().filter(|event| event["ph"] == phase).collect()
}

fn track_names(events: &[Json]) -> Vec<(u64, String)> {
    let names = events.iter().filter(|event| event["name"] == "thread_name");
    names.map(|event| (event["tid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn nothing_is_a_file_too() {
    let events = events(&file(&[], 0));
    assert_eq!(of_phase(&events, "M").len(), events.len());
    assert_eq!(events[0]["args"]["name"], "serve");
    assert_eq!(events[1]["args"]["labels"], process().command);
}

#[test]
fn a_range_has_all_that_is_known_of_it() {
    let fields = [
        ("rows", Value::Unsigned(u64::MAX)),
        ("a \"key\"", Value::Text("b\n")),
        ("ratio", Value::Float(f64::INFINITY)),
        ("yes", Value::Bool(true)),
    ];
    let payload = Value::Integer(-3);
    let full = Range {
        start: 1_001,
        end: 4_003,
        domain: Some("app"),
        category: Some("io"),
        color: Some(0xff76_b900),
        payload: Some(payload),
        fields: &fields,
        cut: true,
        ..plain()
    };
    let events = events(&file(&[Item::Thread { thread: 7, name: "main" }, Item::Range(full)], 0));
    let expected = json!({
        "ph": "X", "pid": 1234, "tid": 7, "ts": 1.001, "dur": 3.002, "name": "range", "cat": "app,io",
        "cname": "cq_build_attempt_passed",
        "args": {
            "color": "0xff76b900", "payload": -3, "cut": true,
            "fields": {"rows": u64::MAX.to_string(), "a \"key\"": "b\n", "ratio": "inf", "yes": true},
        },
    });
    assert_eq!(of_phase(&events, "X"), [&expected]);
    assert_eq!(track_names(&events), [(7, "main".to_owned())]);
}

#[test]
fn numbers_of_calls_lead_from_a_range_and_an_operation_to_a_request() {
    let fields = [("id", Value::Unsigned(7))];
    let call =
        Call { call: 3, span: 3, parent: 1, thread: 8, start: 2_000, end: 5_000, name: "wait", ..Call::default() };
    let events = events(&file(
        &[
            Item::Range(Range { span: 3, call: 3, parent: 1, ..plain() }),
            Item::Range(Range { span: 3, call: 9, parent: 1 << 60, ..plain() }),
            Item::Call(Call { fields: &fields, ending: Ending::Cancelled, ..call.clone() }),
            Item::Call(Call { domain: Some("app"), ending: Ending::Cut, call: 9, ..call }),
            Item::Operation(Operation { call: 9, ..KERNEL }),
        ],
        0,
    ));
    let args = |phase: &str| -> Vec<Json> {
        let events = of_phase(&events, phase).into_iter();
        events.filter(|event| event["cat"] != "launch").map(|event| event["args"].clone()).collect()
    };
    assert_eq!(
        args("X")[..2],
        [json!({"call": 3, "parent": 1}), json!({"call": 9, "parent": (1_u64 << 60).to_string(), "span_id": 3})]
    );
    assert_eq!(args("X")[2]["call"], 9);
    let expected = [
        json!({"call": 3, "parent": 1, "fields": {"id": 7}, "cancelled": true}),
        json!({"call": 9, "parent": 1, "span_id": 3, "domain": "app", "cut": true}),
    ];
    assert_eq!(args("b"), expected);
    let (begins, ends) = (of_phase(&events, "b"), of_phase(&events, "e"));
    assert_eq!((&begins[0]["ts"], &ends[0]["ts"], &begins[0]["cat"]), (&json!(2.0), &json!(5.0), &json!("call")));
    assert_ne!(begins[0]["id"], begins[1]["id"]);
}

#[test]
fn ranges_that_do_not_nest_get_their_own_track() {
    let range = |start, end, name| Item::Range(Range { start, end, name, ..plain() });
    let mut items = vec![Item::Thread { thread: 7, name: "main" }];
    items.extend([
        range(20, 40, "child"),
        range(10, 50, "parent"),
        range(30, 60, "other domain"),
        range(70, 80, "after"),
    ]);
    let start_end = Range { style: RangeStyle::StartEnd, name: "request", ..plain() };
    items.push(Item::Range(Range { start: 15, end: 45, end_thread: Some(8), ..start_end.clone() }));
    items.push(Item::Range(Range { start: 16, end: 46, domain: Some("a"), category: Some("b"), ..start_end }));
    let events = events(&file(&items, 0));
    let tracks: Vec<(&str, u64)> = of_phase(&events, "X")
        .iter()
        .map(|event| (event["name"].as_str().unwrap(), event["tid"].as_u64().unwrap()))
        .collect();
    assert_eq!(tracks, [("child", 7), ("parent", 7), ("other domain", 10_000_000), ("after", 7)]);
    assert_eq!(track_names(&events)[1], (10_000_000, "main (2)".to_owned()));
    let ends: Vec<u64> = of_phase(&events, "e").iter().map(|event| event["tid"].as_u64().unwrap()).collect();
    assert_eq!((of_phase(&events, "b").len(), ends), (2, vec![8, 7]));
    let begins = of_phase(&events, "b");
    assert_eq!(begins[0]["args"], json!({"end_thread": 8}));
    assert_ne!(begins[0]["id"], begins[1]["id"], "each has an id of its own");
}

#[test]
fn marks_and_calls_are_beside_the_ranges() {
    let mut items = vec![Item::Thread { thread: 7, name: "main" }];
    for level in 1..=5 {
        items.push(Item::Mark(Mark { thread: 7, at: 5, domain: None, text: "loss is NaN", level, fields: &[] }));
    }
    let fields = [("step", Value::Integer(-2)), ("why \"", Value::Text("a\nb"))];
    items.push(Item::Mark(Mark { thread: 7, at: 5, domain: Some("app"), text: "", level: 3, fields: &fields }));
    let call = ApiCall { api: Api::Driver, name: "cuInit", thread: 7, start: 3, end: 4, correlation: 1, result: 100 };
    items.push(Item::ApiCall(call.clone()));
    items.push(Item::ApiCall(ApiCall {
        api: Api::Runtime,
        name: "cudaLaunchKernel",
        start: 2,
        end: 5,
        result: 0,
        ..call.clone()
    }));
    items.push(Item::ApiCall(ApiCall { start: 4, end: 9, thread: 9, ..call }));
    let events = events(&file(&items, 0));
    let levels: Vec<&str> = of_phase(&events, "i").iter().map(|event| event["cat"].as_str().unwrap()).collect();
    assert_eq!(levels, ["error", "warn", "info", "debug", "trace", "app,info"]);
    let of_events: Vec<&Json> = of_phase(&events, "i").iter().map(|event| &event["args"]).collect();
    assert_eq!(of_events[5], &json!({"fields": {"step": -2, "why \"": "a\nb"}}));
    assert!(of_events[..5].iter().all(|args| args.is_null()));
    let names = track_names(&events);
    assert_eq!(
        names[1..],
        [(10_000_000, "CUDA API of main".to_owned()), (10_000_001, "CUDA API of thread 9".to_owned())]
    );
    // After the lanes of their thread, before the next thread.
    let places: Vec<(u64, u64)> = events
        .iter()
        .filter(|event| event["name"] == "thread_sort_index")
        .map(|event| (event["tid"].as_u64().unwrap(), event["args"]["sort_index"].as_u64().unwrap()))
        .collect();
    assert_eq!(places, [(7, 0), (10_000_000, 50), (10_000_001, 150)]);
    let calls = of_phase(&events, "X");
    assert_eq!(
        (calls[0]["cat"].as_str(), &calls[0]["args"]),
        (Some("cuda_driver"), &json!({"correlation": 1, "result": 100}))
    );
}

#[test]
fn operations_are_on_their_streams_with_an_arrow_each() {
    let launch = Some((7, 50));
    let items = [
        Item::Device { device: 0, name: "NVIDIA H200" },
        Item::Operation(Operation { start: 100, end: 200, launch, span: Some("forward"), ..KERNEL }),
        Item::Operation(Operation { start: 150, end: 170, graph_node: 9, launch, ..KERNEL }),
        Item::Operation(Operation { start: 10, end: 20, launch, ..KERNEL }),
        Item::Operation(Operation {
            start: 200,
            end: 400,
            work: copy(MemoryKind::HtoD, 3_000),
            kernel: "",
            symbol: "",
            ..KERNEL
        }),
        Item::Operation(Operation { start: 0, end: 1, work: copy(MemoryKind::HtoD, 1 << 60), stream: 9, ..KERNEL }),
        Item::Operation(Operation { start: 0, end: 1, work: copy(MemoryKind::Set, 5), context: 2, ..KERNEL }),
        Item::Operation(Operation { device: 1, kernel: "", ..KERNEL }),
    ];
    let events = events(&file(&items, 0));
    let operations: Vec<&Json> = of_phase(&events, "X").into_iter().filter(|event| event["cat"] != "launch").collect();
    assert_eq!(operations.len(), 7);
    assert_eq!(
        operations[0]["args"],
        json!({
            "grid": [128, 2, 1], "block": [256, 1, 1], "registers": 32, "static_shared": 1024, "dynamic_shared": 0,
            "symbol": "_Z4gemmIfEvi", "correlation": 5, "context": 1, "stream": 7, "span": "forward",
        })
    );
    let processes: Vec<&Json> = [0, 6].map(|at| &operations[at]["pid"]).to_vec();
    assert_eq!(processes, [&json!(10_001_234), &json!(20_001_234)], "each GPU of each process has a number of its own");
    assert_eq!(operations[3]["name"], "Memcpy HtoD (Pageable -> Device)");
    assert_eq!(
        operations[3]["args"],
        json!({"bytes": 3000, "GB/s": 15.0, "correlation": 5, "context": 1, "stream": 7})
    );
    assert_eq!(
        (&operations[4]["args"]["bytes"], &operations[5]["name"]),
        (&json!((1u64 << 60).to_string()), &json!("Memset (Device)"))
    );
    assert_eq!(operations[6]["name"], "_Z4gemmIfEvi");
    let names: Vec<String> = track_names(&events).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["Stream 7", "Stream 7 (2)", "Stream 9", "Stream 7 of context 2", "Stream 7"]);
    let devices: Vec<&Json> =
        events.iter().filter(|event| event["name"] == "process_name").map(|event| &event["args"]["name"]).collect();
    assert_eq!(devices, ["serve", "GPU 0 NVIDIA H200", "GPU 1"]);
    // Two operations of one launch, and one that starts before its launch, because clocks differ.
    let anchors = of_phase(&events, "X").into_iter().filter(|event| event["cat"] == "launch");
    let anchors: Vec<&Json> = anchors.map(|event| &event["ts"]).collect();
    assert_eq!((of_phase(&events, "f").len(), anchors), (3, vec![&json!(0.05), &json!(0.01)]));
    let copied: Vec<u64> =
        of_phase(&events, "C").iter().map(|event| event["args"]["bytes"].as_u64().unwrap()).collect();
    assert_eq!(copied, [0, 3_000, 3_000 + (1 << 60)]);
}

#[test]
fn what_is_missing_is_said() {
    let events = events(&file(&[Item::Range(Range { end: 77, ..plain() })], 12));
    let last = events.last().unwrap();
    assert_eq!(
        (&last["name"], &last["ts"], &last["args"]["lost"]),
        (&json!("12 items of this timeline are missing"), &json!(0.077), &json!(12))
    );
    // Its time is the end of the last item of any kind.
    let mark = Item::Mark(Mark { thread: 7, at: 88, domain: None, text: "", level: 3, fields: &[] });
    let operation = Item::Operation(Operation { start: 80, end: 99, ..KERNEL });
    for (items, ts) in [(&[mark.clone()][..], 0.088), (&[mark, operation], 0.099)] {
        assert_eq!(self::events(&file(items, 1)).last().unwrap()["ts"], json!(ts));
    }
}

/// A few items of all kinds.
pub(super) fn some() -> Vec<Item<'static>> {
    let launch = Some((7, 50));
    vec![
        Item::Thread { thread: 7, name: "m\u{e4}in \"1\"" },
        Item::Device { device: 0, name: "NVIDIA H200" },
        Item::Range(Range { start: 20, end: 40, color: Some(1), name: "日本語\n", ..plain() }),
        Item::Range(Range { start: 20, end: 40, style: RangeStyle::StartEnd, ..plain() }),
        Item::Mark(Mark { thread: 7, at: 5, domain: None, text: "}, {", level: 1, fields: &[] }),
        Item::Operation(Operation { start: 100, end: 200, launch, work: copy(MemoryKind::DtoH, 8), ..KERNEL }),
        Item::ApiCall(ApiCall { name: "cuInit", thread: 7, start: 3, end: 4, correlation: 1, ..ApiCall::default() }),
        Item::Projection(Projection { context: 1, stream: 7, start: 1, end: 2, name: "p", ..Projection::default() }),
    ]
}

proptest! {
    /// A thread that opens and closes ranges of two domains. Each domain has its own stack, so the ranges of one may
    /// cross those of the other.
    #[test]
    fn any_order_of_ranges_is_drawn_without_crossing(
        steps in prop::collection::vec((0usize..2, any::<bool>(), 0u64..3), 1..200),
    ) {
        let (mut stacks, mut now, mut items) = ([Vec::new(), Vec::new()], 0, Vec::new());
        for (domain, opens, passed) in steps {
            now += passed;
            let stack: &mut Vec<u64> = &mut stacks[domain];
            if opens {
                stack.push(now);
            } else if let Some(start) = stack.pop() {
                items.push(Item::Range(Range { start, end: now, domain: Some(["a", "b"][domain]), ..plain() }));
            }
        }
        // If two ranges end at once, the one that began last comes first, because it was on top.
        items.sort_by_key(|item| match item {
            Item::Range(range) => (range.end, std::cmp::Reverse(range.start)),
            _ => (0, std::cmp::Reverse(0)),
        });
        let events = events(&file(&items, 0));
        prop_assert_eq!(of_phase(&events, "X").len(), items.len());
    }
}

#[test]
fn batches_have_arrows_from_what_they_serve() {
    let range = |thread, call, start: u64| {
        Item::Range(Range { thread, call, span: call, start, end: start + 10, name: "n", ..Range::default() })
    };
    let link = |batch, served| Item::Link(Link { batch, served, weight: 1.0 });
    let arrows = |items: &[Item<'_>]| -> Vec<(String, u64, u64)> {
        let events = events(&file(items, 0));
        let arrows = events.iter().filter(|event| event["cat"] == "batch");
        arrows
            .map(|event| (event["ph"].as_str().unwrap().to_owned(), event["tid"].as_u64().unwrap(), ns(event, "ts")))
            .collect()
    };
    let arrow = |from: (u64, u64), to: (u64, u64)| [("s".to_owned(), from.0, from.1), ("f".to_owned(), to.0, to.1)];
    let (request, again, batch) = (range(7, 1, 100), range(8, 1, 400), range(9, 2, 200));
    let expected = arrow((7, 100), (9, 200));
    for items in [
        [request.clone(), link(2, 1), again.clone(), batch.clone()],
        [link(2, 1), batch.clone(), request.clone(), again.clone()],
        [request.clone(), again.clone(), batch.clone(), link(2, 1)],
    ] {
        assert_eq!(arrows(&items), expected, "{items:?}");
    }
    assert_eq!(arrows(&[again, batch.clone(), link(2, 1)]), [], "none goes back in time");
    assert_eq!(arrows(&[request, link(2, 1)]), [], "the batch has no range");
    let all = [range(7, 1, 100), range(7, 3, 120), link(2, 1), link(2, 3), batch];
    assert_eq!(arrows(&all), [expected, arrow((7, 120), (9, 200))].concat());
}

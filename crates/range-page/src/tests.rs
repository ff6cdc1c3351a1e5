use std::io::{self, Write};

use super::items::{Bar, Items, launch_of};
use super::{HtmlLimits, HtmlSink};
use range_model::summary::{
    ApiCallStats, CallStates, CallStats, CategoryStats, GpuActivity, GpuWork, KernelStats, MemoryKind, MemoryStats,
    NodeWork, OpenAccStats, Process, ProjectionStats, Quantile, RangeKernelStats, RangeStats, RangeStyle, Sizes,
    StreamStats, Summary, Times, TreeNode,
};
use range_model::summary::{CollectiveWait, InterferenceStats, Lateness, OffCpuStats, WaitStats};
use range_model::timeline::{Call, Item, Mark, Operation, Range, Sink, Value};
use range_report::{FindingKind, FindingKinds};

fn range(name: &str, start: u64, length: u64) -> Range<'_> {
    Range { thread: 7, start, end: start + length, name, ..Range::default() }
}

fn operation(start: u64, length: u64) -> Operation<'static> {
    Operation {
        start,
        end: start + length,
        context: 1,
        stream: 7,
        correlation: start as u32,
        kernel: "k",
        symbol: "k",
        launch: Some((7, start / 2)),
        span: Some("s"),
        ..Operation::default()
    }
}

fn page(items: &[Item<'_>], limits: HtmlLimits, lost: u64) -> String {
    let mut out = Vec::new();
    let mut sink = HtmlSink::with_limits(&mut out, limits);
    sink.begin(&Process::default()).unwrap();
    items.iter().for_each(|item| sink.item(item).unwrap());
    sink.flush().unwrap();
    sink.end(&Summary::default(), lost).unwrap();
    String::from_utf8(out).unwrap()
}

fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_shortest_give_way_and_no_more_than_must() {
    for count in [90, 100, 101, 112, 113, 999] {
        let mut items = Items::new(HtmlLimits { items: 100, text: 10_000 });
        let length = |number: u64| (number * 7) % 1_000; // lengths differ
        (0..count).for_each(|number| items.add(&Item::Range(range("a", 10_000 * number, length(number)))));
        items.finish();
        let mut kept: Vec<u64> = items.bars.iter().map(|bar| bar.end - bar.start).collect();
        kept.sort_unstable();
        let mut all: Vec<u64> = (0..count).map(length).collect();
        all.sort_unstable();
        let (left_out, longest) = all.split_at(all.len().saturating_sub(100));
        assert_eq!(kept, longest, "{count}");
        assert_eq!((items.came, items.left_out), (count, left_out.len() as u64), "{count}");
        assert_eq!(items.shortest, left_out.last().copied().unwrap_or(0), "{count}");
    }
}

#[test]
fn of_many_alike_some_from_everywhere_stay() {
    let mut items = Items::new(HtmlLimits { items: 100, text: 10_000 });
    for start in 0..1_000 {
        items.add(&Item::Range(range("a", start * 10, 5)));
    }
    items.finish();
    assert_eq!((items.bars.len(), items.shortest, items.left_out), (100, 5, 900));
    for quarter in 0..4 {
        let inside = |bar: &&Bar| (2_500 * quarter..2_500 * (quarter + 1)).contains(&bar.start);
        let there = items.bars.iter().filter(inside).count();
        assert!((10..=40).contains(&there), "{there} in quarter {quarter}");
    }
}

#[test]
fn operations_keep_their_launches() {
    let mut items = Items::new(HtmlLimits { items: 64, text: 10_000 });
    for start in 1..500 {
        items.add(&Item::Range(range("a", start * 100, start % 50)));
        items.add(&Item::Operation(operation(start * 100, start % 90)));
    }
    items.finish();
    assert_eq!(items.bars.len(), 64);
    let mut with = 0;
    for bar in &items.bars {
        if let Some(launch) = launch_of(bar, &items.launches) {
            assert_eq!((u64::from(launch.correlation), launch.at), (bar.start, Some((7, bar.start / 2))));
            with += 1;
        }
    }
    assert_eq!(with, items.launches.len());
    assert!(with > 10);
}

#[test]
fn nothing_at_all_may_be_kept() {
    let mark = Mark { thread: 7, at: 1, domain: None, text: "m", level: 3, fields: &[] };
    let all = [Item::Range(range("a", 0, 1)), Item::Mark(mark), Item::Operation(operation(1, 1))];
    let left_out = &data(&page(&all, HtmlLimits { items: 0, text: 0 }, 5))["left_out"];
    assert_eq!(
        [&left_out["came"], &left_out["short"], &left_out["marks"], &left_out["lost"]].map(|n| n.as_u64()),
        [2, 2, 1, 5].map(Some)
    );
}

#[test]
fn fields_of_events_leave_room_for_names() {
    let texts: Vec<String> = (0..100).map(|number| format!("{number} {}", "x".repeat(100))).collect();
    let fields: Vec<_> = texts.iter().map(|text| [("said", Value::Text(text))]).collect();
    let mark = |fields| Item::Mark(Mark { thread: 7, at: 1, domain: None, text: "m", level: 3, fields });
    let mut all: Vec<Item<'_>> = fields.iter().map(|fields| mark(fields)).collect();
    all.extend(texts.iter().take(30).map(|text| Item::Range(range(text, 0, 1))));
    let data = data(&page(&all, HtmlLimits { items: 1_000, text: 10_000 }, 0));
    let has = |text: &str| data["texts"].as_array().unwrap().iter().any(|known| known == text);
    assert!(texts.iter().take(30).all(|text| has(text)), "{data}");
    let fields: Vec<bool> = texts.iter().map(|text| has(&format!(r#"{{"fields":[["said","{text}"]]}}"#))).collect();
    assert!(fields[0] && fields[10] && !fields[20], "{fields:?}");
    assert_eq!(data["left_out"]["texts"].as_u64(), Some(fields.iter().filter(|has| !**has).count() as u64));
}

#[test]
fn odd_texts_stay_inside_their_script() {
    let odd = "</script><!-- \u{0} \u{202e} \u{2028} \" \\ 🦀";
    let fields = [(odd, Value::Text(odd)), ("x", Value::Float(f64::INFINITY))];
    let odd_range = Range { category: Some(odd), fields: &fields, domain: Some(odd), ..range(odd, 0, 1) };
    let written = page(&[Item::Thread { thread: 7, name: odd }, Item::Range(odd_range)], HtmlLimits::default(), 0);
    let plain = page(&[Item::Range(range("a", 0, 1))], HtmlLimits::default(), 0);
    for tag in ["<script", "</script", "<!--"] {
        assert_eq!(written.matches(tag).count(), plain.matches(tag).count(), "{tag}");
    }
    let texts = data(&written)["texts"].clone();
    assert_eq!(
        texts[3],
        "</script><!-- \\x00 \\u{202e} \\u{2028} \" \\ 🦀:</script><!-- \\x00 \\u{202e} \\u{2028} \" \\ 🦀"
    );
    let detail: serde_json::Value = serde_json::from_str(texts[2].as_str().unwrap()).unwrap();
    assert_eq!(detail["fields"][1][1], "inf");
    assert_eq!(data(&written)["threads"]["7"], "</script><!-- \\x00 \\u{202e} \\u{2028} \" \\ 🦀");
}

#[test]
fn a_number_used_again_keeps_both_names() {
    let names = ["worker-1", "worker-2", "worker-1", "worker-3"];
    let announced = names.map(|name| Item::Thread { thread: 7, name });
    assert_eq!(data(&page(&announced, HtmlLimits::default(), 0))["threads"]["7"], "worker-1 / worker-2 / worker-3");
}

#[test]
fn calls_are_a_group_of_their_own_before_the_threads() {
    let call = |start| Item::Call(Call { call: start, start, end: start + 10, name: "wait", ..Call::default() });
    let items = [Item::Operation(operation(0, 1)), Item::Range(range("a", 0, 1)), call(1), call(5)];
    let data = data(&page(&items, HtmlLimits::default(), 0));
    let groups: Vec<String> = data["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| format!("{} {}", group["kind"], group["label"]))
        .collect();
    assert_eq!(groups, [r#""calls" "Calls""#, r#""thread" "thread 7""#, r#""stream" "stream 7""#]);
    assert_eq!(data["groups"][0]["tracks"][0], serde_json::json!({"part": "calls", "rows": [[0, 2]]}));
}

#[test]
fn the_main_thread_is_first() {
    let mut out = Vec::new();
    let mut sink = HtmlSink::new(&mut out);
    let summary = Summary { process: Process { pid: 9, ..Process::default() }, ..Summary::default() };
    for thread in [3, 9, 5] {
        sink.item(&Item::Range(Range { thread, ..range("a", 0, 1) })).unwrap();
    }
    sink.item(&Item::Operation(operation(0, 1))).unwrap();
    sink.end(&summary, 0).unwrap();
    let groups = data(&String::from_utf8(out).unwrap())["groups"].clone();
    let labels: Vec<&str> = groups.as_array().unwrap().iter().filter_map(|group| group["label"].as_str()).collect();
    assert_eq!(labels, ["thread 9", "thread 3", "thread 5", "stream 7"]);
}

/// A disk with room for this number of bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Transparency is ignored; a call has the colour of its ranges.
#[test]
fn colours_are_those_of_the_program() {
    let colored = |color| Item::Range(Range { color: Some(color), call: 5, ..range("poll", 0, 1) });
    let call = Item::Call(Call { call: 5, start: 0, end: 9, name: "call", ..Call::default() });
    for (color, expected) in [(0xff12_3456_u32, vec![0x12_3456]), (0x12_3456, vec![0x12_3456]), (0, vec![])] {
        let page = page(&[colored(color), call.clone()], HtmlLimits::default(), 0);
        assert_eq!(data(&page)["colors"], serde_json::Value::from(expected));
        let column = page.split_once("id=\"column-color\">").unwrap().1.split_once('<').unwrap().0;
        assert_eq!(column, if color == 0 { "" } else { "AQE=" }, "both, or none");
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_is_met() {
    let whole = page(&[Item::Range(range("a", 0, 1))], HtmlLimits::default(), 0).len();
    for room in (0..whole).step_by(whole / 40) {
        let mut sink = HtmlSink::new(Full(room));
        let begun = sink.begin(&Process::default());
        sink.item(&Item::Range(range("a", 0, 1))).unwrap();
        let ended = begun.and_then(|()| sink.end(&Summary::default(), 0));
        assert_eq!(ended.map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull), "{room} of {whole}");
    }
    assert!(size_of::<Bar>() <= 72, "a million of them are to be kept");
}

/// A summary in which all figures of a row differ.
fn distinct() -> Summary {
    let mut times = Times::new(2, 1_000);
    (times.min_ns, times.max_ns, times.stddev_ns) = (300, 700, 282.5);
    (times.median_ns, times.median_exact) = (Some(501.5), true);
    times.quantiles = vec![Quantile::new(0.9, 660.0, true), Quantile::new(0.99, 696.0, false)];
    let mut sizes = Sizes::new(2, 4_000);
    (sizes.min_bytes, sizes.max_bytes, sizes.median_bytes) = (1_500, 2_500, Some(2_001.0));
    let mut lifetime = RangeStats::new("request", times.clone());
    lifetime.style = RangeStyle::StartEnd;
    lifetime.domain = Some("net".to_owned());
    let mut call = CallStats::new("query", times.clone());
    (call.cancelled, call.busy_ns, call.awaited_ns, call.awaited_self_ns) = (Some(1), 11, 12, 13);
    call.states = Some(CallStates { on_cpu_ns: 5, off_cpu_ns: 6, ready_ns: 7, ..CallStates::default() });
    let mut near = StreamStats::new("step", "GPU 0 #1", times.clone());
    near.times.median_exact = false;
    let mut nothing = StreamStats::new("none", "GPU 0 #2", times.clone());
    (nothing.empty, nothing.floor_ns) = (2, 1_280);
    let mut projection = ProjectionStats::new("step", times.clone());
    (projection.range_total_ns, projection.operations) = (2_000, 6);
    (projection.level_sum, projection.children_sum) = (8, 10);
    let mut kernel = RangeKernelStats::new("k<int>()", times.clone());
    kernel.range = Some((Some("net".to_owned()), "step".to_owned()));
    (kernel.pid, kernel.tid, kernel.range_instances, kernel.kernel_instances) = (4, 5, 6, 7);
    let mut event = OpenAccStats::new("acc_wait", times.clone());
    event.place = Some("a.c:5".to_owned());
    let gpu = GpuActivity {
        kernels: vec![KernelStats::new("k<int>()", times.clone())],
        memory: vec![MemoryStats::new(MemoryKind::HtoD, times.clone(), sizes)],
        calls: Some(vec![ApiCallStats::new("cuMemAlloc_v2", times.clone())]),
        projections: vec![projection],
        range_kernels: vec![kernel, RangeKernelStats::new("k<int>()", times.clone())],
        ..GpuActivity::default()
    };
    let mut node = TreeNode::new("step");
    (node.calls, node.instances, node.total_ns, node.self_ns, node.max_ns) = (3, 4, 5_000, 2_000, 4_000);
    (node.awaited_ns, node.awaited_self_ns) = (Some(70), Some(60));
    (node.stream_total_ns, node.stream_self_ns) = (Some(90), Some(80));
    node.gpu = Some(NodeWork::new(GpuWork::new(1, 20, 10), GpuWork::new(2, 40, 30)));
    Summary {
        ranges: vec![RangeStats::new("step", times.clone()), lifetime],
        calls: vec![call],
        categories: vec![CategoryStats::new("io", times.clone())],
        stream_ranges: vec![near, nothing],
        openacc: vec![event],
        off_cpu: vec![OffCpuStats::new("step", "futex (lock or condition)", 3, 900)],
        waits: vec![WaitStats::new("query", Some("step".to_owned()), 2, 900, 600)],
        interference: vec![InterferenceStats::new(
            vec!["a".to_owned(), "b".to_owned()],
            vec!["c".to_owned()],
            2,
            900,
            600,
        )],
        gpu: Some(gpu),
        tree: vec![node],
        ..Summary::default()
    }
}

/// Checks the headers, units and rows of each table.
#[test]
fn tables_have_their_columns_and_units() {
    let mut out = Vec::new();
    HtmlSink::new(&mut out).end(&distinct(), 0).unwrap();
    let data = data(&String::from_utf8(out).unwrap());
    let join = |cells: &serde_json::Value, of: &dyn Fn(&serde_json::Value) -> String| {
        cells.as_array().unwrap().iter().map(of).collect::<Vec<_>>().join(" | ")
    };
    let header =
        |column: &serde_json::Value| format!("{} {}", column[0].as_str().unwrap(), column[1].as_str().unwrap());
    let mut text = String::new();
    for table in data["tables"].as_array().unwrap() {
        text += &format!("{}: {}\n", table["title"].as_str().unwrap(), join(&table["columns"], &header));
        for row in table["rows"].as_array().unwrap() {
            text += &format!("  {}\n", join(row, &|cell| cell.as_str().map_or(cell.to_string(), str::to_owned)));
        }
    }
    assert_eq!(text, include_str!("tests/tables.txt"));
    let node = serde_json::json!({
        "depth": 0, "name": "step", "calls": 3, "instances": 4, "polled": true, "beside": true,
        "elsewhere": true, "total": 5_000, "own": 2_000, "awaited": 70, "awaited_own": 60, "stream_total": 90,
        "stream_own": 80,
        "gpu": {"busy": 30, "busy_own": 10, "operations": 2},
    });
    assert_eq!(data["tree"][0], node);
}

#[test]
fn findings_that_are_off_are_not_on_the_page() {
    let mut step = TreeNode::new("step");
    (step.calls, step.instances, step.total_ns, step.self_ns) = (10, 10, 5_000, 5_000);
    let summary = Summary { elapsed_ns: 10_000, outside_ns: Some(5_000), tree: vec![step], ..Summary::default() };
    let said = |page: Vec<u8>| data(&String::from_utf8(page).unwrap())["tree_said"].to_string();
    for (kinds, is_there) in [(vec![FindingKind::LongLoop], true), (vec![FindingKind::OutsideRanges], false)] {
        let kinds = FindingKinds::of(kinds);
        let (mut of_run, mut of_summary) = (Vec::new(), Vec::new());
        let mut sink = HtmlSink::new(&mut of_run).without(kinds);
        sink.begin(&Process::default()).unwrap();
        sink.end(&summary, 0).unwrap();
        super::write_html_without(&summary, kinds, &mut of_summary).unwrap();
        for text in [said(of_run), said(of_summary)] {
            assert_eq!(text.contains("of which is in no span"), is_there, "{text}");
        }
    }
}

#[test]
fn kernels_are_told_with_the_late_ranks_for_which_they_wait() {
    let rank = |rank: u32, started_unix_ns| Process { rank: Some(rank), started_unix_ns, ..Process::default() };
    let all = [rank(0, 1_300), rank(1, 1_000), rank(2, 1_200)];
    let nccl = |start, length| Operation { kernel: "ncclDevKernel_AllReduce_f32(x)", ..operation(start, length) };
    let beside = Operation { stream: 9, ..operation(100, 50) }; // begins with a kernel of NCCL
    let of_ranks = [
        page(&[Item::Operation(nccl(100, 600)), Item::Operation(beside)], HtmlLimits::default(), 0),
        page(&[Item::Operation(nccl(900, 100))], HtmlLimits::default(), 0),
        page(&[Item::Operation(nccl(300, 500))], HtmlLimits::default(), 0),
    ];
    let wait = |process, start_ns, wait_ns| {
        let (late_start_ns, late_ns, ranks) = (900, 400, 3);
        CollectiveWait { process, start_ns, wait_ns, late: 1, late_start_ns, late_ns, ranks }
    };
    let waits = vec![wait(0, 100, 500), wait(2, 300, 400), CollectiveWait { late_start_ns: 7, ..wait(0, 7, 3) }];
    let lateness = Some(Lateness { waits, ..Lateness::default() });
    let summary = Summary { lateness, ..Summary::default() };
    let late = |joined: &[usize], items, merged: &[Process]| {
        let mut out = Vec::new();
        let limits = HtmlLimits { items, ..HtmlLimits::default() };
        let mut sink = HtmlSink::with_limits(&mut out, limits).with_late_ranks(merged);
        for &rank in joined {
            sink.join(&all[rank], 1_000, of_ranks[rank].as_bytes()).unwrap();
        }
        sink.end(&summary, 0).unwrap();
        data(&String::from_utf8(out).unwrap()).get("late").cloned()
    };
    // The numbers of bars on the page: by process in the order of joining, then by stream.
    assert_eq!(
        late(&[1, 2, 0], 100, &all).unwrap(),
        serde_json::json!([[3, 1, 0, 500, 3, 400], [2, 1, 0, 400, 3, 400]])
    );
    let short = serde_json::json!([[2, 0, 0, 500, 3, 400], [1, 0, 0, 400, 3, 400]]);
    assert_eq!(late(&[1, 2, 0], 2, &all).unwrap(), short, "too short");
    let without = serde_json::json!([[0, 1, 0, 500, 3, 400], [2, 1, 0, 400, 3, 400]]);
    assert_eq!(late(&[1, 2], 100, &all).unwrap(), without);
    assert_eq!(late(&[2, 0], 100, &all), None, "nothing is known of the late one");
    assert_eq!(late(&[1, 2, 0], 100, &[]), None, "it is not known which processes they are");
}

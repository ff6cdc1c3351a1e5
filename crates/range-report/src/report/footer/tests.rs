use crate::report::RenderOptions;
use crate::{Report, SummaryExt as _};
use range_model::summary::{GpuIdle, MemoryKind, MemoryStats, Sizes};
use range_model::{
    ActivityLosses, GpuActivity, GpuWork, Losses, Note, OpenRange, RangeStats, RangeStyle, StreamLosses, Summary, Times,
};

fn text(summary: &Summary, reports: &[Report], options: &RenderOptions) -> String {
    let mut out = Vec::new();
    summary.render(reports, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn open_range(label: &str, thread: &str, style: RangeStyle, cut: bool, count: u64) -> OpenRange {
    OpenRange { label: label.to_owned(), thread: thread.to_owned(), style, cut, count }
}

/// Goroutines push on one thread and pop on another. The spans of a Rust program have other reasons.
#[test]
fn pops_on_other_threads_than_their_pushes_make_times_useless() {
    let is_said = |stray_exits, count, of_command| {
        let open = vec![open_range("request", "app", RangeStyle::PushPop, false, count)];
        let losses = Losses { stray_exits, open, ..Losses::default() };
        let options = RenderOptions::default().of_command(of_command);
        Summary { losses, ..Summary::default() }
            .losses_as_text(&options)
            .iter()
            .any(|sentence| sentence.contains("times of push/pop ranges are of no use"))
    };
    let cases = [(50, 50), (2, 2), (10, 12), (1, 1), (2, 3), (3, 2), (0, 0)];
    let said = cases.map(|(stray, open)| is_said(stray, open, true));
    assert_eq!(said, [true, true, true, false, false, false, false]);
    assert!(!is_said(50, 50, false));
}

#[test]
fn the_footer_names_every_loss() {
    let open = |label, thread, cut| open_range(label, thread, RangeStyle::PushPop, cut, 1);
    let lifetimes = |label, thread, count| open_range(label, thread, RangeStyle::StartEnd, false, count);
    let losses = Losses {
        split_instances: 1,
        stray_exits: 2_000,
        open: vec![
            open("step", "main", true),
            open("poll", "w1", false),
            open("poll", "w1", false),
            open("poll", "w2", false),
            open("poll", "w3", false),
            open("poll", "w4", false),
            open("", "", false),
            lifetimes("poll", "w1", 1),
            lifetimes("request", "main", 1_000),
            lifetimes("request", "main", 1),
        ],
        names_over_limit: 3,
        categories_over_limit: 12,
        nodes_over_limit: 4,
        recursive_rows: 2,
        rows_without_median: 5,
        streams: StreamLosses { pending: 7, captured: 8_000, refused: 9, dropped: 10, unreadable: 11 },
        activity: ActivityLosses::default(),
        spans_dropped: 6,
    };
    let notes = vec![Note::Text { text: "A note\nthat tries to break out.".to_owned() }];
    let summary = Summary { losses, notes, ..Summary::default() };
    let expected = "
 ** Notes:

 - Open at the end, and counted up to then (cut): step (main).
 - Still open, and not counted: None (unnamed thread), poll (w1 x2, w2, w3, 1
   more thread).
 - Start/end ranges still open, and not counted: poll (w1), request (main
   x1001).
 - 1 instance was closed and opened again, because a range below it was exited
   first: it counts as two.
 - 2,000 exits were on a thread that had no such range open; they ended nothing
   there.
 - 3 names exceeded the limit on distinct names: spans kept their own names,
   ranges of other code are called (other).
 - 12 categories exceeded the limit on distinct categories; they have no rows.
 - 4 spans had no room in the tree; they are in (more) rows.
 - 2 rows of the tree have recursion deeper than 64 levels; their totals count
   time nested in themselves once.
 - 6 spans could not be followed, and are in no table.
 - 7 stream times were still pending, and are not counted.
 - 8,000 instances have no stream time, because their stream was being captured
   into a graph.
 - 9 instances have no stream time, because their stream was gone or the driver
   refused.
 - 10 stream times were dropped, because their stream had too many unread ones.
 - 11 stream times could not be read, because their context failed or is gone.
 - A note\\nthat tries to break out.
 - 5 rows have no median (-): the memory for durations was used up.

";
    assert_eq!(text(&summary, &[], &RenderOptions::default().width(80).notes(usize::MAX)), expected);
    // Only the first five of many.
    let (first, _) = expected.split_once(" - 3 names").unwrap();
    let more = format!("{first} - 12 more notes: `notes=all` prints all.\n\n");
    assert_eq!(text(&summary, &[], &RenderOptions::default().width(80)), more);
    assert!(text(&summary, &[], &RenderOptions::default().notes(16)).contains("\n - 1 more note: `notes=all`"));
}

#[test]
fn a_single_stream_time_that_is_missing_is_one() {
    let streams = StreamLosses { pending: 1, captured: 1, refused: 1, dropped: 1, unreadable: 1 };
    let summary = Summary { losses: Losses { streams, ..Losses::default() }, ..Summary::default() };
    let expected = "
 ** Notes:

 - 1 stream time was still pending, and is not counted.
 - 1 instance has no stream time, because its stream was being captured into a graph.
 - 1 instance has no stream time, because its stream was gone or the driver refused.
 - 1 stream time was dropped, because its stream had too many unread ones.
 - 1 stream time could not be read, because its context failed or is gone.

";
    assert_eq!(text(&summary, &[], &RenderOptions::default()), expected);
}

#[test]
fn the_footer_names_every_loss_of_gpu_records() {
    let activity = ActivityLosses {
        dropped_records: 1_000,
        over_budget_records: 2,
        without_time: 3,
        unmatched: 4,
        outstanding: 5,
        forgotten_launches: 6,
        forgotten_calls: 10,
        unreadable_records: 7,
        late: 9,
    };
    let work = |operations, busy_ns| GpuWork { operations, busy_ns, ..GpuWork::default() };
    let mut summary = Summary { losses: Losses { activity, ..Losses::default() }, ..Summary::default() };
    summary.gpu = Some(GpuActivity { unmatched: work(4, 12_000), outside: work(8, 0), ..GpuActivity::default() });
    summary.idle = Some(GpuIdle { late: 11, dropped_calls: 1, unmatched_copies: 12, ..GpuIdle::default() });
    let expected = "
 ** Notes:

 - 1,000 GPU records were dropped by CUPTI, which had no memory left; their operations or calls are in no table.
 - 2 GPU records were dropped at the memory limit; their operations or calls are in no table.
 - 7 GPU records had an unknown layout, and were skipped.
 - 3 GPU operations or API calls have no time, because tracing began too late for them or they had not finished; they are in no table.
 - 5 launches were still waiting for their GPU operations; these are in no table.
 - 6 launches were dropped at the memory limit before their GPU operations arrived; these count for no span.
 - 10 API calls were dropped at the memory limit before their records arrived; they count for no span, and some may be the profiler's own.
 - 9 GPU operations are missing in projections of ranges, because the memory limit was reached; each counts once per range.
 - 11 GPU operations arrived too late to be set apart from the idle time around them.
 - 1 API call was dropped at the memory limit; the idle time in it has no cause.
 - 12 copies of pageable memory could not be matched with their calls; they are in no finding.
 - 4 GPU operations (12.00 us busy) could not be matched with their launches; they count for no span.
";
    let options = RenderOptions::default().width(200).notes(usize::MAX);
    assert_eq!(text(&summary, &[], &options), format!("{expected}\n"));
    let outside = " - 8 GPU operations were launched outside any range.\n\n";
    // Without ranges, calls cannot be inside one.
    assert!(!text(&summary, &[Report::Torch], &options).contains("outside any range"));
    let (name, times) = ("step".to_owned(), Times::default());
    summary.ranges = vec![RangeStats { domain: None, name, style: RangeStyle::PushPop, times }];
    assert!(text(&summary, &[Report::Torch], &options).ends_with(outside));
    // The tree has its own row for them.
    assert!(!text(&summary, &[Report::Tree], &options).contains("outside any range"));
}

#[test]
fn a_clean_run_has_no_footer_and_many_open_ranges_are_counted() {
    let mut summary = Summary::default();
    assert_eq!(text(&summary, &[], &RenderOptions::default()), "");
    summary.losses.open =
        (0..25).map(|i| open_range(&format!("range {i:02}"), "main", RangeStyle::PushPop, true, 1)).collect();
    let text = text(&summary, &[], &RenderOptions::default()).replace("\n  ", "");
    assert!(text.contains("range 09 (main), and 15 more.") && !text.contains("range 10"), "{text}");
}

#[test]
fn copies_from_host_to_host_are_named_where_a_table_has_them() {
    let copies = |kind, count| MemoryStats::new(kind, Times::new(count, 5_000), Sizes::new(count, 64));
    let of = |memory| Summary { gpu: Some(GpuActivity { memory, ..GpuActivity::default() }), ..Summary::default() };
    let said = |summary: &Summary, report| {
        let text = text(summary, &[report], &RenderOptions::default());
        text.lines()
            .find_map(|line| line.trim_start_matches(" - ").strip_suffix("leaves such copies out.").map(str::to_owned))
    };
    let summary = of(vec![copies(MemoryKind::HtoD, 2), copies(MemoryKind::HtoH, 1_680)]);
    let expected = Some("1,680 copies are from host to host: Nsight Systems ".to_owned());
    for report in [Report::Nvprof, Report::MemTime, Report::MemSize] {
        assert_eq!(said(&summary, report), expected, "{report}");
    }
    assert_eq!(said(&summary, Report::Kernels), None);
    assert_eq!(said(&of(vec![copies(MemoryKind::HtoD, 2)]), Report::MemTime), None);
}

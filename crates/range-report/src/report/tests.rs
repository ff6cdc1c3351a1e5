use std::io;

use super::*;
#[cfg(feature = "compare")]
use crate::SummaryExt as _;
use crate::text::width::width_of;
use range_model::{CategoryStats, GpuActivity, KernelStats, RangeStats, RangeStyle, StreamStats, Times};

fn times(durations: &[u64]) -> Times {
    Times {
        instances: durations.len() as u64,
        total_ns: durations.iter().sum(),
        min_ns: durations.iter().copied().min().unwrap_or(0),
        max_ns: durations.iter().copied().max().unwrap_or(0),
        median_ns: durations.get(durations.len() / 2).map(|&ns| ns as f64),
        median_exact: true,
        stddev_ns: 0.0,
        ..Times::default()
    }
}

fn range(name: &str, style: RangeStyle, durations: &[u64]) -> RangeStats {
    RangeStats { domain: None, name: name.to_owned(), style, times: times(durations) }
}

fn of_ranges(ranges: impl Into<Vec<RangeStats>>) -> Summary {
    Summary { ranges: ranges.into(), ..Summary::default() }
}

fn text(summary: &Summary, reports: &[Report], options: &RenderOptions) -> String {
    let mut out = Vec::new();
    summary.render(reports, options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn medians_say_how_sure_they_are() {
    let mut summary = of_ranges(["exact", "near", "lost"].map(|name| range(name, RangeStyle::PushPop, &[1_500])));
    summary.ranges[1].times.median_exact = false;
    summary.ranges[2].times.median_ns = None;
    summary.losses.rows_without_median = 1;
    let expected = "
 ** NVTX Push/Pop Range Summary (nvtx_pushpop_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Range
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  -----
     33.3            1,500          1   1,500.0   1,500.0     1,500     1,500          0.0  exact
     33.3            1,500          1   1,500.0         -     1,500     1,500          0.0  lost 
     33.3            1,500          1   1,500.0  ~1,500.0     1,500     1,500          0.0  near 


 ** Notes:

 - 1 row has no median (-): the memory for durations was used up.
 - ~ marks a median from a histogram: within 0.2 % of the true one.

";
    assert_eq!(text(&summary, &[Report::Ranges], &RenderOptions::default()), expected);
    // Without the mark there is no legend.
    assert!(!text(&summary, &[Report::Tree], &RenderOptions::default()).contains('~'));
}

#[test]
fn the_legacy_style_keeps_push_pop_and_start_end_apart() {
    let step = range("step", RangeStyle::PushPop, &[1_000]);
    let mut summary = of_ranges([step, range("request", RangeStyle::StartEnd, &[3_000, 4_000])]);
    let options = RenderOptions::default().style(TableStyle::Legacy).thousands(false);
    let expected = "
NVTX Push-Pop Range Statistics:

 Time(%)  Total Time (ns)  Instances  Average  Minimum  Maximum  Range
 -------  ---------------  ---------  -------  -------  -------  -----
   100.0             1000          1   1000.0     1000     1000  step 


NVTX Start-End Range Statistics:

 Time(%)  Total Time (ns)  Instances  Average  Minimum  Maximum   Range 
 -------  ---------------  ---------  -------  -------  -------  -------
   100.0             7000          2   3500.0     3000     4000  request

";
    assert_eq!(text(&summary, &[Report::Ranges], &options), expected);
    summary.ranges.remove(0);
    assert!(!text(&summary, &[Report::Ranges], &options).contains("Push-Pop"));
}

fn stream_range(name: &str, stream: &str, durations: &[u64], empty: u64) -> StreamStats {
    let (name, stream) = (name.to_owned(), stream.to_owned());
    StreamStats { domain: None, name, stream, times: times(durations), empty, floor_ns: 1_280 }
}

/// One range on two streams, a row without enqueued work, and a row in which some instances had none.
fn of_streams() -> Summary {
    let mut stream_ranges = vec![
        stream_range("empty", "GPU 0 #2", &[1_280; 20_000], 20_000),
        stream_range("none", "GPU 0 #1", &[1_152, 1_216], 2),
        stream_range("open", "GPU 0 #1", &[], 0),
        stream_range("copy", "GPU 1 #1", &[250_000], 0),
        stream_range("conv", "GPU 0 #2", &[1_248, 500_000, 600_000, 1_280], 2),
        stream_range("copy", "GPU 0 #1", &[250_000], 0),
        stream_range("bias", "GPU 0 #1", &[250_000], 0),
    ];
    stream_ranges[3].times.median_exact = false;
    Summary { stream_ranges, ..of_ranges([range("conv", RangeStyle::PushPop, &[1_000])]) }
}

#[test]
fn stream_times_have_a_table_of_their_own() {
    let expected = "
 ** NVTX Push/Pop Range Summary (nvtx_pushpop_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Range
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  -----
    100.0            1,000          1   1,000.0   1,000.0     1,000     1,000          0.0  conv 


 ** Stream Time Summary (CUDA events):

 Time (%)  Total Time (ns)  Instances  Avg (ns)    Med (ns)   Min (ns)  Max (ns)  StdDev (ns)  Range   Stream 
 --------  ---------------  ---------  ---------  ----------  --------  --------  -----------  -----  --------
     59.5        1,102,528          4  275,632.0   600,000.0     1,248   600,000          0.0  conv   GPU 0 #2
     13.5          250,000          1  250,000.0   250,000.0   250,000   250,000          0.0  bias   GPU 0 #1
     13.5          250,000          1  250,000.0   250,000.0   250,000   250,000          0.0  copy   GPU 0 #1
     13.5          250,000          1  250,000.0  ~250,000.0   250,000   250,000          0.0  copy   GPU 1 #1
        -                -     20,000   <1,280      <1,280      <1,280    <1,280            -  empty  GPU 0 #2
        -                -          2   <1,280      <1,280      <1,280    <1,280            -  none   GPU 0 #1


 ** Notes:

 - ~ marks a median from a histogram: within 0.2 % of the true one.
 - 2 instances in 1 row of stream time took no longer than an empty pair of
   events: nothing was enqueued in them. Their times are counted.
 - < marks a row in which nothing was enqueued: its times are those of empty
   pairs of events, and count in no percentage.

";
    assert_eq!(text(&of_streams(), &[Report::Ranges], &RenderOptions::default().width(80)), expected);
    let wide = text(&of_streams(), &[Report::Ranges], &RenderOptions::default().width(200));
    let tables = |text: &str| text.split(" ** Notes").next().map(str::to_owned);
    assert_eq!(tables(&wide), tables(expected));
    // The legend appears only where the mark is printed.
    assert_eq!(text(&of_streams(), &[Report::Categories], &RenderOptions::default()).find('<'), None);
}

#[test]
fn stream_times_in_the_legacy_style() {
    let expected = "
NVTX Push-Pop Range Statistics:

 Time(%)  Total Time (ns)  Instances  Average  Minimum  Maximum  Range
 -------  ---------------  ---------  -------  -------  -------  -----
   100.0             1000          1   1000.0     1000     1000  conv 


Stream Time Statistics (CUDA events):

 Time(%)  Total Time (ns)  Instances  Average   Minimum  Maximum  Range   Stream 
 -------  ---------------  ---------  --------  -------  -------  -----  --------
    59.5          1102528          4  275632.0     1248   600000  conv   GPU 0 #2
    13.5           250000          1  250000.0   250000   250000  bias   GPU 0 #1
    13.5           250000          1  250000.0   250000   250000  copy   GPU 0 #1
    13.5           250000          1  250000.0   250000   250000  copy   GPU 1 #1
       -                -      20000   <1280      <1280    <1280  empty  GPU 0 #2
       -                -          2   <1280      <1280    <1280  none   GPU 0 #1


Notes:

 - 2 instances in 1 row of stream time took no longer than an empty pair of events: nothing was enqueued in them. Their times are counted.
 - < marks a row in which nothing was enqueued: its times are those of empty pairs of events, and count in no percentage.

";
    let options = RenderOptions::default().style(TableStyle::Legacy).thousands(false).width(200);
    assert_eq!(text(&of_streams(), &[Report::Ranges], &options), expected);
}

#[test]
fn rows_in_which_nothing_was_enqueued_have_no_figures() {
    let only = |rows: &[StreamStats]| {
        let summary = Summary { stream_ranges: rows.to_vec(), ..Summary::default() };
        text(&summary, &[Report::Ranges], &RenderOptions::default().width(200))
    };
    let expected = "
 ** Stream Time Summary (CUDA events):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Range   Stream 
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  -----  --------
        -                -          2    <1,280    <1,280    <1,280    <1,280            -  none   GPU 0 #1


 ** Notes:

 - < marks a row in which nothing was enqueued: its times are those of empty pairs of events, and count in no percentage.

";
    let text = only(&[stream_range("none", "GPU 0 #1", &[1_152, 1_216], 2)]);
    assert!(text.ends_with(expected), "{text}");
    // An unknown floor is not printed as 0.
    let unknown = only(&[StreamStats { floor_ns: 0, ..stream_range("none", "GPU 0 #1", &[0], 1) }]);
    assert!(unknown.contains("Stream Time") && !unknown.contains('<'), "{unknown}");
    // A single instance in a single row.
    let partly = only(&[stream_range("conv", "GPU 0 #1", &[1_152, 90_000], 1)]);
    assert!(partly.contains(" - 1 instance in 1 row of stream time took no longer than"), "{partly}");
    assert!(partly.contains("in it. Its time is counted.") && !partly.contains('<'), "{partly}");
    // Nothing is printed without instances.
    assert!(!only(&[stream_range("open", "GPU 0 #1", &[], 0)]).contains("Stream Time"));
}

#[test]
fn names_of_streams_are_escaped_unless_asked_for() {
    let odd = stream_range("a\tb", "c\u{1b}[2J", &[5_000], 0);
    let summary = Summary { stream_ranges: vec![odd], ..Summary::default() };
    let escaped = text(&summary, &[Report::Ranges], &RenderOptions::default());
    assert!(escaped.contains("a\\tb   c\\x1b[2J"), "{escaped}");
    assert!(
        text(&summary, &[Report::Ranges], &RenderOptions::default().raw_names(true)).contains("a\tb    c\u{1b}[2J")
    );
}

#[test]
fn categories_are_text_even_if_they_read_as_numbers() {
    let categories = [("7", &[10][..]), ("Conv", &[3_000, 5_000]), ("1000", &[20])]
        .map(|(category, durations)| CategoryStats { category: category.to_owned(), times: times(durations) });
    let summary = Summary { categories: categories.into(), ..Summary::default() };
    let expected = "
Category Statistics:

 Time(%)  Total Time (ns)  Instances  Average  Minimum  Maximum  Category
 -------  ---------------  ---------  -------  -------  -------  --------
    99.6            8,000          2  4,000.0    3,000    5,000  Conv    
     0.2               20          1     20.0       20       20  1000    
     0.1               10          1     10.0       10       10  7       

";
    let options = RenderOptions::default().style(TableStyle::Legacy);
    assert_eq!(text(&summary, &[Report::Categories], &options), expected);
    let none = text(&Summary::default(), &[Report::Categories], &options);
    assert!(none.contains("`nvtx.category`"));
}

#[test]
fn control_characters_are_escaped_unless_asked_for() {
    let summary = of_ranges([range("a\tb\u{1b}[31m", RangeStyle::PushPop, &[1])]);
    assert!(text(&summary, &[Report::Ranges], &RenderOptions::default()).contains("a\\tb\\x1b[31m"));
    assert!(text(&summary, &[Report::Ranges], &RenderOptions::default().raw_names(true)).contains("a\tb\u{1b}[31m"));
}

#[test]
fn rows_without_an_instance_are_left_out() {
    let summary = of_ranges([range("open", RangeStyle::StartEnd, &[])]);
    assert!(text(&summary, &[Report::Ranges], &RenderOptions::default()).contains("No range was recorded."));
}

/// Seven reports are empty for one reason, and two for another.
#[test]
fn why_there_is_nothing_is_said_once() {
    let reports = [Report::Kernels, Report::Ranges, Report::MemTime, Report::Tree, Report::MemSize, Report::Nvprof];
    let expected = format!(
        "
 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):
 ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):
 ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):
==0== Profiling application: 

{}

 ** NVTX Push/Pop Range Summary (nvtx_pushpop_sum):
 ** Phase Tree (tree):

{NO_RANGE}
",
        gpu_work::NO_ACTIVITY
    );
    assert_eq!(text(&Summary::default(), &reports, &RenderOptions::default()), expected);

    // If GPU work was recorded, each report names its missing data, and an existing table stays in place.
    let mut summary = of_ranges([range("step", RangeStyle::PushPop, &[1_000])]);
    summary.gpu = Some(GpuActivity::default());
    let printed = text(&summary, &reports, &RenderOptions::default());
    let one_by_one: Vec<String> =
        reports.iter().map(|report| text(&summary, &[*report], &RenderOptions::default())).collect();
    let [kernels, ranges, mem_time, tree, mem_size, nvprof] = &one_by_one[..] else { panic!("six reports") };
    let (title, _) = mem_size.split_once("\n\n").unwrap();
    let mem = mem_time.replacen("\n\n", &format!("{title}\n\n"), 1);
    assert_eq!(printed, [kernels, ranges, &mem, tree, nvprof].map(String::as_str).concat());
}

#[test]
fn why_there_is_nothing_fits_any_terminal() {
    let (absent, calls) = (gpu_work::ABSENT, [gpu_work::NO_CALL, gpu_work::NO_CALL_RECORDED]);
    let others =
        [NO_RANGE, gpu_work::NO_RANGE_KERNEL, gpu_work::NO_KERNEL, gpu_work::NO_OPERATION, gpu_work::NO_OPENACC];
    for sentence in absent.iter().flat_map(|&(said, words)| [said, words]).chain(calls).chain(others) {
        assert!(sentence.ends_with('\n') && sentence.lines().all(|line| line.len() <= 80), "{sentence}");
    }
}

#[test]
fn medians_of_the_gpu_say_how_sure_they_are() {
    let times = Times { median_exact: false, ..times(&[1_500]) };
    let gpu = GpuActivity { kernels: vec![KernelStats { name: "k".to_owned(), times }], ..GpuActivity::default() };
    let summary = Summary { gpu: Some(gpu), ..Summary::default() };
    let text = |report| text(&summary, &[report], &RenderOptions::default());
    assert!(text(Report::Kernels).contains("~1,500.0") && text(Report::Kernels).contains(" - ~ marks a median"));
    assert!(!text(Report::Nvprof).contains('~'));
}

#[test]
fn names_are_parsed_back() {
    for report in Report::ALL {
        assert_eq!(report.name().parse(), Ok(*report));
        assert_eq!(report.to_string(), report.name());
    }
    for style in [TableStyle::Current, TableStyle::Legacy] {
        assert_eq!(style.name().parse(), Ok(style));
    }
    let error = "new\n".parse::<TableStyle>().unwrap_err();
    assert_eq!(error.to_string(), "unknown table style `new\\n`: expected current or legacy");
}

/// Everything is written at once, and errors of the writer are returned.
#[test]
fn errors_of_the_writer_come_through() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut out = Full(0);
    let error = Summary::default().render(Report::ALL, &RenderOptions::default(), &mut out).unwrap_err();
    assert_eq!((error.kind(), out.0), (io::ErrorKind::StorageFull, 1));
}

#[test]
fn every_report_has_its_row_and_is_in_the_docs() {
    let docs = concat!(include_str!("../../../../docs/options.md"), include_str!("../../../../docs/gpu.md"));
    for report in Report::ALL {
        let name = report.name();
        assert_eq!(name.parse(), Ok(*report));
        let asked_for = ["`", "report=", "+"].map(|before| format!("{before}{name}"));
        assert!(asked_for.iter().any(|text| docs.contains(text)), "{name} is not in the docs");
    }
}

/// Names with two columns a character, with none, joined, combined, and the empty name.
#[cfg(feature = "compare")]
const WIDE_NAMES: [&str; 8] = [
    "Module running",
    "モデルを読み込む",
    "推論 (batch 64) 日本語のとても長い名前がここにあり、まだまだ続いていきます、最後まで",
    "🚀 launch",
    "👩🏽‍🔬👨‍👩‍👧 forward",
    "cafe\u{301} re\u{301}sume\u{301}",
    "\u{200b}",
    "모듈 실행",
];

#[cfg(feature = "compare")]
fn with_wide_names() -> Summary {
    let mut summary = of_ranges(WIDE_NAMES.map(|name| range(name, RangeStyle::PushPop, &[1_500_000, 2_500_000])));
    summary.categories =
        WIDE_NAMES.map(|name| CategoryStats { category: name.to_owned(), times: times(&[1_500]) }).into();
    summary.tree = WIDE_NAMES
        .map(|name| range_model::TreeNode {
            name: name.to_owned(),
            calls: 2,
            instances: 2,
            total_ns: 4_000_000,
            self_ns: 4_000_000,
            ..range_model::TreeNode::default()
        })
        .into();
    let kernels = WIDE_NAMES.map(|name| KernelStats { name: name.to_owned(), times: times(&[1_500, 2_500]) });
    summary.gpu = Some(GpuActivity { kernels: kernels.into(), ..GpuActivity::default() });
    summary
}

#[cfg(feature = "compare")]
#[test]
fn lines_of_a_table_are_equally_wide_whatever_the_names() {
    let summary = with_wide_names();
    let merged = range_model::Summary::merge([summary.clone(), summary.clone()]);
    for width in [80, 100, 160] {
        let options = RenderOptions::default().width(width);
        let mut tables: Vec<String> = [Report::Ranges, Report::Categories, Report::Kernels, Report::Torch]
            .map(|report| text(&summary, &[report], &options))
            .into();
        tables.push(
            super::merged::merged(&merged, MergedTable::ALL, &options).split("\n\n\n").next().unwrap().to_owned(),
        );
        for table in tables {
            let is_row = |line: &&str| [" 12.5", "  8.000 ms", "---"].iter().any(|part| line.contains(part));
            let rows: Vec<usize> = table.lines().filter(is_row).map(width_of).collect();
            assert!(rows.len() > WIDE_NAMES.len() && rows.iter().all(|row| *row == rows[0]), "{rows:?}{table}");
        }
    }
    // The tool itself counts code points.
    let raw = text(&summary, &[Report::Ranges], &RenderOptions::default().raw_names(true));
    let lengths: Vec<usize> =
        raw.lines().filter(|line| line.contains(" 12.5")).map(|line| line.chars().count()).collect();
    assert!(lengths.len() == WIDE_NAMES.len() && lengths.iter().all(|length| *length == lengths[0]), "{raw}");
}

#[cfg(feature = "compare")]
#[test]
fn columns_behind_a_wide_name_stay_in_line() {
    let summary = with_wide_names();
    let comparison = crate::Comparison::of([("古い", &summary), ("新しい 🚀", &summary)]);
    for width in [80, 120, 160] {
        let options = RenderOptions::default().width(width);
        for table in [text(&summary, &[Report::Tree], &options), super::comparison::comparison(&comparison, &options)] {
            // The text before the last per cent sign, which is in a column after the names if there is room for one.
            let rows = table.lines().filter(|line| line.contains("12.5%") && !line.contains("(12.5%)"));
            let places: Vec<usize> = rows.map(|line| width_of(&line[..line.rfind('%').unwrap()])).collect();
            assert!(places.len() >= WIDE_NAMES.len() && places.iter().all(|place| *place == places[0]), "{table}");
            assert!(table.lines().filter(|line| !line.contains(':')).all(|line| width_of(line) <= width), "{table}");
        }
    }
}

#[cfg(feature = "compare")]
/// Coloured text without its escape sequences equals the plain text.
#[test]
fn colour_changes_no_word() {
    let mut summary = with_wide_names();
    summary.losses.stray_exits = 2;
    summary.elapsed_ns = 1_000;
    summary.gpu.get_or_insert_default().total = range_model::GpuWork::new(1, 1, 1);
    let merged = range_model::Summary::merge([summary.clone(), summary.clone()]);
    for style in [TableStyle::Current, TableStyle::Legacy] {
        for width in [60, 80, 200] {
            let plain = RenderOptions::default().width(width).style(style);
            let print = |options: &RenderOptions| {
                text(&summary, Report::ALL, options) + &super::merged::merged(&merged, MergedTable::ALL, options)
            };
            let (plain, colored) = (print(&plain), print(&plain.color(true)));
            let stripped = ["\x1b[1m", "\x1b[2m", "\x1b[0m"]
                .iter()
                .fold(colored.clone(), |text, sequence| text.replace(sequence, ""));
            assert_eq!(stripped, plain);
            assert!(!plain.contains('\x1b'));
            let marked = |line: &&str| line.starts_with("\x1b[1m>> ") && line.ends_with("\x1b[0m");
            assert!(colored.lines().filter(marked).count() == 2, "a row of each tree: {colored}");
            assert!(colored.contains("\n\x1b[2m - 2 exits"), "{colored}");
            assert!(colored.contains("\n\x1b[1m GPU busy 0.1% of 1.000 us"), "{colored}");
        }
    }
}

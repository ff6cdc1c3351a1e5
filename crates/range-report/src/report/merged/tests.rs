use crate::text::width::width_of;
use crate::{MergedSummaryExt as _, MergedTable, RenderOptions, TableStyle};
use range_model::summary::CallStates;
use range_model::summary::schema::Figures;
use range_model::{
    ApiCallStats, CallStats, CategoryStats, GpuActivity, GpuWork, KernelStats, MemoryKind, MemoryStats, MergedSummary,
    NodeTotals, NodeWork, OpenRange, Process, ProjectionStats, RangeStats, RangeStyle, Sizes, StreamStats, Summary,
    Times, TreeNode,
};

fn times(durations: &[u64]) -> Times {
    let (least, most) = (durations.iter().min().copied(), durations.iter().max().copied());
    Times {
        instances: durations.len() as u64,
        total_ns: durations.iter().sum(),
        min_ns: least.unwrap_or(0),
        max_ns: most.unwrap_or(0),
        ..Times::default()
    }
}

fn of(rank: Option<u32>, ranges: &[(&str, &[u64])]) -> Summary {
    let range = |&(name, durations): &(&str, &[u64])| RangeStats::new(name, times(durations));
    Summary {
        process: Process { rank, pid: 7, host: "node".to_owned(), ..Process::default() },
        ranges: ranges.iter().map(range).collect(),
        ..Summary::default()
    }
}

/// A rank that did the same as the others, but took this many times as long.
fn rank(rank: u32, slower: u64) -> Summary {
    let size = 1_000_000 * slower;
    let sizes = Sizes { count: 2, total_bytes: size, min_bytes: size / 2, max_bytes: size / 2, ..Sizes::default() };
    let busy = |ns| GpuWork { operations: 3, sum_ns: ns, busy_ns: ns, memory: Vec::new() };
    let stream = |name, ns, empty| {
        let row = StreamStats::new(name, format!("GPU {rank} #1"), times(&[ns]));
        StreamStats { empty, floor_ns: 1_280, ..row }
    };
    let kernel = "void at::native::elementwise_kernel<float, 128, 4>(int, float *, float const *)";
    let gpu = GpuActivity {
        kernels: vec![KernelStats { name: kernel.to_owned(), times: times(&[1_234_567 * slower]) }],
        memory: vec![MemoryStats { kind: MemoryKind::HtoD, times: times(&[500, 400 * slower]), sizes }],
        calls: Some(vec![ApiCallStats { name: "cudaLaunchKernel_v7000".to_owned(), times: times(&[10, 20]) }]),
        projections: vec![ProjectionStats {
            domain: Some("app".to_owned()),
            style: RangeStyle::StartEnd,
            range_total_ns: 1_000,
            operations: 3,
            ..ProjectionStats::new("step", times(&[900 * slower]))
        }],
        total: busy(2_000_000 * slower),
        outside: busy(1_000),
        ..GpuActivity::default()
    };
    let work = NodeWork { own: busy(5), total: busy(9), calls: Vec::new(), ..NodeWork::default() };
    let child = TreeNode { name: "a,b".to_owned(), calls: 1, total_ns: 10 * slower, ..TreeNode::default() };
    let tree = vec![TreeNode {
        name: "step".to_owned(),
        calls: 2,
        instances: 4,
        total_ns: 100,
        self_ns: 90,
        stream_total_ns: Some(8),
        gpu: Some(work),
        children: vec![child],
        ..TreeNode::default()
    }];
    let mut call = CallStats::new("query", times(&[10 * slower, 20 * slower]));
    call.domain = Some("db".to_owned());
    (call.awaited_ns, call.awaited_self_ns, call.cancelled) = (25 * slower, 7 * slower, Some(1));
    call.states = Some(CallStates {
        ready_ns: 3 * slower,
        gpu_work_ns: 5 * slower,
        otherwise_ns: 4 * slower,
        ..CallStates::default()
    });
    (call.batches, call.in_batch_ns, call.share_ns) = (Some(1), Some(2 * slower), Some(slower));
    call.gpu_share_ns = Some(3 * slower);
    Summary {
        calls: vec![call],
        stream_ranges: vec![stream("nothing", 1_000, 1), stream("step", 800 * slower, 0)],
        categories: vec![CategoryStats { category: "7".to_owned(), times: times(&[5]) }],
        gpu: Some(gpu),
        tree,
        ..of(Some(rank), &[("step", &[3_000_000_000 * slower, 1]), ("load", &[2_500])])
    }
}

fn ranks() -> MergedSummary {
    Summary::merge([rank(0, 1), rank(1, 3), rank(2, 2)])
}

fn printed(merged: &MergedSummary, options: &RenderOptions) -> String {
    let mut out = Vec::new();
    merged.render(options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn csv(merged: &MergedSummary, table: MergedTable) -> String {
    let mut out = Vec::new();
    merged.write_csv(table, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_table_names_the_slowest() {
    let mut lossy = of(Some(1), &[("step", &[4_000, 4_000]), ("a,b", &[10])]);
    (lossy.losses.stray_exits, lossy.losses.rows_without_median) = (2, 1); // no table here has medians
    let merged = Summary::merge([of(Some(0), &[("step", &[1_000])]), lossy, of(Some(2), &[("step", &[3_000])])]);
    let expected = "
 ** Ranges of 3 Processes (merged):

 Range  Time (%)  Total Time  Instances    Avg       Min       Max      StdDev   Ranks  Min Rank  Avg Rank  Max Rank  Max/Avg  Slowest
 -----  --------  ----------  ---------  --------  --------  --------  --------  -----  --------  --------  --------  -------  -------
 step       99.9    12.00 us          4  3.000 us  1.000 us  4.000 us  1.414 us      3  1.000 us  4.000 us  8.000 us     2.00  rank 1 
 a,b         0.1       10 ns          1     10 ns     10 ns     10 ns      0 ns      1     10 ns     10 ns     10 ns     1.00  rank 1 


 ** Notes:

 - 2 exits were on a thread that had no such range open; they ended nothing there.

";
    assert_eq!(printed(&merged, &RenderOptions::default().width(140)), expected);
    let mut out = Vec::new();
    merged.write_csv(MergedTable::Ranges, &mut out).unwrap();
    assert!(
        String::from_utf8(out).unwrap().ends_with("\n0.1,10,1,10.0,,10,10,0.0,\"a,b\",1,10,10.0,10,1.00,rank 1,,\n")
    );
}

/// The bounds of a median are wider than other figures.
#[test]
fn medians_stand_below_each_other() {
    let of_rank = |number: u32, step: u64| {
        let mut summary = of(Some(number), &[("step", &[step]), ("load", &[38])]);
        summary.ranges.iter_mut().for_each(|range| range.times.median_ns = Some(range.times.total_ns as f64));
        summary
    };
    let text = printed(&Summary::merge([of_rank(0, 1_060_000), of_rank(1, 3_070_000)]), &RenderOptions::default());
    let medians: Vec<&str> = text.lines().skip(3).take(4).map(|line| &line[41..53]).collect();
    assert_eq!(medians, ["    Med     ", "------------", "1.06-3.07 ms", "       38 ns"]);
}

#[test]
fn eighty_columns_have_what_matters() {
    let expected = "
 ** Ranges of 3 Processes (merged):

 Range  Total Time  Instances    Min       Max     Ranks  Max/Avg  Slowest
 -----  ----------  ---------  --------  --------  -----  -------  -------
 step     18.00 s           6      1 ns  9.000 s       3     1.50  rank 1 
 load     7.500 us          3  2.500 us  2.500 us      3     1.00  rank 0 
 Columns left out: Min Rank, Avg Rank, Max Rank, Avg, StdDev, Time (%).


 ** GPU Work of 3 Processes (merged):

       Work         Time (%)  Busy Time  Operations  Ranks  Max/Avg  Slowest
 -----------------  --------  ---------  ----------  -----  -------  -------
 all                   100.0   12.00 ms           9      3     1.50  rank 1 
 outside of ranges       0.0   3.000 us           9      3     1.00  rank 0 
 Columns left out: Min Rank, Avg Rank, Max Rank.


 ** CUDA GPU Kernels of 3 Processes (merged):

                       Name                         Total Time  Instances  Ranks
 -------------------------------------------------  ----------  ---------  -----
 void at::native::elementwise_ker…, float const *)    7.407 ms          3      3
 Columns left out: Min Rank, Avg Rank, Max Rank, Avg, StdDev, Time (%), Min,
 Max, Max/Avg, Slowest.


 ** Stream Times (CUDA events) of 3 Processes (merged):

  Range   Total Time  Instances    Min       Max     Ranks  Max/Avg  Slowest
 -------  ----------  ---------  --------  --------  -----  -------  -------
 step       4.800 us          3    800 ns  2.400 us      3     1.50  rank 1 
 nothing           -          3         -         -      3        -  -      
 Columns left out: Min Rank, Avg Rank, Max Rank, Avg, StdDev, Time (%).


 ** CUDA GPU MemOps (by Time) of 3 Processes (merged):

     Operation       Total Time  Count    Max     Ranks  Max/Avg  Slowest
 ------------------  ----------  -----  --------  -----  -------  -------
 [CUDA memcpy HtoD]    3.900 us      6  1.200 us      3     1.31  rank 1 
 Columns left out: Min Rank, Avg Rank, Max Rank, Avg, StdDev, Time (%), Min.


 ** CUDA GPU MemOps (by Size) of 3 Processes (merged):

     Operation        Total    Count    Max     Ranks  Max/Avg  Slowest
 ------------------  --------  -----  --------  -----  -------  -------
 [CUDA memcpy HtoD]  6.000 MB      6  1.500 MB      3     1.50  rank 1 
 Columns left out: Min Rank, Avg Rank, Max Rank, Avg, StdDev, Size (%), Min.


 ** Calls and Waiting of 3 Processes (merged):

   Call    Time (%)  Awaited Self  Calls    Avg     Ranks  Max/Avg  Slowest
 --------  --------  ------------  -----  --------  -----  -------  -------
 db:query     100.0         42 ns      6      7 ns      3     1.50  rank 1 
 Columns left out: Min Rank, Avg Rank, Max Rank.

";
    let text = printed(&ranks(), &RenderOptions::default().width(80));
    assert_eq!(text.split_once("\n ** Categories").map(|(tables, _)| tables), Some(expected));
}

/// For all names, and with times of a month.
#[test]
fn lines_are_as_wide_as_there_is_room() {
    let mut long = rank(3, 1_000_000);
    long.process = Process { host: "a-host.with-a.long.domain\n".to_owned(), pid: u32::MAX, ..Process::default() };
    long.ranges[0].name = "\u{1b}".repeat(70);
    long.ranges[1].style = RangeStyle::StartEnd;
    let merged = Summary::merge([rank(0, 1), rank(1, 3), long]);
    for width in 60..=220 {
        for style in [TableStyle::Current, TableStyle::Legacy] {
            let text = printed(&merged, &RenderOptions::default().width(width).style(style));
            // The narrowest tree has 76 columns.
            let tables = if width < 76 { text.split("Phase Tree").next().unwrap_or("") } else { &text };
            let widest = tables.lines().map(width_of).max();
            assert!(widest <= Some(width), "{widest:?} at {width}:\n{text}");
            assert!(!text.contains('\u{1b}') && text.contains("Ranges of 3 Processes"), "{text}");
        }
    }
}

#[test]
fn each_table_has_its_columns() {
    let merged = ranks();
    const PROCESSES: &str =
        "Processes,Min Process (U),Avg Process (U),Max Process (U),Max/Avg,Slowest,Lowest Med (U),Highest Med (U)";
    for (table, expected) in [
        (
            MergedTable::Ranges,
            "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Range,PROCESSES\n\
             100.0,18000000003,6,3000000000.5,,1,9000000000,1341640786.5,step,3,3000000001,6000000001.0,9000000001,1.50,rank 1,,\n\
             0.0,7500,3,2500.0,,2500,2500,0.0,load,3,2500,2500.0,2500,1.00,rank 0,,\n",
        ),
        (
            MergedTable::Kernels,
            "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name,PROCESSES\n\
             100.0,7407402,3,2469134.0,,1234567,3703701,1234567.0,\"void at::native::elementwise_kernel<float, 128, 4>(int, float *, float const *)\",3,1234567,2469134.0,3703701,1.50,rank 1,,\n",
        ),
        (
            MergedTable::StreamTimes,
            "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Range,Stream,PROCESSES\n\
             100.0,4800,3,1600.0,,800,2400,800.0,step,#1,3,800,1600.0,2400,1.50,rank 1,,\n\
             ,,3,,,,,,nothing,#1,3,,,,,,,\n",
        ),
        (
            MergedTable::Work,
            "Time (%),Busy Time (ns),Operations,Work,PROCESSES\n\
             100.0,12000000,9,all,3,2000000,4000000.0,6000000,1.50,rank 1,,\n\
             0.0,3000,9,outside of ranges,3,1000,1000.0,1000,1.00,rank 0,,\n",
        ),
        (
            MergedTable::MemTime,
            "Time (%),Total Time (ns),Count,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Operation,PROCESSES\n\
             100.0,3900,6,650.0,,400,1200,178.9,[CUDA memcpy Host-to-Device],3,900,1300.0,1700,1.31,rank 1,,\n",
        ),
        (
            MergedTable::MemSize,
            "Total (MB),Count,Avg (MB),Med (MB),Min (MB),Max (MB),StdDev (MB),Operation,PROCESSES\n\
             6.000,6,1.000,,0.500,1.500,0.447,[CUDA memcpy Host-to-Device],3,1000000,2000000.0,3000000,1.50,rank 1,,\n",
        ),
        (
            MergedTable::GpuProjection,
            "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Proj Med (ns),Proj Min (ns),Proj Max (ns),Proj StdDev (ns),Total GPU Ops,Avg GPU Ops,Avg Range Lvl,Avg Num Child,PROCESSES\n\
             app:step,StartEnd,5400,3000,3,1800.0,,900,2700,900.0,9,3.0,0.0,0.0,3,900,1800.0,2700,1.50,rank 1,,\n",
        ),
        (
            MergedTable::Api,
            "Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name,PROCESSES\n\
             100.0,90,6,15.0,,10,20,0.0,cudaLaunchKernel,3,30,30.0,30,1.00,rank 0,,\n",
        ),
        (
            MergedTable::Calls,
            "Calls,Cancelled,Batches,p50 (ns),p90 (ns),p99 (ns),Max (ns),Mean (ns),On Thread (ns),Awaited (ns),Awaited Self (ns),Outlived (ns),In CUDA (ns),On CPU (ns),Off CPU (ns),Ready (ns),Child Call (ns),GPU Work (ns),Otherwise (ns),In Batch (ns),Share~ (ns),GPU Share~ (ns),Call,PROCESSES\n\
             6,3,3,,,,60,30,180,150,42,0,0,0,0,18,0,30,24,12,6,18,db:query,3,7,14.0,21,1.50,rank 1,,\n",
        ),
        (
            MergedTable::Categories,
            "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category,PROCESSES\n\
             100.0,15,3,5.0,,5,5,0.0,7,3,5,5.0,5,1.00,rank 0,,\n",
        ),
    ] {
        let unit = if table == MergedTable::MemSize { "(B)" } else { "(ns)" };
        let expected = expected.replace("PROCESSES", &PROCESSES.replace("(U)", unit));
        assert_eq!(csv(&merged, table), expected, "{table:?}");
    }
    let tree = csv(&merged, MergedTable::Tree);
    let figures = NodeTotals::HEADERS.join(",");
    let processes = "Processes,Min Process (ns),Avg Process (ns),Max Process (ns),Max/Avg,Slowest";
    assert_eq!(tree.lines().next(), Some(&*format!("Depth,{figures},Phase,{processes}")));
    // Each figure below its own header: `export/csv.rs` has the columns of one process.
    let known = |row: usize| {
        let line = tree.lines().nth(row).unwrap();
        let cells = tree.lines().next().unwrap().split(',').zip(line.split(','));
        let cells =
            cells.filter(|(_, cell)| !["", "0"].contains(cell)).map(|(header, cell)| format!("{header} {cell}"));
        cells.collect::<Vec<_>>().join(", ")
    };
    let step = "Calls 6, Instances 12, Total Time (ns) 300, Self Time (ns) 270, Stream Total (ns) 24, \
                GPU Busy (ns) 27, GPU Self Busy (ns) 15, Phase step, Processes 3, Min Process (ns) 100, \
                Avg Process (ns) 100.0, Max Process (ns) 100, Max/Avg 1.00, Slowest rank 0";
    assert_eq!((known(1).as_str(), tree.lines().count()), (step, 3));
    let end = ",\"a,b\",3,10,20.0,30,1.50,rank 1";
    assert!(tree.lines().nth(2).is_some_and(|line| line.starts_with("1,3,0,60,0,") && line.ends_with(end)), "{tree}");
}

/// Without a GPU, there is only one table.
#[test]
fn what_is_empty_is_not_printed() {
    let merged = Summary::merge([of(Some(0), &[("step", &[1_000])]), of(None, &[])]);
    for options in [RenderOptions::default(), RenderOptions::default().style(TableStyle::Legacy)] {
        let text = printed(&merged, &options);
        assert_eq!(text.matches(" of 2 Processes").count(), 1, "{text}");
    }
    for table in MergedTable::ALL.iter().filter(|table| **table != MergedTable::Ranges) {
        assert_eq!(csv(&merged, *table).lines().count(), 1, "{table:?}");
    }
}

#[cfg(feature = "json")]
#[test]
fn as_json_it_has_rows_and_ranks() {
    let mut text = Vec::new();
    ranks().write_json(&mut text).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(value["schema"], "tracing-gpu-merged/1");
    let kernel = &value["gpu"]["kernels"][0];
    assert!(kernel["key"].as_str().is_some_and(|name| name.starts_with("void at::")), "{kernel}");
    assert_eq!((&kernel["all"]["total_ns"], &kernel["ranks"][1]["total"]), (&7_407_402.into(), &3_703_701.into()));
    assert_eq!(value["gpu"]["memory_sizes"][0]["key"], "HtoD");
    assert_eq!(value["ranges"][0]["key"], serde_json::json!({"domain": null, "name": "step", "style": "PushPop"}));
    assert_eq!((&value["tree"][1]["key"]["depth"], &value["tree"][1]["key"]["name"]), (&1.into(), &"a,b".into()));
    assert_eq!(value["processes"][1]["rank"], 1);
}

/// Without room for a column that distinguishes them, the name does.
#[test]
fn ranges_of_one_name_and_two_styles_are_told_apart_at_80_columns() {
    let mut one = of(None, &[("request", &[5_000_000]), ("request", &[7_000_000]), ("other", &[1_000])]);
    one.process.host = "a-machine-of-a-long-name".to_owned();
    one.ranges[1].style = RangeStyle::StartEnd;
    one.ranges[2].style = RangeStyle::StartEnd;
    for width in [76, 80, 100, 200] {
        let mut text = Vec::new();
        let options = RenderOptions::default().width(width);
        Summary::merge([one.clone(), one.clone()]).render(&options, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.contains("request")).collect();
        let has_column = text.contains("Style");
        assert!(
            rows.len() == 2 && rows[0].contains(if has_column { "StartEnd" } else { "request (start/end)" }),
            "{text}"
        );
        assert!(rows[1].starts_with(" request  ") && has_column == (width > 100), "{text}");
        assert!(!text.contains("other ("), "there is one of it: {text}");
        assert!(text.lines().all(|line| width_of(line) <= width), "{text}");
        for column in ["Instances", "Processes", "Max"].into_iter().take(if width < 100 { 2 } else { 3 }) {
            assert!(text.contains(&format!("{column} ")), "{column} at {width}: {text}");
        }
    }
}

#[test]
fn categories_and_the_tree_are_printed() {
    let process = |rank: u32, ns: u64| {
        let node = |name: &str, total_ns, self_ns, children| TreeNode {
            name: name.to_owned(),
            calls: 1,
            instances: 1,
            total_ns,
            self_ns,
            children,
            ..TreeNode::default()
        };
        let run = of(Some(rank), &[("outer", &[3 * ns]), ("inner", &[ns]), ("last", &[ns])]);
        let inner =
            vec![node("inner", ns, ns / 2, vec![node("leaf", ns / 2, ns / 2, vec![])]), node("next", ns, ns, vec![])];
        let tree = vec![node("outer", 3 * ns, ns, inner), node("last", ns, ns, vec![])];
        let categories = vec![CategoryStats { category: "io".to_owned(), times: times(&[ns]) }];
        Summary { tree, categories, ..run }
    };
    let mut text = Vec::new();
    let merged = Summary::merge([process(0, 10_000_000), process(1, 30_000_000)]);
    merged.render(&RenderOptions::default().width(120), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let categories = text.split(" ** Categories of 2 Processes (merged):").nth(1).expect("categories");
    let row = categories.lines().find(|line| line.starts_with(" io ")).expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert!(cells[..4] == ["io", "100.0", "40.00", "ms"] && row.contains("rank 1"), "{text}");
    let tree = text.split(" ** Phase Tree of 2 Processes (merged):").nth(1).expect("a tree");
    let at = tree.lines().find_map(|line| line.find("Phase ")).expect("a header");
    let phases = tree.lines().skip(4).take(5).map(|line| line[at..].trim_start().split(' ').next().unwrap_or(""));
    let names: Vec<&str> = phases.collect();
    assert_eq!(names, ["last", "outer", "inner", "leaf", "next"], "by first entry, and then by name: {text}");
    assert!(tree.lines().any(|line| line.contains("120.0 ms  40.00 ms      75.0%")), "{text}");
}

/// The table of the GPU's work has that of no range, too.
#[test]
fn the_tree_has_only_the_work_of_its_phases() {
    let text = printed(&ranks(), &RenderOptions::default().width(80));
    let (_, tree) = text.split_once(" ** Phase Tree of 3 Processes (merged):\n").expect("a tree");
    assert!(tree.contains("GPU: most busy time of its own: step 15 ns (100.0%)"), "{tree}");
    assert!(!tree.contains("outside any range"), "{tree}");
}

#[test]
fn one_table_can_be_printed_alone() {
    let mut text = Vec::new();
    ranks().render_tables(&[MergedTable::Kernels], &RenderOptions::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("\n ** CUDA GPU Kernels of 3 Processes (merged):\n"), "{text}");
    assert_eq!(text.matches(" ** ").count(), 1, "{text}");
}

#[test]
fn what_is_said_below_the_tree_is_of_all_processes() {
    let rank = |rank: u32| {
        let mut summary = of(Some(rank), &[("request", &[40_000_000])]);
        summary.ranges[0].style = RangeStyle::StartEnd;
        summary.losses.open.push(OpenRange::new("run", "main"));
        let (calls, instances) = (1, 3);
        let request = TreeNode { calls, instances, total_ns: 90, self_ns: 90, ..TreeNode::default() };
        let request = TreeNode { name: "request".to_owned(), ..request };
        summary.tree = vec![TreeNode { name: "run".to_owned(), children: vec![request], ..TreeNode::default() }];
        summary.elapsed_ns = 1_000;
        summary
    };
    let text = printed(&Summary::merge([rank(0), rank(1)]), &RenderOptions::default().width(80));
    assert!(text.contains("\n    longest lifetimes: request 40.00 ms (mean of 2)\n"), "{text}");
    assert!(text.contains("; or their parent is still open\n"), "{text}");
    // It would be unclear to which process it belongs.
    assert!(!text.contains("wall time"), "{text}");
}

#[test]
fn rows_beyond_the_bound_are_summed_up() {
    let names: Vec<String> = (0..5).map(|number| format!("step {number}")).collect();
    let rank = |rank: u64| {
        let durations: Vec<[u64; 1]> = (1..6).rev().map(|at| [1_000_000 * at * rank]).collect();
        let ranges: Vec<(&str, &[u64])> =
            names.iter().zip(&durations).map(|(name, durations)| (name.as_str(), &durations[..])).collect();
        of(Some(rank as u32), &ranges)
    };
    let merged = Summary::merge([rank(1), rank(3)]);
    let text = printed(&merged, &RenderOptions::default().width(200).rows(2));
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("rank 3")).collect();
    assert_eq!(rows.len(), 3, "{text}");
    let rest: Vec<&str> = rows[2].split_whitespace().collect();
    let expected = "(3 more) 40.0 24.00 ms 6 4.000 ms - - - 2 6.000 ms 12.00 ms 18.00 ms 1.50 rank 3";
    assert_eq!(rest.join(" "), expected, "{text}");
    assert!(!printed(&merged, &RenderOptions::default().rows(4)).contains("more)"), "one more is as short");
}

#[test]
fn events_of_openacc_have_one_row_a_label() {
    let of_rank = |rank, durations: &[u64]| {
        let mut row = range_model::OpenAccStats::new("acc_enqueue_upload", times(durations));
        row.place = Some("a.c:5".to_owned());
        Summary { openacc: vec![row], ..of(Some(rank), &[]) }
    };
    let merged = Summary::merge([of_rank(0, &[10, 30]), of_rank(1, &[70])]);
    let mut text = Vec::new();
    merged.write_csv(MergedTable::OpenAcc, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains(",acc_enqueue_upload@a.c:5,2,40,55.0,70,"), "{text}");
}

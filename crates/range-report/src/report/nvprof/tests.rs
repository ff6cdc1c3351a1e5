use super::*;
use range_model::{
    ApiCallStats, GpuActivity, GraphWork, KernelStats, MemoryKind, MemoryStats, OpenAccStats, Process, Sizes, Times,
};

/// Every time in the nvprof tables of a report on several runs.
const TIMES: &str = include_str!("../../../../../tests/golden/nvprof/times.txt");

/// The nanoseconds of a printed time.
fn stated(time: &str) -> u64 {
    let (number, unit) = time.split_at(time.find(|c: char| c.is_ascii_alphabetic()).unwrap());
    let places = match unit {
        "ns" => 0,
        "us" => 3,
        "ms" => 6,
        "s" => 9,
        other => panic!("unit {other}"),
    };
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let (significant, zeros) = decimals.split_at(decimals.len().min(places));
    assert!(zeros.bytes().all(|digit| digit == b'0'), "{time}"); // 4.0840us: digits below a nanosecond
    format!("{whole}{significant:0<places$}").parse().unwrap()
}

#[test]
fn times_are_printed_as_they_were() {
    let times: Vec<&str> = TIMES.split_whitespace().collect();
    assert_eq!(times.len(), 831);
    for printed in times {
        assert_eq!(time(stated(printed)), printed);
    }
}

#[test]
fn times_have_five_digits_and_seconds_six() {
    for (ns, expected) in [
        (0, "0ns"),
        (999, "999ns"),
        (1_000, "1.0000us"),
        (209_157, "209.16us"),
        (999_994, "999.99us"),
        (999_996, "1000.0us"),
        (999_999_999, "1000.0ms"),
        (1_000_000_000, "1.00000s"),
        (9_999_999_999, "10.0000s"),
        (999_999_500_000, "1000.00s"),
        (1_824_000_000_000, "1824.00s"),
        (123_456_789_000_000_000, "123456789s"),
        (u64::MAX, "18446744074s"),
    ] {
        assert_eq!(time(ns), expected);
    }
}

/// Without a GPU, nothing is printed about it.
#[test]
fn events_of_openacc_need_no_gpu() {
    let mut row = OpenAccStats::new("acc_wait", once(3_424));
    row.place = Some("a.c:5".to_owned());
    let summary = Summary { gpu: None, openacc: vec![row], ..summary(GpuActivity::default()) };
    let expected = "
==72== Profiling application: ./a.out\\n
==72== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 OpenACC (excl):  100.00%  3.4240us         1  3.4240us  3.4240us  3.4240us  acc_wait@a.c:5

";
    assert_eq!(nvprof(&summary, &RenderOptions::default()), expected);
}

fn once(ns: u64) -> Times {
    Times { instances: 1, total_ns: ns, min_ns: ns, max_ns: ns, ..Times::default() }
}

fn summary(gpu: GpuActivity) -> Summary {
    let process = Process { pid: 72, command: "./a.out\n".to_owned(), ..Process::default() };
    Summary { process, gpu: Some(gpu), ..Summary::default() }
}

#[test]
fn names_are_those_of_nvprof() {
    let gpu = GpuActivity {
        kernels: vec![KernelStats { name: "add(int, int*)".to_owned(), times: once(3_424) }],
        memory: vec![MemoryStats { kind: MemoryKind::HtoD, times: once(2_656), sizes: Sizes::default() }],
        calls: Some(vec![ApiCallStats { name: "cuMemAlloc_v2".to_owned(), times: once(81_893) }]),
        ..GpuActivity::default()
    };
    let expected = "
==72== Profiling application: ./a.out\\n
==72== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   56.32%  3.4240us         1  3.4240us  3.4240us  3.4240us  add(int, int*)
                   43.68%  2.6560us         1  2.6560us  2.6560us  2.6560us  [CUDA memcpy HtoD]
      API calls:  100.00%  81.893us         1  81.893us  81.893us  81.893us  cuMemAlloc

";
    assert_eq!(nvprof(&summary(gpu), &RenderOptions::default()), expected);
}

#[test]
fn long_names_are_shortened_in_the_middle() {
    let name = format!("void gemm<{}>(float*)", "Tile, ".repeat(500));
    let kernels = vec![KernelStats { name, times: once(1) }];
    let gpu = GpuActivity { kernels, ..GpuActivity::default() };
    for (width, columns) in [(80, 149), (200, 200)] {
        let text = nvprof(&summary(gpu.clone()), &RenderOptions::default().width(width));
        let line = text.lines().find(|line| line.contains("void gemm<")).unwrap();
        assert_eq!(line.chars().count(), columns, "{line}");
        assert!(line.contains('…') && line.ends_with("(float*)"), "{line}");
    }
}

/// The sentences stand in place of the section, as in the tool, so that the header follows if there are rows.
#[test]
fn what_is_missing_is_said() {
    let nothing = nvprof(&summary(GpuActivity::default()), &RenderOptions::default());
    let lines = "result:\nNo kernels were profiled.\nNo API activities were profiled.\n\n";
    assert!(nothing.ends_with(lines), "{nothing}");

    let calls = Some(vec![ApiCallStats { name: "cuInit".to_owned(), times: once(0) }]);
    let only_calls = nvprof(&summary(GpuActivity { calls, ..GpuActivity::default() }), &RenderOptions::default());
    assert!(only_calls.contains("result:\nNo kernels were profiled.\n            Type"), "{only_calls}");
    assert!(only_calls.ends_with("API calls:    0.00%       0ns         1       0ns       0ns       0ns  cuInit\n\n"));

    let kernels = vec![KernelStats { name: "k".to_owned(), times: once(1) }];
    let only_kernels = nvprof(&summary(GpuActivity { kernels, ..GpuActivity::default() }), &RenderOptions::default());
    assert!(only_kernels.ends_with("  k\nNo API activities were profiled.\n\n"), "{only_kernels}");

    let unrecorded = nvprof(&Summary::default(), &RenderOptions::default());
    assert!(unrecorded.contains(NO_ACTIVITY) && !unrecorded.contains("Type"), "{unrecorded}");
}

/// The shortest and the longest are not known, and the shares count them.
#[test]
fn whole_replays_of_graphs_have_a_row() {
    let outside_graphs = GraphWork { replays: 4, whole: 4, whole_ns: 3_000, ..GraphWork::default() };
    let times = Times { instances: 1, total_ns: 1_000, min_ns: 1_000, max_ns: 1_000, ..Times::default() };
    let kernels = vec![KernelStats { name: "k".to_owned(), times }];
    let gpu = GpuActivity { kernels, outside_graphs, ..GpuActivity::default() };
    let shown = nvprof(&Summary { gpu: Some(gpu), ..Summary::default() }, &RenderOptions::default());
    let rows: Vec<Vec<&str>> = shown.lines().map(|row| row.split_whitespace().collect()).collect();
    let row = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let expected = row("GPU activities: 75.00% 3.0000us 4 750ns - - [CUDA graph replays]");
    assert!(rows.iter().any(|shown| *shown == expected), "{shown}");
    assert!(rows.iter().any(|shown| *shown == row("25.00% 1.0000us 1 1.0000us 1.0000us 1.0000us k")), "{shown}");
}

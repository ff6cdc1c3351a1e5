//! The tables that users keep with their programs, from Nsight Systems 2021, nvprof and torch.profiler, printed again
//! from their numbers.

#[path = "seeds/nvprof.rs"]
mod nvprof;
#[path = "seeds/torch.rs"]
mod torch;

use tracing_gpu::summary::{RangeStats, Times};
use tracing_gpu::{Comparison, RenderOptions, Report, Summary, SummaryExt as _, TableStyle};

/// A program whose phases ran once each: name and duration.
type Phases = [(&'static str, u64); 4];

const CUDA: Phases = [
    ("Load Module", 3_498_803_745),
    ("Module running", 7_365_201),
    ("Init random data", 3_134_913),
    ("Set input data to module", 602_422),
];
const SYCL: Phases = [
    ("Module running", 23_833_423_995),
    ("Load Module", 875_001_997),
    ("Init random data", 2_453_924),
    ("Set input data to module", 417_135),
];
const CUDNN: Phases = [
    ("Load Module", 3_299_531_538),
    ("Module running", 7_083_201),
    ("Init random data", 2_538_749),
    ("Set input data to module", 684_004),
];
const OPENCL: Phases = [
    ("Load Module", 649_673_094),
    ("Module running", 18_353_139),
    ("Init random data", 2_493_953),
    ("Set input data to module", 438_163),
];

#[test]
fn cuda() {
    assert_printed(&CUDA, include_str!("../golden/legacy/cuda.txt"));
}

#[test]
fn sycl() {
    assert_printed(&SYCL, include_str!("../golden/legacy/sycl.txt"));
}

#[test]
fn cudnn() {
    assert_printed(&CUDNN, include_str!("../golden/legacy/cudnn.txt"));
}

#[test]
fn opencl() {
    assert_printed(&OPENCL, include_str!("../golden/legacy/opencl.txt"));
}

fn comparison(width: usize) -> String {
    let [cuda, sycl, cudnn, opencl] = [CUDA, SYCL, CUDNN, OPENCL].map(|phases| summary(&phases));
    let runs = [("cuda", &cuda), ("sycl", &sycl), ("cudnn", &cudnn), ("opencl", &opencl)];
    let mut text = Vec::new();
    Comparison::of(runs).render(&RenderOptions::default().width(width), &mut text).expect("writing to memory");
    String::from_utf8(text).expect("UTF-8")
}

/// Automates the users' reading of the four tables: finds the phase that makes one of them slow.
#[test]
fn side_by_side_in_80_columns() {
    let expected = "
 ** Range Comparison (base: cuda):

   Range      Total     Share  Difference   Ratio
   --------  --------  ------  ----------  -------
   Module running
     cuda    7.365 ms    0.2%
>>   sycl    23.83 s    96.4%   +23.83 s     x3236
     cudnn   7.083 ms    0.2%   -282.0 us    x0.96
>>   opencl  18.35 ms    2.7%   +10.99 ms    x2.49
   Load Module
     cuda    3.499 s    99.7%
     sycl    875.0 ms    3.5%   -2.624 s     x0.25
     cudnn   3.300 s    99.7%   -199.3 ms    x0.94
     opencl  649.7 ms   96.8%   -2.849 s     x0.19
   Init random data
     cuda    3.135 ms    0.1%
     sycl    2.454 ms    0.0%   -681.0 us    x0.78
     cudnn   2.539 ms    0.1%   -596.2 us    x0.81
     opencl  2.494 ms    0.4%   -641.0 us    x0.80
   Set input data to module
     cuda    602.4 us    0.0%
     sycl    417.1 us    0.0%   -185.3 us    x0.69
     cudnn   684.0 us    0.0%   +81.58 us    x1.14
     opencl  438.2 us    0.1%   -164.3 us    x0.73

 >> slower in sycl: Module running +23.83 s (x3236)
    cudnn: nothing is slower by 0.1 % of the base or more
 >> slower in opencl: Module running +10.99 ms (x2.49)

";
    let text = comparison(80);
    assert_eq!(text, expected, "{text}");
}

#[test]
fn side_by_side_in_200_columns() {
    let text = comparison(200);
    let lines: Vec<&str> = text.lines().skip(3).collect();
    let expected = [
        "                                   cuda                        sycl                                   cudnn                                 opencl",
        "                             ----------------  -------------------------------------  -------------------------------------  -------------------------------------",
        "   Range                      Total     Share   Total     Share  Difference   Ratio    Total     Share  Difference   Ratio    Total     Share  Difference   Ratio",
        "   ------------------------  --------  ------  --------  ------  ----------  -------  --------  ------  ----------  -------  --------  ------  ----------  -------",
        ">> Module running            7.365 ms    0.2%  23.83 s    96.4%   +23.83 s     x3236  7.083 ms    0.2%   -282.0 us    x0.96  18.35 ms    2.7%   +10.99 ms    x2.49",
        "   Load Module               3.499 s    99.7%  875.0 ms    3.5%   -2.624 s     x0.25  3.300 s    99.7%   -199.3 ms    x0.94  649.7 ms   96.8%   -2.849 s     x0.19",
        "   Init random data          3.135 ms    0.1%  2.454 ms    0.0%   -681.0 us    x0.78  2.539 ms    0.1%   -596.2 us    x0.81  2.494 ms    0.4%   -641.0 us    x0.80",
        "   Set input data to module  602.4 us    0.0%  417.1 us    0.0%   -185.3 us    x0.69  684.0 us    0.0%   +81.58 us    x1.14  438.2 us    0.1%   -164.3 us    x0.73",
        "",
        " >> slower in sycl: Module running +23.83 s (x3236)",
        "    cudnn: nothing is slower by 0.1 % of the base or more",
        " >> slower in opencl: Module running +10.99 ms (x2.49)",
        "",
    ];
    assert_eq!(lines, expected, "{text}");
}

#[test]
fn what_became_slower_stops_a_build() {
    let [cuda, sycl, opencl] = [CUDA, SYCL, OPENCL].map(|phases| summary(&phases));
    let comparison = Comparison::of([("cuda", &cuda), ("sycl", &sycl), ("opencl", &opencl)]);
    let found: Vec<String> = comparison.regressions(10.0).iter().map(ToString::to_string).collect();
    let expected = [
        "sycl: Module running took 23.83 s, 7.365 ms in cuda (x3236; 100 % allowed)",
        "opencl: Module running took 18.35 ms, 7.365 ms in cuda (x2.49; 100 % allowed)",
    ];
    assert_eq!(found, expected);
}

fn summary(phases: &Phases) -> Summary {
    let mut summary = Summary::default();
    summary.ranges = phases.iter().map(|&(name, ns)| once(name, ns)).collect();
    summary
}

/// The order of the program's phases must not matter, so every rotation of them is tried.
fn assert_printed(phases: &Phases, expected: &str) {
    for rotation in 0..phases.len() {
        let mut summary = summary(phases);
        summary.ranges.rotate_left(rotation);

        // The frame of a report: an empty line before the title, one after the table.
        assert_eq!(printed(&summary, Report::Ranges, TableStyle::Legacy), format!("\n{expected}\n"));
    }
}

fn printed(summary: &Summary, report: Report, style: TableStyle) -> String {
    let options = RenderOptions::default().style(style).thousands(true);
    let mut text = Vec::new();
    summary.render(&[report], &options, &mut text).expect("writing to memory");
    String::from_utf8(text).expect("UTF-8")
}

fn once(name: &str, ns: u64) -> RangeStats {
    let mut times = Times::new(1, ns);
    (times.min_ns, times.max_ns) = (ns, ns);
    (times.median_ns, times.median_exact) = (Some(ns as f64), true);
    RangeStats::new(name, times)
}

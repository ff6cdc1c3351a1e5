//! The tables that users keep beside their programs, of Nsight Systems 2021, nvprof and torch.profiler, printed again from their numbers.

#[path = "seeds/nvprof.rs"]
mod nvprof;
#[path = "seeds/torch.rs"]
mod torch;

use tracing_gpu::{RangeStats, RangeStyle, RenderOptions, Report, Summary, TableStyle, Times, report};

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

/// The order in which the program ran its phases must not matter, so every rotation of them is tried.
fn assert_printed(phases: &Phases, expected: &str) {
    for rotation in 0..phases.len() {
        let mut summary = Summary::default();
        summary.ranges = phases.iter().map(|&(name, ns)| once(name, ns)).collect();
        summary.ranges.rotate_left(rotation);

        // The envelope of a report: an empty line before the title, one after the table.
        assert_eq!(printed(&summary, Report::Ranges, TableStyle::Legacy), format!("\n{expected}\n"));
    }
}

fn printed(summary: &Summary, report: Report, style: TableStyle) -> String {
    let options = RenderOptions::default().style(style).thousands(true);
    let mut text = Vec::new();
    report::render(summary, &[report], &options, &mut text).expect("writing to memory");
    String::from_utf8(text).expect("UTF-8")
}

fn once(name: &str, ns: u64) -> RangeStats {
    RangeStats {
        domain: None,
        name: name.to_owned(),
        style: RangeStyle::PushPop,
        times: Times {
            instances: 1,
            total_ns: ns,
            min_ns: ns,
            max_ns: ns,
            median_ns: Some(ns as f64),
            median_exact: true,
            stddev_ns: 0.0,
        },
    }
}

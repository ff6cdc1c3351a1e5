//! Our tables compared with the output of the real `nsys stats` for the same durations, byte for byte.
//!
//! `golden/generate` made both files of a case; `golden/README.md` names the tools.

#[path = "nsys_tables/activity.rs"]
mod activity;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tracing_gpu::summary::{RangeStats, RangeStyle, Times};
use tracing_gpu::{RenderOptions, Report, Summary, SummaryExt as _};

macro_rules! cases {
    ($($name:ident: $what:literal,)*) => {
        $(
            #[doc = $what]
            #[test]
            fn $name() {
                compare(stringify!($name));
            }
        )*

        /// A case without a test would pass unseen.
        #[test]
        fn every_golden_case_is_tested() {
            let tested = BTreeSet::from([$(stringify!($name).to_owned()),*]);
            assert_eq!(golden_cases(), tested);
        }
    };
}

cases! {
    ordinary: "Several instances, domains, an odd and an even number of them.",
    ties: "Equal totals stand in bytewise order of their names, a range without a name first.",
    odd_names: "Control characters, quotes, blanks, wide and combining characters, too long, none.",
    width_bound: "Names of 99 to 102 code points around the widest column.",
    numeric_names: "Every form of number, and what is nearly one.",
    numeric_tie: "As many numbers as texts: a text column.",
    numeric_majority: "One number more than texts: a column of numbers.",
    deviation: "Standard deviations of 1 to 199 values at several scales.",
    many_rows: "More rows than set the width.",
    numbers_after_row_100: "Numbers below the rows that decide the alignment.",
    no_base: "All durations zero: no percentage.",
    percent_halves: "Percentages that end in exactly half a tenth.",
    large: "Totals beyond what a double holds exactly.",
    one_row: "The smallest table.",
    random_names: "Random forms of numbers, some spoilt.",
    both_styles: "Push/pop and start/end in one table.",
    start_end_only: "No push/pop range at all.",
}

fn compare(case: &str) {
    let (report_name, summary) = read_case(case);
    let title = match report_name.as_str() {
        "nvtxppsum" => "nvtx_pushpop_sum",
        "nvtxsum" => "nvtx_sum",
        other => panic!("{case}: unexpected report {other}"),
    };
    for (locale, thousands) in [("C", false), ("en_US", true)] {
        let printed = fs::read_to_string(golden(&format!("{case}.{locale}.txt"))).expect("golden table");
        // Nsight Systems renamed its reports in 2023; we print the new names, and the same table.
        let expected = printed.replacen(&format!("({report_name})"), &format!("({title})"), 1);
        assert_ne!(printed, expected, "{case}: the title of the golden table is not the expected one");

        let options = RenderOptions::default().thousands(thousands).raw_names(true).rows(usize::MAX);
        let mut ours = Vec::new();
        summary.render_one(Report::Ranges, &options, &mut ours).expect("writing to memory");
        let ours = String::from_utf8(ours).expect("UTF-8");
        for (line, (ours, expected)) in ours.lines().zip(expected.lines()).enumerate() {
            assert_eq!(ours, expected, "{case}, {locale}, line {}", line + 1);
        }
        assert_eq!(ours, expected, "{case}, {locale}");
    }
    let mut ours = Vec::new();
    summary.write_csv(Report::Ranges, &mut ours).expect("writing to memory");
    let expected = fs::read_to_string(golden(&format!("{case}.csv"))).expect("golden values");
    assert_eq!(String::from_utf8(ours).expect("UTF-8"), expected, "{case}, comma-separated");
}

/// The requested report, and the summary of the durations, with its rows deliberately out of order.
fn read_case(case: &str) -> (String, Summary) {
    let text = fs::read_to_string(golden(&format!("{case}.json"))).expect("golden durations");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let mut summary = Summary::default();
    summary.ranges = value["ranges"].as_array().expect("ranges").iter().map(range).collect();
    summary.ranges.reverse();
    (value["report"].as_str().expect("report").to_owned(), summary)
}

fn range(value: &Value) -> RangeStats {
    let durations: Vec<u64> =
        value["ns"].as_array().expect("ns").iter().map(|ns| ns.as_u64().expect("duration")).collect();
    let mut it = RangeStats::new(value["name"].as_str().expect("name"), times(&durations));
    it.domain = value["domain"].as_str().map(str::to_owned);
    it.style = match value["style"].as_str() {
        Some("PushPop") => RangeStyle::PushPop,
        Some("StartEnd") => RangeStyle::StartEnd,
        other => panic!("unexpected style {other:?}"),
    };
    it
}

/// The statistics of a few durations, from their definitions.
fn times(durations: &[u64]) -> Times {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let middle = sorted.len() / 2;
    let median = match sorted.len() % 2 {
        0 => (sorted[middle - 1] as f64 + sorted[middle] as f64) / 2.0,
        _ => sorted[middle] as f64,
    };
    // One pass, in order of recording, on which the last digit depends.
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for &ns in durations {
        count += 1.0;
        let off = ns as f64 - mean;
        mean += off / count;
        squares += off * (ns as f64 - mean);
    }
    let mut it = Times::new(durations.len() as u64, durations.iter().sum());
    it.min_ns = sorted[0];
    it.max_ns = sorted[sorted.len() - 1];
    it.median_ns = Some(median);
    it.median_exact = true;
    it.stddev_ns = if durations.len() > 1 { f64::sqrt(squares / (count - 1.0)) } else { 0.0 };
    it
}

fn golden_cases() -> BTreeSet<String> {
    fs::read_dir(golden(""))
        .expect("golden folder")
        .filter_map(|entry| entry.expect("entry").file_name().to_str()?.strip_suffix(".json").map(str::to_owned))
        .collect()
}

fn golden(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/nsys").join(file)
}

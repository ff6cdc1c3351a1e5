use super::*;
use crate::{OpenRange, RangeStats};
use proptest::prelude::*;

fn times(durations: &[u64]) -> Times {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let count = sorted.len();
    let total: u64 = sorted.iter().sum();
    let mean = total as f64 / count as f64;
    let squares: f64 = sorted.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum();
    Times {
        instances: count as u64,
        total_ns: total,
        min_ns: sorted[0],
        max_ns: sorted[count - 1],
        median_ns: Some((sorted[(count - 1) / 2] + sorted[count / 2]) as f64 / 2.0),
        median_exact: true,
        stddev_ns: if count > 1 { (squares / (count as f64 - 1.0)).sqrt() } else { 0.0 },
    }
}

fn of(rank: Option<u32>, pid: u32, ranges: &[(&str, &[u64])]) -> Summary {
    let range = |&(name, durations): &(&str, &[u64])| RangeStats {
        domain: None,
        name: name.to_owned(),
        style: RangeStyle::PushPop,
        times: times(durations),
    };
    Summary {
        process: Process { rank, pid, host: "node".to_owned(), ..Process::default() },
        ranges: ranges.iter().map(range).collect(),
        ..Summary::default()
    }
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let all = [
        of(Some(1), 10, &[("step", &[5, 7]), ("only here", &[1])]),
        of(Some(0), 11, &[("step", &[1, 2, 3])]),
        of(None, 9, &[("step", &[100])]),
        of(Some(10), 12, &[]),
    ];
    let expected = Summary::merge(all.clone());
    for rotation in 0..4 {
        let mut turned = all.clone();
        turned.rotate_left(rotation);
        assert_eq!(Summary::merge(turned), expected);
    }
    let labels: Vec<String> = expected.processes.iter().map(Process::label).collect();
    assert_eq!(labels, ["rank 0", "rank 1", "rank 10", "node:9"]);
    let step = &expected.ranges[0];
    let ranks: Vec<(usize, u64, u64)> = step.ranks.iter().map(|r| (r.process, r.instances, r.total_ns)).collect();
    assert_eq!(ranks, [(0, 3, 6), (1, 2, 12), (3, 1, 100)]);
    assert_eq!((step.slowest().unwrap().process, step.fastest().unwrap().process), (3, 0));
    assert_eq!(step.imbalance(), Some(100.0 * 3.0 / 118.0));
    // One process alone knows its median.
    let alone = &expected.ranges[1];
    assert_eq!(
        (alone.times.median_ns, alone.times.median_exact, alone.median_bounds_ns),
        (Some(1.0), true, Some((1.0, 1.0)))
    );
    assert_eq!(Summary::merge([]), MergedSummary::default());
}

#[test]
fn losses_add_up_and_notes_are_said_once() {
    let mut summary = of(Some(0), 1, &[]);
    summary.notes = vec!["The clock was odd.".to_owned()];
    summary.losses.stray_exits = 2;
    summary.losses.activity.unmatched = 3;
    summary.losses.open = vec![OpenRange {
        label: "a".to_owned(),
        thread: "main".to_owned(),
        style: RangeStyle::PushPop,
        cut: false,
        count: 1,
    }];
    let mut other = summary.clone();
    other.notes.push("Another.".to_owned());
    other.elapsed_ns = 7;
    let merged = Summary::merge([summary, other]);
    assert_eq!((merged.losses.stray_exits, merged.losses.activity.unmatched, merged.losses.open.len()), (4, 6, 2));
    assert_eq!(merged.notes, ["Another.", "The clock was odd. (2 processes)"]);
    assert_eq!(merged.elapsed_ns, 7);
}

#[test]
fn a_table_names_the_slowest() {
    let mut lossy = of(Some(1), 11, &[("step", &[4_000, 4_000]), ("a,b", &[10])]);
    lossy.losses.stray_exits = 2;
    let merged =
        Summary::merge([of(Some(0), 10, &[("step", &[1_000])]), lossy, of(Some(2), 12, &[("step", &[3_000])])]);
    let mut out = Vec::new();
    merged.render(&RenderOptions::default(), &mut out).unwrap();
    let expected = "
 ** Ranges of 3 Processes (merged):

 Time (%)  Total Time (ns)  Instances  Ranks  Avg (ns)  Min Rank (ns)  Avg Rank (ns)  Max Rank (ns)  Max/Avg  Slowest  Range
 --------  ---------------  ---------  -----  --------  -------------  -------------  -------------  -------  -------  -----
     99.9           12,000          4      3   3,000.0          1,000        4,000.0          8,000     2.00  rank 1   step 
      0.1               10          1      1      10.0             10           10.0             10     1.00  rank 1   a,b  


 ** Notes:

 - 2 exits were on a thread that had no such range open; they ended nothing there.

";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let mut out = Vec::new();
    merged.csv(&mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().ends_with("\n0.1,10,1,1,10.0,10,10.0,10,1.00,rank 1,\"a,b\"\n"));
}

proptest! {
    /// What is said of all instances is what they say themselves.
    #[test]
    fn the_parts_are_the_whole(parts in prop::collection::vec(prop::collection::vec(0_u64..1_000_000, 1..20), 1..8)) {
        let merged = Summary::merge(parts.iter().zip(0..).map(|(part, rank)| of(Some(rank), 1, &[("a", part)])));
        let (range, expected) = (&merged.ranges[0], times(&parts.concat()));
        let exact = |times: &Times| (times.instances, times.total_ns, times.min_ns, times.max_ns);
        prop_assert_eq!(exact(&range.times), exact(&expected));
        prop_assert!((range.times.stddev_ns - expected.stddev_ns).abs() <= 1e-6 * expected.stddev_ns.max(1.0));
        let (least, greatest) = range.median_bounds_ns.unwrap();
        let median = expected.median_ns.unwrap();
        prop_assert!((least..=greatest).contains(&median), "{} is not within {} and {}", median, least, greatest);
    }
}

use super::*;
use crate::RenderOptions;
use range_model::summary::{CallStates, DeviceIdle, GpuIdle, IdleCauses, SlowestCalls, SpanIdle, WaitStats};
use range_model::{CallStats, Quantile, RangeStats, RangeStyle, Summary, Times, TreeNode};

fn range(name: &str, instances: u64, total_ns: u64) -> RangeStats {
    let times = Times { instances, total_ns, ..Times::default() };
    RangeStats { domain: None, name: name.to_owned(), style: RangeStyle::PushPop, times }
}

fn run(ranges: &[(&str, u64, u64)]) -> Summary {
    let ranges = ranges.iter().map(|&(name, instances, total_ns)| range(name, instances, total_ns)).collect();
    Summary { ranges, ..Summary::default() }
}

fn text(comparison: &Comparison, width: usize) -> String {
    let mut out = Vec::new();
    comparison.render(&RenderOptions::default().width(width), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn what_is_missing_counts_as_no_time() {
    let base = run(&[("kept", 1, 1_000), ("gone", 2, 5_000), ("idle", 1, 0), ("open", 0, 0)]);
    let new = run(&[("kept", 1, 900), ("new", 1, 7_000), ("idle", 1, 0)]);
    let third = run(&[]);
    let comparison = Comparison::of([("base", &base), ("new", &new), ("third", &third)]);
    let names: Vec<&str> = comparison.ranges.iter().map(|range| range.name.as_str()).collect();
    assert_eq!(names, ["new", "gone", "kept", "idle"]);
    let [new, gone, kept, idle] = &comparison.ranges[..] else { panic!() };
    assert_eq!([new.difference_ns(0), new.difference_ns(1), new.difference_ns(2)], [None, Some(7_000), None]);
    assert_eq!([gone.difference_ns(1), gone.difference_ns(2)], [Some(-5_000); 2]);
    assert_eq!([gone.total_ns(0), gone.total_ns(1), new.total_ns(2)], [Some(5_000), None, None]);
    assert_eq!(kept.in_runs[1].as_ref().unwrap().ratio, Some(0.9));
    assert_eq!(new.in_runs[1].as_ref().unwrap().ratio, None);
    assert_eq!((idle.in_runs[1].as_ref().unwrap().ratio, idle.difference_ns(2)), (None, Some(0)));
}

/// For a quick look, the table has marks, and the sentences below it name the changed ranges.
#[test]
fn a_run_a_line_where_there_is_no_room() {
    let base = run(&[("kept", 1, 1_000), ("gone", 2, 5_000), ("idle", 1, 0), ("open", 0, 0)]);
    let new = run(&[("kept", 3, 1_900), ("new", 1, 7_000), ("idle", 1, 0)]);
    let comparison = Comparison::of([("base", &base), ("new", &new), ("th\tird", &run(&[]))]);
    let expected = "
 ** Range Comparison (base: base):

   Range       Total     Share  Difference   Ratio
   ---------  --------  ------  ----------  -------
   new
     base         -          -
>>   new      7.000 us   78.7%   +7.000 us      new
     th\\tird      -          -        -           -
   gone
     base     5.000 us   83.3%
     new          -          -   -5.000 us     gone
     th\\tird      -          -   -5.000 us     gone
   kept
     base     1.000 us   16.7%
     new      1.900 us   21.3%     +900 ns    x1.90
     th\\tird      -          -   -1.000 us     gone
   idle
     base         0 ns    0.0%
     new          0 ns    0.0%        0 ns    x1.00
     th\\tird      -          -        0 ns     gone

 >> slower in new: new +7.000 us (new), kept +900 ns (x1.90, 3 instances, not 1)
    th\\tird: nothing is slower by 0.1 % of the base or more
    not in base: new 7.000 us (new)

";
    let text = text(&comparison, 80);
    assert_eq!(text, expected, "{text}");
}

#[test]
fn no_line_is_longer_than_the_terminal() {
    let long = "a name that goes on and on: ".repeat(9);
    let (base, new) = (run(&[(&long, 1, 1_000), ("日本語", 1, 0)]), run(&[(&long, 1, 900_000_000), ("日本語", 1, 7)]));
    let runs = [("base", &base), ("new", &new), (long.as_str(), &base), ("d", &new), ("e", &new), ("f", &new)];
    for count in 1..=runs.len() {
        for width in [60, 80, 100, 130, 200, 400] {
            let text = text(&Comparison::of(runs[..count].iter().copied()), width);
            let table = text.split(" >> ").next().unwrap().lines().skip(3);
            for line in table.filter(|line| !line.starts_with("    ") || line.contains('x')) {
                assert!(line.chars().count() <= width, "{count} runs in {width}: {line:?}");
                assert_eq!(line.trim_end(), line);
            }
        }
    }
}

#[test]
fn a_comparison_of_nothing() {
    assert!(text(&Comparison::of::<&str>([]), 80).contains("(base: none)"));
    let empty = Summary::default();
    assert!(text(&Comparison::of([("a", &empty), ("b", &empty)]), 80).contains("No range was recorded"));
    let alone = Comparison::of([("a", &run(&[("x", 1, 5)]))]);
    assert!(text(&alone, 80).contains("x      "), "{}", text(&alone, 80));
    assert_eq!(alone.check(&strict(0.0)), []);
}

#[test]
fn csv_has_a_row_a_range_and_run() {
    let mut new = run(&[("a, b", 2, 1_500)]);
    new.ranges.push(RangeStats {
        style: RangeStyle::StartEnd,
        domain: Some("net".to_owned()),
        ..range("request", 1, 500)
    });
    let known = new.ranges.iter_mut().find(|range| range.name == "a, b").unwrap();
    known.times.median_ns = Some(740.5);
    known.times.quantiles = vec![Quantile::new(0.9, 780.0, false)];
    // The old run has no tree.
    new.tree = vec![TreeNode { name: "a, b".to_owned(), self_ns: 1_400, ..TreeNode::default() }];
    let mut out = Vec::new();
    Comparison::of([("old", &run(&[("a, b", 2, 1_000)])), ("new", &new)]).write_csv(&mut out).unwrap();
    let expected = "\
Run,Time (%),Total Time (ns),Instances,Avg (ns),p50 (ns),p90 (ns),p99 (ns),Difference (ns),Ratio,Self Time (ns),Self Difference (ns),Style,Range
old,100.0,1000,2,500.0,,,,,,,,PushPop,\"a, b\"
new,75.0,1500,2,750.0,740.5,780.0,,500,1.5000,1400,,PushPop,\"a, b\"
old,,,,,,,,,,,,StartEnd,net:request
new,25.0,500,1,500.0,,,,500,,,,StartEnd,net:request
";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[cfg(feature = "json")]
#[test]
fn json_has_the_fields() {
    let mut out = Vec::new();
    let (old, new) = (run(&[("a", 1, 0)]), run(&[("a", 1, 5)]));
    Comparison::of([("old", &old), ("new", &new)]).write_json(&mut out).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&value["runs"][1], &value["ranges"][0]["name"]), (&"new".into(), &"a".into()));
    let place = &value["ranges"][0]["in_runs"][1];
    assert_eq!(
        (&place["times"]["total_ns"], &place["percent"], &place["ratio"]),
        (&5.into(), &100.0.into(), &serde_json::Value::Null)
    );
}

/// A gate that judges totals and assumes no noise.
fn strict(threshold_percent: f64) -> Gate {
    Gate { basis: Basis::Total, least_repeats: 1, ..Gate::new(threshold_percent) }
}

fn found(old: (u64, u64), new: (u64, u64), gate: Gate) -> Vec<String> {
    let (old, new) = (run(&[("a", old.0, old.1)]), run(&[("a", new.0, new.1), ("new", 1, u64::MAX)]));
    Comparison::of([("old", &old), ("new", &new)]).check(&gate).iter().map(ToString::to_string).collect()
}

#[test]
fn a_range_is_slower_beyond_the_threshold_only() {
    let ms = 1_000_000;
    assert_eq!(found((1, 100 * ms), (1, 110 * ms), strict(10.0)), Vec::<String>::new());
    assert_eq!(
        found((1, 100 * ms), (1, 111 * ms), strict(10.0)),
        ["new: a took 111.0 ms, 100.0 ms in old (+11.0 %; 10 % allowed)"]
    );
    assert_eq!(found((1, 100 * ms), (1, 99 * ms), strict(0.0)), Vec::<String>::new());
    assert_eq!(found((1, 100 * ms), (1, 100 * ms), strict(-1.0)), Vec::<String>::new());
    assert_eq!(found((1, 100 * ms), (1, 101 * ms), strict(f64::NAN)).len(), 1);
    // Noise: below the least time, below the least number of instances.
    assert_eq!(found((1, 1_000), (1, 90_000), strict(10.0)), Vec::<String>::new());
    assert_eq!(
        found((1, 1_000), (1, 90_000), Gate { least_ns: 0, ..strict(10.0) }),
        ["new: a took 90.00 us, 1.000 us in old (x90.0; 10 % allowed)"]
    );
    // From nothing to something is an infinite change.
    assert_eq!(found((1, 0), (1, ms), strict(10.0)), ["new: a took 1.000 ms, 0 ns in old (>x1e6; 10 % allowed)"]);
}

/// Repeats of a run with one range that has this many instances and these medians.
fn repeated(instances: u64, medians: impl IntoIterator<Item = f64>) -> Vec<Summary> {
    let run = |(at, median): (usize, f64)| {
        let mut run = run(&[("a", instances, instances * median as u64)]);
        (run.ranges[0].times.median_ns, run.process.started_unix_ns) = (Some(median), at as u64);
        run
    };
    medians.into_iter().enumerate().map(run).collect()
}

fn between(old: &[Summary], new: &[Summary], gate: Gate) -> Vec<String> {
    let comparison = Comparison::of_sides([("old", old), ("new", new)]);
    comparison.check(&gate).iter().map(ToString::to_string).collect()
}

#[test]
fn medians_are_judged_and_totals_of_few_instances() {
    let ms = 1e6;
    // Half of the instances, and a disturbed total: the median is what it was.
    let (old, mut new) = (repeated(100, [ms]), repeated(50, [ms]));
    new[0].ranges[0].times.total_ns *= 9;
    assert_eq!(between(&old, &new, Gate::new(2.0)), Vec::<String>::new());
    let slower = "new: a took 4.500 s, 1.000 s in old (x4.50; 100 % allowed), in 500 instances instead of 100";
    let few = Gate { least_instances: 501, ..Gate::new(2.0) };
    assert_eq!(between(&repeated(100, [10.0 * ms]), &repeated(500, [9.0 * ms]), few), [slower]);
    // The repeats together have enough instances.
    let old = repeated(10, [ms, ms, ms]);
    assert_eq!(between(&old, &repeated(10, [ms, 1.2 * ms, 1.3 * ms]), Gate::new(2.0)), Vec::<String>::new());
    let line = "new: a took 1.300 ms at the median, 1.000 ms in old (+30.0 %; 25 % allowed)";
    assert_eq!(between(&old, &repeated(10, [ms, 1.3 * ms, 1.4 * ms]), Gate::new(2.0)), [line]);
    let p99 = Gate { basis: Basis::P99, ..Gate::new(2.0) };
    let with_p99 = |ns: f64| {
        let mut runs = repeated(100, [ms]);
        runs[0].ranges[0].times.quantiles = vec![Quantile::new(0.99, ns, true)];
        runs
    };
    let line = "new: a took 4.000 ms at the 99th percentile, 1.500 ms in old (x2.67; 100 % allowed)";
    assert_eq!(between(&with_p99(1.5 * ms), &with_p99(4.0 * ms), p99), [line]);
}

#[test]
fn repeats_are_compared_with_those_that_began_next_to_them() {
    // The machine slows down by half from run to run, and one side lists its runs in reverse.
    let pace = |at: u32| 1e6 * (1.0 + 0.05 * f64::from(at % 10));
    let old = repeated(40, (0..10).map(pace));
    let mut new = repeated(40, (0..10).map(|at| 1.05 * pace(at) + f64::from(at % 3)));
    new.reverse();
    let line =
        "new: a took 5.0 % longer than in old, where it took 1.225 ms at the median (+5.0 to +5.0 %; 2 % allowed)";
    assert_eq!(between(&old, &new, Gate::new(2.0)), [line]);
    assert_eq!(between(&old, &new, Gate::new(6.0)), Vec::<String>::new());
    // If it is unknown which repeats belong together, the change disappears in the noise.
    new.iter_mut().enumerate().for_each(|(at, run)| run.process.started_unix_ns = at as u64 * 7 % 10);
    assert_eq!(between(&old, &new, Gate::new(2.0)), Vec::<String>::new());
}

/// Each side has ten runs but only four pairs have the range, so noise is unknown.
#[test]
fn a_range_that_few_pairs_have_is_judged_roughly() {
    let sides = |factor: f64| {
        let mut old = repeated(40, (0..16).map(|at| 1e6 + f64::from(at)));
        let mut new = repeated(40, (0..16).map(|at| factor * 1e6 + f64::from(at)));
        let without = old[10..].iter_mut().chain(&mut new[..6]);
        without.for_each(|run| run.ranges.clear());
        (old, new)
    };
    let (old, new) = sides(1.2);
    assert_eq!(between(&old, &new, Gate::new(2.0)), Vec::<String>::new());
    assert_eq!(between(&old, &new, Gate { least_repeats: 1, ..Gate::new(2.0) }).len(), 1);
    let judged = Comparison::of_sides([("old", &old), ("new", &new)]).judged(&Gate::new(2.0));
    let text = text(&judged, 80);
    assert!(text.contains("\n    no interval: fewer than 8 pairs of runs have the range\n"), "{text}");
    assert!(!text.contains("all intervals together"), "{text}");
    let (old, new) = sides(1.3);
    let line = "new: a took 1.300 ms at the median, 1.000 ms in old (+30.0 %; 25 % allowed)";
    assert_eq!(between(&old, &new, Gate::new(2.0)), [line]);
}

#[test]
fn no_time_in_either_run_is_no_change() {
    assert_eq!(found((1, 0), (1, 0), strict(0.0)), Vec::<String>::new());
    let zero = repeated(40, [0.0]);
    let judged = Comparison::of_sides([("old", &zero), ("new", &zero)]).judged(&Gate::new(2.0));
    assert_eq!(judged.ranges[0].in_runs[1].as_ref().unwrap().change.unwrap().percent, 0.0);
    assert!(text(&judged, 80).contains("median      0 ns      0 ns     0.0 %"), "{}", text(&judged, 80));
}

/// A ratio to zero means nothing: the interval comes from the other pairs.
#[test]
fn a_repeat_without_time_is_in_no_pair() {
    let ms = 1_000_000.0;
    let medians = (0..14).map(|at| if at < 4 { 0.0 } else { ms });
    let (old, new) = (repeated(40, medians), repeated(40, [1.05 * ms; 14]));
    let judged = Comparison::of_sides([("old", &old), ("new", &new)]).judged(&Gate::new(2.0));
    let change = judged.ranges[0].in_runs[1].as_ref().unwrap().change.unwrap();
    assert_eq!((change.percent.round(), change.low_percent.map(f64::round)), (5.0, Some(5.0)));
    assert_eq!((change.grown_ns as f64 / ms).round(), 2.0, "40 instances of 0.05 ms");
}

#[test]
fn a_judged_comparison_is_printed_and_written_with_its_intervals() {
    let old = repeated(40, (0..12).map(|at| 1e6 + 1e3 * f64::from(at * at % 5)));
    let mut new = repeated(40, (0..12).map(|at| 1.05e6 + 1e3 * f64::from(at % 7)));
    new.iter_mut().for_each(|run| run.ranges.push(range("added", 1, 7)));
    let gate = Gate::new(2.0);
    let comparison = Comparison::of_sides([("old", &old), ("new", &new)]).judged(&gate);
    let table = "
 ** Gate (new against old):

   Range     Of           old       new    Change            Interval
   --------  ------  --------  --------  --------  ------------------
>> a         median  1.001 ms  1.053 ms    +5.1 %      +4.7 to +5.5 %

    1 of 1 ranges slower than allowed (2 %)
    12 pairs of runs; all intervals together hold in 99 % of comparisons

";
    for width in [80, 200] {
        let text = text(&comparison, width);
        assert!(text.starts_with(table), "{text}");
        // Sums that one disturbed run can change are neither marked nor named.
        assert_eq!(text.matches(">>").count(), 1, "{text}");
        assert!(text.contains("\n    new: the gate tells changes from noise; sums do not\n"), "{text}");
    }
    let mut csv = Vec::new();
    comparison.write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert!(csv.contains(",Judged,Judged Time (ns),Change (%),Low (%),High (%),Slower,Style,Range\n"), "{csv}");
    assert!(csv.contains(",median,1052500.0,5.1,4.7,5.5,true,PushPop,a\n"), "{csv}");
    assert!(csv.contains("new,0.0,7,1,7.0,,,,7,,,,,,,,,,PushPop,added\n"), "{csv}");

    // In the other direction it became faster.
    let faster = Comparison::of_sides([("old", &new), ("new", &old)]).judged(&gate);
    let mut csv = Vec::new();
    faster.write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert!(csv.contains(",median,1001000.0,-4.8,-5.2,-4.5,false,PushPop,a\n"), "{csv}");

    let rough = Comparison::of_sides([("old", &old[..1]), ("new", &new[..1])]).judged(&gate);
    let words = "
    0 of 1 ranges slower than allowed (2 %)
    1 run a side: too few to tell a change from noise, so 25 % of a median is allowed,
    and 100 % of a total or p99; 20 runs a side, recorded alternately, show 5 %
";
    assert!(text(&rough, 80).contains(words), "{}", text(&rough, 80));
}

#[test]
fn a_repeated_run_has_the_medians_of_its_figures() {
    let mut runs = repeated(40, [3.0, 1.0, 2.0, 9.0]);
    runs[3].ranges[0].name = "b".to_owned();
    let comparison = Comparison::of_sides([("old", &runs)]);
    let place = comparison.ranges.iter().find(|range| range.name == "a").unwrap().in_runs[0].as_ref().unwrap();
    assert_eq!((place.times.median_ns, place.times.total_ns, place.times.instances), (Some(2.0), 80, 40));
    assert_eq!((comparison.repeats, comparison.ranges.len()), (vec![4], 2));
}

#[test]
fn the_most_time_lost_comes_first() {
    let old = run(&[("a", 1, 1_000_000), ("b", 1, 1_000_000)]);
    let new = run(&[("a", 1, 2_000_000), ("b", 1, 5_000_000)]);
    let worse = run(&[("a", 1, 9_000_000), ("b", 1, 1_000_000)]);
    let found = Comparison::of([("old", &old), ("new", &new), ("worse", &worse)]).check(&strict(10.0));
    let named: Vec<(&str, &str, u64)> =
        found.iter().map(|one| (one.run.as_str(), one.name.as_str(), one.change.grown_ns)).collect();
    assert_eq!(named, [("worse", "a", 8_000_000), ("new", "b", 4_000_000), ("new", "a", 1_000_000)]);
}

#[test]
fn ranges_that_the_first_run_does_not_have_are_listed_by_run() {
    let old = run(&[("a", 1, 1_000_000), ("open", 0, 0)]);
    let new = run(&[("a", 1, 1_000_000), ("b", 2, 5_000_000), ("short", 1, 99), ("open", 1, 200_000)]);
    let newer = run(&[("b", 1, 6_000_000), ("empty", 0, 0)]);
    let comparison = Comparison::of([("old", &old), ("new", &new), ("newer", &newer)]);
    let lines: Vec<String> = comparison.added(100).iter().map(ToString::to_string).collect();
    let expected = [
        "newer: b took 6.000 ms, and is not in old",
        "new: b took 5.000 ms, and is not in old",
        "new: open took 200.0 us, and is not in old",
    ];
    assert_eq!(lines, expected);
    assert_eq!(comparison.added(99).len(), 4);
    assert_eq!(comparison.check(&strict(0.0)), [], "nothing to compare them with");
    assert_eq!(Comparison::of::<&str>([]).added(0), []);
}

/// A run in which `main` contains `load` and `run`, and `run` contains `sort`. `own` are their own times.
fn nested(own: [u64; 4]) -> Summary {
    let node = |at: usize, name: &str, children: Vec<TreeNode>| {
        let total_ns = own[at] + children.iter().map(|child| child.total_ns).sum::<u64>();
        TreeNode { name: name.to_owned(), total_ns, self_ns: own[at], children, ..TreeNode::default() }
    };
    let tree = node(0, "main", vec![node(1, "load", vec![]), node(2, "run", vec![node(3, "sort", vec![])])]);
    let totals = [&tree, &tree.children[0], &tree.children[1], &tree.children[1].children[0]];
    let ranges = totals.map(|node| range(&node.name, 1, node.total_ns)).to_vec();
    Summary { ranges, tree: vec![tree], ..Summary::default() }
}

#[test]
fn own_times_say_which_range_became_slower_itself() {
    let ms = 1_000_000;
    let (old, new) = (nested([10 * ms, 20 * ms, 5 * ms, 40 * ms]), nested([10 * ms, 18 * ms, 5 * ms, 90 * ms]));
    let comparison = Comparison::of([("old", &old), ("new", &new)]);
    let own = |name: &str| {
        let range = comparison.ranges.iter().find(|range| range.name == name).unwrap();
        (range.difference_ns(1).unwrap() / ms as i64, range.self_difference_ns(1).unwrap() / ms as i64)
    };
    assert_eq!(["main", "load", "run", "sort"].map(own), [(48, 0), (-2, -2), (50, 0), (50, 50)]);
    let expected = "
 ** Self Time Comparison (base: old):

                old                          new
          ----------------  -------------------------------------
   Range    Self     Share    Self     Share  Difference   Ratio
   -----  --------  ------  --------  ------  ----------  -------
>> sort   40.00 ms   53.3%  90.00 ms   73.2%   +50.00 ms    x2.25
   load   20.00 ms   26.7%  18.00 ms   14.6%   -2.000 ms    x0.90
   run    5.000 ms    6.7%  5.000 ms    4.1%        0 ns    x1.00
   main   10.00 ms   13.3%  10.00 ms    8.1%        0 ns    x1.00

 >> slower itself in new: sort +50.00 ms (x2.25)

";
    for width in [80, 200] {
        let text = text(&comparison, width);
        // The cause comes first, then the ranges around it.
        let (own, totals) = text.split_at(expected.len());
        assert_eq!(own, expected, "{text}");
        assert!(
            totals.contains(" ** Range Comparison (base: old):") && totals.contains("\n>> run    45.00 ms"),
            "{text}"
        );
    }
    let mut out = Vec::new();
    comparison.write_csv(&mut out).unwrap();
    let csv = String::from_utf8(out).unwrap();
    assert!(csv.contains(",,,40000000,,PushPop,sort\n") && csv.contains(",90000000,50000000,PushPop,sort\n"), "{csv}");
}

#[test]
fn the_cause_comes_before_what_contains_it() {
    let ms = 1_000_000;
    let (mut old, mut new) = (nested([10 * ms, 20 * ms, 5 * ms, 40 * ms]), nested([10 * ms, 24 * ms, 5 * ms, 90 * ms]));
    for (run, total) in [(&mut old, 100 * ms), (&mut new, 300 * ms)] {
        run.ranges.push(RangeStats { style: RangeStyle::StartEnd, ..range("main", 1, total) });
    }
    let comparison = Comparison::of([("old", &old), ("new", &new)]);
    let lines: Vec<String> = comparison.check(&strict(10.0)).iter().map(ToString::to_string).collect();
    let expected = [
        "new: sort took 90.00 ms, 40.00 ms in old (x2.25; 10 % allowed)",
        "new: load took 24.00 ms, 20.00 ms in old (+20.0 %; 10 % allowed)",
        "new: main (start/end) took 300.0 ms, 100.0 ms in old (x3.00; 10 % allowed)",
        "new: main took 129.0 ms, 75.00 ms in old (+72.0 %; 10 % allowed), itself 0 ns more",
        "new: run took 95.00 ms, 45.00 ms in old (x2.11; 10 % allowed), itself 0 ns more",
    ];
    assert_eq!(lines, expected);
    let own: Vec<Option<i64>> = comparison.check(&strict(10.0)).iter().map(|one| one.self_grown_ns).collect();
    let ms = ms as i64;
    assert_eq!(own, [Some(50 * ms), Some(4 * ms), None, Some(0), Some(0)]);
}

#[test]
fn a_lifetime_is_told_from_the_entries_of_the_same_name() {
    let with = |total| {
        let mut run = run(&[("request", 1, 1_000_000)]);
        run.ranges.push(RangeStats { style: RangeStyle::StartEnd, ..range("request", 1, total) });
        run
    };
    let (old, new) = (with(1_000_000), with(9_000_000));
    let found = Comparison::of([("old", &old), ("new", &new), ("empty", &Summary::default())]).check(&strict(10.0));
    assert_eq!(found[0].to_string(), "new: request (start/end) took 9.000 ms, 1.000 ms in old (x9.00; 10 % allowed)");
    let added = Comparison::of([("old", &Summary::default()), ("new", &new)]).added(0);
    assert_eq!(added[0].to_string(), "new: request (start/end) took 9.000 ms, and is not in old");
}

/// One run has a tree and the other has none. The unknown own times of the latter must not count as 0.
#[test]
fn own_times_of_one_run_alone_are_not_compared() {
    let (old, new) = (nested([10, 20, 5, 40]), run(&[("main", 1, 75), ("sort", 1, 40)]));
    let comparison = Comparison::of([("old", &old), ("new", &new)]);
    let sort = comparison.ranges.iter().find(|range| range.name == "sort").unwrap();
    assert_eq!((sort.self_difference_ns(0), sort.self_difference_ns(1)), (Some(0), None));
    let text = text(&comparison, 80);
    assert!(text.starts_with("\n ** Range") && !text.contains("Self Time"), "{text}");
}

#[test]
fn own_times_that_say_no_more_are_not_printed() {
    let mut flat = run(&[("a", 1, 1_000)]);
    let shown = |flat: &Summary| text(&Comparison::of([("old", flat), ("new", flat)]), 80).contains("Self Time");
    assert!(!shown(&flat), "not known");
    flat.tree = vec![TreeNode { name: "a".to_owned(), self_ns: 1_000, ..TreeNode::default() }];
    assert!(!shown(&flat), "the same as totals");
    flat.tree[0].self_ns = 999;
    assert!(shown(&flat));
}

/// A run with requested quantiles, which only its tree has.
fn asked(ms: [u64; 2], asked: &[f64]) -> Summary {
    let mut all = run(&[("outer", 4, ms[0] * 1_000_000), ("inner", 4, ms[1] * 1_000_000)]);
    for range in &mut all.ranges {
        (range.times.median_ns, range.times.median_exact) = (Some(range.times.total_ns as f64 / 8.0), true);
        range.times.quantiles = vec![Quantile::new(0.99, range.times.total_ns as f64, false)];
    }
    let quantiles = asked.iter().map(|&q| Quantile::new(q, 1.0, true)).collect();
    let self_ns = ms[0] * 1_000_000;
    all.tree = vec![TreeNode { name: "outer".to_owned(), self_ns, quantiles, ..TreeNode::default() }];
    all
}

#[test]
fn quantiles_that_all_runs_were_asked_for_have_columns() {
    let (base, new) = (asked([400, 100], &[0.5, 0.9, 0.99]), asked([800, 100], &[0.5, 0.99]));
    let comparison = Comparison::new(&base, &new);
    assert_eq!(comparison.quantiles, [0.5, 0.99]);
    let narrow = "
 ** Range Comparison (base: base):

   Range    Total     Share        p50        p99  Difference   Ratio
   ------  --------  ------  ---------  ---------  ----------  -------
";
    assert!(text(&comparison, 80).starts_with(narrow), "{}", text(&comparison, 80));
    let wide = "
 ** Range Comparison (base: base):

                           base                                               new
          --------------------------------------  -----------------------------------------------------------
   Range   Total     Share        p50        p99   Total     Share        p50        p99  Difference   Ratio
   -----  --------  ------  ---------  ---------  --------  ------  ---------  ---------  ----------  -------
>> outer  400.0 ms   80.0%   50.00 ms  ~400.0 ms  800.0 ms   88.9%   100.0 ms  ~800.0 ms   +400.0 ms    x2.00
";
    assert!(text(&comparison, 200).starts_with(wide), "{}", text(&comparison, 200));
    // The last quantile is never dropped.
    let narrowest = text(&comparison, 60);
    assert!(narrowest.contains("p99") && !narrowest.contains("p50"), "{narrowest}");
    assert!(!text(&Comparison::new(&base, &asked([800, 100], &[])), 200).contains("p99"));
}

#[test]
fn ranges_beyond_the_bound_are_summed_up() {
    let names: Vec<String> = (0..6).map(|number| format!("range {number}")).collect();
    let runs = [1, 2].map(|factor: u64| {
        let ranges: Vec<(&str, u64, u64)> =
            names.iter().zip(1..).map(|(name, at)| (name.as_str(), 1, 1_000 * at * factor)).collect();
        run(&ranges)
    });
    let mut out = Vec::new();
    let options = RenderOptions::default().width(120).rows(2);
    Comparison::new(&runs[0], &runs[1]).render(&options, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let rows: Vec<&str> = out.lines().filter(|line| line.contains('%')).collect();
    let expected = [
        ">> range 5   6.000 us   28.6%  12.00 us   28.6%   +6.000 us    x2.00",
        "   range 4   5.000 us   23.8%  10.00 us   23.8%   +5.000 us    x2.00",
        "   (4 more)  10.00 us   47.6%  20.00 us   47.6%   +10.00 us    x2.00",
    ];
    assert_eq!(rows, expected, "{out}");
}

/// A run of a server: 200 calls of `GET /orders`, each with one of `append_ledger`, which waits for `by`.
fn server(at: u64, waited_ns: u64, by: &str) -> Summary {
    let latency = |ns: u64| {
        let quantiles = vec![Quantile::new(0.99, 2.0 * ns as f64, true)];
        Times { median_ns: Some(ns as f64), quantiles, ..Times::new(200, 200 * ns) }
    };
    let call = |name: &str, own_ns: u64, awaited_ns: u64, states: CallStates| {
        let mut call = CallStats::new(name, latency(own_ns + awaited_ns));
        (call.busy_ns, call.awaited_ns, call.states) = (200 * own_ns, 200 * awaited_ns, Some(states));
        call.slowest = Some(SlowestCalls { calls: 200, latency_ns: 200 * (own_ns + awaited_ns), states });
        call
    };
    let own = 1_000_000 + at % 3;
    let mut outer = CallStates::default();
    (outer.on_cpu_ns, outer.child_call_ns) = (200 * own, 200 * waited_ns);
    let inner = CallStates { otherwise_ns: 200 * waited_ns, ..CallStates::default() };
    let mut run = run(&[("GET /orders", 400, 200 * own)]);
    run.ranges[0].times.median_ns = Some(own as f64 / 2.0);
    run.process.started_unix_ns = at;
    run.calls = vec![call("GET /orders", own, waited_ns, outer), call("append_ledger", 0, waited_ns, inner)];
    let mut child = TreeNode::new("append_ledger");
    (child.instances, child.awaited_ns) = (400, Some(200 * waited_ns));
    let mut root = TreeNode::new("GET /orders");
    (root.instances, root.total_ns, root.on_cpu_ns, root.children) = (400, 200 * own, 200 * own, vec![child]);
    run.tree = vec![root];
    run.waits = vec![WaitStats::new("append_ledger", Some(by.to_owned()), 200, 200 * waited_ns, 0)];
    run
}

/// Ten runs.
fn servers(waited_ns: u64, by: &str) -> Vec<Summary> {
    (0..10).map(|at| server(at, waited_ns + 1_000 * (at % 4), by)).collect()
}

#[test]
fn a_wait_that_grew_is_named_with_its_cause() {
    let ms = 1_000_000;
    let lines = between(&servers(4 * ms, "compact"), &servers(28 * ms, "compact"), Gate::new(2.0));
    let of = |row: &str| lines.iter().find(|line| line.contains(row)).unwrap().as_str();
    let outer = "new: GET /orders took 5.80 times as long as in base";
    assert!(of("GET /orders took").starts_with(&outer.replace("base", "old")), "{lines:#?}");
    let reason = "; in append_ledger: waiting for compact, +24.00 ms a call";
    assert!(of("GET /orders took").ends_with(reason), "{lines:#?}");
    let of_slowest =
        lines.iter().filter(|line| line.contains("at the 99th")).map(|line| line.split("; ").last().unwrap());
    assert_eq!(
        of_slowest.collect::<Vec<_>>(),
        ["waiting, +24.00 ms a call", "waiting for calls inside, +24.00 ms a call"]
    );
    assert!(!lines.iter().any(|line| line.contains("poll")), "polls are what they were: {lines:#?}");
    assert_eq!(lines.len(), 4, "{lines:#?}");

    assert_eq!(between(&servers(4 * ms, "compact"), &servers(4 * ms, "compact"), Gate::new(2.0)), [""; 0]);
}

/// Nobody is named who did not make the waits longer.
#[test]
fn who_is_inferred_must_have_grown() {
    let ms = 1_000_000;
    let reasons = |old: &[Summary], new: &[Summary]| {
        let found = Comparison::of_sides([("old", old), ("new", new)]).check(&Gate::new(2.0));
        let of_outer = found.into_iter().filter(|found| found.name == "GET /orders");
        of_outer.map(|found| found.reason.map(|reason| reason.to_string())).collect::<Vec<_>>()
    };
    let with = |waited: u64, held: u64, is_known: bool| {
        let mut runs = servers(waited, "compact");
        for run in &mut runs {
            run.waits[0].of_waits = Some(200);
            run.waits.truncate(usize::from(is_known));
            let mut holder = TreeNode::new("compact");
            (holder.instances, holder.total_ns) = (10, 10 * held);
            run.tree.push(holder);
        }
        runs
    };
    let slowest = Some("waiting for calls inside, +24.00 ms".to_owned());
    let outer = |reason: &str| vec![Some(format!("in append_ledger: waiting{reason}, +24.00 ms")), slowest.clone()];
    let named = outer(", probably for compact");
    assert_eq!(reasons(&with(4 * ms, 5 * ms, true), &with(28 * ms, 40 * ms, true)), named);
    assert_eq!(reasons(&with(4 * ms, 5 * ms, false), &with(28 * ms, 5 * ms, true)), named, "it is new");
    assert_eq!(reasons(&with(4 * ms, 5 * ms, true), &with(28 * ms, 5 * ms, true)), outer(""), "as it was");
    let mut few = with(28 * ms, 40 * ms, true);
    few.iter_mut().take(6).for_each(|run| run.waits.clear());
    assert_eq!(reasons(&with(4 * ms, 5 * ms, true), &few), outer(""), "in less than half of the runs");

    // What ran beside the row grew by more than it: a child that nobody waited for.
    let mut beside = servers(28 * ms, "compact");
    beside.iter_mut().for_each(|run| run.tree[0].children[0].awaited_ns = Some(200 * 99 * ms));
    assert_eq!(reasons(&servers(4 * ms, "compact"), &beside), [None, slowest]);
}

/// A run with one GPU, which was busy for 60 ms and idle for 40 ms, `copying` of them in `upload`.
fn with_gpu(at: u64, copying_ns: u64) -> Summary {
    let ms = 1_000_000;
    let mut run = run(&[("upload", 1, 1)]);
    run.process.started_unix_ns = at;
    let mut causes = IdleCauses::default();
    (causes.copying_ns, causes.host_ns) = (copying_ns, 40 * ms);
    let mut device = DeviceIdle::default();
    (device.wall_ns, device.busy_ns, device.causes) = (100 * ms + copying_ns, 60 * ms + at % 3, causes);
    let mut span = SpanIdle::default();
    (span.name, span.causes) = (Some("upload".to_owned()), causes);
    let mut idle = GpuIdle::default();
    (idle.devices, idle.spans) = (vec![device], vec![span]);
    run.idle = Some(idle);
    run
}

#[test]
fn idle_time_of_a_gpu_is_judged_in_parts_of_its_time() {
    let gpus = |copying_ns: u64| (0..10).map(|at| with_gpu(at, copying_ns + at % 2)).collect::<Vec<_>>();
    let line = "new: GPU 0 was idle for 5.000 ms, 0 ns in old (copying: +5.0 to +5.0 % of its time); in upload: most of \
                it, +5.000 ms";
    assert_eq!(between(&gpus(0), &gpus(5_000_000), Gate::new(2.0)), [line]);
    assert_eq!(between(&gpus(0), &gpus(1_000_000), Gate::new(2.0)), [""; 0], "1 % of the time");
    assert_eq!(between(&gpus(5_000_000), &gpus(0), Gate::new(2.0)), [""; 0]);
}

#[cfg(feature = "json")]
#[test]
fn a_verdict_is_small_and_says_how_far_the_sides_can_be_compared() {
    let names: Vec<String> = (0..200).map(|at| format!("{at} of many phases with long names")).collect();
    let runs = |ns: u64| run(&names.iter().map(|name| (name.as_str(), 40, ns)).collect::<Vec<_>>());
    let (mut old, mut new) = (runs(1_000_000_000), runs(9_000_000_000));
    use range_model::summary::{GpuClocks, Machine};
    let mut machine = Machine { cpu: "A".to_owned(), cpus: 2, load: Some(1.5), ..Machine::default() };
    old.machine = Some(machine.clone());
    machine.gpus = vec![GpuClocks { held_by: 0x40, sm_mhz: 1_200, ..GpuClocks::default() }];
    (machine.cpu, machine.load) = ("B".to_owned(), Some(2.5));
    new.machine = Some(machine);
    let verdict = Comparison::of([("old", &old), ("new", &new)]).verdict(&strict(2.0));
    let mut out = Vec::new();
    verdict.write_json(&mut out).unwrap();
    assert!(out.len() <= 2_048 && out.len() > 1_500, "{}", out.len());
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let listed = value["slower"].as_array().unwrap().len() as u64;
    assert_eq!((value["passes"].as_bool(), listed + value["more"].as_u64().unwrap()), (Some(false), 200));
    assert!(listed > 0);
    let notes = ["more threads than processors in 1 of 1 runs", "a GPU was throttled in 1 of 1 runs", "B, not A"];
    assert_eq!((verdict.sides[0].notes.len(), &verdict.sides[1].notes[..]), (0, &notes.map(str::to_owned)[..]));
}

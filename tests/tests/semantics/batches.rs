//! Spans that serve several calls at once.

use super::*;

/// What the program has logged of the requests of a name: the number of batches, and bounds of times.
struct Truth {
    name: String,
    batches: u64,
    in_batch: [f64; 2],
    share: [f64; 2],
}

fn truth(stdout: &str) -> Vec<Truth> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("truth|"));
    let parse = |line: &str| {
        let parts: Vec<&str> = line.split('|').collect();
        let number = |part: &str| part.parse::<f64>().expect("a number");
        let [name, batches, low, high, least, most] = parts[..] else { panic!("{line}") };
        Truth {
            name: name.to_owned(),
            batches: number(batches) as u64,
            in_batch: [number(low), number(high)],
            share: [number(least), number(most)],
        }
    };
    lines.map(parse).collect()
}

/// The program reads its clock before and after each step, so its bounds hold on any load. Two clocks and the rounding
/// of each row may add a little.
fn assert_within([low, high]: [f64; 2], ns: Option<u64>, what: &str) {
    let ns = ns.unwrap_or_else(|| panic!("{what} is unknown")) as f64;
    let slack = 1_000.0 + high / 1_000.0;
    assert!((low - slack..=high + slack).contains(&ns), "{what}: {ns} is not in {low}..={high}");
}

#[test]
fn batches_of_a_generated_program_are_what_its_log_says() {
    for tier in BOTH {
        let of_seed = |seed: u64| outcome(command("batches", tier).env("SEED", seed.to_string())).succeeded();
        for ran in [recorded("batches", tier), untold("batches", tier), of_seed(1), of_seed(2)] {
            let summary = ran.summary();
            let truth = truth(&ran.stdout);
            assert!(truth.iter().filter(|truth| truth.batches > 0).count() > 10, "{tier}: {}", ran.stdout);
            for Truth { name, batches, in_batch, share } in &truth {
                let row = summary.calls.iter().find(|row| row.name == *name);
                let row = row.unwrap_or_else(|| panic!("{tier}: no calls of {name}"));
                assert_eq!(row.batches.unwrap_or(0), *batches, "{tier}: {name}");
                if *batches > 0 {
                    assert_within(*in_batch, row.in_batch_ns, &format!("{tier}: {name} in batch"));
                    assert_within(*share, row.share_ns, &format!("{tier}: share of {name}"));
                    assert!(row.in_batch_ns <= Some(row.latency.total_ns), "{tier}: {row:?}");
                }
            }
            assert_eq!(summary.notes, [], "{tier}");
            assert_whole(&summary);
        }
    }
}

#[test]
fn shares_of_a_row_add_up_to_the_running_time_of_its_batches() {
    for tier in BOTH {
        for ran in [recorded("batches-of-one-row", tier), untold("batches-of-one-row", tier)] {
            let summary = ran.summary();
            let [request] = &summary.calls[..] else { panic!("{tier}: {:?}", summary.calls) };
            let batches = row(&summary, "batch");
            let share = request.share_ns.unwrap_or(0);
            assert_eq!((request.batches, batches.instances), (Some(70), 7), "{tier}");
            assert!(share.abs_diff(batches.total_ns) <= 1, "{tier}: {share}, {batches:?}");
            // Each batch is in the life of each of its requests.
            let in_batch = request.in_batch_ns.unwrap_or(0);
            assert!(in_batch.abs_diff(10 * batches.total_ns) <= 10, "{tier}: {in_batch}, {batches:?}");
            assert_eq!(tree(&summary), ["request 70/210", "batch 7/7"], "{tier}");
        }
    }
}

#[test]
fn a_trace_has_an_arrow_from_each_request_to_its_batch() {
    for tier in BOTH {
        let trace = TemporaryFile::new("batches.json");
        let setting = format!("out=none,trace={}", trace.0.display());
        outcome(command("batches-of-one-row", tier).env("TRACING_GPU", setting)).succeeded();
        let text = std::fs::read_to_string(&trace.0).expect("a trace");
        let events: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
        let of = |phase: &str| {
            let of_phase = events.iter().filter(|event| event["ph"] == phase && event["cat"] == "batch");
            of_phase.map(|event| event["ts"].to_string()).collect::<Vec<_>>()
        };
        assert_eq!((of("s").len(), of("f").len()), (70, 70), "{tier}");
        let batches = events.iter().filter(|event| event["name"] == "batch" && event["ph"] == "X");
        let starts = batches.flat_map(|event| std::iter::repeat_n(event["ts"].to_string(), 10));
        assert_eq!(of("f"), starts.collect::<Vec<_>>(), "{tier}");
    }
}

#[test]
fn spans_that_are_no_calls_take_their_part_but_have_no_row() {
    for tier in BOTH {
        let summary = untold("batches-of-plain-spans", tier).summary();
        let [future] = &summary.calls[..] else { panic!("{tier}: {:?}", summary.calls) };
        assert_eq!((&*future.name, future.batches), ("future", Some(1)), "{tier}");
        let (share, in_batch) = (future.share_ns.unwrap_or(0), future.in_batch_ns.unwrap_or(0));
        assert!(share >= 500_000 && in_batch.abs_diff(2 * share) <= 2, "{tier}: {future:?}");
        assert_eq!(tree(&summary), ["request 10/10", "  future 10/30", "  batch 10/10"], "{tier}");
        assert_eq!(summary.notes, [Note::SharesWithoutRow { spans: 10 }], "{tier}");
        assert_whole(&summary);
    }
}

#[test]
fn what_follows_from_a_span_that_is_not_measured_is_no_batch() {
    for tier in BOTH {
        let summary = untold("follows-without-batches", tier).summary();
        assert_eq!(summary.calls, [], "{tier}");
        assert!(matches!(summary.notes[..], [Note::Rejected { .. }]), "{tier}: {:?}", summary.notes);
    }
}

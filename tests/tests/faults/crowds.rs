//! Many threads, processes and profilers that end without running destructors, and signals at any moment.

use std::os::unix::process::ExitStatusExt as _;

use crate::scenario::{BOTH, SUBSCRIBER, assert_whole, command, instances, notes, outcome, printed, rows, untold};
use tests::with;
use tracing_gpu::summary::Losses;

/// Children are forked while 64 threads make spans: none waits for a lock, and their spans are not measured.
#[test]
fn a_fork_among_threads_inside_spans_costs_neither_side_anything() {
    for tier in BOTH {
        let ran = untold("fork-crowd", tier);
        let made: u64 = ran
            .stderr
            .trim()
            .strip_prefix("0 stuck, ")
            .and_then(|said| said.strip_suffix(" made")?.parse().ok())
            .unwrap_or_else(|| panic!("{tier}: {}", ran.stderr));
        let summary = ran.summary();
        let instances = instances(&summary);
        let steps: u64 =
            instances.iter().filter(|(name, _)| name.starts_with(char::is_numeric)).map(|(_, count)| count).sum();
        assert_eq!(steps, 2 * made, "{tier}: each as a range and as a start/end range");
        assert_eq!(
            (instances["inside"], instances["around"], instances.contains_key("child 0")),
            (64, 1, false),
            "{tier}"
        );
        assert_eq!(summary.losses, Losses::default(), "{tier}");
        assert_whole(&summary);
    }
}

#[test]
fn an_exit_among_threads_inside_spans_prints_once_and_names_them() {
    for tier in BOTH {
        let ran = outcome(&mut command("exit-crowd", tier));
        assert_eq!(
            (ran.status.code(), ran.stderr.matches("Range Summary (").count()),
            (Some(7), 1),
            "{tier}: {}",
            ran.stderr
        );
        assert!(notes(&ran.stderr).contains("inside (spans x64)"), "{tier}: {}", notes(&ran.stderr));
        assert!(ran.stderr.contains(" done"), "{tier}: {}", ran.stderr);
    }
}

/// A signal every 50 us, with no system call restarted: to threads, to the writer of timelines, and while files are
/// written.
#[test]
fn a_storm_of_signals_loses_nothing() {
    for tier in BOTH {
        let folder = tests::launcher::Folder::new();
        let at = |name: &str| folder.0.join(name);
        let setting = format!(
            "report=ranges,out={},json={},trace={},sqlite={}",
            at("report").display(),
            at("a.json").display(),
            at("t.json").display(),
            at("a.sqlite").display()
        );
        let ran = outcome(command("signal-storm", tier).env("TRACING_GPU", setting));
        assert!(ran.status.success() && ran.stderr.is_empty(), "{tier}: {} {}", ran.status, ran.stderr);
        let wanted = rows([("step", 16_000), ("inner", 16_000), ("step (start/end)", 16_000)]);
        let summary = ran.summary();
        assert_eq!((instances(&summary), &summary.losses), (wanted, &Losses::default()), "{tier}");
        assert_whole(&summary);
        let events = crate::writes::events(&std::fs::read(at("t.json")).expect("a trace"));
        assert_eq!(events.iter().filter(|event| event["name"] == "inner").count(), 16_000, "{tier}");
        assert_eq!(crate::writes::ranges(&at("a.sqlite")), 48_000, "{tier}");
        assert_eq!(printed(&std::fs::read_to_string(at("report")).expect("a report"))["inner"], 16_000, "{tier}");
    }
}

/// The system ends these threads, and none of their destructors runs. Their rows count, their open ranges are named,
/// and their memory stays.
#[test]
fn threads_that_are_cut_off_are_counted() {
    for tier in BOTH {
        let ran = untold("threads-cut-off", tier);
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("whole", 1_000)]), "{tier}");
        let open: u64 = summary.losses.open.iter().map(|range| range.count).sum();
        assert_eq!(open, 1_000, "{tier}: {:?}", summary.losses);
        assert_eq!(with(summary.losses, |it| it.open.clear()), Losses::default(), "{tier}");
        let each: u64 = ran.stderr.trim().parse().expect("bytes");
        assert!(each < 128 << 10, "{tier}: {each} bytes a thread");
    }
}

#[test]
fn profilers_one_after_another_are_each_whole() {
    for tier in BOTH {
        let said = untold("profilers", tier).stdout;
        let each = said.strip_prefix("0 wrong, ").and_then(|said| said.split_once(' ')?.0.parse::<u64>().ok());
        assert!(each.is_some_and(|bytes| bytes < 128 << 10), "{tier}: {said}");
    }
}

#[test]
fn a_subscriber_that_replaces_another_inside_a_span_changes_none_of_its_figures() {
    for tier in BOTH {
        let [second, first] = <[_; 2]>::try_from(untold("replaced", tier).summaries()).expect("two summaries");
        // `outer` is entered twice a round, once under the other subscriber.
        assert_eq!(instances(&first), rows([("after", 100), ("outer", 200)]), "{tier}");
        assert_eq!(instances(&second), rows([("handed on", 100), ("inner", 100), ("of the other", 100)]), "{tier}");
        for summary in [first, second] {
            assert_eq!((&summary.losses, summary.notes.as_slice()), (&Losses::default(), &[][..]), "{tier}");
            assert_whole(&summary);
        }
    }
}

#[test]
fn the_first_spans_of_a_thread_take_little_of_its_stack() {
    for tier in BOTH {
        let summary = untold("small-stacks", tier).summary();
        assert_eq!(instances(&summary), rows([("named", 4), ("span", 4), ("span (start/end)", 4)]), "{tier}");
    }
}

/// The program ends as it would without the profiler, and prints nothing more.
#[test]
fn a_stack_that_overflows_in_a_span_ends_the_program_as_it_would() {
    let ran = outcome(&mut command("endless-recursion", SUBSCRIBER));
    assert_eq!((ran.status.signal(), ran.stdout.as_str()), (Some(libc::SIGABRT), ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("has overflowed its stack") && !ran.stderr.contains("tracing-gpu"), "{}", ran.stderr);
}

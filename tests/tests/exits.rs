//! The report is printed once, however the program ends.

mod scenario;

use scenario::{BOTH, Ran, SUBSCRIBER, TemporaryFile, command, notes, outcome, outcome_recorded, printed, rows};
use std::io::{BufRead as _, BufReader, Read as _};
use std::iter::repeat_with;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const REFUSED: &str = "tracing-gpu: a global subscriber is installed already, nothing is measured: add `profiler.layer()` to it \
                       instead of `init()`";

/// Checks that the scenario ends with this code, and has printed `work` and `step` exactly once.
fn assert_reported(scenario: &str, tier: &str, code: i32) -> Ran {
    let ran = outcome(&mut command(scenario, tier));
    assert_eq!(ran.status.code(), Some(code), "{scenario} {tier}\n{}", ran.stderr);
    assert_eq!(printed(&ran.stderr), rows([("step", 1), ("work", 1)]), "{scenario} {tier}");
    assert_eq!(ran.stdout, "", "{scenario} {tier}");
    ran
}

#[test]
fn the_guard_prints_when_it_is_dropped() {
    for tier in BOTH {
        for scenario in ["guard", "finish"] {
            let ran = assert_reported(scenario, tier, 0);
            assert_eq!(notes(&ran.stderr), "");
        }
    }
}

#[test]
fn an_error_from_main_prints_too() {
    for tier in BOTH {
        let ran = assert_reported("returned-error", tier, 1);
        assert!(ran.stderr.ends_with("Error: \"on purpose\"\n"), "{}", ran.stderr);
    }
}

#[test]
fn a_panic_prints_while_it_unwinds() {
    for tier in BOTH {
        let ran = outcome(&mut command("panic", tier));
        assert_eq!(ran.status.code(), Some(101));
        assert!(ran.stderr.contains("on purpose"), "{}", ran.stderr);
        // The unwinding exited the span before it dropped the guard below.
        assert_eq!(printed(&ran.stderr), rows([("step", 1), ("unwound", 1), ("work", 1)]), "{tier}");
        assert_eq!(notes(&ran.stderr), "");

        let ran = outcome(&mut command("panic-in-thread", tier));
        assert_eq!(ran.status.code(), Some(0));
        assert_eq!(printed(&ran.stderr), rows([("step", 1), ("unwound", 1), ("work", 1)]), "{tier}");
        assert_eq!(notes(&ran.stderr), "");
    }
}

#[test]
fn a_profiler_that_is_never_dropped_prints_at_the_exit() {
    for tier in BOTH {
        assert_reported("leaked-process-exit", tier, 7);
        assert_reported("leaked-return", tier, 0);
        assert_reported("static-return", tier, 0);
    }
    for (scenario, code) in [("init-guard", 0), ("init-leaked-process-exit", 7)] {
        let ran = outcome(&mut command(scenario, SUBSCRIBER));
        assert_eq!(ran.status.code(), Some(code), "{scenario}");
        let (tree, ranges) = ran.stderr.split_once(" ** NVTX").expect("tree and ranges by default");
        assert_eq!(printed(ranges), rows([("step", 1), ("work", 1)]), "{scenario}");
        assert!(tree.contains("work") && tree.contains("  step"), "{tree}");
    }
}

#[test]
fn what_is_open_where_the_program_exits_is_cut() {
    for tier in BOTH {
        let ran = outcome_recorded(&mut command("leaked-process-exit-in-span", tier));
        assert_eq!(ran.status.code(), Some(7));
        assert_eq!(printed(&ran.stderr), rows([("open", 1), ("step", 1), ("work", 1)]), "{tier}\n{}", ran.stderr);
        assert_eq!(notes(&ran.stderr), "- Open at the end, and counted up to then (cut): open (main).");
        assert_eq!(ran.told_on_main(), ["push work", "push step", "pop", "pop", "push open", "pop"], "{tier}");

        let ran = outcome_recorded(&mut command("leaked-process-exit-in-thread", tier));
        assert_eq!(ran.status.code(), Some(7));
        assert_eq!(printed(&ran.stderr), rows([("step", 1), ("there", 1), ("work", 1)]), "{tier}\n{}", ran.stderr);
        let said = "- Open at the end, and counted up to then (cut): there (worker). - Still open, and not counted: open (main).";
        assert_eq!(notes(&ran.stderr), said);
        assert_eq!(ran.told_on("worker"), ["push there", "pop"], "{tier}");
    }
}

#[test]
fn an_abort_prints_nothing() {
    for tier in BOTH {
        let ran = outcome(&mut command("abort", tier));
        assert_eq!((ran.status.signal(), ran.stderr.as_str()), (Some(libc::SIGABRT), ""), "{tier}");
    }
}

/// Starts a waiting scenario, and returns once it reports that it waits.
fn ready(scenario: &str, tier: &str) -> Child {
    started(command(scenario, tier))
}

fn started(mut command: Command) -> Child {
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child: Child = spawned.expect("the scenario can be started");
    let mut line = String::new();
    let said = BufReader::new(child.stdout.take().expect("its output is piped")).read_line(&mut line);
    assert!(said.is_ok() && line == "ready\n", "{line:?}");
    child
}

fn send(signal: &str, child: &Child) {
    let kill = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(kill.expect("`kill` is in every shell's path: install procps or util-linux").success());
}

/// The output and the status of a waiting scenario that gets this signal.
fn killed_by(signal: &str, scenario: &str, tier: &str) -> (Option<i32>, String) {
    let mut child = ready(scenario, tier);
    send(signal, &child);
    let mut text = String::new();
    let read = child.stderr.take().expect("its errors are piped").read_to_string(&mut text);
    assert!(read.is_ok(), "{read:?}");
    (child.wait().expect("the scenario ends").signal(), text)
}

#[test]
fn a_signal_prints_when_asked_for_and_takes_its_course() {
    for tier in BOTH {
        for (name, number) in [("-INT", libc::SIGINT), ("-TERM", libc::SIGTERM)] {
            let (status, text) = killed_by(name, "wait-for-signal", tier);
            assert_eq!(status, Some(number), "{tier} {name}");
            assert_eq!(printed(&text), rows([("step", 1), ("work", 1)]), "{tier} {name}");
            assert_eq!(notes(&text), "- Still open, and not counted: open (main).");

            let (status, text) = killed_by(name, "wait-for-signal-leaked", tier);
            assert_eq!((status, text.as_str()), (Some(number), ""), "{tier} {name}: not asked for");
        }
        let (status, text) = killed_by("-KILL", "wait-for-signal", tier);
        assert_eq!((status, text.as_str()), (Some(libc::SIGKILL), ""), "{tier}");
    }
}

#[test]
fn what_is_installed_in_one_line_prints_on_a_signal() {
    for (name, number) in [("-INT", libc::SIGINT), ("-TERM", libc::SIGTERM)] {
        let (status, text) = killed_by(name, "init-signalled", SUBSCRIBER);
        let (_, ranges) = text.split_once(" ** NVTX").unwrap_or_else(|| panic!("{text}"));
        assert_eq!((status, printed(ranges)), (Some(number), rows([("step", 1), ("work", 1)])), "{name}");
    }
}

/// The program's handler may be installed before ours, or later; then it calls ours.
#[test]
fn a_signal_that_the_program_handles_is_left_to_it() {
    for scenario in ["init-handles-signal", "handles-signal-init"] {
        let mut child = ready(scenario, SUBSCRIBER);
        send("-INT", &child);
        let mut text = String::new();
        child.stderr.take().expect("its errors are piped").read_to_string(&mut text).expect("a report");
        let status = child.wait().expect("the scenario ends");
        assert_eq!((status.code(), text.matches("Range Summary (").count()), (Some(0), 1), "{scenario}\n{text}");
        let (_, ranges) = text.split_once(" ** NVTX").expect("tree and ranges by default");
        assert_eq!(printed(ranges), rows([("graceful", 1), ("step", 1), ("work", 1)]), "{scenario}");
    }
}

#[test]
fn an_install_that_is_refused_returns_why() {
    let ran = outcome(&mut command("install-twice", SUBSCRIBER));
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
    let said = [
        "a sample budget of 1 bytes is too small: give it at least 65536",
        "`init()` was called before, and that profiler goes on measuring: this call changes nothing",
        "`init()` was called before, and its guard is dropped: nothing is measured any more, keep the first guard until \
         the program ends",
    ];
    assert_eq!(ran.stdout, said.map(|line| format!("{line}\n")).concat());
    assert_eq!(printed(&ran.stderr), rows([("step", 1), ("work", 1)]));
}

/// The program holds the lock that the report waits for. The signal is sent repeatedly, as a user would.
#[test]
fn a_signal_that_comes_again_ends_what_cannot_print() {
    for tier in BOTH {
        let mut child = ready("wait-for-signal-locked", tier);
        let ended = (0..200).find_map(|_| {
            send("-INT", &child);
            std::thread::sleep(Duration::from_millis(100));
            child.try_wait().expect("it can be waited for")
        });
        let _ended_already = child.kill();
        assert_eq!(ended.and_then(|status| status.signal()), Some(libc::SIGINT), "{tier}");
    }
}

/// A shell script starts programs like this that must survive Ctrl-C. Other signals still print and end the program.
#[cfg(target_os = "linux")]
#[test]
fn a_signal_that_is_ignored_from_the_start_stays_ignored() {
    let (int, term) = (("-INT", libc::SIGINT), ("-TERM", libc::SIGTERM));
    for tier in BOTH {
        for (ignored, other) in [(vec![int], Some(term)), (vec![term], Some(int)), (vec![int, term], None)] {
            let what = format!("{tier} {ignored:?}");
            let names: Vec<&str> = ignored.iter().map(|(name, _)| name.trim_start_matches('-')).collect();
            let mut child = started(through_shell(&format!("trap '' {}", names.join(" ")), "signal-meets-end", tier));
            ignored.iter().for_each(|(name, _)| send(name, &child));
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it is there");
            let mask =
                status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
            let is_ignored = |number: i32| mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1);
            assert!(ignored.iter().all(|&(_, number)| is_ignored(number)), "{what}: {mask:x?}");

            let end_of_main = child.stdin.take(); // arrives now, if no signal is left
            match other {
                Some((name, _)) => send(name, &child),
                None => drop(end_of_main),
            }
            let mut text = String::new();
            child.stderr.take().expect("its errors are piped").read_to_string(&mut text).expect("a report");
            let status = child.wait().expect("the scenario ends");
            let expected = (other.map(|(_, number)| number), other.is_none().then_some(0));
            assert_eq!((status.signal(), status.code()), expected, "{what}");
            assert_eq!((text.matches(" span ").count(), text.matches("Range Summary (").count()), (4_000, 1), "{what}");
        }
    }
}

/// A scenario that a shell executes after this script.
fn through_shell(script: &str, scenario: &str, tier: &str) -> Command {
    let inner = command(scenario, tier);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{script}; exec \"$@\""), "sh"]).arg(inner.get_program()).args(inner.get_args());
    for (variable, _) in inner.get_envs() {
        shell.env_remove(variable); // `command` removes them for the scenario
    }
    shell
}

/// A signal and the end of `main` meet. The first of the two prints the whole report, and the other waits for it.
#[test]
fn a_signal_that_meets_the_end_cuts_no_report() {
    for (tier, signal_first) in BOTH.into_iter().flat_map(|tier| [(tier, false), (tier, true)]) {
        let mut child = ready("signal-meets-end", tier);
        let mut end_of_main = child.stdin.take();
        let mut stderr = child.stderr.take().expect("its errors are piped");
        let mut begin = |signal: bool| if signal { send("-INT", &child) } else { drop(end_of_main.take()) };
        begin(signal_first);
        // The report is longer than a pipe holds: after its first byte, its writer is blocked in the middle.
        let mut text = vec![0];
        stderr.read_exact(&mut text).expect("a report");
        begin(!signal_first);
        std::thread::sleep(Duration::from_millis(200)); // a process that does not wait would end within this time
        stderr.read_to_end(&mut text).expect("the rest of the report");
        let status = child.wait().expect("the scenario ends");
        let text = String::from_utf8_lossy(&text);
        let (rows, tables) = (text.matches(" span ").count(), text.matches("Range Summary (").count());
        assert_eq!((rows, tables), (4_000, 1), "{tier}, the signal first: {signal_first}: {status}");
    }
}

#[test]
fn after_a_fork_only_the_parent_prints() {
    for tier in BOTH {
        let ran = outcome(&mut command("fork", tier));
        assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
        assert_eq!(ran.stdout, "child\nparent\n", "{tier}");
        assert_eq!(printed(&ran.stderr), rows([("step", 1), ("work", 1)]), "{tier}");
    }
}

/// The child has the signal handler, but not the waiting thread, unless it measures for itself.
#[test]
fn a_signal_ends_a_forked_child_too() {
    for tier in BOTH {
        let ran = outcome(&mut command("fork-signalled", tier));
        assert_eq!((ran.status.code(), ran.stdout.as_str()), (Some(0), "ended by 15\nended by 15\n"), "{}", ran.stderr);
        // First the report of the second child, which still uses its parent's subscriber, then that of the parent.
        let (child, parent) = ran
            .stderr
            .split_once("No range was recorded: the profiler was never attached.")
            .expect("a report of the child");
        assert!(!child.contains("work"), "{child}");
        assert_eq!(printed(parent), rows([("step", 1), ("work", 1)]), "{tier}");
    }
}

/// Other threads may hold locks of ours at that moment. They do not exist in the child, so nobody releases the locks.
/// The child's spans are not measured.
#[test]
fn a_forked_child_waits_for_no_thread_that_is_not_there() {
    for tier in BOTH {
        let ran = outcome(&mut command("fork-anywhere", tier));
        assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
        assert_eq!(ran.stdout, "0 of the children are stuck: []\n", "{tier}");
        let counted = printed(&ran.stderr);
        assert_eq!((counted["there"], counted["work"], counted["around"]), (1, 6, 1), "{tier}");
        assert!(!ran.stderr.contains("child") && !ran.stderr.contains("panicked"), "{tier}: {}", ran.stderr);
    }
}

#[test]
fn a_second_start_is_one_line_and_an_inert_guard() {
    let ran = outcome(&mut command("init-twice", SUBSCRIBER));
    assert_eq!((ran.status.code(), ran.stdout.as_str()), (Some(0), "true false\n"));
    let (said, report) = ran.stderr.split_once('\n').expect("a line");
    assert_eq!(
        said,
        "tracing-gpu: `init()` was called before, and that profiler goes on measuring: this call changes nothing"
    );
    let (_, ranges) = report.split_once(" ** NVTX").expect("tree and ranges by default");
    // The second guard is dropped between two pieces of work. The first profiler goes on measuring.
    assert_eq!(printed(ranges), rows([("step", 2), ("work", 2)]));
    assert!(!report.contains("Notes:"), "{report}");

    // The second profiler does not reopen the trace of the first.
    let trace = TemporaryFile::new("trace.json");
    let setting = format!("report=ranges,trace={}", trace.0.display());
    let ran = outcome(command("init-again", SUBSCRIBER).env("TRACING_GPU", setting));
    let (report, said) = ran.stderr.trim_end().rsplit_once('\n').expect("a line");
    assert_eq!((ran.status.code(), printed(report)), (Some(0), rows([("step", 1), ("work", 1)])));
    let ended = "tracing-gpu: `init()` was called before, and its guard is dropped: nothing is measured any more";
    assert!(said.starts_with(ended), "{said}");
    assert!(trace.text().contains("work"), "{}", trace.text());

    let ran = outcome(&mut command("init-beside-another", SUBSCRIBER));
    assert_eq!((ran.status.code(), ran.stdout.as_str()), (Some(0), "false\n"));
    assert_eq!(ran.stderr, format!("{REFUSED}\n"));

    // A `main` that returns the error prints the same.
    let ran = outcome(&mut command("install-beside-another", SUBSCRIBER));
    assert_eq!((ran.status.code(), ran.stderr), (Some(1), format!("{}\n", REFUSED.replace("tracing-gpu", "Error"))));
}

#[test]
fn a_second_global_subscriber_is_refused_and_the_first_goes_on() {
    for tier in BOTH {
        let ran = outcome(&mut command("build-beside-another", tier));
        assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
        let second = ran.stderr.rfind("Range Summary (").expect("two tables");
        let (empty, full) = ran.stderr.split_at(second);
        assert!(empty.contains("No range was recorded: the program's global subscriber is another one"), "{empty}");
        assert_eq!(printed(full), rows([("step", 1), ("work", 1)]), "{tier}");
    }
}

#[test]
fn an_empty_report_states_its_cause() {
    let own = "spans"; // the target of the scenarios: their crate
    let filtered = format!(
        "Not measured, because of the filter info: 2 spans of h2, 2 spans of {own}, `request` of tower_http. \
         TRACING_GPU_FILTER=info,{own}=debug,tower_http=debug measures 2 of these 5. Spans of TRACE can be so many that \
         they slow down what they measure."
    );
    let other_filter = "the subscriber lets only ERROR through, by a filter of its own (`EnvFilter` and RUST_LOG). Put \
                        that filter on the layer that it is for, with `with_filter`.";
    let hidden = "the subscriber hides all spans from the profiler, by a filter of its own (`EnvFilter` and RUST_LOG). \
                  Put that filter on the layer that it is for, with `with_filter`.";
    let own_filter = "the filter on the profiler's layer lets only ERROR through. Remove it, or, for an `EnvFilter`, set \
                      RUST_LOG.";
    let none_seen = "no span was entered, or a filter of the subscriber hid all of them (RUST_LOG, `EnvFilter`, \
                     `with_filter`).";
    let unknown = format!("{none_seen} Functions have a span with `#[tracing::instrument]`.");
    let cases = [
        (
            "empty-never-attached",
            "the profiler was never attached. Add `profiler.layer()` to the program's subscriber, or start with \
             `tracing_gpu::init()`.",
        ),
        (
            "empty-not-installed",
            "the profiler's layer or subscriber was never installed. Call `.init()` on the subscriber that it is part \
             of, or pass it to `set_global_default`.",
        ),
        (
            "empty-other-subscriber",
            "the program's global subscriber is another one, which was installed first. Add `profiler.layer()` to that \
             one.",
        ),
        ("empty-all-filtered", &filtered.replacen("Not measured", "all spans were rejected", 1)),
        ("empty-other-filter", other_filter),
        ("empty-other-filter-off", &other_filter.replace("only ERROR", "nothing")),
        ("empty-hidden", hidden),
        ("empty-hidden-first", &unknown),
        ("empty-hidden-here", &unknown),
        ("empty-hidden-each", "the filter on the profiler's layer, or one of the whole subscriber, hides all spans."),
        ("empty-own-filter", own_filter),
        ("empty-own-filter-off", &own_filter.replace("only ERROR", "nothing")),
        (
            "empty-filter-of-nothing",
            "all spans were rejected, because of a filter of nothing: `work` of spans. TRACING_GPU_FILTER=spans=info measures \
             them.",
        ),
        ("empty-reset", "the profiler was reset, and no span was entered and exited since then."),
        ("empty-not-entered", "spans were created, but none was entered."),
        (
            "empty-dropped-at-once",
            &format!("{none_seen} If the profiler was dropped at once, keep it until the end of `main`."),
        ),
        ("empty-idle", &unknown),
        (
            "empty-guard-at-once",
            "no span was entered before the guard was dropped. Functions have a span with `#[tracing::instrument]`. \
             `let _ = ...` drops a guard at once, `let _profile = ...` at the end of its block.",
        ),
        ("empty-guard-idle", "no span was entered. Functions have one with `#[tracing::instrument]`."),
    ];
    for (scenario, cause) in cases {
        for tier in BOTH {
            // If a busy machine took longer for an immediate action, the next attempt counts.
            let was_quick = |ran: &Ran| ran.stdout.trim().parse().is_ok_and(|took: u64| took < 20);
            let ran = repeat_with(|| outcome(&mut command(scenario, tier)))
                .find(|ran| !scenario.ends_with("-at-once") || was_quick(ran))
                .expect("one of them");
            let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(
                said,
                format!("** NVTX Push/Pop Range Summary (nvtx_pushpop_sum): No range was recorded: {cause}"),
                "{scenario} {tier}"
            );
        }
    }
    for tier in BOTH {
        let ran = outcome(&mut command("some-filtered", tier));
        assert_eq!(printed(&ran.stderr), rows([("work", 1)]), "{tier}");
        assert_eq!(notes(&ran.stderr), format!("- {filtered}"), "{tier}");
    }
}

#[test]
fn the_filter_that_is_advised_measures_all_crates() {
    for tier in BOTH {
        let said = notes(&outcome(&mut command("many-filtered", tier)).stderr);
        let crates = "`of a` of a, `of b` of b, `of c` of c, `of d` of d, those of 1 more crate";
        let setting = "TRACING_GPU_FILTER=debug";
        let expected = format!("- Not measured, because of the filter info: {crates}. {setting} measures them.");
        assert_eq!(said, expected, "{tier}");
        let (variable, filter) = setting.split_once('=').unwrap();
        let ran = outcome(command("many-filtered", tier).env(variable, filter));
        assert_eq!(printed(&ran.stderr).len(), 6, "{}", ran.stderr);
        assert!(!ran.stderr.contains("Not measured"), "{}", ran.stderr);
    }
}

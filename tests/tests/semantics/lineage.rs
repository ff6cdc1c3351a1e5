//! The parents of spans, and which spans are measured at all.

use tracing_gpu::summary::{TreeNode, WaitStats};
use tracing_gpu::{RenderOptions, Report};

use super::*;

#[test]
fn a_span_is_under_its_parent_however_it_got_it() {
    for tier in BOTH {
        let ran = recorded("parents", tier);
        let expected = [
            "a 1/2",
            "  contextual 1/1",
            "  root 1/1",
            "    under root 1/1",
            "  b 1/1",
            "    explicit 2/2",
            "    under b 1/1",
            "  late 1/1",
            "c 1/1",
            "  moved 1/1",
            "    under moved 1/1",
            "follows 1/0",
        ];
        assert_eq!(tree(&ran.summary()), expected, "{tier}");
        assert_whole(&ran.summary());
    }
}

#[test]
fn a_task_on_a_worker_stays_under_its_parent() {
    for tier in BOTH {
        let ran = recorded("parents-across-threads", tier);
        let summary = ran.summary();
        let mut shown = tree(&summary);
        assert_eq!(shown.pop().as_deref(), Some("alone 1/1"));
        let expected = ["outer 1/1", "  task 1/1", "    step 1/1", "    below 1/1", "      step 1/1", "  explicit 1/1"];
        assert_eq!(shown, expected, "{tier}");
        assert_eq!(ran.told_on_main(), ["push outer", "pop"]);
        let first = ["push task", "push step", "pop", "pop", "push explicit", "pop", "push alone", "pop"];
        assert_eq!(ran.told_on("first"), first);
        assert_eq!(ran.told_on("second"), ["push below", "push step", "pop", "pop"]);
        // Time on other threads is not nested time.
        assert_eq!(summary.tree[0].self_ns, summary.tree[0].total_ns);
        assert_whole(&summary);

        for ran in [recorded("tasks-on-workers", tier), untold("tasks-on-workers", tier)] {
            let summary = ran.summary();
            let calls: Vec<(String, u64)> = tree(&summary)
                .iter()
                .map(|line| line.rsplit_once(' ').unwrap())
                .map(|(name, counts)| (name.to_owned(), counts.split_once('/').unwrap().0.parse().unwrap()))
                .collect();
            let tasks = [("request", 1), ("  task", 100), ("    step", 100), ("      leaf", 100)];
            assert_eq!(calls, tasks.map(|(name, calls)| (name.to_owned(), calls)), "{tier}");
            // Each task is polled at least three times, and each step twice; both once more for their drop.
            assert_eq!(row(&summary, "leaf").instances, 100);
            assert!(row(&summary, "task").instances >= 400 && row(&summary, "step").instances >= 300);
            assert_eq!(summary.losses, Losses::default());
            assert_whole(&summary);
        }
    }
}

#[test]
fn a_kept_span_is_under_the_range_that_uses_it_and_each_use_is_a_call() {
    for tier in BOTH {
        for ran in [recorded("model", tier), untold("model", tier)] {
            let pass = |name: &str, passes: u64| {
                let (once, twice) = (format!("{passes}/{passes}"), format!("{passes}/{}", 2 * passes));
                let below = ["  model", "    encoder", "      linear", "        multiply", "    decoder"];
                let mut lines = vec![format!("{name} {once}")];
                lines.extend(below.map(|line| format!("{line} {once}")));
                lines.push(format!("      linear {twice}"));
                lines
            };
            let expected = [vec!["load 1/1".to_owned()], pass("warm", 1), pass("run", 3)].concat();
            assert_eq!(tree(&ran.summary()), expected, "{tier}");
            assert!(ran.summary().calls.is_empty(), "{tier}: {:?}", ran.summary().calls);
            assert_whole(&ran.summary());
        }
        let by_creation = ["  model 1/4", "  encoder 1/4", "    multiply 4/4", "  decoder 1/4", "  linear 1/12"];
        let shown = tree(&recorded("model-by-creation", tier).summary());
        assert!(
            by_creation.iter().all(|line| shown.iter().any(|shown| shown.trim_end() == *line)),
            "{tier}: {shown:?}"
        );
    }
}

#[test]
fn a_span_without_a_parent_is_under_the_range_it_runs_in() {
    for tier in BOTH {
        for ran in [recorded("systems", tier), untold("systems", tier)] {
            let expected = ["frame 2/2", "  physics 2/2", "  sound 2/2", "  input 2/2"];
            assert_eq!(tree(&ran.summary()), expected, "{tier}");
            assert!(ran.summary().calls.is_empty(), "{tier}: {:?}", ran.summary().calls);
            assert_whole(&ran.summary());
        }
    }
}

#[test]
fn a_span_that_is_kept_with_its_child_is_no_future() {
    for tier in BOTH {
        let summary = recorded("schedules", tier).summary();
        let calls: Vec<&str> = summary.calls.iter().map(|row| &*row.name).collect();
        assert_eq!(calls, ["request"], "{tier}");
        assert_eq!(tree(&summary)[..3], ["frame 6/6", "  schedule 6/6", "    executor 1/6"], "{tier}");
        assert_whole(&summary);
    }
}

/// By default, calls are printed if there are any; percentiles only if asked for.
#[test]
fn calls_are_printed_where_a_future_was_awaited() {
    for tier in BOTH {
        let printed = |scenario, setting| outcome(command(scenario, tier).env("TRACING_GPU", setting));
        let ran = printed("futures", "out=stderr,percentiles=0+95");
        let (tree, calls) = ran.stderr.split_once(" ** Calls and Waiting (calls):").expect("a table of calls");
        assert!(tree.contains("\n ~~ most time awaited: request"), "{tier}: {tree}");
        let header = |text: &str| text.lines().find(|line| line.contains("Calls  ")).unwrap_or_default().to_owned();
        assert!(header(tree).contains(" p95  Phase"), "{tier}: {tree}");
        assert!(["p0 ", "p95", "p99"].iter().all(|asked| header(calls).contains(asked)), "{tier}: {calls}");
        let summary = ran.summary();
        let quantile = summary.calls[0].latency.quantile(0.95).expect("it was asked for");
        let times = &summary.calls[0].latency;
        assert!(quantile.exact && (times.min_ns as f64..=times.max_ns as f64).contains(&quantile.ns), "{quantile:?}");
        let without = printed("futures", "out=stderr,report=tree");
        assert!(!without.stderr.contains("(calls)") && !without.stderr.contains("p95"), "{}", without.stderr);
        let plain = printed("steady", "out=stderr").stderr;
        assert!(plain.contains("(tree)") && !plain.contains("(calls)"), "{tier}: {plain}");
    }
}

/// Colour appears in a pipe if the user forces it, and never in a file.
#[test]
fn colour_is_where_the_user_asks_for_it() {
    let printed = |settings: &str, variables: &[(&str, &str)]| {
        let mut command = command("steady", BOTH[0]);
        outcome(command.env("TRACING_GPU", settings).envs(variables.iter().copied())).stderr
    };
    let force = ("CLICOLOR_FORCE", "1");
    assert!(!printed("out=stderr", &[]).contains('\x1b'));
    let forced = printed("out=stderr", &[force]);
    assert!(forced.lines().any(|line| line.starts_with("\x1b[1m>> ") && line.ends_with("\x1b[0m")), "{forced}");
    assert!(!printed("out=stderr", &[force, ("NO_COLOR", "1")]).contains('\x1b'));
    let in_file = printed("out=/dev/stderr", &[force]);
    assert!(in_file.contains("\n>> ") && !in_file.contains('\x1b'), "{in_file}");
}

#[test]
fn calls_of_futures_are_counted_and_what_they_await_is_measured() {
    for tier in BOTH {
        for ran in [recorded("futures", tier), untold("futures", tier)] {
            let summary = ran.summary();
            let mut calls: Vec<(&str, u64, u64)> =
                summary.calls.iter().map(|row| (&*row.name, row.latency.instances, known_cancelled(row, 1))).collect();
            calls.sort_unstable();
            assert_eq!(calls, [("connect", 5, 1), ("request", 5, 1)], "{tier}");
            let row = |name| summary.calls.iter().find(|row| row.name == name).unwrap();
            let (connect, request) = (row("connect"), row("request"));
            let node = summary.tree.iter().find(|node| node.name == "request").unwrap();
            let node_of_connect = node.children.iter().find(|node| node.name == "connect").unwrap();
            for (row, node) in [(connect, node_of_connect), (request, node)] {
                let rest = row.latency.total_ns - row.awaited_ns - row.outlived_ns;
                assert!(row.busy_ns.abs_diff(rest) <= 2, "{tier}: {row:?}"); // each is rounded
                assert!(row.busy_ns.abs_diff(node.total_ns) <= node.instances, "{tier}: {row:?} {node:?}");
            }
            // Four calls waited for 100 ms, one for 50; then four for 100 ms again, without a child call; and 10 ms are
            // busy.
            assert!(connect.latency.total_ns >= 450_000_000, "{tier}: {connect:?}");
            assert!(connect.awaited_self_ns == connect.awaited_ns, "{tier}: {connect:?}");
            assert!(request.latency.total_ns >= connect.latency.total_ns + 440_000_000, "{tier}: {request:?}");
            assert!(request.busy_ns >= 40_000_000, "{tier}: {request:?}");
            // Other calls took 210 ms before the cancelled one, and 300 ms of sleep followed it.
            assert!(request.latency.min_ns + 500_000_000 < summary.elapsed_ns, "{tier}: {request:?}");
            // Time that counts as both: `request` runs, on the way to its waiting child. It is busy for 38 ms
            // elsewhere.
            let own = request.awaited_ns - connect.awaited_ns;
            let on_the_way = request.busy_ns - connect.busy_ns - 38_000_000;
            let more = request.awaited_self_ns + 5 - own; // each is rounded
            assert!(more <= on_the_way + 10, "{tier}: {request:?} {connect:?}");
            let stuck = summary.notes.iter().find_map(|note| match note {
                Note::StillWaiting { calls: 2, name, longest_ns } if name == "stuck" => Some(*longest_ns),
                _ => None,
            });
            let longest = stuck.unwrap_or_else(|| panic!("{tier}: {:?}", summary.notes));
            assert!((200_000_000..=summary.elapsed_ns).contains(&longest), "{tier}: {longest}");
            assert_eq!(node.awaited_ns, Some(request.awaited_ns), "{tier}");
            assert_eq!((node.calls, node.children.len()), (5, 2), "{tier}: {:?}", tree(&summary));
            assert_whole(&summary);
        }
    }
}

/// Whether the plain span in which it was made is still followed, is closed, or has no call.
#[test]
fn what_a_plain_span_has_made_is_awaited_by_the_call_around_it() {
    for tier in BOTH {
        let summary = recorded("made-in-plain-spans", tier).summary();
        let own = |name: &str| summary.calls.iter().find(|row| row.name == name).map(|row| row.awaited_self_ns);
        let [leaf, walk, outer] = ["leaf", "walk", "outer"].map(|name| own(name).expect("it is a future"));
        assert!(leaf >= 29 * 2_000_000, "{tier}: {:?}", summary.calls);
        assert!((walk + outer) * 2 < leaf, "{tier}: {:?}", summary.calls);
        assert_whole(&summary);
    }
}

/// A followed future tells who woke it and who held its worker. Of others it is inferred from many waits.
#[test]
fn who_ended_a_wait_is_told_or_inferred() {
    for tier in BOTH {
        for ran in [recorded("who-ended-waits", tier), untold("who-ended-waits", tier)] {
            let summary = ran.summary();
            let row = |row: &WaitStats| {
                let who = format!("{} for {}", row.waiter, row.by.as_deref().unwrap_or_default());
                (who, row.resource.clone().unwrap_or_default(), row.waits, row.of_waits)
            };
            let mut rows: Vec<_> = summary.waits.iter().map(row).collect();
            rows.sort();
            // Not each wait is looked at, to save time; and where threads go on late, too few end right after what
            // ended them. No other name is inferred.
            if let Some((who, resource, waits, of_waits)) = rows.pop_if(|(.., of_waits)| of_waits.is_some()) {
                assert_eq!((&*who, &*resource), ("waiter for holds", ""), "{tier}: {:?}", summary.waits);
                assert!((10..=60).contains(&waits) && of_waits >= Some(waits), "{tier}: {:?}", summary.waits);
            }
            let told = |by: &str, resource: &str| (format!("request for {by}"), resource.to_owned(), 1, None);
            assert_eq!(rows, [told("opens", ""), told("to_csv", WaitStats::WORKER)], "{tier}");
            assert!(summary.waits.iter().all(|row| row.time_ns >= 5_000_000 * row.waits), "{tier}: {summary:?}");
            assert_whole(&summary);
        }
    }
}

/// Under rayon's `join`, a thread scope or `block_on`. A span's own work is no wait for a child that is short or runs
/// later.
#[test]
fn waiting_for_children_is_told_from_work() {
    const MS: u64 = 1_000_000;
    for tier in BOTH {
        for ran in [recorded("waits-for-children", tier), untold("waits-for-children", tier)] {
            let summary = ran.summary();
            let node = |name: &str| summary.tree.iter().find(|node| node.name == name).unwrap();
            let [fan_out, drives, busy, hands_over] = ["fan out", "drives", "busy", "hands over"].map(node);
            assert!(fan_out.blocked_ns >= 80 * MS && fan_out.blocked_ns <= fan_out.self_ns, "{tier}: {fan_out:?}");
            // A delayed poll is no wait.
            let timer = summary.calls.iter().find(|row| row.name == "timer").unwrap();
            assert!(timer.latency.total_ns >= 80 * MS, "{tier}: {timer:?}");
            let awaited = timer.awaited_ns.min(drives.self_ns);
            assert!(drives.blocked_ns.abs_diff(awaited) <= 2, "{tier}: {drives:?} {timer:?}");
            assert!((40 * MS..busy.self_ns / 2).contains(&busy.blocked_ns), "{tier}: {busy:?}");
            assert_eq!((hands_over.blocked_ns, &*hands_over.children[0].name), (0, "later"), "{tier}");
            let mut text = Vec::new();
            summary.render(&[Report::Tree], &RenderOptions::default(), &mut text).expect("memory takes it");
            let text = String::from_utf8(text).expect("text");
            assert!(text.contains("\n >> most time of its own: chunk "), "{tier}: {text}");
            assert!(text.contains("of waiting for children") && text.contains("\n ^  most of this Self"), "{text}");
            assert_whole(&summary);
        }
    }
}

#[test]
fn time_outside_of_spans_is_what_they_leave() {
    const OUTSIDE: u64 = 60_000_000;
    for tier in BOTH {
        let summary = recorded("outside-of-spans", tier).summary();
        let outside = summary.outside_ns.expect("nothing is open");
        let [thread] = &summary.threads[..] else { panic!("{tier}: {:?}", summary.threads) };
        assert!(outside >= OUTSIDE && thread.in_polls_ns.is_none(), "{tier}: {summary:?}");
        assert!((outside + thread.in_spans_ns).abs_diff(summary.elapsed_ns) <= 1, "{tier}: {summary:?}");
        // An awaited future is an open span.
        let summary = recorded("awaited-all-the-time", tier).summary();
        let outside = summary.outside_ns.expect("nothing is open");
        assert!(outside + OUTSIDE <= summary.elapsed_ns, "{tier}: {summary:?}");
        // Two calls have not ended.
        assert_eq!(recorded("futures", tier).summary().outside_ns, None, "{tier}");
    }
}

/// The work of a thread is not the wait of a span around `block_on`.
#[test]
fn a_thread_is_busy_in_its_polls() {
    for tier in BOTH {
        let summary = recorded("busy-worker", tier).summary();
        let polling: Vec<u64> = summary.threads.iter().filter_map(|thread| thread.in_polls_ns).collect();
        let serve = summary.tree.iter().find(|node| node.name == "serve").expect("it was entered");
        let requests: u64 = serve.children.iter().map(|node| node.total_ns).sum();
        assert_eq!((summary.threads.len(), polling.len()), (2, 1), "{tier}: {summary:?}");
        assert!(polling[0].abs_diff(requests) <= 4 && requests >= 100_000_000, "{tier}: {summary:?}");
    }
}

/// A thread that only works in the spans of futures polls none.
#[test]
fn a_thread_of_a_blocking_pool_polls_no_futures() {
    for tier in BOTH {
        let summary = recorded("blocking-pool", tier).summary();
        let polling = summary.threads.iter().filter(|thread| thread.in_polls_ns.is_some());
        assert_eq!((polling.count(), summary.threads.len() > 1), (1, true), "{tier}: {summary:?}");
    }
}

#[test]
fn a_future_whose_span_a_worker_drops_last_is_a_future() {
    for tier in BOTH {
        let summary = recorded("held-by-a-worker", tier).summary();
        let calls: Vec<_> =
            summary.calls.iter().map(|row| (&*row.name, row.latency.instances, known_cancelled(row, 0))).collect();
        assert_eq!(calls, [("query", 3, 0)], "{tier}");
        assert_whole(&summary);
    }
}

#[test]
fn a_parent_may_have_been_named_at_run_time() {
    for tier in BOTH {
        let summary = recorded("parent-with-values", tier).summary();
        let below = |name: &str| {
            let lines = ["", "  here 1/1", "  task 1/1", "    there 1/1", "  explicit 1/1"];
            let mut lines = lines.map(str::to_owned).to_vec();
            lines[0] = format!("{name} 1/2");
            lines
        };
        assert_eq!(tree(&summary), [below("x"), below("y")].concat(), "{tier}");
        assert_whole(&summary);
    }
}

#[test]
fn a_parent_that_is_filtered_out_leaves_no_gap() {
    let ran = recorded("parent-filtered-out", LAYER);
    let shown = tree(&ran.summary());
    assert_eq!(shown[..3], ["outer 1/2", "  nested 1/1", "  explicit 1/2"]);
    assert_whole(&ran.summary());

    // For the subscriber such a span does not exist: `tracing` does not use it as a parent, and a span made inside it
    // on another thread has none.
    let summary = recorded("parent-filtered-out", SUBSCRIBER).summary();
    assert_eq!(tree(&summary), ["outer 1/2", "  nested 1/1", "explicit 2/2", "contextual 1/1"]);
    assert_whole(&summary);
}

#[test]
fn a_parent_that_is_filtered_out_leaves_no_gap_on_another_thread() {
    let summary = recorded("parent-filtered-out", LAYER).summary();
    assert_eq!(tree(&summary), ["outer 1/2", "  nested 1/1", "  explicit 1/2", "  contextual 1/1"]);
}

#[test]
fn a_parent_that_is_filtered_out_leaves_no_gap_where_its_own_is_not_entered() {
    for ran in [recorded("filtered-out-later", LAYER), untold("filtered-out-later", LAYER)] {
        let summary = ran.summary();
        assert_eq!(tree(&summary), ["outer 1/1", "  here 2/2", "  there 2/2", "root 2/2"]);
        assert_eq!(summary.losses, Losses::default());
        assert_whole(&summary);
    }
}

#[test]
fn the_exit_of_a_span_that_is_filtered_out_splits_nothing() {
    let ran = recorded("filtered-out-across", LAYER);
    assert_eq!(ran.told_on("worker"), ["push below", "push above", "pop", "pop"]);
    let summary = ran.summary();
    assert_eq!(tree(&summary), ["outer 1/1", "  below 1/1", "    above 1/1"]);
    assert_eq!(summary.losses, Losses::default());
    assert_whole(&summary);
}

#[test]
fn recursion_shares_its_node_past_64_levels() {
    for tier in BOTH {
        let ran = untold("recursion", tier);
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("bottom", 1), ("recursive", 2_000)]), "{tier}");
        let shown = tree(&summary);
        let levels = shown.iter().filter(|line| line.contains("recursive")).count();
        assert!(levels <= 64, "{levels}");
        let calls =
            |line: &String| -> u64 { line.rsplit_once(' ').unwrap().1.split_once('/').unwrap().0.parse().unwrap() };
        let recursive = shown.iter().filter(|line| line.contains("recursive"));
        assert_eq!(recursive.map(calls).sum::<u64>(), 2_000);
        assert_eq!(
            summary.losses,
            {
                let mut it = Losses::default();
                it.recursive_rows = 1;
                it.nodes_over_limit = 1;
                it
            },
            "{tier}"
        );
        assert_nested(&summary.tree, summary.tree[0].total_ns);
        let depths = recorded("recursion", tier);
        assert_eq!((depths.count("push"), depths.count("pop")), (2_001, 2_001));
    }
}

/// Checks spans that were all on one thread, each inside its parent: none is longer.
fn assert_nested(nodes: &[TreeNode], parent_ns: u64) {
    for node in nodes {
        assert!(node.self_ns <= node.total_ns && node.total_ns <= parent_ns + 1, "{} {parent_ns}", node.total_ns);
        assert_nested(&node.children, node.total_ns);
    }
}

#[test]
fn recursion_of_two_counts_no_time_twice() {
    for tier in BOTH {
        for ran in [untold("mutual-recursion", tier), recorded("mutual-recursion", tier)] {
            let summary = ran.summary();
            assert_eq!(instances(&summary), rows([("even", 251), ("odd", 250), ("leaf", 250)]), "{tier}");
            assert_eq!(summary.losses.recursive_rows, 2, "{tier}");
            assert_nested(&summary.tree, summary.tree[0].total_ns);
            // Nsight's numbers are unchanged: every instance counts in full.
            assert!(row(&summary, "even").total_ns > 2 * row(&summary, "even").max_ns, "{tier}");
        }
    }
}

#[test]
fn recursion_across_threads_is_counted_in_full() {
    for tier in BOTH {
        let mut summary = untold("recursion-across-threads", tier).summary();
        assert_eq!(instances(&summary), rows([("level", 100), ("next", 99)]), "{tier}");
        assert_eq!(summary.losses.recursive_rows, 2, "{tier}");
        summary.losses.recursive_rows = 0; // no time is inside itself
        assert_whole(&summary);
    }
}

#[test]
fn a_summary_of_64_levels_can_be_read_back_as_any_other() {
    let said = untold("recursion", LAYER).stdout;
    let read: Result<Summary, _> = serde_json::from_str(&said);
    assert!(read.is_ok(), "{read:?}");
}

#[test]
fn a_second_layer_of_one_profiler_counts_nothing_and_says_so() {
    for (tier, told) in [
        (LAYER, ["start once", "push once", "mark event", "pop", "end"]),
        (SUBSCRIBER, ["start once", "push once", "mark event", "pop", "end"]),
    ] {
        let ran = recorded("two-layers", tier);
        assert_eq!(ran.told_on_main(), told, "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("once", 1), ("once (start/end)", 1)]));
        assert_eq!(summary.notes, [Note::FurtherLayers { layers: 1 }]);
        assert_eq!(summary.losses, Losses::default());
    }
}

#[test]
fn of_two_profilers_both_count_and_the_first_has_nvtx() {
    for tier in BOTH {
        let ran = recorded("two-profilers", tier);
        let told = ["start both", "push both", "push inner", "mark event", "pop", "pop", "end"];
        assert_eq!(ran.told_on_main(), told, "{tier}");
        let [first, second] = <[Summary; 2]>::try_from(ran.summaries()).unwrap();
        let counted = rows([("both", 1), ("both (start/end)", 1), ("inner", 1)]);
        assert_eq!((instances(&first), instances(&second)), (counted.clone(), counted));
        assert_eq!(tree(&second), ["both 1/1", "  inner 1/1"]);
        assert_eq!(first.notes, []);
        assert_eq!(second.notes, [Note::NvtxTaken]);
    }
}

#[test]
fn nvtx_goes_to_the_next_profiler_that_is_built() {
    for tier in BOTH {
        let ran = recorded("nvtx-passes-on", tier);
        assert_eq!(ran.told_on_main(), ["push first", "pop", "push next", "pop"], "{tier}");
        let counted: Vec<_> = ran.summaries().iter().map(instances).collect();
        assert_eq!(counted, [rows([("first", 1)]), rows([("without NVTX", 1)]), rows([("next", 1)])]);
    }
}

#[test]
fn the_filter_decides_for_nobody_else() {
    for scenario in ["beside-fmt", "beside-fmt-first"] {
        let ran = recorded(scenario, LAYER);
        let printed: Vec<&str> =
            ran.stderr.lines().map(|line| line.split_once("lineage: ").map_or(line, |(_, text)| text)).collect();
        assert_eq!(printed, ["debug event", "debug inside", "info event", "debug after"], "{scenario}");
        let spans: Vec<bool> = ["debug span:", "info span:", "info span:below:"]
            .into_iter()
            .map(|spans| ran.stderr.contains(spans))
            .collect();
        assert_eq!(spans, [true; 3], "{scenario}: {}", ran.stderr);
        let told = ["push info span", "push below", "mark info event", "pop", "pop"];
        assert_eq!(ran.told_on_main(), told, "{scenario}");
        assert_eq!(tree(&ran.summary()), ["info span 1/1", "  below 1/1"]);
    }
    for tier in BOTH {
        let ran = recorded("filter", tier);
        let told = ["push of the target", "pop", "push warn", "pop"];
        assert_eq!(ran.told_on_main(), told, "{tier}");
        assert_eq!(tree(&ran.summary()), ["of the target 1/1", "warn 1/1"]);
    }
}

#[test]
fn an_id_that_comes_back_is_of_its_new_span() {
    for (scenario, names) in
        [("ids-again", &["main"][..]), ("ids-again-elsewhere", &["main", "worker"]), ("ids-again-on-dead-threads", &[])]
    {
        for tier in BOTH {
            let ran = recorded(scenario, tier);
            let said: Vec<u64> = ran.stderr.split_whitespace().map(|word| word.parse().unwrap()).collect();
            let &[changed_hands, other, third] = said.as_slice() else { panic!("{}", ran.stderr) };
            if tier == LAYER && !names.is_empty() {
                assert!(changed_hands > 1_000, "{scenario}: the registry gave {changed_hands} ids again");
            }
            let summary = ran.summary();
            assert_eq!(instances(&summary), rows([("other", other), ("third", third)]), "{scenario} {tier}");
            assert_eq!(summary.losses, Losses::default(), "{scenario} {tier}");
            let pushes = |name: &str| {
                let of = |call: &&Call| call.kind == "push" && call.message.as_deref() == Some(name);
                ran.calls.iter().filter(of).count() as u64
            };
            assert_eq!((pushes("other"), pushes("third")), (other, third), "{scenario} {tier}");
            for name in names {
                let expected = (0..30_000).map(|number| if number % 3 == 0 { "push third" } else { "push other" });
                assert!(ran.told_on(name).iter().step_by(2).eq(expected), "{scenario} {tier} on {name}");
            }
            let without_a_tool = untold(scenario, tier).summary();
            assert_eq!(instances(&without_a_tool), instances(&summary), "{scenario} {tier}");
            assert_whole(&summary);
        }
    }
}

#[test]
fn an_id_that_comes_back_is_of_its_new_span_where_it_was_only_entered() {
    let ran = recorded("ids-again-elsewhere-only", LAYER);
    // Numbers 0, 8,191, 16,382 and 24,573 have the id of the first span; every third has this name.
    let told = ["push third", "pop", "push other", "pop", "push other", "pop", "push third", "pop"];
    assert_eq!(ran.told_on("worker"), told);
    for ran in [ran, untold("ids-again-elsewhere-only", LAYER)] {
        assert_eq!(instances(&ran.summary()), rows([("other", 2), ("third", 2)]));
        assert_eq!(tree(&ran.summary()), ["third 10000/2", "other 20000/2"]);
    }
    // The subscriber does not reuse an id so soon.
    assert_eq!(instances(&untold("ids-again-elsewhere-only", SUBSCRIBER).summary()), rows([("third", 1)]));
}

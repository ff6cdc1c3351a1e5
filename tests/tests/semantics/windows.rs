//! `reset`, `finish`, and ranges that are open at that time.

use super::*;
use tests::with;

#[test]
fn what_is_open_at_the_end_is_cut_here_and_named_elsewhere() {
    for tier in BOTH {
        let report = TemporaryFile::new("report");
        let ran = outcome_recorded(command("open-at-the-end", tier).env("SPANS_REPORT", &report.0));
        assert!(ran.status.success(), "{}", ran.stderr);
        assert_eq!(ran.told_on_main(), ["push outer", "push named", "pop", "pop"], "{tier}");
        assert_eq!(ran.told_on("worker"), ["push elsewhere"], "{tier}");
        let text = report.text();
        let counted = |name: &str| text.lines().filter(|line| line.trim_end().ends_with(name)).count();
        assert_eq!((counted(":PushPop  outer"), counted(":PushPop  named")), (0, 0)); // no style is printed
        let table = text.split(" ** Notes:").next().unwrap();
        for (name, rows) in [("outer", 1), ("named", 1), ("elsewhere", 0), ("after", 0)] {
            let found = table.lines().filter(|line| line.split_whitespace().last() == Some(name)).count();
            assert_eq!(found, rows, "{tier} {name}\n{text}");
        }
        let footer = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            footer.contains("Open at the end, and counted up to then (cut): named (main), outer (main)."),
            "{text}"
        );
        assert!(footer.contains("Still open, and not counted: elsewhere (worker)."), "{text}");
    }
}

#[test]
fn a_summary_names_what_is_open_and_changes_nothing() {
    for tier in BOTH {
        let ran = recorded("open-in-a-summary", tier);
        let summaries = ran.summaries();
        let left = open("left open", "leaving");
        assert_eq!(summaries[0].losses.open, [left.clone(), open("outer", "main"), open("inner", "main")], "{tier}");
        assert_eq!(summaries[0].ranges, []);
        assert_eq!(summaries[1].losses.open, [left, open("outer", "main")], "{tier}");
        assert_eq!(instances(&summaries[1]), rows([("inner", 1)]));
        assert_eq!(tree(&summaries[0]), ["outer 1/0", "  inner 1/0", "left open 1/0"]);
    }
}

#[test]
fn lifetimes_that_are_open_are_named_until_they_end() {
    for tier in BOTH {
        let report = TemporaryFile::new("report");
        let run = |recorded: bool| {
            let mut command = command("open-lifetimes", tier);
            command.env("SPANS_REPORT", &report.0);
            if recorded { outcome_recorded(&mut command) } else { outcome(&mut command) }
        };
        let recorded = run(true);
        let told = ["start request", "start request", "push request", "pop", "end"];
        assert_eq!(recorded.told_on_main(), told, "{tier}");
        assert_eq!(recorded.told_on("ended"), ["start third"], "{tier}");
        assert_eq!(recorded.told_on("closing"), ["end"], "{tier}");
        for ran in [recorded, run(false)] {
            assert!(ran.status.success(), "{}", ran.stderr);
            let [all, after_one, after_reset, last] = <[Summary; 4]>::try_from(ran.summaries()).unwrap();
            let (third, one) = (lifetimes("third", "ended", 1), lifetimes("request", "main", 1));
            assert_eq!(all.losses.open, [lifetimes("request", "main", 2), third.clone()], "{tier}");
            assert_eq!(after_one.losses.open, [one.clone(), third.clone()], "{tier}: a clone keeps the third");
            assert_eq!(instances(&after_one), rows([("request", 1), ("request (start/end)", 1)]));
            assert_eq!((after_reset.losses.open, after_reset.ranges), (vec![one.clone(), third], vec![]), "{tier}");
            assert_eq!(last.losses, with(Losses::default(), |it| it.open = vec![one]), "{tier}");
            assert_eq!(instances(&last), rows([("third (start/end)", 1)]));
            let text = report.text();
            assert_eq!(notes(&text), "- Start/end ranges still open, and not counted: request (main).", "{tier}");
        }
    }
}

#[test]
fn after_the_finish_nothing_is_told() {
    for tier in BOTH {
        let ran = recorded("after-finish", tier);
        assert_eq!(ran.told_on_main(), ["start span", "push plain", "pop"], "{tier}");
        assert_eq!(ran.told_on("worker"), Vec::<String>::new());
        assert_eq!(ran.summary().losses.open, [open("plain", "main"), lifetimes("span", "main", 1)]);
    }
}

#[test]
fn a_reset_forgets() {
    for tier in BOTH {
        let [empty, after] = <[Summary; 2]>::try_from(untold("reset", tier).summaries()).unwrap();
        assert_eq!(after.outside_ns, None, "{tier}: a span of before may have been open");
        assert_eq!((empty.ranges, empty.tree, empty.categories), (vec![], vec![], vec![]), "{tier}");
        assert_eq!(instances(&after), rows([("both", 3), ("child", 3)]), "{tier}");
        assert_eq!(tree(&after), ["both 3/3", "  child 3/3"]);
        assert_eq!(after.categories, []);
        assert!(after.ranges.iter().all(|row| row.times.median_exact && row.times.median_ns.is_some()));
        assert!(after.ranges.iter().all(|row| row.times.total_ns <= after.elapsed_ns));
        assert_whole(&after);
    }
}

#[test]
fn what_is_open_at_a_reset_counts_from_then() {
    for tier in BOTH {
        for ran in [recorded("reset-open", tier), untold("reset-open", tier)] {
            let summary = ran.summary();
            let counted = rows([("elsewhere", 1), ("inside", 1), ("outer", 1), ("request (start/end)", 1)]);
            assert_eq!(instances(&summary), counted, "{tier}");
            for row in &summary.ranges {
                assert!(row.times.max_ns <= summary.elapsed_ns, "{tier}: {row:?} in {} ns", summary.elapsed_ns);
            }
            assert_eq!(summary.losses, Losses::default());
            assert_whole(&summary);
        }
    }
}

#[test]
fn what_is_open_at_a_reset_is_cut_by_a_finish_right_after() {
    for tier in BOTH {
        let report = TemporaryFile::new("report");
        let ran = outcome_recorded(command("reset-then-finish", tier).env("SPANS_REPORT", &report.0));
        assert!(ran.status.success(), "{}", ran.stderr);
        assert_eq!(ran.told_on_main(), ["push outer", "pop"], "{tier}");
        let text = report.text();
        let table = text.split(" ** Notes:").next().unwrap();
        let row = table.lines().find(|line| line.split_whitespace().last() == Some("outer"));
        let row = row.unwrap_or_else(|| panic!("{tier}: no row\n{text}"));
        assert_eq!(row.split_whitespace().nth(2), Some("1"), "{text}");
    }
}

#[test]
fn siblings_are_in_the_order_of_the_window() {
    for tier in BOTH {
        let summary = untold("reset-order", tier).summary();
        assert_eq!(tree(&summary), ["c 1/1", "a 1/1", "d 1/1", "b 1/1"], "{tier}");
        let firsts: Vec<u64> = summary.tree.iter().map(|node| node.first_ns).collect();
        assert!(firsts[0] > 0 && firsts.is_sorted(), "{tier}: {firsts:?}");
    }
}

#[test]
fn siblings_are_in_the_order_in_which_they_were_entered() {
    for tier in BOTH {
        let summary = untold("entry-order", tier).summary();
        assert_eq!(tree(&summary), ["c 1/2", "b 1/2", "  a 1/1", "a 1/1", "elsewhere 1/1"], "{tier}");
    }
}

#[test]
fn a_reset_forgets_losses() {
    for tier in BOTH {
        let ran = untold("reset-losses", tier);
        let [before, after] = <[Summary; 2]>::try_from(ran.summaries()).unwrap();
        assert_eq!(before.losses.split_instances, 1, "{tier}");
        assert_eq!(before.losses.stray_exits, 1, "{tier}");
        assert_eq!(before.losses.open, [open("left open", "leaving")], "{tier}");
        assert_eq!((before.losses.names_over_limit, before.losses.categories_over_limit), (4, 7), "{tier}");
        assert!(before.losses.nodes_over_limit > 0, "{tier}");
        let Losses { split_instances, stray_exits, ref open, spans_dropped, .. } = after.losses;
        assert_eq!((split_instances, stray_exits, open.len(), spans_dropped), (0, 0, 0, 0), "{tier}");
    }
}

#[test]
fn a_reset_forgets_names_and_nodes_that_did_not_fit() {
    for tier in BOTH {
        let summaries = untold("reset-losses", tier).summaries();
        assert_eq!(summaries[1].losses, Losses::default(), "{tier}");
    }
}

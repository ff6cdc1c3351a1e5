//! Entries and exits in every order.

use super::*;
use tests::with;

#[test]
fn each_poll_is_an_instance_and_the_drop_is_one_more() {
    for tier in BOTH {
        let ran = recorded("async-re-entry", tier);
        assert_eq!(ran.told_on_main(), ["push task", "pop"].repeat(6), "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("task", 6)]));
        assert_eq!(tree(&summary), ["task 1/6"]);
        assert_eq!(summary.losses, Losses::default());
        assert_whole(&summary);
    }
}

#[test]
fn a_span_entered_twice_on_one_thread_is_two_instances() {
    for tier in BOTH {
        let ran = recorded("recursive-entry", tier);
        assert_eq!(ran.told_on_main(), ["push again", "push again", "push inside", "pop", "pop", "pop"], "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("again", 2), ("inside", 1)]));
        assert_eq!(tree(&summary), ["again 1/2", "  inside 1/1"]);
        assert_eq!(summary.losses, Losses::default());
        assert_whole(&summary);
    }
}

#[test]
fn a_span_entered_on_two_threads_at_once_is_two_instances() {
    for tier in BOTH {
        let ran = recorded("concurrent-entry", tier);
        assert_eq!(ran.told_on_main(), ["push shared", "pop"], "{tier}");
        assert_eq!(ran.told_on("worker"), ["push shared", "pop"], "{tier}");
        let summary = ran.summary();
        assert_eq!(tree(&summary), ["shared 1/2"]);
        assert_eq!(summary.losses, Losses::default());
        assert_whole(&summary);
    }
}

#[test]
fn the_current_span_can_be_handed_to_a_worker() {
    for tier in BOTH {
        let ran = recorded("current-handed-on", tier);
        assert_eq!(ran.told_on_main(), ["push outer", "pop"], "{tier}");
        assert_eq!(ran.told_on("worker"), ["push outer", "push work", "pop", "pop"], "{tier}");
        let summary = ran.summary();
        assert_eq!(tree(&summary), ["outer 1/2", "  work 1/1"]);
        assert_eq!(summary.losses, Losses::default());
        assert_whole(&summary);
    }
}

#[test]
fn an_exit_on_another_thread_ends_the_entry_where_it_is() {
    for tier in BOTH {
        let ran = recorded("exit-elsewhere", tier);
        let expected = ["push outer", "push moved", "pop", "pop", "push after", "pop"];
        assert_eq!(ran.told_on_main(), expected, "{tier}");
        assert_eq!(ran.told_on("worker"), Vec::<String>::new(), "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("after", 1), ("moved", 1), ("outer", 1)]));
        assert_eq!(summary.losses, with(Losses::default(), |it| it.stray_exits = 1));
        assert_whole(&summary);
    }
}

#[test]
fn a_thousand_exits_after_one_exit_elsewhere_split_once() {
    for tier in BOTH {
        let ran = recorded("exit-elsewhere-then-1000", tier);
        let mut expected = vec!["push below"; 1_000];
        // `moved` is not reopened, but `top` is.
        expected.extend(["push moved", "push top", "pop", "pop", "pop", "push top", "pop"]);
        expected.extend(["pop"; 999]);
        assert_eq!(ran.told_on_main(), expected, "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("below", 1_000), ("moved", 1), ("top", 2)]));
        assert_eq!(summary.losses, {
            let mut it = Losses::default();
            it.stray_exits = 1;
            it.split_instances = 1;
            it
        });
        assert_whole(&summary);
    }
}

#[test]
fn an_entry_that_is_over_is_not_ended_again_by_the_exit_elsewhere() {
    for tier in BOTH {
        let ran = recorded("exit-elsewhere-forgotten", tier);
        let expected = ["push span", "pop", "push outer", "push span", "pop", "pop", "push span", "pop"];
        assert_eq!(ran.told_on_main(), expected, "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("outer", 1), ("span", 3)]));
        assert_eq!(summary.losses, {
            let mut it = Losses::default();
            it.stray_exits = 1;
            it.split_instances = 1;
            it
        });
    }
}

#[test]
fn an_entry_that_was_exited_elsewhere_is_closed_at_the_finish() {
    for tier in BOTH {
        let ran = recorded("exit-elsewhere-left-open", tier);
        assert_eq!(ran.told_on_main(), ["push moved", "push above", "pop", "pop"], "{tier}");
        let mut losses = Losses::default();
        losses.stray_exits = 1;
        losses.open = vec![open("moved", "main")];
        assert_eq!(ran.summary().losses, losses);
    }
}

#[test]
fn an_exit_out_of_order_closes_and_reopens_what_is_above() {
    for tier in BOTH {
        let ran = recorded("out-of-order", tier);
        let expected = [
            "push below",
            "push outer",
            "push inner",
            "push top",
            "pop",
            "pop",
            "pop", // down to `outer`
            "push inner",
            "push top", // in their order
            "pop",
            "pop",
            "pop",
        ];
        assert_eq!(ran.told_on_main(), expected, "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("below", 1), ("inner", 2), ("outer", 1), ("top", 2)]));
        assert_eq!(tree(&summary), ["below 1/1", "  outer 1/1", "    inner 1/2", "      top 1/2"]);
        assert_eq!(summary.losses, with(Losses::default(), |it| it.split_instances = 2));
        assert!(row(&summary, "outer").total_ns < row(&summary, "below").total_ns);
        assert_whole(&summary);
    }
}

#[test]
fn of_a_span_that_is_open_twice_the_innermost_entry_ends() {
    for tier in BOTH {
        let ran = recorded("out-of-order-same-span", tier);
        let expected = ["push twice", "push twice", "push top", "pop", "pop", "push top", "pop", "pop"];
        assert_eq!(ran.told_on_main(), expected, "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("top", 2), ("twice", 2)]));
        assert_eq!(summary.losses, with(Losses::default(), |it| it.split_instances = 1));
    }
}

#[test]
fn guards_held_across_await_are_exits_out_of_order() {
    for tier in BOTH {
        let ran = recorded("guards-across-await", tier);
        assert_eq!(ran.told_on_main(), ["push a", "push b", "pop", "pop", "push b", "pop"], "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("a", 1), ("b", 2)]));
        assert_eq!(tree(&summary), ["a 1/1", "  b 1/2"], "it ran in there, as far as anybody can see");
        assert_eq!(summary.losses, with(Losses::default(), |it| it.split_instances = 1));
        assert_whole(&summary);
    }
}

#[test]
fn the_exit_of_one_domain_does_not_split_another() {
    for tier in BOTH {
        let ran = recorded("per-target", tier);
        assert_eq!(ran.told_on_main(), ["push x:outer", "push y:inner", "pop x:", "pop y:"], "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("x:outer", 1), ("y:inner", 1)]));
        assert_eq!(summary.losses, Losses::default());
        assert_whole(&summary);

        let ran = recorded("per-target-split", tier);
        let expected =
            ["push x:outer", "push y:other", "push x:same", "pop x:", "pop x:", "push x:same", "pop x:", "pop y:"];
        assert_eq!(ran.told_on_main(), expected, "{tier}");
        let summary = ran.summary();
        assert_eq!(instances(&summary), rows([("x:outer", 1), ("x:same", 2), ("y:other", 1)]));
        assert_eq!(summary.losses, with(Losses::default(), |it| it.split_instances = 1));
        assert_whole(&summary);
    }
}

#[test]
fn ranges_nest_1500_deep() {
    for tier in BOTH {
        let ran = recorded("deep", tier);
        let expected = [vec!["push level"; 1_500], vec!["pop"; 1_500]].concat();
        assert_eq!(ran.told_on_main(), expected, "{tier}");
        let depths = ran.events_on("main").into_iter().map(|call| call.rest["depth"].parse::<usize>().unwrap());
        assert!(depths.eq((0..1_500).chain((0..1_500).rev())));
        let [deep, both] = <[Summary; 2]>::try_from(ran.summaries()).unwrap();
        assert_eq!((instances(&deep), &deep.losses), (rows([("level", 1_500)]), &Losses::default()));
        // 40 ranges are exited from the outermost inwards: 39 + 38 + ... + 1 are reopened.
        assert_eq!(instances(&both), rows([("crossed", 40 + 780), ("level", 1_500)]));
        assert_eq!(both.losses, with(Losses::default(), |it| it.split_instances = 780));
        assert_eq!(ran.events_on("worker").len(), 2 * (40 + 780));
        assert_whole(&both);
    }
}

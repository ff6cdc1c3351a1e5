//! More of everything than the fast paths have room for, and a run without spans.

use super::*;

/// 256 call sites under four parents: more places than fit into a thread's cache, and more rows and live spans than are
/// allocated first.
#[test]
fn more_places_than_are_cached_are_all_told_apart() {
    for tier in BOTH {
        let summary = untold("many-places", tier).summary();
        let mut names: Vec<String> = (0..256).map(|site| format!("s{site:02x}")).collect();
        let counted = |node: &TreeNode| (node.name.clone(), node.calls, node.instances);
        for parent in &summary.tree[..3] {
            assert_eq!((parent.calls, parent.instances), (3, 3), "{tier} {}", parent.name);
            let below: Vec<_> = parent.children.iter().map(counted).collect();
            let expected: Vec<_> = names.iter().map(|name| (name.clone(), 3, 3)).collect();
            assert_eq!(below, expected, "{tier} {}", parent.name);
        }
        let live: Vec<_> = summary.tree[3..].iter().map(counted).collect();
        let expected: Vec<_> = names.iter().map(|name| (name.clone(), 1, 4)).collect();
        assert_eq!(live, expected, "{tier}: twice here, twice on the worker");
        names.extend(["first", "second", "third"].map(str::to_owned));
        names.sort();
        let counted = instances(&summary);
        assert_eq!(counted.keys().collect::<Vec<_>>(), names.iter().collect::<Vec<_>>(), "{tier}");
        assert_eq!(summary.losses, Losses::default(), "{tier}");
        assert_whole(&summary);
    }
}

#[test]
fn without_statistics_a_tool_is_told_the_same_and_calls_are_counted() {
    for tier in BOTH {
        let ran = recorded("without-statistics", tier);
        let once = ["push outer", "push inner", "push own", "pop", "pop", "pop"];
        // `a` is exited first: `b` is closed with it and reopened.
        let crossed = ["push a", "push b", "pop", "pop", "push b", "pop"];
        let told: Vec<&str> = once.repeat(3).into_iter().chain(crossed).chain(["push left open", "pop"]).collect();
        assert_eq!(ran.told_on_main(), told, "{tier}");
        assert_eq!(ran.told_on("worker"), ["push outer", "push there", "pop", "pop"], "{tier}");
        for ran in [ran, untold("without-statistics", tier)] {
            let summary = ran.summary();
            let shown = ["outer 1/0", "  inner 3/0", "    own 3/0", "  there 1/0", "a 1/0", "  b 1/0", "left open 1/0"];
            assert_eq!(tree(&summary), shown, "{tier}");
            assert_eq!(summary.losses.stray_exits, 0, "{tier}");
            assert_eq!(summary.losses.open, [open("left open", "main")], "{tier}");
        }
    }
}

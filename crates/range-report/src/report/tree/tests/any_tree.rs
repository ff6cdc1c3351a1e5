//! Properties of every tree.

use proptest::prelude::*;

use super::*;

fn any_tree() -> impl Strategy<Value = Vec<TreeNode>> {
    let stream = prop::option::weighted(0.7, (0_u64..2_000_000_000, 0_u64..2_000_000_000));
    let busy = prop::option::weighted(0.3, 0_u64..2_000_000_000);
    let awaited = prop::option::weighted(0.5, 0_u64..20_000_000_000);
    let gpu = (stream, busy, 0_u64..2, awaited);
    let figures = (0_u64..5, 0_u64..2_000_000_000, 0_u64..2_000_000_000, gpu, "[a-z]{0,3}|[a-z: é日]{0,60}");
    type Gpu = (Option<(u64, u64)>, Option<u64>, u64, Option<u64>);
    let any_node = |(calls, total, own, (stream, busy, again, awaited), name): (u64, u64, u64, Gpu, String),
                    children| {
        let (stream_total_ns, stream_self_ns) = stream.unzip();
        let work = |busy_ns| GpuWork { operations: 1, busy_ns, ..GpuWork::default() };
        let gpu = busy.map(|ns| NodeWork { own: work(ns / 2), total: work(ns), calls: vec![], ..NodeWork::default() });
        let instances = calls + again;
        let (awaited_ns, awaited_self_ns) = (awaited, awaited.map(|ns| ns / 2));
        let node = node(name.trim_end(), calls, total, own, children);
        TreeNode { instances, awaited_ns, awaited_self_ns, stream_total_ns, stream_self_ns, gpu, ..node }
    };
    let leaf = figures.clone().prop_map(move |figures| any_node(figures, vec![]));
    let nested = leaf.prop_recursive(5, 40, 6, move |inner| {
        (figures.clone(), prop::collection::vec(inner, 0..6))
            .prop_map(move |(figures, children)| any_node(figures, children))
    });
    (prop::collection::vec(nested, 1..5), 0..3).prop_map(|(mut roots, kind)| {
        // With all columns at once, the table is wider than 76.
        for root in &mut roots {
            if kind == 0 {
                forget_gpu(root)
            } else {
                forget_waits(root)
            }
            if kind < 2 {
                forget_streams(root);
            }
        }
        roots
    })
}

fn forget_waits(node: &mut TreeNode) {
    (node.awaited_ns, node.awaited_self_ns) = (None, None);
    node.children.iter_mut().for_each(forget_waits);
}

fn forget_gpu(node: &mut TreeNode) {
    node.gpu = None;
    node.children.iter_mut().for_each(forget_gpu);
}

fn self_time(nodes: &[TreeNode], own: fn(&TreeNode) -> u64) -> u128 {
    nodes.iter().map(|node| u128::from(own(node)) + self_time(&node.children, own)).sum()
}

proptest! {
    #[test]
    fn no_line_is_longer_than_the_width(
        roots in any_tree(),
        width in 76_usize..220,
        elapsed_ns in 1_u64..3_000_000_000,
    ) {
        let lifetime = |root: &TreeNode| super::verdict::lifetime(&root.name, &[root.total_ns]);
        let ranges = roots.iter().map(lifetime).collect();
        let summary = Summary { elapsed_ns, ranges, ..summary(roots) };
        let text = tree(&summary, &RenderOptions::default().width(width));
        for line in text.lines() {
            prop_assert!(width_of(line) <= width, "{}", text);
            prop_assert_eq!(line.trim_end_matches(' '), line);
        }
    }

    /// Folding hides names, never time.
    #[test]
    fn self_times_of_the_lines_add_up(roots in any_tree(), rows in 1_usize..40) {
        let summary = summary(roots);
        let (phases, roots) = (Phases::of(&summary), &summary.tree);
        let entries = Shape::of(&phases, rows).entries();
        let shown: u128 = entries.iter().map(|entry| u128::from(entry.figures.self_ns)).sum();
        prop_assert_eq!(shown, self_time(roots, |node| node.self_ns));
        let own = |ns: Option<u64>| ns.unwrap_or(0);
        let on_gpu = |way| entries.iter().map(|entry| u128::from(own(entry.figures.on_gpu(way).self_ns))).sum();
        let shown: u128 = on_gpu(Way::Stream);
        prop_assert_eq!(shown, self_time(roots, |node| node.stream_self_ns.unwrap_or(0)));
        prop_assert_eq!(shown, phases.gpu_whole(Way::Stream).unwrap_or(0));
        let shown: u128 = on_gpu(Way::Busy);
        prop_assert_eq!(shown, phases.gpu_whole(Way::Busy).unwrap_or(0));
    }
}

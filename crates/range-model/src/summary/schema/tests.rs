//! What is written of a figure, and what came since an earlier state.

use serde_json::json;

#[test]
fn json_leaves_out_only_what_is_unknown() {
    let written = |awaited_ns| {
        let node = crate::TreeNode { awaited_ns, ..crate::TreeNode::default() };
        serde_json::to_value(node).unwrap().get("awaited_ns").cloned()
    };
    assert_eq!([Some(3), Some(0), None].map(written), [Some(json!(3)), Some(json!(0)), None]);
}

/// By the rule of each figure: of durations 10 and 20, then 5 and 15 as well.
#[test]
fn what_came_since_an_earlier_state_is_left() {
    use crate::summary::{GpuWork, MemoryKind, MemoryWork, Since as _, Times};
    let mut before = Times::new(2, 30);
    (before.min_ns, before.max_ns, before.median_ns, before.stddev_ns) = (10, 20, Some(15.0), 50_f64.sqrt());
    before.histogram = vec![(27, 1), (35, 1)];
    let mut now = Times::new(4, 50);
    (now.min_ns, now.max_ns, now.median_ns, now.stddev_ns) = (5, 20, Some(12.5), (125.0_f64 / 3.0).sqrt());
    now.histogram = vec![(19, 1), (27, 1), (32, 1), (35, 1)];
    let since = now.since(&before);
    assert_eq!((since.instances, since.total_ns, since.median_ns), (2, 20, None));
    assert_eq!((since.min_ns, since.max_ns), (5, 0), "only a new extreme is known");
    assert!((since.stddev_ns - 50_f64.sqrt()).abs() < 1e-9, "{since:?}");
    assert_eq!(since.histogram, [(19, 1), (32, 1)]);
    let work = |operations, kinds: &[MemoryKind]| {
        let mut work = GpuWork::new(operations, 10 * operations, 9 * operations);
        work.memory = kinds.iter().map(|kind| MemoryWork::new(*kind, operations, 1, 64 * operations)).collect();
        work
    };
    let [before, now] = [work(2, &[MemoryKind::HtoD]), work(5, &[MemoryKind::HtoD, MemoryKind::Set])];
    let mut expected = GpuWork::new(3, 30, 27);
    expected.memory = vec![MemoryWork::new(MemoryKind::HtoD, 3, 0, 192), MemoryWork::new(MemoryKind::Set, 5, 1, 320)];
    assert_eq!(now.since(&before), expected);
    assert_eq!(Some(now.clone()).since(&None), Some(now));
}

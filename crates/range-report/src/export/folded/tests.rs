use super::*;
use crate::SummaryExt as _;
use proptest::prelude::*;
use range_model::GpuActivity;

fn node(name: &str, self_ns: u64, children: Vec<TreeNode>) -> TreeNode {
    TreeNode { name: name.to_owned(), self_ns, children, ..TreeNode::default() }
}

fn text(tree: Vec<TreeNode>) -> String {
    let mut out = Vec::new();
    Summary { tree, ..Summary::default() }.write_folded(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn names_cannot_split_a_line() {
    for (name, safe) in [
        ("a;b", "a,b"),
        ("a\nb\r\t", "a\\nb\\r\\t"),
        ("  Load Module ", "Load Module\\x20"),
        ("layer 12", "layer_12"),
        ("layer 1 2", "layer 1_2"),
        ("layer 1.5", "layer_1.5"),
        ("12", "12"),
        ("layer 12x", "layer 12x"),
        ("", "None"),
        (" ; ", ",\\x20"),
        ("日本語 3", "日本語_3"),
        ("wide\u{2003}7", "wide_7"),
    ] {
        assert_eq!(text(vec![node(name, 5, vec![])]), format!("{safe} 5\n"), "{name:?}");
    }
    let in_domain = TreeNode { domain: Some("app".to_owned()), ..node("step", 1, vec![]) };
    assert_eq!(text(vec![in_domain]), "app:step 1\n");
}

#[test]
fn lines_are_sorted_and_those_of_one_name_are_one() {
    let tree = vec![
        node("b", 1, vec![node("x", 2, vec![]), node("a", 0, vec![node("y", 3, vec![])]), node("x", 4, vec![])]),
        node("a", 0, vec![]),
        node("b", 10, vec![]),
        node("big", u64::MAX, vec![]),
        node("big", 1, vec![]),
    ];
    assert_eq!(text(tree), "b 11\nb;a;y 3\nb;x 6\nbig 18446744073709551615\n");
    assert_eq!(text(vec![]), "");
}

#[test]
fn time_on_the_gpu_has_what_no_span_launched() {
    let mut own = NodeWork::default();
    own.own.busy_ns = 9;
    own.total.busy_ns = 90;
    let mut gpu = GpuActivity::default();
    gpu.outside.busy_ns = 5;
    gpu.unmatched.busy_ns = 6;
    let mut tree = vec![node("cpu only", 100, vec![node("conv", 1, vec![])])];
    tree[0].children[0].gpu = Some(own);
    let mut summary = Summary { tree, gpu: Some(gpu), ..Summary::default() };
    let mut out = Vec::new();
    summary.write_folded_gpu(&mut out).unwrap();
    let expected = "(launch not known) 6\n(outside of any range) 5\ncpu only;conv 9\n";
    assert_eq!(String::from_utf8_lossy(&out), expected);
    summary.gpu = None;
    out.clear();
    summary.write_folded_gpu(&mut out).unwrap();
    assert!(out.is_empty());
}

/// Any tree with any names.
fn trees() -> impl Strategy<Value = Vec<TreeNode>> {
    let name = prop_oneof!["[a-c; 0-9.\n\t]{0,6}", ".{0,8}"];
    let leaf = (name.clone(), 0_u64..1_000).prop_map(|(name, own)| node(&name, own, vec![]));
    let tree = leaf.prop_recursive(4, 24, 3, move |below| {
        (name.clone(), 0_u64..1_000, prop::collection::vec(below, 0..3))
            .prop_map(|(name, own, below)| node(&name, own, below))
    });
    prop::collection::vec(tree, 0..4)
}

fn covered(nodes: &[TreeNode]) -> u64 {
    nodes.iter().map(|node| node.self_ns + covered(&node.children)).sum()
}

proptest! {
    /// Whatever the names are, each line has one stack and one number, and the numbers add up to the covered time.
    #[test]
    fn nothing_is_lost(tree in trees()) {
        let expected = covered(&tree);
        let text = text(tree);
        let mut sum = 0;
        for line in text.lines() {
            prop_assert!(!line.starts_with('#'), "a comment: {line:?}");
            let (stack, number) = line.rsplit_once(' ').unwrap();
            sum += number.parse::<u64>().unwrap();
            prop_assert!(stack.split(';').all(|frame| !frame.is_empty() && frame.trim() == frame), "{line:?}");
            let last = stack.rsplit(char::is_whitespace).next().unwrap();
            let is_number = last.parse::<f64>().is_ok() && last.starts_with(|c: char| c.is_ascii_digit());
            prop_assert!(last == stack || !is_number, "{line:?}");
        }
        prop_assert_eq!(sum, expected);
    }
}

//! The phase tree as a flat list: each node with its depth, in the order of printing.
//!
//! Nested, as in memory, it would be too deep for readers that limit nesting, as `serde_json` does at 128 levels.

use crate::stats::Lean;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

use super::TreeNode;
use super::run::{ReadNode, WrittenNode};

/// The largest number of levels that are read. A profiler makes 65; code that walks a tree may need stack for each.
const MOST_LEVELS: usize = 1_024;

pub(super) fn serialize<S: Serializer>(roots: &[TreeNode], serializer: S) -> Result<S::Ok, S::Error> {
    let mut left: Vec<(usize, &TreeNode)> = roots.iter().rev().map(|root| (0, root)).in_vec();
    let nodes = std::iter::from_fn(|| {
        let (depth, node) = left.pop()?;
        left.extend(node.children.iter().rev().map(|child| (depth + 1, child)));
        Some(WrittenNode::of(depth, node))
    });
    serializer.collect_seq(nodes)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TreeNode>, D::Error> {
    // The nodes from a root down to the last one read, with increasing depths. A complete node moves into the previous
    // one.
    let mut open: Vec<(usize, TreeNode)> = Vec::new();
    let mut roots = Vec::new();
    let close_to = |depth: usize, open: &mut Vec<(usize, TreeNode)>, roots: &mut Vec<TreeNode>| {
        while let Some((_, complete)) = open.pop_if(|(open, _)| *open >= depth) {
            open.last_mut().map_or(&mut *roots, |(_, parent)| &mut parent.children).push(complete);
        }
    };
    for read in Vec::<ReadNode>::deserialize(deserializer)? {
        if read.depth >= MOST_LEVELS {
            return Err(D::Error::custom(format!("the tree has more than {MOST_LEVELS} levels")));
        }
        close_to(read.depth, &mut open, &mut roots);
        let depth = read.depth;
        open.push((depth, read.into()));
    }
    close_to(0, &mut open, &mut roots);
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use crate::{Summary, TreeNode};

    fn node(name: &str, children: Vec<TreeNode>) -> TreeNode {
        TreeNode { name: name.to_owned(), calls: 1, total_ns: 5, children, ..TreeNode::default() }
    }

    #[test]
    fn a_tree_comes_back_as_it_was() {
        let tree = vec![node("a", vec![node("b", vec![node("c", vec![])]), node("d", vec![])]), node("e", vec![])];
        let summary = Summary { tree, ..Summary::default() };
        let text = serde_json::to_string(&summary).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
        assert!(text.contains(r#"{"depth":2,"domain":null,"name":"c""#), "{text}");
        assert!(!text.contains("children"), "{text}");
    }

    #[test]
    fn a_deep_tree_comes_back_too() {
        let tree = (0..500).fold(Vec::new(), |below, _| vec![node("n", below)]);
        let summary = Summary { tree, ..Summary::default() };
        let text = serde_json::to_string(&summary).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&text).unwrap(), summary);
    }

    /// A tree of nodes with these depths, in this order.
    fn read(depths: impl IntoIterator<Item = usize>) -> serde_json::Result<Summary> {
        let node = |depth: usize| {
            format!(
                r#"{{"depth":{depth},"name":"{depth}","calls":1,"instances":1,"total_ns":1,"self_ns":1,"first_ns":0}}"#
            )
        };
        let nodes: Vec<String> = depths.into_iter().map(node).collect();
        let empty = serde_json::to_string(&Summary::default()).unwrap();
        serde_json::from_str(&empty.replace(r#""tree":[]"#, &format!(r#""tree":[{}]"#, nodes.join(","))))
    }

    #[test]
    fn a_tree_deeper_than_any_profiler_makes_is_refused() {
        assert!(read(0..super::MOST_LEVELS).is_ok());
        let refused = read(0..=super::MOST_LEVELS).unwrap_err().to_string();
        assert!(refused.contains("more than 1024 levels"), "{refused}");
    }

    /// The schema's rule: the parent is the nearest earlier node with a lower depth.
    #[test]
    fn depths_may_leave_out_some() {
        let tree = read([2, 1, 5, 3, 3, 9, 1]).unwrap().tree;
        let shape = |node: &TreeNode| (node.name.clone(), node.children.len());
        assert_eq!(tree.iter().map(shape).collect::<Vec<_>>(), [("2".into(), 0), ("1".into(), 3), ("1".into(), 0)]);
        let inside: Vec<_> = tree[1].children.iter().map(shape).collect();
        assert_eq!(inside, [("5".into(), 0), ("3".into(), 0), ("3".into(), 1)]);
    }
}

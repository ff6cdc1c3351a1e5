//! The phase tree as a flat list: each node with its depth, in the order of printing.
//!
//! Nested as it is in memory it would be too deep for readers that bound nesting, as `serde_json` does at 128 levels.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::TreeNode;

/// A node without its children. Depth 0 is a root.
#[derive(Serialize, Deserialize)]
struct Flat {
    depth: usize,
    #[serde(flatten)]
    node: TreeNode,
}

pub(super) fn serialize<S: Serializer>(roots: &[TreeNode], serializer: S) -> Result<S::Ok, S::Error> {
    let mut left: Vec<(usize, &TreeNode)> = roots.iter().rev().map(|root| (0, root)).collect();
    let nodes = std::iter::from_fn(|| {
        let (depth, node) = left.pop()?;
        left.extend(node.children.iter().rev().map(|child| (depth + 1, child)));
        let fields = TreeNode {
            domain: node.domain.clone(),
            name: node.name.clone(),
            gpu: node.gpu.clone(),
            children: Vec::new(),
            ..*node
        };
        Some(Flat { depth, node: fields })
    });
    serializer.collect_seq(nodes)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<TreeNode>, D::Error> {
    // The nodes from a root down to the last one read; each is handed to the one before it when it is complete.
    let mut open: Vec<TreeNode> = Vec::new();
    let mut roots = Vec::new();
    let close_to = |depth: usize, open: &mut Vec<TreeNode>, roots: &mut Vec<TreeNode>| {
        while open.len() > depth {
            let Some(complete) = open.pop() else { break };
            open.last_mut().map_or(&mut *roots, |parent| &mut parent.children).push(complete);
        }
    };
    for Flat { depth, node } in Vec::<Flat>::deserialize(deserializer)? {
        close_to(depth, &mut open, &mut roots);
        open.push(node);
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
}

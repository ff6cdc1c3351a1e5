//! Folded stacks, one per line, as input of flame graphs.

use range_model::names::{escaped, label};
use range_model::stats::{Lean, Named};
use range_model::{NodeWork, Summary, TreeNode};

/// Frames of GPU operations outside of spans, and of those without a known launch.
const OUTSIDE: &str = "(outside of any range)";
const UNMATCHED: &str = "(launch not known)";

/// The phase tree as folded stacks by own time.
pub(crate) fn of_own_time(summary: &Summary) -> String {
    lines(&summary.tree, &|node| node.self_ns, &[])
}

/// The phase tree as folded stacks by GPU time.
pub(crate) fn of_gpu_time(summary: &Summary) -> String {
    let Some(gpu) = &summary.gpu else { return String::new() };
    let own = |node: &TreeNode| node.gpu.as_ref().map_or(0, |NodeWork { own, .. }| own.busy_ns);
    let beside = [(OUTSIDE, gpu.outside.busy_ns), (UNMATCHED, gpu.unmatched.busy_ns)];
    lines(&summary.tree, &own, &beside)
}

/// A line for each node with a weight, and for each entry of `beside`; equal stacks are merged.
fn lines(roots: &[TreeNode], weight: &dyn Fn(&TreeNode) -> u64, beside: &[(&str, u64)]) -> String {
    let mut stacks: Named<String, u64> = Named::default();
    let mut add = |stack: String, weight: u64| {
        if weight > 0 {
            let sum = stacks.row(stack);
            *sum = sum.saturating_add(weight);
        }
    };
    let mut left: Vec<(String, &TreeNode)> = roots.iter().map(|root| (frame(root), root)).in_vec();
    while let Some((stack, node)) = left.pop() {
        left.extend(node.children.iter().map(|child| (format!("{stack};{}", frame(child)), child)));
        add(stack, weight(node));
    }
    for &(stack, weight) in beside {
        add(stack.to_owned(), weight);
    }
    stacks.into_iter().map(|(stack, weight)| format!("{stack} {weight}\n")).collect()
}

/// The name of a phase, safe between `;` and before a count.
fn frame(node: &TreeNode) -> String {
    let label = label(node.domain.as_deref(), &node.name).unwrap_or_default();
    let name = escaped(&label).replace(';', ",");
    let name = name.trim();
    let mut name = if name.is_empty() { "None".to_owned() } else { name.to_owned() };
    if let Some(at) = name.rfind(char::is_whitespace) {
        let (before, last) = name.split_at(at);
        let last = last.trim_start();
        if last.chars().all(|letter| letter.is_ascii_digit() || letter == '.') {
            name = format!("{before}_{last}");
        }
    }
    if name.starts_with('#') {
        name.insert(0, '_'); // at the start of a line it would begin a comment
    }
    name
}

#[cfg(test)]
mod tests;

//! Folded stacks, one per line, as input of flame graphs.

#[cfg(feature = "flamegraph")]
use range_model::Process;
use range_model::names::{escaped, label};
use range_model::stats::{Lean, Named};
#[cfg(feature = "flamegraph")]
use range_model::summary::origin;
use range_model::{NodeWork, Summary, TreeNode};

/// Frames of GPU operations outside of spans, and of those without a known launch.
const OUTSIDE: &str = "(outside of any range)";
const UNMATCHED: &str = "(launch not known)";

/// A flame graph without any time.
#[cfg(feature = "flamegraph")]
const NOTHING: &str = r#"<?xml version="1.0" standalone="no"?>
<svg version="1.1" width="1200" height="60" viewBox="0 0 1200 60" xmlns="http://www.w3.org/2000/svg">
<title>Time by phase</title>
<text x="600" y="35" text-anchor="middle" font-family="sans-serif" font-size="14">No range took any time: there is nothing to draw.</text>
</svg>
"#;

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

/// The phase tree as a flame graph: an SVG.
#[cfg(feature = "flamegraph")]
pub(crate) fn flamegraph(summary: &Summary) -> std::io::Result<Vec<u8>> {
    let stacks = lines(&summary.tree, &|node| node.self_ns, &[]);
    if stacks.is_empty() {
        return Ok(NOTHING.into()); // inferno would report wrong input, and fail
    }
    // inferno adds without checking for overflow.
    let covered = stacks.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    if covered.total() > i64::MAX as u128 {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "the times are too long to be drawn"));
    }
    let mut options = inferno::flamegraph::Options::default();
    options.title = "Time by phase".to_owned();
    options.subtitle = subtitle(&summary.process);
    options.count_name = "ns".to_owned();
    options.name_type = "Phase:".to_owned();
    options.deterministic = true;
    let mut svg = Vec::new(); // inferno writes in small pieces
    inferno::flamegraph::from_lines(&mut options, stacks.lines(), &mut svg)?;
    Ok(svg)
}

/// The process in words; `None` if nothing is known of it.
#[cfg(feature = "flamegraph")]
fn subtitle(process: &Process) -> Option<String> {
    let pid = if process.pid > 0 { format!("process {}", process.pid) } else { String::new() };
    let known = [origin::labels(process), pid, process.command.clone()].into_iter().filter(|part| !part.is_empty());
    Some(escaped(&range_model::names::joined(known, ", ")).into_owned()).filter(|known| !known.is_empty())
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

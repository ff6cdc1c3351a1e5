//! Folded stacks, one per line, as input of flame graphs.

use std::io;

#[cfg(feature = "flamegraph")]
use super::origin;
#[cfg(feature = "flamegraph")]
use crate::Process;
use crate::report::{escaped, label};
use crate::stats::{Lean, Named};
use crate::{NodeWork, Summary, TreeNode};

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

impl Summary {
    /// Writes the phase tree as folded stacks: a line for each phase with time of its own, `phase;phase;phase
    /// NANOSECONDS`, sorted. `inferno-flamegraph`, `flamegraph.pl`, speedscope and others read it.
    ///
    /// The number is the phase's own time in nanoseconds (`self_ns`), so the numbers add up to the covered time of all
    /// threads. Characters of a name that would end or split a line are replaced: `;` becomes `,`, control characters
    /// are escaped, and blanks around the name are left out. If the last word of a name is a number, the blank before
    /// it becomes `_`, because readers would take it for a count. A phase without a name is `None`.
    ///
    /// ```
    /// use range_report::{Summary, TreeNode};
    ///
    /// let mut summary = Summary::default();
    /// let (mut main, mut load) = (TreeNode::new("main"), TreeNode::new("Load Module"));
    /// (main.self_ns, load.self_ns) = (40, 250);
    /// main.children = vec![load];
    /// summary.tree = vec![main];
    /// let mut text = Vec::new();
    /// summary.write_folded(&mut text)?;
    /// assert_eq!(String::from_utf8_lossy(&text), "main 40\nmain;Load Module 250\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn write_folded(&self, mut out: impl io::Write) -> io::Result<()> {
        out.write_all(lines(&self.tree, &|node| node.self_ns, &[]).as_bytes())
    }

    /// The same by GPU time: for each phase, the time during which at least one operation ran that was launched
    /// directly in it.
    ///
    /// Operations launched outside of any range, and those without a known launch, have lines of their own. Phases
    /// whose work overlaps on the GPU each have their whole time, so the lines may add up to more than the GPU's busy
    /// time. Writes nothing if CUPTI recorded nothing.
    ///
    /// ```
    /// use range_report::{NodeWork, Summary, TreeNode};
    ///
    /// let mut work = NodeWork::default();
    /// work.own.busy_ns = 900;
    /// let mut summary = Summary::default();
    /// summary.gpu = Some(Default::default());
    /// let mut node = TreeNode::new("conv");
    /// node.gpu = Some(work);
    /// summary.tree = vec![node];
    /// let mut text = Vec::new();
    /// summary.write_folded_gpu(&mut text)?;
    /// assert_eq!(String::from_utf8_lossy(&text), "conv 900\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn write_folded_gpu(&self, mut out: impl io::Write) -> io::Result<()> {
        let Some(gpu) = &self.gpu else { return Ok(()) };
        let own = |node: &TreeNode| node.gpu.as_ref().map_or(0, |NodeWork { own, .. }| own.busy_ns);
        let beside = [(OUTSIDE, gpu.outside.busy_ns), (UNMATCHED, gpu.unmatched.busy_ns)];
        out.write_all(lines(&self.tree, &own, &beside).as_bytes())
    }

    /// Writes the phase tree as a flame graph: an SVG that a browser opens, and that can be searched and zoomed with
    /// the mouse.
    ///
    /// The widths are those of [`write_folded`](Self::write_folded). If no phase spent any time, as right after a
    /// reset, the picture says so. The crate `inferno` draws it. inferno is under the CDDL-1.0, not under the licence
    /// of this crate: whoever distributes a program with the feature `flamegraph` must state where inferno's source is.
    ///
    /// # Errors
    ///
    /// Errors of `out`; and if all phases together took more than 292 years.
    #[cfg(feature = "flamegraph")]
    pub fn write_flamegraph(&self, mut out: impl io::Write) -> io::Result<()> {
        let stacks = lines(&self.tree, &|node| node.self_ns, &[]);
        if stacks.is_empty() {
            return out.write_all(NOTHING.as_bytes()); // inferno would report wrong input, and fail
        }
        // inferno adds without checking for overflow.
        let covered = stacks.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
        if covered.total() > i64::MAX as u128 {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the times are too long to be drawn"));
        }
        let mut options = inferno::flamegraph::Options::default();
        options.title = "Time by phase".to_owned();
        options.subtitle = subtitle(&self.process);
        options.count_name = "ns".to_owned();
        options.name_type = "Phase:".to_owned();
        options.deterministic = true;
        let mut svg = Vec::new(); // inferno writes in small pieces
        inferno::flamegraph::from_lines(&mut options, stacks.lines(), &mut svg)?;
        out.write_all(&svg)
    }
}

/// The process in words; `None` if nothing is known of it.
#[cfg(feature = "flamegraph")]
fn subtitle(process: &Process) -> Option<String> {
    let pid = if process.pid > 0 { format!("process {}", process.pid) } else { String::new() };
    let known = [origin::labels(process), pid, process.command.clone()].into_iter().filter(|part| !part.is_empty());
    Some(escaped(&crate::text::joined(known, ", ")).into_owned()).filter(|known| !known.is_empty())
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

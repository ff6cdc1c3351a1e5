//! The phase tree: where the time goes, from the whole down to the slow phase.

mod layout;
mod shape;
#[cfg(test)]
mod tests;

use super::names;
use super::number::{human, human_inline, integer, percent};
use super::table::{chars, shorten};
use super::{NO_RANGE, RenderOptions, TableStyle, section};
use crate::{Summary, TreeNode};
use layout::{Layout, Line};
use shape::{Entry, Shape};

/// Phases named below the tree.
const SLOWEST: usize = 3;
/// Widest name there, and what the figures around one take: the first always fits.
const MAX_NAME: usize = 40;
const AROUND_NAME: usize = 24;
/// A time that there is not, its dash below the digits of the others.
const NO_TIME: &str = "-   ";
/// What the `*` behind a share means.
const BESIDE: &str = " *  on several threads: together longer than the parent\n";

/// `Tree`: nested phases in order of first entry.
pub(crate) fn tree(summary: &Summary, options: &RenderOptions) -> String {
    let title = match options.style {
        TableStyle::Current => " ** Phase Tree (tree):",
        TableStyle::Legacy => "Phase Tree:",
    };
    if summary.tree.is_empty() {
        return section(title, NO_RANGE);
    }
    let shape = Shape::of(&summary.tree);
    let lines: Vec<Line> = shape.entries().iter().map(|entry| line(&shape, entry, options)).collect();
    let mut body = Layout::fitting(&lines, shape.stream_whole().is_some(), options.columns()).render(&lines);
    body += &explanation(&shape, &lines, options);
    section(title, &body)
}

fn line(shape: &Shape, entry: &Entry, options: &RenderOptions) -> Line {
    let figures = &entry.figures;
    let mean = figures.total_ns.checked_div(figures.calls);
    Line {
        margin: entry.mark.text(),
        cells: [
            human(figures.total_ns),
            human(figures.self_ns),
            on_streams(figures.stream_total_ns),
            on_streams(figures.stream_self_ns),
            share(figures.total_ns, entry.base),
            integer(figures.calls, options.thousands),
            match (entry.folded, mean) {
                (0, Some(mean)) => human(mean),
                (0, None) => NO_TIME.to_owned(),
                _ => String::new(), // an average over different phases says nothing
            },
            integer(figures.instances, options.thousands),
        ],
        beside: entry.beside,
        depth: entry.depth,
        phase: match entry.folded {
            0 => label(shape.node(entry.index), options.raw_names),
            count => format!("({count} more under 0.1 %)"),
        },
        self_ns: figures.self_ns,
        whole: shape.whole(),
    }
}

fn on_streams(ns: Option<u64>) -> String {
    ns.map_or_else(|| NO_TIME.to_owned(), human)
}

fn share(part: u64, base: u128) -> String {
    percent(part, base).map_or_else(|| "-".to_owned(), |text| text + "%")
}

fn label(node: &TreeNode, raw: bool) -> String {
    let label = names::label(node.domain.as_deref(), &node.name).unwrap_or_else(|| "None".to_owned());
    if raw { label } else { names::escaped(&label).into_owned() }
}

/// The answer in words, and what a mark in the tree means.
fn explanation(shape: &Shape, lines: &[Line], options: &RenderOptions) -> String {
    let mut out = slowest(" >> most time of its own: ", &shape.slowest(SLOWEST), shape.whole(), options);
    if let Some(whole) = shape.stream_whole() {
        let phases = shape.slowest_on_streams(SLOWEST);
        out += &slowest(" GPU: most stream time of its own: ", &phases, whole, options);
    }
    if lines.iter().any(|line| line.beside) {
        out += BESIDE;
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// `what`, and as many of these phases as fit on the line, at least one; nothing where there is none.
fn slowest(what: &str, phases: &[(&TreeNode, u64)], whole: u128, options: &RenderOptions) -> String {
    let room = options.columns().saturating_sub(chars(what) + AROUND_NAME).min(MAX_NAME);
    let mut answer = String::new();
    for (node, own_ns) in phases {
        let name = shorten(&label(node, options.raw_names), room, room / 2);
        let phase = format!("{name} {} ({})", human_inline(*own_ns), share(*own_ns, whole));
        if answer.is_empty() {
            answer = format!("{what}{phase}");
        } else if chars(&answer) + chars(&phase) + 2 <= options.columns() {
            answer = format!("{answer}, {phase}");
        } else {
            break;
        }
    }
    if answer.is_empty() { answer } else { answer + "\n" }
}

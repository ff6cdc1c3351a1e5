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
/// Widest name there, and what the words around one take: the first always fits.
const MAX_NAME: usize = 40;
const AROUND_NAME: usize = 50;
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
    let mut body = Layout::fitting(&lines, options.columns()).render(&lines);
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
            share(figures.total_ns, entry.base),
            integer(figures.calls, options.thousands),
            match (entry.folded, mean) {
                (0, Some(mean)) => human(mean),
                (0, None) => "-   ".to_owned(),
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

fn share(part: u64, base: u128) -> String {
    percent(part, base).map_or_else(|| "-".to_owned(), |text| text + "%")
}

fn label(node: &TreeNode, raw: bool) -> String {
    let label = names::label(node.domain.as_deref(), &node.name).unwrap_or_else(|| "None".to_owned());
    if raw { label } else { names::escaped(&label).into_owned() }
}

/// The answer in words, and what a mark in the tree means.
fn explanation(shape: &Shape, lines: &[Line], options: &RenderOptions) -> String {
    let mut out = slowest(shape, options).map_or_else(String::new, |answer| format!("{answer}\n"));
    if lines.iter().any(|line| line.beside) {
        out += BESIDE;
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// As many of the slowest phases as fit on a line, at least one.
fn slowest(shape: &Shape, options: &RenderOptions) -> Option<String> {
    let room = (options.columns() - AROUND_NAME).min(MAX_NAME);
    let mut answer = String::new();
    for node in shape.slowest(SLOWEST) {
        let name = shorten(&label(node, options.raw_names), room, room / 2);
        let phase = format!("{name} {} ({})", human_inline(node.self_ns), share(node.self_ns, shape.whole()));
        if answer.is_empty() {
            answer = format!(" >> most time of its own: {phase}");
        } else if chars(&answer) + chars(&phase) + 2 <= options.columns() {
            answer = format!("{answer}, {phase}");
        } else {
            break;
        }
    }
    (!answer.is_empty()).then_some(answer)
}

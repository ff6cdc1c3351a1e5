//! The phase tree: where the time goes, from the whole down to the slow phase.

mod layout;
mod shape;

use super::names;
use super::number::{human, human_inline, integer, percent};
use super::table::clip;
use super::{NO_RANGE, RenderOptions, TableStyle, section};
use crate::{Summary, TreeNode};
use layout::{Layout, Line};
use shape::{Entry, Shape};

/// Phases named below the tree.
const SLOWEST: usize = 3;
/// Widest name there.
const MAX_NAME: usize = 40;

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
            mean.map_or_else(|| "-   ".to_owned(), human),
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
    let mut sentences = Vec::new();
    let slowest: Vec<String> = shape
        .slowest(SLOWEST)
        .into_iter()
        .map(|node| {
            let name = clip(&label(node, options.raw_names), MAX_NAME);
            format!("{name} {} ({})", human_inline(node.self_ns), share(node.self_ns, shape.whole()))
        })
        .collect();
    if !slowest.is_empty() {
        sentences.push(format!(" >> most time of its own: {}", slowest.join(", ")));
    }
    if lines.iter().any(|line| line.beside) {
        sentences.push(" *  ran on other threads as well, together longer than the parent".to_owned());
    }
    if sentences.is_empty() {
        return String::new();
    }
    let sentences: String =
        sentences.iter().map(|sentence| format!("{}\n", clip(sentence, options.columns()))).collect();
    format!("\n{sentences}")
}

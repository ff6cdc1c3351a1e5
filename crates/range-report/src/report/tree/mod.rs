//! The phase tree: where the time goes, from the whole down to the slow phase.

mod layout;
mod shape;
#[cfg(test)]
mod tests;
mod verdict;

use rustc_hash::FxHashMap;

use super::calls::{percentile, quantile_text};
use super::envelope::{NO_RANGE, section, title};
use super::nodes::appended_figures;
use super::options::RenderOptions;
use super::replays;
use super::table::{Column, Unit};
use crate::analysis::{self, Phases, Way};
use crate::text::number::{human, human_bytes, human_inline, integer, share};
use crate::text::width::{width_of, wrapped};
use layout::{BUSY, CALLS, COLUMNS, Known, Layout, Line};
use range_model::names;
use range_model::stats::{Lean, order};
use range_model::summary::schema::Figures;
use range_model::{GpuActivity, GraphWork, MemoryWork, Summary};
use shape::{Entry, Shape};
#[cfg(feature = "page")]
pub use verdict::{Explained, explained};

/// An absent time; its dash stands below the digits of the others.
const NO_TIME: &str = "-   ";
/// The explanation of `GPU busy`.
const BUSY_MEANS: &str = " GPU busy counts work that overlaps once: children may add up to more\n";
/// Number of spans that replay graphs below which the captured spans are shown, and of these below each. Below others
/// stands their number.
const MOST_REPLAYING: usize = 4;
const MOST_CAPTURED: usize = 8;
/// The label for work launched elsewhere.
const OUTSIDE: &str = "(outside any range)";

/// `Tree`: nested phases in order of first entry.
pub(crate) fn tree(summary: &Summary, options: &RenderOptions) -> String {
    titled(summary, &title("Phase Tree", " (tree)", options), options)
}

/// The same under another title.
pub(crate) fn titled(summary: &Summary, title: &str, options: &RenderOptions) -> String {
    if summary.tree.is_empty() {
        return section(title, NO_RANGE);
    }
    let phases = Phases::of(summary);
    let entries = Shape::of(&phases, options.rows).entries();
    let quantiles = quantiles_of(&phases);
    let appended = appended_figures(entries.iter().map(|entry| phases.all()[entry.index].node));
    let outside = summary.gpu.as_ref().and_then(outside);
    let has_row = |index| match index {
        Some(index) => entries.iter().any(|entry| entry.folded == 0 && entry.index == index),
        None => outside.is_some(),
    };
    let replayed = replays::replayed(&phases, summary.gpu.as_ref()).filter(|(index, _)| has_row(*index));
    let replayed: FxHashMap<Option<usize>, (usize, &GraphWork)> =
        replayed.enumerate().map(|(place, (index, graphs))| (index, (place, graphs))).collect();
    let mut lines: Vec<Line> = Vec::new();
    for entry in &entries {
        lines.push(line(&phases, entry, (&appended, &quantiles), options));
        let graphs = replayed.get(&Some(entry.index)).filter(|_| entry.folded == 0);
        lines.extend(graphs.into_iter().flat_map(|graphs| captured(*graphs, entry.depth + 1, options)));
    }
    lines.extend(outside);
    lines.extend(replayed.get(&None).into_iter().flat_map(|graphs| captured(*graphs, 1, options)));
    let known = |way: Way| phases.gpu_whole(way).is_some();
    let busy = known(Way::Busy) || summary.gpu.as_ref().is_some_and(|gpu| gpu.outside.operations > 0);
    let headers = appended.iter().map(|(_, column)| column.page.to_string());
    let headers: Vec<String> = headers.chain(quantiles.iter().map(|&q| percentile(q))).in_vec();
    let known = Known {
        awaited: phases.awaited_whole().is_some(),
        busy,
        on_streams: known(Way::Stream),
        further: &headers,
        quantiles: quantiles.len(),
    };
    let mut body = Layout::fitting(&lines, known, options.columns()).render(&lines, options);
    let findings = options.kept(analysis::in_phases(summary, &phases, options.wording()));
    let mut below = verdict::verdict(summary, &findings, &phases, &entries, options);
    below += &advice(summary, options);
    below += &verdict::marks(summary, &phases, &entries, options);
    below += if busy { BUSY_MEANS } else { "" };
    if lines.iter().any(|line| line.is_captured) {
        below +=
            &wrapped(" [] ", &replays::captured_means(replayed.values().map(|(_, graphs)| *graphs)), options.columns());
    }
    below += &summary.gpu.as_ref().map_or_else(String::new, |gpu| copies(&gpu.total.memory, options));
    if !below.is_empty() {
        body += &format!("\n{below}");
    }
    section(title, &body)
}

/// The quantiles that any node has, in rising order.
pub(crate) fn quantiles(summary: &Summary) -> Vec<f64> {
    quantiles_of(&Phases::of(summary))
}

fn quantiles_of(phases: &Phases) -> Vec<f64> {
    let mut all: Vec<f64> = phases.all().iter().flat_map(|phase| &phase.node.quantiles).map(|one| one.q).in_vec();
    order::numbers(&mut all);
    all
}

/// Sentences on how rows could show more.
fn advice(summary: &Summary, options: &RenderOptions) -> String {
    summary.advice.iter().map(|sentence| wrapped(" ->", &names::escaped(sentence), options.columns())).collect()
}

/// The GPU time of work that no span launched; the CPU time there is not known.
fn outside(gpu: &GpuActivity) -> Option<Line> {
    let work = Some(&gpu.outside).filter(|work| work.operations > 0)?;
    let mut cells = vec![String::new(); COLUMNS];
    BUSY.iter().for_each(|&column| cells[column] = human(work.busy_ns));
    Some(Line { margin: "  ", cells, phase: OUTSIDE.to_owned(), ..Line::default() })
}

/// A line for each span that captured what replays consist of.
fn captured((place, graphs): (usize, &GraphWork), depth: usize, options: &RenderOptions) -> impl Iterator<Item = Line> {
    let most = if place < MOST_REPLAYING { MOST_CAPTURED } else { 0 };
    replays::captured(graphs, most).into_iter().map(move |row| {
        let mut cells = vec![String::new(); COLUMNS];
        BUSY.iter().zip([row.sum_ns, row.own_ns]).for_each(|(&column, ns)| cells[column] = or_dash(ns));
        cells[CALLS] = integer(row.nodes, options.thousands);
        let (depth, phase) = (depth + row.depth, names::escaped(&row.name).into_owned());
        Line { margin: "  ", cells, depth, phase, is_captured: true, ..Line::default() }
    })
}

/// One line for each direction of copies, and one for sets.
fn copies(memory: &[MemoryWork], options: &RenderOptions) -> String {
    let rows: Vec<[String; 5]> = memory
        .iter()
        .filter(|work| work.operations > 0)
        .map(|work| {
            let (what, one, several) = match work.kind.direction() {
                Some(direction) => (format!("copied {direction}"), "copy", "copies"),
                None => ("set".to_owned(), "set", "sets"),
            };
            let count = integer(work.operations, options.thousands);
            let noun = if work.operations == 1 { one } else { several };
            let (bytes, time) = (human_bytes(work.bytes), human_inline(work.sum_ns));
            [what, bytes, time, rate(work), format!("({count} {noun})")]
        })
        .in_vec();
    let width = |column: usize| rows.iter().map(|row| width_of(&row[column])).largest();
    let [what, bytes, time, rate] = [width(0), width(1), width(2), width(3)];
    let line =
        |[a, b, c, d, e]: &[String; 5]| format!(" {a:<what$}  {b:>bytes$} in {c:>time$}  {d:>rate$} GB/s  {e}\n");
    rows.iter().map(line).collect()
}

/// Three digits, or a dash without a time.
fn rate(work: &MemoryWork) -> String {
    let rate = work.gigabytes_per_second();
    let decimals = match rate {
        _ if work.sum_ns == 0 => return "-".to_owned(),
        99.95.. => 0,
        9.995.. => 1,
        0.9995.. => 2,
        _ => 3,
    };
    format!("{rate:.decimals$}")
}

fn line(
    phases: &Phases,
    entry: &Entry,
    (appended, quantiles): (&[(usize, Column)], &[f64]),
    options: &RenderOptions,
) -> Line {
    let figures = &entry.figures;
    let phase = &phases.all()[entry.index];
    let node = phase.node;
    let (busy, stream) = (figures.on_gpu(Way::Busy), figures.on_gpu(Way::Stream));
    let mut cells = vec![
        human(figures.total_ns),
        human(figures.self_ns),
        or_dash(figures.awaited_ns),
        or_dash(busy.total_ns),
        or_dash(busy.self_ns),
        or_dash(stream.total_ns),
        or_dash(stream.self_ns),
        // Work that ran elsewhere or later is no part of its parent.
        match entry.beside && u128::from(figures.total_ns) > entry.nested {
            true => "-".to_owned(),
            false => share(figures.total_ns, entry.base),
        },
        integer(figures.calls, options.thousands),
        match (entry.folded, phase.mean_ns()) {
            (0, Some(mean)) => human(mean),
            (0, None) => NO_TIME.to_owned(),
            _ => String::new(), // an average over different phases means nothing
        },
        integer(figures.instances, options.thousands),
    ];
    // The row of a helper thread, which was never entered.
    if figures.calls == 0 && figures.instances == 0 && figures.total_ns == 0 && busy.total_ns.is_some() {
        let of_gpu = 2..7; // with what is awaited
        let others = cells.iter_mut().enumerate().filter(|(cell, _)| !of_gpu.contains(cell));
        others.for_each(|(_, text)| text.clear());
    }
    cells.extend(appended.iter().map(|(place, column)| match node.shown().get(*place) {
        _ if entry.folded > 0 => String::new(),
        Some(Some(figure)) if column.unit == Unit::Ns => human(*figure),
        Some(Some(figure)) => integer(*figure, options.thousands),
        _ => NO_TIME.to_owned(),
    }));
    cells.extend(quantiles.iter().map(|&q| match entry.folded {
        0 => quantile_text(node.quantiles.iter().find(|quantile| quantile.q == q).copied()),
        _ => String::new(),
    }));
    Line {
        margin: entry.margin(),
        cells,
        has_warm_up: entry.folded == 0 && phase.has_warm_up,
        blocked: entry.folded == 0 && phase.is_blocked(),
        beside: entry.beside,
        again: entry.is_polled().then_some(if figures.awaited_ns.is_some() { '+' } else { '&' }),
        depth: entry.depth,
        phase: match entry.folded {
            0 => phases.label(entry.index, options.wording()),
            count if entry.is_small => format!("({count} more under 0.1 %)"),
            count => format!("({count} more)"),
        },
        self_ns: figures.self_ns,
        whole: phases.whole(),
        is_captured: false,
    }
}

fn or_dash(ns: Option<u64>) -> String {
    ns.map_or_else(|| NO_TIME.to_owned(), human)
}

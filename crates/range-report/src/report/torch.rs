//! The table of `torch.profiler`: spans, API calls and GPU operations, with the time of each on CPU and GPU.

use std::cmp::Reverse;

use super::envelope::{NO_RANGE, section, title};
use super::gpu_work::{self, NO_ACTIVITY, Tally};
use super::options::RenderOptions;
use super::replays;
use crate::text::width::{blanks, cut, shorten, width_of};
use range_model::stats::{Lean, Named, order};
use range_model::{CapturedWork, GpuActivity, GraphWork, MemoryKind, Summary, TreeNode};

const HEADERS: [&str; 11] = [
    "Name",
    "Self CPU %",
    "Self CPU",
    "CPU total %",
    "CPU total",
    "CPU time avg",
    "Self CUDA",
    "Self CUDA %",
    "CUDA total",
    "CUDA time avg",
    "# of Calls",
];
/// Largest width of the column of names, and the margin that a narrower column adds to its longest name.
const MAX_NAME: usize = 55;
const BESIDE_NAME: usize = 4;
/// Characters of a name that is too long, before three points.
const CUT_NAME: usize = MAX_NAME - 3;
/// Characters of a path of spans, so that a name with it is not too long.
const MOST_PATH: usize = CUT_NAME - 1 - "captured in ".len();
/// Width of every other column.
const COLUMN: usize = 12;

pub(crate) fn torch(summary: &Summary, options: &RenderOptions) -> String {
    let title = &title("Operators as in torch.profiler", " (torch)", options);
    let Some(gpu) = &summary.gpu else {
        return section(title, NO_ACTIVITY);
    };
    let mut rows = spans(&summary.tree, options);
    let outside = captured([&gpu.outside_graphs], options);
    if !outside.is_empty() {
        let ns = gpu.outside.sum_ns;
        rows.push(Row { name: replays::OUTSIDE.to_owned(), self_gpu_ns: ns, gpu_ns: ns, calls: 1, ..Row::default() });
        rows.extend(outside);
    }
    rows.extend(gpu_work::calls(gpu, options).into_iter().map(Row::of_call));
    rows.extend(operations(summary, gpu, options));
    if rows.is_empty() {
        return section(title, NO_RANGE);
    }
    section(title, &table(rows, options.rows))
}

/// One line: times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    name: String,
    self_cpu_ns: u64,
    cpu_ns: u64,
    self_gpu_ns: u64,
    gpu_ns: u64,
    calls: u64,
    /// Whether it is work on the GPU itself, and not the code that launched it.
    on_gpu: bool,
}

impl Row {
    fn of_call(Tally { name, calls, total_ns, .. }: Tally) -> Self {
        Self { name, calls, self_cpu_ns: total_ns, cpu_ns: total_ns, ..Self::default() }
    }

    fn of_operation(Tally { name, calls, total_ns, .. }: Tally) -> Self {
        Self { name, calls, self_gpu_ns: total_ns, gpu_ns: total_ns, on_gpu: true, ..Self::default() }
    }

    fn add(&mut self, node: &TreeNode) {
        let work = node.gpu.as_ref();
        let in_calls =
            work.iter().flat_map(|work| &work.calls).fold(0_u64, |sum, call| sum.saturating_add(call.total_ns));
        let add = |sum: &mut u64, ns: u64| *sum = sum.saturating_add(ns);
        add(&mut self.self_cpu_ns, node.self_ns.saturating_sub(in_calls));
        add(&mut self.cpu_ns, node.total_ns);
        add(&mut self.self_gpu_ns, work.map_or(0, |work| work.own.sum_ns));
        add(&mut self.gpu_ns, work.map_or(0, |work| work.total.sum_ns));
        add(&mut self.calls, node.calls);
    }
}

/// Nodes of one name are one row, in order of each name's first entry. If a name is inside itself, totals count the
/// inner part twice, as in torch. Below a row stands what the spans captured that it replays.
fn spans(tree: &[TreeNode], options: &RenderOptions) -> Vec<Row> {
    let mut rows: Vec<(Row, Vec<&GraphWork>)> = Vec::new();
    let mut known: Named<(Option<&str>, &str), usize> = Named::default();
    let mut waiting: Vec<&TreeNode> = tree.iter().rev().in_vec();
    while let Some(node) = waiting.pop() {
        waiting.extend(node.children.iter().rev());
        let domain = node.domain.as_deref();
        let index = *known.row_or((domain, &node.name), || {
            rows.push((Row { name: options.wording().label(domain, &node.name), ..Row::default() }, Vec::new()));
            rows.len() - 1
        });
        if let Some((row, graphs)) = rows.get_mut(index) {
            row.add(node);
            graphs.extend(node.gpu.as_ref().map(|work| &work.graphs));
        }
    }
    rows.into_iter().flat_map(|(row, graphs)| std::iter::once(row).chain(captured(graphs, options))).in_vec()
}

/// A row for each path of spans that captured nodes whose times are known; its calls are the nodes that ran. Their time
/// is that of the span which replays them, so no row has it as its own.
fn captured<'a>(graphs: impl IntoIterator<Item = &'a GraphWork>, options: &RenderOptions) -> Vec<Row> {
    let mut rows: Named<&str, Row> = Named::default();
    for part in graphs.into_iter().flat_map(|graphs| &graphs.captured).filter(|part| part.timed > 0) {
        let row = rows.row(&part.captured_in);
        row.gpu_ns = row.gpu_ns.saturating_add(part.sum_ns);
        row.calls = row.calls.saturating_add(part.timed);
    }
    let name = |path: &str| match path {
        "" => "captured in no span of its own".to_owned(),
        CapturedWork::NOT_SEEN => path.to_owned(),
        // The innermost spans distinguish long paths.
        _ => format!("captured in {}", shorten(&gpu_work::printable(path, options), MOST_PATH, MOST_PATH * 2 / 3)),
    };
    let mut rows = rows.into_iter().map(|(path, row)| Row { name: name(path), ..row }).in_vec();
    order::by_most(&mut rows, |row: &Row| row.gpu_ns);
    rows
}

/// Torch adds the kinds of memory of a copy, `(Pageable -> Device)`, which are not known here.
fn operations(summary: &Summary, gpu: &GpuActivity, options: &RenderOptions) -> impl Iterator<Item = Row> {
    let memory_name = |kind: MemoryKind| {
        kind.direction().map_or_else(|| "Memset".to_owned(), |direction| format!("Memcpy {direction}"))
    };
    gpu_work::operations(summary, gpu, memory_name, options).into_iter().map(Row::of_operation)
}

/// The table and the two sums below it. GPU shares are based on GPU work. If no row is GPU work, they are based on the
/// GPU time that each row launched itself.
fn table(rows: Vec<Row>, most: usize) -> String {
    let cpu: u128 = rows.iter().map(|row| row.self_cpu_ns).total();
    let any_on_gpu = rows.iter().any(|row| row.on_gpu);
    let on_gpu = rows.iter().filter(|row| row.on_gpu || !any_on_gpu);
    let gpu: u128 = on_gpu.map(|row| row.self_gpu_ns).total();
    let rows = bounded(rows, most, any_on_gpu);

    let longest = rows.iter().map(|row| width_of(&row.name)).largest();
    let width = (longest + BESIDE_NAME).min(MAX_NAME);
    let widths: [usize; HEADERS.len()] = std::array::from_fn(|column| if column == 0 { width } else { COLUMN });
    let rule = line(&widths, &widths.map(|width| "-".repeat(width)));

    let mut out = format!("{rule}{}{rule}", line(&widths, &HEADERS.map(str::to_owned)));
    for row in &rows {
        let cells = [
            shortened(&row.name),
            share(row.self_cpu_ns, cpu),
            time(row.self_cpu_ns.into()),
            share(row.cpu_ns, cpu),
            time(row.cpu_ns.into()),
            mean(row.cpu_ns, row.calls),
            time(row.self_gpu_ns.into()),
            share(row.self_gpu_ns, gpu),
            time(row.gpu_ns.into()),
            mean(row.gpu_ns, row.calls),
            row.calls.to_string(),
        ];
        out += &line(&widths, &cells);
    }
    format!("{out}{rule}Self CPU time total: {}\nSelf CUDA time total: {}\n", time(cpu), time(gpu))
}

/// The rows with the largest own times, on CPU or GPU, in their order; and one with the sum of the others. For the GPU
/// only rows of GPU work count, if there are any, because the launching rows repeat their time.
fn bounded(rows: Vec<Row>, most: usize, any_on_gpu: bool) -> Vec<Row> {
    if rows.len() <= most.saturating_add(1) {
        return rows; // one row would not be shorter with a sum in its place
    }
    let mut largest: Vec<usize> = (0..rows.len()).in_vec();
    // What spans captured has no time of its own.
    let time = |row: &Row| Some(row.self_cpu_ns.max(row.self_gpu_ns)).filter(|own| *own > 0).unwrap_or(row.gpu_ns);
    order::by_key(&mut largest, |&index| rows.get(index).map(|row| Reverse(time(row))));
    let mut is_kept = vec![false; rows.len()];
    largest.into_iter().take(most).for_each(|index| is_kept[index] = true);
    let mut rest = Row { name: format!("({} more)", rows.len() - most), ..Row::default() };
    let mut kept = Vec::new();
    for (row, is_kept) in rows.into_iter().zip(is_kept) {
        if is_kept {
            kept.push(row);
            continue;
        }
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut rest.self_cpu_ns, row.self_cpu_ns);
        add(&mut rest.cpu_ns, row.cpu_ns);
        add(&mut rest.calls, row.calls);
        if row.on_gpu || !any_on_gpu {
            add(&mut rest.self_gpu_ns, row.self_gpu_ns);
            add(&mut rest.gpu_ns, row.gpu_ns);
        }
    }
    kept.push(rest);
    kept
}

/// All cells right-aligned, with two blanks after each, even the last one.
fn line(widths: &[usize; HEADERS.len()], cells: &[String; HEADERS.len()]) -> String {
    let mut out = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        out.push_str(&blanks(cell, *width));
        out.push_str(cell);
        out.push_str("  ");
    }
    out.push('\n');
    out
}

fn shortened(name: &str) -> String {
    if width_of(name) < CUT_NAME { name.to_owned() } else { format!("{}...", cut(name, CUT_NAME)) }
}

fn share(part_ns: u64, base_ns: u128) -> String {
    if base_ns == 0 { "NaN".to_owned() } else { format!("{:.2}%", us(part_ns.into()) * 100.0 / us(base_ns)) }
}

fn mean(total_ns: u64, calls: u64) -> String {
    in_unit(if calls == 0 { 0.0 } else { us(total_ns.into()) / calls as f64 })
}

fn time(ns: u128) -> String {
    in_unit(us(ns))
}

/// Microseconds as a double, as torch calculates.
fn us(ns: u128) -> f64 {
    ns as f64 / 1e3
}

fn in_unit(us: f64) -> String {
    if us >= 1e6 {
        format!("{:.3}s", us / 1e6)
    } else if us >= 1e3 {
        format!("{:.3}ms", us / 1e3)
    } else {
        format!("{us:.3}us")
    }
}

#[cfg(test)]
mod tests;

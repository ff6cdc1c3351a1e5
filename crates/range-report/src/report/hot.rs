//! The short answer: the few operations and calls that take most of the time.

use std::cmp::Reverse;

use super::envelope::{section, title};
use super::fitted::{Keep, dropping, fitted};
use super::gpu_work::{self, NO_ACTIVITY, NO_CALL, NO_CALL_RECORDED, NO_OPERATION, Tally};
use super::options::{HOT_PERCENT, RenderOptions};
use super::replays;
use super::table::{Cell, Column, Table};
use crate::analysis::{Phase, Phases, enough, waiting_for_ranks};
use crate::text::kernels::short_names;
use crate::text::number::{human_inline, integer, percent};
use crate::text::width::shorten;
use range_model::names::escaped;
use range_model::stats::{Lean, Named, order};
use range_model::{GpuActivity, RangeStyle, Summary};

/// The largest number of rows of a list.
const MOST_ROWS: usize = 10;
/// The largest width of a range's name.
const MAX_RANGE: usize = 24;

/// `Hot`: one list of operations, one of calls.
pub(crate) fn hot(summary: &Summary, options: &RenderOptions) -> String {
    let percent = if options.hot_percent.is_nan() { HOT_PERCENT } else { options.hot_percent.clamp(0.0, 100.0) };
    let percentage = rounded(percent);
    let title = title(&format!("Hot Spots, {percentage} % of the Time"), " (hot)", options);
    let Some(gpu) = &summary.gpu else {
        return section(&title, NO_ACTIVITY);
    };
    let mut operations = gpu_work::operations(summary, gpu, |kind| gpu_work::bracketed(kind, options.style), options);
    let waiting = leave_out_waiting(&mut operations, summary);
    let phases = Phases::of(summary);
    let mut launched_in = launching_ranges(&phases, gpu, options);
    let mut items = ["kernel or copy", "kernels and copies"];
    if let Some(row) = operations.iter().find(|row| row.name == replays::WHOLE) {
        items = ["kernel, copy or graph", "kernels, copies and graphs"];
        if let Some(index) = replays::whole_launched_in(&phases, row.total_ns) {
            let label = phases.label(index, options.wording());
            *launched_in.row(row.name.clone()) = shorten(&label, MAX_RANGE, MAX_RANGE * 2 / 3);
        }
    }
    let ranges: Vec<String> =
        operations.iter().map(|row| launched_in.get(&row.name).cloned().unwrap_or_default()).in_vec();
    if !options.full_names && !options.raw_names {
        let short = short_names(gpu.kernels.iter().map(|kernel| kernel.name.as_str()));
        let short: Named<String, _> = short.iter().map(|(name, short)| (escaped(name).into_owned(), short)).collect();
        for row in &mut operations {
            if let Some(name) = short.get(&row.name) {
                row.name = escaped(name).into_owned();
            }
        }
    }
    let mut calls = gpu_work::calls(gpu, options);
    order::by_most(&mut calls, |row| row.total_ns);
    let mut out = List { what: "GPU time", items, none: NO_OPERATION }.text(&operations, &ranges, percent, options);
    if waiting > 0 {
        out += &format!(" Without {} in which ranks waited for others in collectives.\n", human_inline(waiting));
    }
    out.push('\n');
    out += &List {
        what: "API time",
        items: ["API call", "API calls"],
        none: if gpu.calls.is_some() { NO_CALL } else { NO_CALL_RECORDED },
    }
    .text(&calls, &[], percent, options);
    section(&title, &out)
}

/// Leaves out the time in which ranks only waited for others, which is no reason to make a kernel faster. Returns how
/// much that is.
fn leave_out_waiting(operations: &mut [Tally], summary: &Summary) -> u64 {
    let mut left_out = 0_u64;
    for row in operations.iter_mut() {
        let waiting = waiting_for_ranks(summary, &row.name, row.total_ns);
        row.total_ns -= waiting;
        left_out = left_out.saturating_add(waiting);
    }
    order::by_most(operations, |row| row.total_ns);
    left_out
}

/// The wording of a list.
struct List {
    what: &'static str,
    /// Singular and plural of an item.
    items: [&'static str; 2],
    none: &'static str,
}

impl List {
    /// `rows` are in descending order of totals; `ranges` has the launching range of each, if there are any.
    fn text(&self, rows: &[Tally], ranges: &[String], wanted: f64, options: &RenderOptions) -> String {
        if rows.is_empty() {
            return self.none.to_owned();
        }
        let base: u128 = rows.iter().map(|row| row.total_ns).total();
        let totals: Vec<u64> = rows.iter().map(|row| row.total_ns).in_vec();
        let enough = enough(&totals, wanted / 100.0).min(rows.len());
        let (listed, left) = rows.split_at(enough.min(MOST_ROWS));
        let part = |rows: &[Tally]| {
            let ns: u128 = rows.iter().map(|row| row.total_ns).total();
            percent(u64::try_from(ns).unwrap_or(u64::MAX), base).unwrap_or_else(|| "0.0".to_owned())
        };
        let whole = human_inline(u64::try_from(base).unwrap_or(u64::MAX));
        let (what, [one, several], count) = (self.what, self.items, listed.len());
        let mut out = match count {
            1 => format!(" The {one} that makes {} % of {what} ({whole}):\n\n", rounded(wanted)),
            _ if enough == count => {
                format!(" The {count} {several} that together make {} % of {what} ({whole}):\n\n", rounded(wanted))
            }
            _ => format!(" The {count} {several} that take longest, {} % of {what} ({whole}):\n\n", part(listed)),
        };
        out += &table(listed, ranges, base, options);
        out += &match left.len() {
            0 => " None is left out.\n".to_owned(),
            1 => format!(" 1 more is left out: {}%.\n", part(left)),
            more => {
                format!(" {} more are left out: together {}%.\n", integer(more as u64, options.thousands), part(left))
            }
        };
        out
    }
}

/// 99.5 %, and 90 % rather than 90.0 %.
fn rounded(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0
}

fn table(rows: &[Tally], ranges: &[String], base: u128, options: &RenderOptions) -> String {
    let [share, together, total, calls] = ["Share (%)", "Together (%)", "Total (ns)", "Calls"].map(Column::of);
    let mut table = Table::new([Column::name("Name"), share, together, total, calls, Column::text("Range")]);
    let mut sum = 0_u64;
    for (at, row) in rows.iter().enumerate() {
        sum = sum.saturating_add(row.total_ns);
        let shares = [row.total_ns, sum].map(|part| Cell::Share { part, whole: base });
        let mut cells = vec![Cell::text(&*row.name)];
        cells.extend(shares);
        cells.extend([Cell::Whole(row.total_ns), Cell::Whole(row.calls)]);
        cells.push(Cell::text(ranges.get(at).map_or("", String::as_str)));
        table.push(cells);
    }
    if ranges.iter().take(rows.len()).all(String::is_empty) {
        table.columns.pop();
    }
    let head = dropping(&["Range", "Together", "Calls", "Share"]);
    // With more rows than are printed, there would be a sum.
    fitted(&table, Keep::Start, &head, &RenderOptions { rows: MOST_ROWS, ..*options })
}

/// The range that launched most of each kernel's time, by the printed name of the kernel. The kernels of a range count
/// in each range around it, too: of several that launched more than half, it is the one that launched least in all.
/// What a helper thread launched counts in the ranges around its row.
fn launching_ranges(phases: &Phases<'_>, gpu: &GpuActivity, options: &RenderOptions) -> Named<String, String> {
    let mut in_all: Named<String, u64> = Named::default();
    let mut by_kernel: Named<&str, Named<String, u64>> = Named::default();
    let mut add = |kernel, label: String, ns| {
        let of_kernel = by_kernel.row(kernel).row(label.clone());
        for sum in [of_kernel, in_all.row(label)] {
            *sum = u64::saturating_add(*sum, ns);
        }
    };
    for row in gpu.range_kernels.iter().filter(|row| row.style == Some(RangeStyle::PushPop)) {
        let Some((domain, name)) = &row.range else { continue };
        let label = options.wording().label(domain.as_deref(), name);
        add(&row.kernel, label, row.times.total_ns);
    }
    let mut around: Vec<String> = Vec::new();
    for Phase { node, depth, .. } in phases.all() {
        around.truncate(*depth);
        for kernel in node.gpu.iter().flat_map(|work| &work.kernels) {
            around.iter().for_each(|label| add(&kernel.name, label.clone(), kernel.sum_ns));
        }
        around.push(options.wording().label(node.domain.as_deref(), &node.name));
    }
    let mut totals: Named<&str, u64> = Named::default();
    gpu.kernels.iter().for_each(|row| *totals.row(&row.name) = row.times.total_ns);
    let most = |(kernel, ranges): (&str, Named<String, u64>)| {
        let half = totals.get(&kernel)? / 2;
        let in_all = |label: &String| Reverse(in_all.get(label).copied());
        let most = ranges.into_iter().largest_by(|(label, ns)| match *ns > half {
            true => (true, in_all(label), *ns),
            false => (false, Reverse(None), *ns),
        });
        let label = shorten(&most?.0, MAX_RANGE, MAX_RANGE * 2 / 3);
        Some((gpu_work::printable(kernel, options), label))
    };
    let mut launched_in = Named::default();
    by_kernel.into_iter().filter_map(most).for_each(|(kernel, label)| *launched_in.row(kernel) = label);
    launched_in
}

#[cfg(test)]
mod tests;

//! The short answer: the few operations and the few calls that make most of the time.

use std::collections::BTreeMap;

use super::envelope::section;
use super::gpu_work::{self, NO_ACTIVITY, NO_CALL, NO_CALL_RECORDED, NO_OPERATION, Tally};
use super::kinds::TableStyle;
use super::options::HOT_PERCENT;
use super::options::RenderOptions;
use crate::Summary;
use crate::analysis::enough;
use crate::stats::order;
use crate::text::kernels::short_names;
use crate::text::names::escaped;
use crate::text::number::{human, human_inline, integer, percent};
use crate::text::width::{blanks, shorten, width_of};

const HEADERS: [&str; 5] = ["Share", "Together", "Total", "Calls", "Name"];
/// What a name gets however narrow the output is.
const MIN_NAME: usize = 20;

/// `Hot`: one list of operations, one of calls.
pub(crate) fn hot(summary: &Summary, options: &RenderOptions) -> String {
    let percent = if options.hot_percent.is_nan() { HOT_PERCENT } else { options.hot_percent.clamp(0.0, 100.0) };
    let share = percent / 100.0;
    let percentage = (percent * 10.0).round() / 10.0; // 99.5 %, and 90 % rather than 90.0 %
    let title = match options.style {
        TableStyle::Current => format!(" ** Hot Spots, {percentage} % of the Time (hot):"),
        TableStyle::Legacy => format!("Hot Spots, {percentage} % of the Time:"),
    };
    let Some(gpu) = &summary.gpu else {
        return section(&title, NO_ACTIVITY);
    };
    let mut operations = gpu_work::operations(gpu, |kind| gpu_work::bracketed(kind, options.style), options);
    if !options.full_names && !options.raw_names {
        let short = short_names(gpu.kernels.iter().map(|kernel| kernel.name.as_str()));
        let short: BTreeMap<_, _> = short.iter().map(|(name, short)| (escaped(name), short)).collect();
        for row in &mut operations {
            if let Some(name) = short.get(&*row.name) {
                row.name = escaped(name).into_owned();
            }
        }
    }
    let mut calls = gpu_work::calls(gpu, options);
    let mut out = List { what: "GPU time", items: ["kernel or copy", "kernels and copies"], none: NO_OPERATION }.text(
        &mut operations,
        share,
        percentage,
        options,
    );
    out.push('\n');
    out += &List {
        what: "API time",
        items: ["API call", "API calls"],
        none: if gpu.calls.is_some() { NO_CALL } else { NO_CALL_RECORDED },
    }
    .text(&mut calls, share, percentage, options);
    section(&title, &out)
}

/// The words of a list.
struct List {
    what: &'static str,
    /// One of them, and several.
    items: [&'static str; 2],
    none: &'static str,
}

impl List {
    fn text(&self, rows: &mut [Tally], share: f64, percentage: f64, options: &RenderOptions) -> String {
        order::by_most(rows, |row| row.total_ns);
        let base: u128 = rows.iter().map(|row| u128::from(row.total_ns)).sum();
        if rows.is_empty() {
            return self.none.to_owned();
        }
        let totals: Vec<u64> = rows.iter().map(|row| row.total_ns).collect();
        let (listed, left) = rows.split_at(enough(&totals, share).min(rows.len()));
        let whole = human_inline(u64::try_from(base).unwrap_or(u64::MAX));
        let [one, several] = self.items;
        let mut out = match listed {
            [_] => format!(" The {one} that makes {percentage} % of {} ({whole}):\n\n", self.what),
            _ => format!(
                " The {} {several} that together make {percentage} % of {} ({whole}):\n\n",
                listed.len(),
                self.what
            ),
        };
        out += &table(listed, base, options);
        let left_ns: u128 = left.iter().map(|row| u128::from(row.total_ns)).sum();
        let rest = percent(u64::try_from(left_ns).unwrap_or(u64::MAX), base).unwrap_or_else(|| "0.0".to_owned());
        out += &match left.len() {
            0 => " None is left out.\n".to_owned(),
            1 => format!(" 1 more is left out: {rest}%.\n"),
            count => format!(" {} more are left out: together {rest}%.\n", integer(count as u64, options.thousands)),
        };
        out
    }
}

fn table(rows: &[Tally], base: u128, options: &RenderOptions) -> String {
    let mut sum = 0_u64;
    let mut lines: Vec<[String; 5]> = Vec::with_capacity(rows.len());
    for row in rows {
        sum = sum.saturating_add(row.total_ns);
        let part = |ns: u64| percent(ns, base).map_or_else(|| "-".to_owned(), |text| text + "%");
        let calls = integer(row.calls, options.thousands);
        lines.push([part(row.total_ns), part(sum), human(row.total_ns), calls, row.name.clone()]);
    }
    let widths: [usize; 4] = std::array::from_fn(|column| {
        let cells = lines.iter().map(|line| width_of(&line[column]));
        cells.max().unwrap_or(0).max(width_of(HEADERS[column]))
    });
    let taken: usize = 1 + widths.iter().map(|width| width + 2).sum::<usize>();
    let room = options.columns().saturating_sub(taken).max(MIN_NAME);
    for line in &mut lines {
        line[4] = shorten(&line[4], room, room / 3);
    }
    let longest = lines.iter().map(|line| width_of(&line[4])).max().unwrap_or(0).max(width_of(HEADERS[4]));

    let rule: [String; 5] = std::array::from_fn(|column| "-".repeat(widths.get(column).copied().unwrap_or(longest)));
    let mut out = String::new();
    for line in [HEADERS.map(str::to_owned), rule].iter().chain(&lines) {
        out.push(' ');
        for (cell, width) in line.iter().zip(widths) {
            out.push_str(&blanks(cell, width));
            out.push_str(cell);
            out.push_str("  ");
        }
        out.push_str(&line[4]);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests;

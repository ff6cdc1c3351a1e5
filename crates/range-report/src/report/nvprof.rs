//! The summary of `nvprof`: GPU activities, API calls and events of OpenACC in fixed columns, with times in 5 digits.
//!
//! Unlike in other tables, column widths do not depend on their contents, and names are not padded. The tool prints
//! whole names; a kernel's can have thousands of characters, so long ones are shortened here.

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::envelope::section;
use super::gpu_work::{self, NO_ACTIVITY, Tally};
use super::kinds::TableStyle;
use super::options::RenderOptions;
use crate::text::width::shorten;
use range_model::Summary;
use range_model::stats::{Lean, order};

const GPU: &str = "GPU activities:";
const API: &str = "API calls:";
const OPENACC: &str = "OpenACC (excl):";
/// Columns before a name, and the least width of a name, however narrow the terminal is.
const BEFORE_NAME: usize = 77;
const NAME: usize = 72;

pub(crate) fn nvprof(summary: &Summary, options: &RenderOptions) -> String {
    let pid = summary.process.pid;
    let command = gpu_work::printable(&summary.process.command, options);
    let title = format!("=={pid}== Profiling application: {command}");
    if summary.gpu.is_none() && summary.openacc.is_empty() {
        return section(&title, NO_ACTIVITY);
    }
    let mut sections = Vec::new();
    if let Some(gpu) = &summary.gpu {
        let name = |kind| gpu_work::bracketed(kind, TableStyle::Legacy);
        let operations = gpu_work::operations(summary, gpu, name, options);
        sections.push((GPU, operations, "No kernels were profiled.\n"));
        sections.push((API, gpu_work::calls(gpu, options), "No API activities were profiled.\n"));
    }
    sections.push((OPENACC, openacc(summary, options), ""));
    let mut out = format!("\n{title}\n=={pid}== Profiling result:\n");
    let mut headed = false;
    for (label, rows, none) in &sections {
        if rows.is_empty() {
            out += none; // in place of the section, as the tool prints it
            continue;
        }
        if !headed {
            out += &line("Type", ["Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"].map(str::to_owned));
            headed = true;
        }
        out += &rows_of(label, rows, options);
    }
    out.push('\n');
    out
}

/// A dash where the longest time is not known.
fn extreme(ns: u64, row: &Tally) -> String {
    if row.max_ns == 0 && row.total_ns > 0 { "-".to_owned() } else { time(ns) }
}

fn openacc(summary: &Summary, options: &RenderOptions) -> Vec<Tally> {
    let rows = summary.openacc.iter().filter(|row| row.times.instances > 0);
    rows.map(|row| Tally::new(gpu_work::printable(&row.label(), options), &row.times)).in_vec()
}

/// The rows of a section by total time, with its label before the first. At most `options.rows` rows are printed, and
/// one for all others. Rows of equal time keep their order.
fn rows_of(label: &str, rows: &[Tally], options: &RenderOptions) -> String {
    let (most, width) = (options.rows, options.width.saturating_sub(BEFORE_NAME).max(NAME));
    let base: u128 = rows.iter().map(|row| row.total_ns).total();
    let mut rows: Vec<&Tally> = rows.iter().in_vec();
    order::by_key(&mut rows, |row| Reverse(row.total_ns));
    let mut out = String::new();
    let others = if rows.len() > most.saturating_add(1) { rows.split_off(most) } else { Vec::new() };
    for (index, row) in rows.into_iter().enumerate() {
        let mean_ns = row.total_ns.checked_div(row.calls).unwrap_or(0); // the tool does not round here
        let cells = [
            share(row.total_ns, base),
            time(row.total_ns),
            row.calls.to_string(),
            time(mean_ns),
            extreme(row.min_ns, row),
            extreme(row.max_ns, row),
            shorten(&row.name, width, width / 2),
        ];
        out += &line(if index == 0 { label } else { "" }, cells);
    }
    if !others.is_empty() {
        let sum = |of: fn(&Tally) -> u64| others.iter().fold(0_u64, |sum, row| sum.saturating_add(of(row)));
        let (total_ns, calls) = (sum(|row| row.total_ns), sum(|row| row.calls).to_string());
        let [mean, min, max] = <[String; 3]>::default();
        out += &line(
            "",
            [share(total_ns, base), time(total_ns), calls, mean, min, max, format!("({} more)", others.len())],
        );
    }
    out
}

fn line(label: &str, [share, total, calls, mean, min, max, name]: [String; 7]) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{label:>16}  {share:>7}  {total:>8}  {calls:>8}  {mean:>8}  {min:>8}  {max:>8}  {name}");
    out
}

fn share(part: u64, base: u128) -> String {
    let percent = if base == 0 { 0.0 } else { 100.0 * part as f64 / base as f64 };
    format!("{percent:.2}%")
}

/// Whole nanoseconds, or five digits and a unit, six digits for seconds: C's `%#.5g` and `%#.6g`.
///
/// From 1,000 s on the tool writes things like `2e+03s`; here the six digits go on, and never turn into an exponent.
pub(crate) fn time(ns: u64) -> String {
    let (size, digits, unit) = match ns {
        0..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => (1e3, 5, "us"),
        1_000_000..1_000_000_000 => (1e6, 5, "ms"),
        _ => (1e9, 6, "s"),
    };
    significant(ns as f64 / size, digits) + unit
}

/// Bytes, or bytes in a second, in the same way; units are 1,024 times as large as the one before.
pub(crate) fn bytes(bytes: f64, per: &str) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let at = (0..units.len() - 1).find(|&at| bytes < 1024_f64.powi(at as i32 + 1)).unwrap_or(units.len() - 1);
    let number = if at == 0 && bytes.fract() == 0.0 {
        format!("{bytes}")
    } else {
        significant(bytes / 1024_f64.powi(at as i32), 5)
    };
    format!("{number}{}{per}", units[at])
}

/// With this number of digits, zeros at the end included.
fn significant(value: f64, digits: usize) -> String {
    // The exponent after rounding to this number of digits.
    let rounded = format!("{value:.*e}", digits - 1);
    let exponent: usize = rounded.rsplit_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let decimals = (digits - 1).saturating_sub(exponent);
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests;

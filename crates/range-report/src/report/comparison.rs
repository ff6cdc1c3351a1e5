//! Runs side by side: one line per range if the runs fit, else one block of lines per range.

use std::borrow::Cow;
use std::io;

use super::calls;
use super::envelope::{NO_RANGE, section, title};
use super::gpu_work::printable;
use super::nsys::{quantile_cell, style_name};
use super::options::RenderOptions;
use super::table::{Cell, Column, Table};
use crate::analysis::{Basis, Change, Figure, Gate, LEAST_PAIRS, Reason, confidence};
use crate::compare::{InRun, by_self_time, with_ratios};
use crate::text::number::{average, human, human_inline, integer, percent, ratio, rounded};
use crate::text::width::{blanks, shorten, width_of};
use crate::{ComparedRange, Comparison};
use range_model::RangeStyle;
use range_model::names;
use range_model::stats::order;

/// Headers for the kinds of times, as wide as the times.
const TOTAL: &str = " Total  ";
const SELF: &str = "  Self  ";
/// Number of columns of the base run without quantiles: total and share. The others also have difference and ratio.
const OF_BASE: usize = 2;
/// `~123.4 ms`
const QUANTILE: usize = 9;
/// The narrowest column of names: names could not be distinguished below it. Runs then stand below each other.
const LEAST_NAME: usize = 20;
/// Largest width of a range's or run's name in a sentence, and of a run's in a table.
const MAX_NAME: usize = 40;
/// Number of ranges named in a sentence.
const SLOWEST: usize = 3;
/// Differences below one part in this many of the base run are not mentioned: 0.1 %.
const WORTH_A_WORD: u128 = 1_000;

impl Comparison {
    /// Prints the comparison: per range and run the total, its share, the difference from the first run and the ratio
    /// to it; and sentences on slower ranges below.
    ///
    /// If the runs fit beside each other a range is a line; otherwise it is a block with a line for each run. A range
    /// that did not occur is `-`, and its ratio is `new` or `gone`. `>>` marks the largest loss of each run. If the
    /// runs' trees have own times, a table of these comes first. Its first range is the one that itself became slower,
    /// while the first range of the other table may only contain it. As many [`quantiles`](Self::quantiles) have
    /// columns as fit. If there are more ranges than [`RenderOptions::rows`], the last line has the sum of the others.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn render(&self, options: &RenderOptions, mut out: impl io::Write) -> io::Result<()> {
        out.write_all(comparison(self, options).as_bytes())
    }

    /// Writes the comparison as comma-separated values, one row per range and run, quoted as in
    /// [`SummaryExt::write_csv`](crate::SummaryExt::write_csv).
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn write_csv(&self, mut out: impl io::Write) -> io::Result<()> {
        out.write_all(comparison_table(self).csv().as_bytes())
    }
}

/// The printed comparison.
pub(crate) fn comparison(comparison: &Comparison, options: &RenderOptions) -> String {
    let base = comparison.runs.first().map_or("none", String::as_str);
    let titled = |what: &str| title(&format!("{what} (base: {})", shown(base, options)), "", options);
    let title = titled("Range Comparison");
    if comparison.ranges.is_empty() {
        return section(&title, NO_RANGE);
    }
    let sentences = said(comparison, SLOWER, options) + &added(comparison, options);
    // Ranges that became slower themselves come before ranges that contain them.
    let own = by_self_time(comparison).map_or_else(String::new, |own| {
        section(&titled("Self Time Comparison"), &body(&own, SELF, &said(&own, SLOWER_ITSELF, options), options))
    });
    let gates: String = (1..comparison.runs.len()).filter_map(|run| gate(comparison, run, options)).collect();
    let totals = own + &section(&title, &body(comparison, TOTAL, &sentences, options));
    // The part that tells changes from noise comes first.
    if (1..comparison.runs.len()).any(|run| knows_noise(comparison, run)) { gates + &totals } else { totals + &gates }
}

/// The gate's result for a run: the largest regression first, then the other ranges by their change.
fn gate(comparison: &Comparison, run: usize, options: &RenderOptions) -> Option<String> {
    const INTERVAL: usize = 18; // `+100.0 to +100.0 %`
    const FIXED: usize = 3 + 2 + 6 + 3 * (2 + 8) + 2 + INTERVAL;
    let judged_by = comparison.gate.as_ref()?;
    let mut changes = judged(comparison, run);
    order::by(&mut changes, |a, b| {
        let (a, b) = ((&a.change, a.is_second()), (&b.change, b.is_second()));
        b.0.slower.cmp(&a.0.slower).then(a.1.cmp(&b.1)).then(b.0.percent.total_cmp(&a.0.percent))
    });
    let longest = changes.iter().map(|row| width_of(&row.label(options))).max().unwrap_or(0).max(5);
    let width = longest.min(options.columns().saturating_sub(FIXED)).max(8);
    let [base, new] = [0, run].map(|run| shorten(&shown(&comparison.runs[run], options), 8, 4));
    let mut out = String::new();
    // The cause comes first.
    for row in changes.iter().filter(|row| row.change.slower).take(SLOWEST) {
        if let Some(reason) = row.reason {
            push(&mut out, &format!(" >> {}: {reason}{}", row.label(options), row.each()));
        }
    }
    if !out.is_empty() {
        out.push('\n');
    }
    let mut line = |mark: &str, name: &str, cells: [&str; 5]| {
        let name = shorten(name, width, width / 2);
        let [of, cells @ .., interval] = cells;
        let cells: String = cells.iter().map(|cell| format!("  {}{cell}", blanks(cell, 8))).collect();
        let of = format!("{of}{}", blanks(of, 6));
        push(&mut out, &format!("{mark} {name}{}  {of}{cells}  {interval:>INTERVAL$}", blanks(&name, width)));
    };
    line("  ", "Range", ["Of", &base, &new, "Change", "Interval"]);
    let dashes = "-".repeat(8);
    line("  ", &"-".repeat(width), ["------", &dashes, &dashes, &dashes, &"-".repeat(INTERVAL)]);
    for row in changes.iter().take(options.rows) {
        let change = &row.change;
        let [base, new] = [change.base_ns, change.ns].map(|ns| human(ns as u64));
        let interval = change.interval_text().unwrap_or_else(|| "-".to_owned());
        let mark = if change.slower { ">>" } else { "  " };
        line(mark, &row.label(options), [change.basis.name(), &base, &new, &change.percent_text(), &interval]);
    }
    let more = changes.len().saturating_sub(options.rows);
    if more > 0 {
        push(&mut out, &format!("   ({more} more)"));
    }
    out.push('\n');
    for side in comparison.sides.iter().take(1).chain(comparison.sides.get(run)) {
        side.notes.iter().for_each(|note| push(&mut out, &format!("    {}: {note}", shown(&side.run, options))));
    }
    for sentence in judged_in_words(comparison, judged_by, run, &changes) {
        push(&mut out, &format!("    {sentence}"));
    }
    let [base, new] = [0, run].map(|run| shown(&comparison.runs[run], options));
    Some(section(&title(&format!("Gate ({new} against {base})"), "", options), &out))
}

/// A figure that was judged.
struct Judged<'a> {
    figure: Figure,
    domain: Option<&'a str>,
    name: &'a str,
    style: RangeStyle,
    change: Change,
    reason: Option<&'a Reason>,
}

impl Judged<'_> {
    fn label(&self, options: &RenderOptions) -> String {
        let label = options.wording().label(self.domain, self.name);
        match self.figure {
            Figure::Range if self.style == RangeStyle::StartEnd => label + " (start/end)",
            Figure::Range => label,
            Figure::Latency => label + " (latency)",
            Figure::Poll => label + " (poll)",
            Figure::GpuBusy => label + " busy",
            Figure::GpuIdle(cause) => format!("{label} idle: {}", cause.name()),
        }
    }

    /// What a reason's growth is of.
    const fn each(&self) -> &'static str {
        self.figure.each()
    }

    /// Polls come after latencies.
    fn is_second(&self) -> bool {
        self.figure == Figure::Poll
    }
}

fn judged(comparison: &Comparison, run: usize) -> Vec<Judged<'_>> {
    let ranges = comparison.ranges.iter().filter_map(|range| {
        let place = range.in_runs.get(run)?.as_ref()?;
        let figure = comparison.figure_of(range);
        let (domain, name, style) = (range.domain.as_deref(), range.name.as_str(), range.style);
        Some(Judged { figure, domain, name, style, change: place.change?, reason: place.reason.as_ref() })
    });
    let figures = comparison.figures.iter().filter_map(|row| {
        let place = row.in_runs.get(run)?.as_ref()?;
        let change = place.change.filter(|change| change.base_ns > 0.0 || change.ns > 0.0)?;
        let (domain, name, style) = (row.domain.as_deref(), row.name.as_str(), RangeStyle::PushPop);
        Some(Judged { figure: row.figure, domain, name, style, change, reason: place.reason.as_ref() })
    });
    ranges.chain(figures).collect()
}

/// Whether a run's repeats tell its changes from noise, which totals do not.
fn knows_noise(comparison: &Comparison, run: usize) -> bool {
    judged(comparison, run).iter().any(|row| row.change.low_percent.is_some())
}

/// A sentence on how much was judged, and with which certainty.
fn judged_in_words(comparison: &Comparison, gate: &Gate, run: usize, changes: &[Judged<'_>]) -> Vec<String> {
    let repeats = |run: usize| comparison.repeats.get(run).copied().unwrap_or(0);
    let (base, new) = (repeats(0), repeats(run));
    let slower = changes.iter().filter(|row| row.change.slower).count();
    let ranges = || changes.iter().filter(|row| matches!(row.figure, Figure::Range | Figure::Poll));
    let totals = ranges().filter(|row| row.change.basis == Basis::Total).count();
    let what = if ranges().count() == changes.len() { "ranges" } else { "figures" };
    let mut words = vec![format!(
        "{slower} of {} {what} slower than allowed ({} %)",
        changes.len(),
        (100.0 * gate.threshold_percent.max(0.0)).round() / 100.0
    )];
    if gate.basis != Basis::Total && totals > 0 {
        let (least, basis) = (gate.least_instances, gate.basis.name());
        words.push(format!("total: ranges with fewer than {least} instances in all runs of a side, or no {basis}"));
    }
    if base.min(new) < gate.least_repeats {
        let side = |runs: usize| if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
        let sides =
            if base == new { format!("{} a side", side(base)) } else { format!("{} and {}", side(base), side(new)) };
        words.push(format!("{sides}: too few to tell a change from noise, so 25 % of a median is allowed,"));
        words.push("and 100 % of a total or p99; 20 runs a side, recorded alternately, show 5 %".to_owned());
        return words;
    }
    let known = changes.iter().filter(|row| row.change.low_percent.is_some()).count();
    if known > 0 {
        words.push(format!(
            "{} pairs of runs; all intervals together hold in {} % of comparisons",
            base.min(new),
            confidence()
        ));
    }
    if known < changes.len() {
        words.push(format!("no interval: fewer than {LEAST_PAIRS} pairs of runs have the range"));
    }
    words
}

/// A sentence on the regressions of a run, for the page. `None` if nothing was judged.
#[cfg(feature = "page")]
#[must_use]
pub fn gate_verdict(comparison: &Comparison, run: usize, options: &RenderOptions) -> Option<Verdict> {
    let gate = comparison.gate.as_ref()?;
    let changes = judged(comparison, run);
    let mut slower: Vec<_> = changes.iter().filter(|row| row.change.slower).collect();
    order::by(&mut slower, |a, b| {
        a.is_second().cmp(&b.is_second()).then(b.change.percent.total_cmp(&a.change.percent))
    });
    let named = slower.iter().map(|row| {
        let reason = row.reason.map_or_else(String::new, |reason| format!(" ({reason}{})", row.each()));
        format!("{} {}{reason}", row.label(options), row.change)
    });
    let text = judged_in_words(comparison, gate, run, &changes).join("; ");
    let text = named.map(|name| name + "; ").chain([text]).collect();
    Some(Verdict { slower: !slower.is_empty(), text })
}

fn body(comparison: &Comparison, time: &'static str, sentences: &str, options: &RenderOptions) -> String {
    let mut lines = Lines::of(comparison, time, options);
    let table = match lines.name_width(options.columns()) {
        Some(width) => lines.beside(width),
        None => lines.below(options.columns()),
    };
    if sentences.is_empty() { table } else { format!("{table}\n{sentences}") }
}

/// The comparison for programs: one row per range and run.
pub(crate) fn comparison_table(comparison: &Comparison) -> Table {
    let all = comparison.ranges.iter().flat_map(|range| range.in_runs.iter().flatten());
    let parts = calls::parts(&all.map(|place| &place.times).collect::<Vec<_>>());
    let mut headers: Vec<String> =
        ["Run", "Time (%)", "Total Time (ns)", "Instances", "Avg (ns)"].map(str::to_owned).into();
    headers.extend(parts.iter().map(|&q| format!("{} (ns)", calls::percentile(q))));
    headers.extend(["Difference (ns)", "Ratio", "Self Time (ns)", "Self Difference (ns)"].map(str::to_owned));
    let judged = ["Judged", "Judged Time (ns)", "Change (%)", "Low (%)", "High (%)", "Slower"].map(str::to_owned);
    headers.extend(judged.into_iter().filter(|_| comparison.gate.is_some()));
    headers.extend(["Style", "Range"].map(str::to_owned));
    let mut table = Table::new(headers.into_iter().map(Column::of).collect::<Vec<_>>());
    let known = |text: Option<String>| text.map_or(Cell::Unknown, Cell::tested);
    let wholes = wholes(comparison);
    for range in &comparison.ranges {
        for (number, (run, place)) in comparison.runs.iter().zip(&range.in_runs).enumerate() {
            let times = place.as_ref().map(|place| &place.times);
            let whole = wholes.get(number).copied().unwrap_or(0);
            let mut row = vec![
                Cell::text(run.as_str()),
                known(times.and_then(|times| percent(times.total_ns, whole))),
                known(times.map(|times| times.total_ns.to_string())),
                known(times.map(|times| times.instances.to_string())),
                known(times.and_then(|times| average(times.total_ns, times.instances))),
            ];
            row.extend(parts.iter().map(|&q| quantile_cell(times.and_then(|times| times.quantile(q)))));
            row.extend([
                known(range.difference_ns(number).filter(|_| number > 0).map(|ns| ns.to_string())),
                known(
                    place
                        .as_ref()
                        .and_then(|place| place.ratio)
                        .filter(|_| number > 0)
                        .map(|ratio| format!("{ratio:.4}")),
                ),
                known(place.as_ref().and_then(|place| place.self_ns).map(|ns| ns.to_string())),
                known(range.self_difference_ns(number).filter(|_| number > 0).map(|ns| ns.to_string())),
            ]);
            let change = place.as_ref().and_then(|place| place.change);
            let percent = |percent: Option<f64>| known(percent.and_then(signed));
            let judged = [
                known(change.map(|change| change.basis.name().to_owned())),
                percent(change.map(|change| change.ns)),
                percent(change.map(|change| change.percent)),
                percent(change.and_then(|change| change.low_percent)),
                percent(change.and_then(|change| change.high_percent)),
                known(change.map(|change| change.slower.to_string())),
            ];
            row.extend(judged.into_iter().filter(|_| comparison.gate.is_some()));
            row.extend([
                Cell::text(style_name(range.style)),
                Cell::text(names::label_or_none(range.domain.as_deref(), &range.name)),
            ]);
            table.push(row);
        }
    }
    table
}

/// One decimal, as in [`rounded`], with a sign.
fn signed(value: f64) -> Option<String> {
    let size = rounded(value.abs())?;
    Some(if value < 0.0 && size != "0.0" { format!("-{size}") } else { size })
}

/// The sentence on a run compared with the first one.
#[doc(hidden)] // for the crate range-page
#[derive(Debug)]
pub struct Verdict {
    /// Whether anything is slower in it.
    pub slower: bool,
    /// `slower in sycl: Module running +23.83 s (x3236)`, or that nothing is slower.
    pub text: String,
}

/// Words for a range with more time: including ranges inside it, and without.
const SLOWER: &str = "slower";
const SLOWER_ITSELF: &str = "slower itself";

/// A sentence for each run after the first: its slower ranges, the largest loss first, as far as `columns` go.
#[cfg(feature = "page")]
#[must_use]
pub fn verdicts(comparison: &Comparison, columns: usize, options: &RenderOptions) -> Vec<Verdict> {
    verdicts_on(comparison, SLOWER, columns, options)
}

/// The same for own times, if they are known.
#[cfg(feature = "page")]
pub fn verdicts_on_self_time(comparison: &Comparison, columns: usize, options: &RenderOptions) -> Vec<Verdict> {
    by_self_time(comparison).map_or_else(Vec::new, |own| verdicts_on(&own, SLOWER_ITSELF, columns, options))
}

fn verdicts_on(comparison: &Comparison, slow: &str, columns: usize, options: &RenderOptions) -> Vec<Verdict> {
    let others = comparison.runs.iter().enumerate().skip(1);
    others.map(|(run, name)| verdict(comparison, slow, (run, &shown(name, options)), columns, options)).collect()
}

fn verdict(
    comparison: &Comparison,
    slow: &str,
    (run, name): (usize, &str),
    columns: usize,
    options: &RenderOptions,
) -> Verdict {
    let phases = slower(comparison, run).into_iter().take(SLOWEST);
    let phases = phases.filter_map(|(at, ns)| Some(phase(comparison.ranges.get(at)?, run, ns, options)));
    let mut text = String::new();
    for phase in phases {
        if text.is_empty() {
            text = format!("{slow} in {name}: {phase}");
        } else if width_of(&text) + width_of(&phase) + 2 <= columns {
            text = format!("{text}, {phase}");
        } else {
            break;
        }
    }
    if text.is_empty() {
        return Verdict { slower: false, text: format!("{name}: nothing is {slow} by 0.1 % of the base or more") };
    }
    Verdict { slower: true, text }
}

/// The change of a range: `x0.25`, `new`, `gone`, or `-` if neither run has it. Empty for the first run.
pub fn change(range: &ComparedRange, run: usize) -> String {
    let place = range.in_runs.get(run).and_then(Option::as_ref);
    match (range.total_ns(0), range.total_ns(run)) {
        _ if run == 0 => String::new(),
        (None, None) => "-".to_owned(),
        (None, Some(_)) => "new".to_owned(),
        (Some(_), None) => "gone".to_owned(),
        (Some(0), Some(0)) => ratio(1.0),
        (Some(_), Some(_)) => ratio(place.and_then(|place| place.ratio).unwrap_or(f64::INFINITY)),
    }
}

/// The name of a run.
fn shown(name: &str, options: &RenderOptions) -> String {
    let name = if name.is_empty() { "(no name)" } else { name };
    shorten(&printable(name, options), MAX_NAME, MAX_NAME / 2)
}

fn label(range: &ComparedRange, options: &RenderOptions) -> String {
    let label = options.wording().label(range.domain.as_deref(), &range.name);
    match range.style {
        RangeStyle::PushPop => label,
        RangeStyle::StartEnd => label + " (start/end)",
    }
}

/// Sums over all ranges of each run, on which the shares are based.
fn wholes(comparison: &Comparison) -> Vec<u128> {
    let total = |range: &ComparedRange, run| u128::from(range.total_ns(run).unwrap_or(0));
    (0..comparison.runs.len()).map(|run| comparison.ranges.iter().map(|range| total(range, run)).sum()).collect()
}

/// A signed time, as wide as its column.
fn difference(ns: i64, inline: bool) -> String {
    let sign = match ns {
        0 => " ",
        1.. => "+",
        _ => "-",
    };
    let time = if inline { human_inline(ns.unsigned_abs()) } else { human(ns.unsigned_abs()) };
    format!("{sign}{time}")
}

/// The cells of all ranges and runs as texts.
struct Lines {
    /// The header of the times.
    time: &'static str,
    /// Quantiles with columns.
    quantiles: Vec<f64>,
    runs: Vec<String>,
    names: Vec<String>,
    /// By range and run: total, share, quantiles, difference, ratio. The base run lacks the last two.
    cells: Vec<Vec<Vec<String>>>,
    /// The range with each run's largest loss, if any.
    worst: Vec<Option<usize>>,
}

/// The ranges that changed most, and one with the sum of the others.
fn bounded<'a>(comparison: &'a Comparison, most: usize) -> Cow<'a, [ComparedRange]> {
    let others = comparison.ranges.get(most..).filter(|others| others.len() > 1); // a single one is as short
    let Some(others) = others else { return Cow::Borrowed(&comparison.ranges) };
    let sum = |run: usize| {
        let places = others.iter().filter_map(|range| range.in_runs.get(run)?.as_ref());
        let mut sum: Option<InRun> = None;
        for place in places {
            let sum = sum.get_or_insert(InRun::default());
            sum.times.instances = sum.times.instances.saturating_add(place.times.instances);
            sum.times.total_ns = sum.times.total_ns.saturating_add(place.times.total_ns);
        }
        sum
    };
    let rest = with_ratios(ComparedRange {
        domain: None,
        name: format!("({} more)", others.len()),
        style: RangeStyle::PushPop,
        in_runs: (0..comparison.runs.len()).map(sum).collect(),
    });
    Cow::Owned(comparison.ranges.iter().take(most).cloned().chain([rest]).collect())
}

impl Lines {
    fn of(comparison: &Comparison, time: &'static str, options: &RenderOptions) -> Self {
        let wholes = wholes(comparison);
        // Quantiles of whole instances tell nothing about own times.
        let quantiles = if time == SELF { Vec::new() } else { comparison.quantiles.clone() };
        let ranges = bounded(comparison, options.rows);
        let cells = ranges.iter().map(|range| {
            let runs = wholes.iter().enumerate();
            runs.map(|(run, &whole)| cells(range, run, whole, &quantiles)).collect()
        });
        Self {
            time,
            cells: cells.collect(),
            quantiles: quantiles.clone(),
            runs: comparison.runs.iter().map(|run| shown(run, options)).collect(),
            names: ranges.iter().map(|range| label(range, options)).collect(),
            worst: (0..comparison.runs.len())
                .map(|run| slower(comparison, run).first().map(|(at, _)| *at))
                .map(|worst| worst.filter(|&at| ranges.get(at) == comparison.ranges.get(at)))
                .collect(),
        }
    }

    /// Width of a run's group of columns.
    fn group(&self, run: usize) -> usize {
        let name = self.runs.get(run).map_or(0, |name| width_of(name));
        width_of(&self.dashes(run)).max(name.min(MAX_NAME))
    }

    /// Headers and widths of a run's columns.
    fn columns(&self, run: usize) -> Vec<(String, usize)> {
        let mut columns = vec![(self.time.to_owned(), 8), ("Share".to_owned(), 6)];
        columns.extend(self.quantiles.iter().map(|&q| (calls::percentile(q), QUANTILE)));
        if run > 0 {
            columns.extend([("Difference".to_owned(), 10), (" Ratio ".to_owned(), 7)]);
        }
        columns
    }

    fn headers(&self, run: usize) -> String {
        let headers: Vec<String> = self.columns(run).into_iter().map(|(header, _)| header).collect();
        self.figures(run, &headers)
    }

    fn dashes(&self, run: usize) -> String {
        let dashes: Vec<String> = self.columns(run).into_iter().map(|(_, width)| "-".repeat(width)).collect();
        dashes.join("  ")
    }

    fn figures(&self, run: usize, cells: &[String]) -> String {
        let columns = cells.iter().zip(self.columns(run));
        columns.map(|(cell, (_, width))| format!("{cell:>width$}")).collect::<Vec<_>>().join("  ")
    }

    /// The width of the column of names with all runs side by side, if it is wide enough.
    fn name_width(&self, columns: usize) -> Option<usize> {
        let groups: usize = (0..self.runs.len()).map(|run| 2 + self.group(run)).sum();
        let longest = self.names.iter().map(|name| width_of(name)).max().unwrap_or(0).max(5);
        let room = columns.checked_sub(3 + groups)?;
        (room >= longest.min(LEAST_NAME)).then_some(longest.min(room))
    }

    fn beside(&self, width: usize) -> String {
        let mut out = String::new();
        let groups = |cell: &dyn Fn(usize) -> String| -> String {
            (0..self.runs.len())
                .map(cell)
                .enumerate()
                .map(|(run, cell)| format!("  {}{cell}", blanks(&cell, self.group(run))))
                .collect()
        };
        let centred = |run: usize| {
            let name = &self.runs[run];
            let pad = blanks(name, self.group(run));
            let (left, right) = pad.split_at(pad.len() / 2);
            format!("{left}{name}{right}")
        };
        push(&mut out, &format!("   {:width$}{}", "", groups(&centred)));
        push(&mut out, &format!("   {:width$}{}", "", groups(&|run| "-".repeat(self.group(run)))));
        push(&mut out, &format!("   {:width$}{}", "Range", groups(&|run| self.headers(run))));
        push(&mut out, &format!("   {}{}", "-".repeat(width), groups(&|run| self.dashes(run))));
        for (at, (name, cells)) in self.names.iter().zip(&self.cells).enumerate() {
            let mark = if self.worst.contains(&Some(at)) { ">>" } else { "  " };
            let name = shorten(name, width, width / 2);
            let pad = blanks(&name, width);
            let figures = groups(&|run| self.figures(run, &cells[run]));
            push(&mut out, &format!("{mark} {name}{pad}{figures}"));
        }
        out
    }

    fn below(&mut self, columns: usize) -> String {
        const LEAST_RUN: usize = 3;
        // The last quantile stays.
        while 3 + 2 + 2 + width_of(&self.dashes(1)) + LEAST_RUN > columns && self.quantiles.len() > 1 {
            self.quantiles.remove(0);
            self.cells.iter_mut().flatten().for_each(|cells| drop(cells.remove(OF_BASE)));
        }
        let fixed = 3 + 2 + 2 + width_of(&self.dashes(1));
        let longest = self.runs.iter().map(|run| width_of(run)).max().unwrap_or(0);
        let width = longest.min(columns.saturating_sub(fixed)).max(LEAST_RUN);
        let mut out = String::new();
        push(&mut out, &format!("   {:2$}  {}", "Range", self.headers(1), width + 2));
        push(&mut out, &format!("   {}  {}", "-".repeat(width + 2), self.dashes(1)));
        for (at, (name, cells)) in self.names.iter().zip(&self.cells).enumerate() {
            push(&mut out, &format!("   {}", shorten(name, columns - 3, columns / 2)));
            for (run, (name, cells)) in self.runs.iter().zip(cells).enumerate() {
                let mark = if self.worst.get(run) == Some(&Some(at)) { ">>" } else { "  " };
                let name = shorten(name, width, width / 2);
                let pad = blanks(&name, width);
                push(&mut out, &format!("{mark}   {name}{pad}  {}", self.figures(run, cells)));
            }
        }
        out
    }
}

fn push(out: &mut String, line: &str) {
    out.push_str(line.trim_end());
    out.push('\n');
}

fn cells(range: &ComparedRange, run: usize, whole: u128, quantiles: &[f64]) -> Vec<String> {
    let total = range.total_ns(run);
    let times = range.in_runs.get(run).and_then(Option::as_ref).map(|place| &place.times);
    let mut cells = vec![
        total.map_or_else(|| "-   ".to_owned(), human),
        total.map_or_else(|| "-".to_owned(), |ns| percent(ns, whole).map_or_else(|| "-".to_owned(), |text| text + "%")),
    ];
    cells.extend(quantiles.iter().map(|&q| calls::quantile_text(times.and_then(|times| times.quantile(q)))));
    if run > 0 {
        cells.push(range.difference_ns(run).map_or_else(|| "-   ".to_owned(), |ns| difference(ns, false)));
        cells.push(change(range, run));
    }
    cells
}

/// The ranges in which a run lost a notable amount of time, by index, the largest loss first; empty if the gate
/// decides.
fn slower(comparison: &Comparison, run: usize) -> Vec<(usize, i64)> {
    if knows_noise(comparison, run) {
        return Vec::new();
    }
    let base: u128 = comparison.ranges.iter().map(|range| u128::from(range.total_ns(0).unwrap_or(0))).sum();
    let worth = |ns: i64| run > 0 && ns > 0 && u128::from(ns.unsigned_abs()) * WORTH_A_WORD >= base;
    let ranges = comparison.ranges.iter().enumerate();
    let mut lost: Vec<(usize, i64)> =
        ranges.filter_map(|(at, range)| Some((at, range.difference_ns(run).filter(|&ns| worth(ns))?))).collect();
    order::by_key(&mut lost, |&(_, ns)| std::cmp::Reverse(ns));
    lost
}

/// A line for each run: its slower ranges, or that there are none, or that the gate decides.
fn said(comparison: &Comparison, slow: &str, options: &RenderOptions) -> String {
    let mut out = String::new();
    for (run, verdict) in (1..).zip(verdicts_on(comparison, slow, options.columns() - 4, options)) {
        let name = || shown(&comparison.runs[run], options);
        push(
            &mut out,
            &match verdict {
                _ if knows_noise(comparison, run) => {
                    format!("    {}: the gate tells changes from noise; sums do not", name())
                }
                Verdict { slower: true, text } => format!(" >> {text}"),
                Verdict { slower: false, text } => format!("    {text}"),
            },
        );
    }
    out
}

/// A line on ranges of later runs that the first run does not have, the longest first, as far as they fit.
fn added(comparison: &Comparison, options: &RenderOptions) -> String {
    let all = comparison.added(0);
    let Some(base) = comparison.runs.first().filter(|_| !all.is_empty()) else { return String::new() };
    let mut text = format!("    not in {}: ", shown(base, options));
    for (at, added) in all.iter().enumerate() {
        let label = options.wording().label(added.domain.as_deref(), &added.name);
        let name = shorten(&label, MAX_NAME, MAX_NAME / 2);
        let range = format!("{name} {} ({})", human_inline(added.total_ns), shown(&added.run, options));
        let rest = match all.len() - at - 1 {
            0 => String::new(),
            more => format!(" and {} more", integer(more as u64, options.thousands)),
        };
        let comma = if at == 0 { "" } else { ", " };
        if at == SLOWEST || at > 0 && width_of(&text) + width_of(&range) + width_of(&rest) + 2 > options.columns() {
            text += &format!(" and {} more", integer((all.len() - at) as u64, options.thousands));
            break;
        }
        text = text + comma + &range;
    }
    text + "\n"
}

fn phase(range: &ComparedRange, run: usize, ns: i64, options: &RenderOptions) -> String {
    let ratio = change(range, run);
    let instances = match (range.in_runs.first(), range.in_runs.get(run)) {
        (Some(Some(base)), Some(Some(new))) if base.times.instances != new.times.instances => {
            format!(
                ", {} instances, not {}",
                integer(new.times.instances, options.thousands),
                integer(base.times.instances, options.thousands)
            )
        }
        _ => String::new(),
    };
    let name = shorten(&label(range, options), MAX_NAME, MAX_NAME / 2);
    format!("{name} {} ({ratio}{instances})", difference(ns, true))
}

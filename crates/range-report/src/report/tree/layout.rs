//! The columns of the tree, fitted to a width.

use crate::report::fitted::left_out;
use crate::report::options::RenderOptions;
use crate::text::emphasis::Emphasis;
use crate::text::number::percent;
use crate::text::width::{blanks, shorten, width_of};
use range_model::stats::Lean;

/// The margin mark of the phase with the longest own time.
pub(super) const SLOWEST: &str = ">>";

/// One line with all cells as text.
#[derive(Default)]
pub(super) struct Line {
    /// The first two columns of the line.
    pub(super) margin: &'static str,
    /// Total, self and awaited; total and self GPU busy time; both stream times; share of the parent, calls, average
    /// per call, instances; quantiles.
    pub(super) cells: Vec<String>,
    /// Whether the self time is marked.
    pub(super) blocked: bool,
    /// Whether the share is marked.
    pub(super) beside: bool,
    /// The mark of the calls.
    pub(super) again: Option<char>,
    /// Whether a first call took more than half.
    pub(super) has_warm_up: bool,
    pub(super) depth: usize,
    pub(super) phase: String,
    pub(super) self_ns: u64,
    pub(super) whole: u128,
    /// Whether it is of a span that captured what the one above replays.
    pub(super) is_captured: bool,
}

impl Line {
    /// The mark behind the cell of a column.
    fn mark(&self, column: usize) -> Option<char> {
        match column {
            SELF if self.blocked => Some('^'),
            SHARE_OF_PARENT if self.beside => Some('*'),
            CALLS if self.has_warm_up => self.again.or(Some('!')),
            CALLS => self.again,
            _ => None,
        }
    }
}

/// Number of columns that any tree may have; columns of a particular run follow.
pub(super) const COLUMNS: usize = 11;
const HEADERS: [&str; COLUMNS] = [
    "Total",
    "Self",
    "Awaited",
    "GPU busy",
    "Busy self",
    "GPU total",
    "GPU self",
    "Of parent",
    "Calls",
    "Avg/Call",
    "Instances",
];
const SHORT_HEADERS: [&str; COLUMNS] = [
    "Total", "Self", "Awaited", "GPU busy", "Busy own", "GPU tot.", "GPU self", "Of par", "Calls", "Avg/Call", "Inst.",
];
/// From this width on headers are written in full.
const ROOMY: usize = 100;
/// The column for trees in which a future waits.
const AWAITED: [usize; 1] = [2];
/// The columns for trees with GPU work from CUPTI.
pub(super) const BUSY: [usize; 2] = [3, 4];
/// The columns for trees with stream times, and their headers beside GPU busy times.
const ON_STREAMS: [usize; 2] = [5, 6];
const STREAM_HEADERS: [&str; 2] = ["Stream", "Str. own"];
/// The columns whose cells may have a mark.
const SELF: usize = 1;
const SHARE_OF_PARENT: usize = 7;
pub(super) const CALLS: usize = 8;
/// The columns that are dropped in favour of optional ones: first instances, which mostly equal the calls, then figures
/// that others imply.
const DISPENSABLE: [usize; 2] = [10, 9];
/// Least width of a phase's name.
const MIN_PHASE: usize = 12;
/// The width that a long name gets before dispensable columns.
const GOOD_PHASE: usize = 24;

const BAR_HEADER: &str = "Self, of all";
/// `100.0% ` before the bar.
const BAR_LABEL: usize = 7;
const MAX_BAR: usize = 30;

pub(super) struct Layout {
    headers: Vec<String>,
    widths: Vec<usize>,
    shown: Vec<bool>,
    /// Names of the dropped columns for the line below the table, in the order of dropping.
    left_out: Vec<String>,
    /// Whether any line has a mark in this column.
    marked: Vec<bool>,
    /// Width of the phase column.
    phase: usize,
    /// Columns of indentation per level.
    step: usize,
    /// Largest indentation.
    max_indent: usize,
    /// Length of a full bar; 0 for no bars.
    bar: usize,
}

/// Which of the optional columns have data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known<'a> {
    pub(super) awaited: bool,
    pub(super) busy: bool,
    pub(super) on_streams: bool,
    /// Headers of the further figures: those without a place of their own, and quantiles.
    pub(super) further: &'a [String],
    /// How many of them are quantiles.
    pub(super) quantiles: usize,
}

impl Layout {
    pub(super) fn fitting(lines: &[Line], known: Known, width: usize) -> Self {
        let Known { awaited, busy, on_streams, further, quantiles } = known;
        let mut headers = if width >= ROOMY { HEADERS } else { SHORT_HEADERS };
        if busy {
            [headers[ON_STREAMS[0]], headers[ON_STREAMS[1]]] = STREAM_HEADERS;
        }
        let headers: Vec<String> = headers.iter().map(ToString::to_string).chain(further.iter().cloned()).in_vec();
        let marked: Vec<bool> =
            (0..headers.len()).map(|column| lines.iter().any(|line| line.mark(column).is_some())).in_vec();
        let mut widths: Vec<usize> = headers.iter().map(|header| width_of(header)).in_vec();
        for line in lines {
            for (column, cell) in line.cells.iter().enumerate() {
                widths[column] = widths[column].max(width_of(cell) + usize::from(marked[column]));
            }
        }
        let mut shown = vec![true; headers.len()];
        let mut gone = Vec::new();
        let room_beside = |shown: &[bool]| {
            let columns = widths.iter().zip(shown).filter(|(_, shown)| **shown);
            width.saturating_sub(3 + columns.map(|(width, _)| width + 2).sum::<usize>())
        };
        for (columns, known) in [(&AWAITED[..], awaited), (&BUSY, busy), (&ON_STREAMS, on_streams)] {
            columns.iter().for_each(|&column| shown[column] = known);
        }
        if awaited || busy || on_streams || !further.is_empty() {
            let longest = lines.iter().map(|line| 2 * line.depth + width_of(&line.phase)).largest();
            // Times on streams are dropped in favour of exact ones, the total last; without exact ones they stay.
            let [total, own] = ON_STREAMS;
            let mut dispensable = DISPENSABLE.to_vec();
            if busy && on_streams {
                dispensable.extend_from_slice(&[own, total]);
            }
            // The last quantile stays.
            dispensable.extend(COLUMNS..headers.len().saturating_sub(quantiles.min(1)));
            for column in dispensable {
                if room_beside(&shown) < longest.clamp("Phase".len(), GOOD_PHASE) {
                    shown[column] = false;
                    gone.push(match ON_STREAMS.iter().position(|&place| place == column) {
                        Some(place) if busy => ["Stream", "Stream self"][place].to_owned(),
                        _ => HEADERS.get(column).map_or_else(|| headers[column].clone(), ToString::to_string),
                    });
                }
            }
        }
        let room = room_beside(&shown).max(MIN_PHASE);
        let deepest = lines.iter().map(|line| line.depth).largest();
        let step = if 2 * deepest <= room / 2 { 2 } else { 1 };
        let max_indent = room / 2;
        let mut layout = Self { headers, widths, shown, left_out: gone, marked, phase: room, step, max_indent, bar: 0 };

        let needed = lines.iter().map(|line| width_of(&layout.lead(line.depth)) + width_of(&line.phase)).largest();
        layout.phase = needed.clamp("Phase".len(), room);
        let left = room.saturating_sub(layout.phase + 2);
        if left >= BAR_HEADER.len() {
            layout.bar = (left - BAR_LABEL).min(MAX_BAR);
        }
        layout
    }

    /// Header, dashes, lines, and a line with the dropped columns, each ending in a line feed; no trailing blanks.
    pub(super) fn render(&self, lines: &[Line], options: &RenderOptions) -> String {
        let bar_header = if self.bar > 0 { BAR_HEADER } else { "" };
        let mut out = String::new();
        self.push(&mut out, "  ", &self.headers, "Phase", bar_header);
        let dashes: Vec<String> = self.widths.iter().map(|width| "-".repeat(*width)).in_vec();
        let bar_dashes = if self.bar > 0 { "-".repeat(BAR_LABEL + self.bar) } else { String::new() };
        self.push(&mut out, "  ", &dashes, &"-".repeat(self.phase), &bar_dashes);
        for line in lines {
            let mut cells = line.cells.clone();
            for (column, cell) in cells.iter_mut().enumerate().filter(|(column, _)| self.marked[*column]) {
                cell.push(line.mark(column).unwrap_or(' '));
            }
            let mut row = String::new();
            self.push(&mut row, line.margin, &cells, &self.phase(line), &self.bar(line));
            out += &Emphasis::Bold.of(&row, options.color && line.margin == SLOWEST);
        }
        out + &left_out(&self.left_out, options.columns())
    }

    fn push(&self, out: &mut String, margin: &str, cells: &[String], phase: &str, bar: &str) {
        let mut text = margin.to_owned();
        for (column, width) in self.widths.iter().enumerate() {
            if !self.shown[column] {
                continue;
            }
            // A line may lack the further columns.
            let cell = cells.get(column).map_or("", String::as_str);
            text.push_str(if column == 0 { " " } else { "  " });
            text.push_str(&blanks(cell, *width));
            text.push_str(cell);
        }
        text.push_str("  ");
        text.push_str(phase);
        text.push_str(&blanks(phase, self.phase + 2));
        text.push_str(bar);
        out.push_str(text.trim_end_matches(' '));
        out.push('\n');
    }

    /// The indented name. The end of a long one is kept, where Rust paths differ.
    fn phase(&self, line: &Line) -> String {
        let lead = self.lead(line.depth);
        let room = self.phase.saturating_sub(width_of(&lead));
        let name = shorten(&line.phase, room, room * 2 / 3);
        lead + &name
    }

    /// The text before a name: blanks, and the depth if it is deeper than can be shown.
    fn lead(&self, depth: usize) -> String {
        let indent = depth.saturating_mul(self.step);
        if indent <= self.max_indent {
            " ".repeat(indent)
        } else {
            format!("{}+{depth} ", " ".repeat(self.max_indent.saturating_sub(MIN_PHASE / 2)))
        }
    }

    fn bar(&self, line: &Line) -> String {
        if self.bar == 0 || line.self_ns == 0 {
            return String::new();
        }
        let Some(share) = percent(line.self_ns, line.whole) else { return String::new() };
        let length = (2 * u128::from(line.self_ns) * self.bar as u128 + line.whole) / (2 * line.whole);
        let length = usize::try_from(length).unwrap_or(self.bar).min(self.bar);
        format!("{:>width$} {}", share + "%", "#".repeat(length), width = BAR_LABEL - 1)
    }
}

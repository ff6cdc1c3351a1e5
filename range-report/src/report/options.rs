//! How reports are printed.

use super::kinds::FindingKinds;
#[allow(unused_imports)] // for the docs
use super::kinds::Report;
use super::kinds::TableStyle;
use crate::analysis::Finding;
use crate::text::wording::Wording;

/// The default of [`RenderOptions::hot_percent`].
pub(super) const HOT_PERCENT: f64 = 90.0;

/// The default number of notes.
const NOTES: usize = 5;

/// The default number of rows.
const ROWS: usize = 30;

/// How reports are printed. Start from the default and change what differs.
///
/// ```
/// use range_report::{RenderOptions, TableStyle};
///
/// let options = RenderOptions::default().style(TableStyle::Legacy).width(80);
/// assert!(options.thousands);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RenderOptions {
    /// Layout of the statistics.
    pub style: TableStyle,
    /// Separate thousands with commas, as Nsight Systems does in an English locale (and not in the `C` locale).
    /// Default: yes.
    pub thousands: bool,
    /// Columns for the tree, merged tables and the footer: long names are shortened, and a wide tree has bars. The
    /// figures alone take about 70. The statistics have the width that they have in Nsight Systems. Default: 100.
    pub width: usize,
    /// Print names unchanged, including control characters, and lay out Nsight's tables as Nsight Systems does: it
    /// counts code points, so wide characters misalign its tables. Meant for comparing texts, because control
    /// characters can do anything to a terminal. Default: no; then the columns of a terminal are counted.
    pub raw_names: bool,
    /// The percentage of the time that the rows of [`Report::Hot`] take together, from 0 to 100. A list has ten rows at
    /// most. Default: 90.
    pub hot_percent: f64,
    /// The largest number of notes; the most important ones are printed first. The page has all. Default: 5.
    pub notes: usize,
    /// Whether [`Report::Hot`] prints full names of kernels. Otherwise C++ names are shortened by meaning, but
    /// differences between kernels stay. Nsight's and nvprof's tables always have full names. Default: no.
    pub full_names: bool,
    /// The largest number of rows of each table, and of phases of the tree. One more row has the sum of the others.
    /// Files have all rows. Default: 30.
    pub rows: usize,
    /// Whether the command `tracing-gpu` prints a report on a program that was not built with this crate: sentences
    /// then mention ranges and options of the command, not spans and settings of a profiler. Default: no.
    pub of_command: bool,
    /// Findings that are switched off. Default: none.
    pub without: FindingKinds,
    /// Whether what matters most is bold, and notes are dim, by escape sequences of terminals. Without these the text
    /// is the same. Default: no.
    pub color: bool,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            style: TableStyle::Current,
            thousands: true,
            width: 100,
            raw_names: false,
            hot_percent: HOT_PERCENT,
            notes: NOTES,
            full_names: false,
            rows: ROWS,
            of_command: false,
            without: FindingKinds::default(),
            color: false,
        }
    }
}

impl RenderOptions {
    /// Sets the layout of the statistics.
    #[must_use]
    pub const fn style(mut self, style: TableStyle) -> Self {
        self.style = style;
        self
    }

    /// Sets whether thousands are separated.
    #[must_use]
    pub const fn thousands(mut self, thousands: bool) -> Self {
        self.thousands = thousands;
        self
    }

    /// Sets the columns for the tree and the footer.
    #[must_use]
    pub const fn width(mut self, width: usize) -> Self {
        self.width = width;
        self
    }

    /// Sets whether names are printed unchanged.
    #[must_use]
    pub const fn raw_names(mut self, raw_names: bool) -> Self {
        self.raw_names = raw_names;
        self
    }

    /// Sets the percentage of the time that the rows of [`Report::Hot`] take together: 0 prints the first row only, 100
    /// all rows up to the tenth. A value below 0 counts as 0, a value above 100 as 100. NaN changes nothing.
    #[must_use]
    pub const fn hot_percent(mut self, percent: f64) -> Self {
        if !percent.is_nan() {
            self.hot_percent = percent.clamp(0.0, 100.0);
        }
        self
    }

    /// Sets the largest number of printed rows of each table; `usize::MAX` for all.
    #[must_use]
    pub const fn rows(mut self, most: usize) -> Self {
        self.rows = most;
        self
    }

    /// Sets the largest number of printed notes; `usize::MAX` for all.
    #[must_use]
    pub const fn notes(mut self, most: usize) -> Self {
        self.notes = most;
        self
    }

    /// Sets whether full names of kernels are printed.
    #[must_use]
    pub const fn full_names(mut self, full: bool) -> Self {
        self.full_names = full;
        self
    }

    /// Sets whether sentences are for a user of the command `tracing-gpu`.
    #[must_use]
    pub const fn of_command(mut self, is_of_command: bool) -> Self {
        self.of_command = is_of_command;
        self
    }

    /// Sets which findings are switched off.
    #[must_use]
    pub const fn without(mut self, kinds: FindingKinds) -> Self {
        self.without = kinds;
        self
    }

    /// Sets whether what matters most is bold, and notes are dim: for a terminal.
    #[must_use]
    pub const fn color(mut self, color: bool) -> Self {
        self.color = color;
        self
    }

    /// The wording of sentences.
    pub(crate) const fn wording(&self) -> Wording {
        Wording { thousands: self.thousands, raw_names: self.raw_names, of_command: self.of_command }
    }

    /// The findings that are not switched off.
    pub(crate) fn kept(&self, findings: Vec<Finding>) -> Vec<Finding> {
        findings.into_iter().filter(|finding| !self.without.has(finding.kind())).collect()
    }

    /// The width, within bounds that can be laid out.
    pub(super) fn columns(&self) -> usize {
        self.width.clamp(60, 1_000)
    }
}

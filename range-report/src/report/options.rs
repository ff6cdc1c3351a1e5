//! How reports are printed.

#[allow(unused_imports)] // for the docs
use super::Report;
use super::TableStyle;

/// What [`RenderOptions::hot_percent`] is by default.
pub(super) const HOT_PERCENT: f64 = 90.0;

/// Notes that are printed if it is not said how many.
const NOTES: usize = 5;

/// Rows that are printed if it is not said how many.
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
    /// figures alone take about 70. The statistics are as wide as they are in Nsight Systems. Default: 100.
    pub width: usize,
    /// Print names as they are, control characters included, as Nsight Systems does, and lay its tables out as it does:
    /// it counts code points, so wide characters misalign them. Meant for comparing texts: on a terminal such names can
    /// do anything. Default: no, and columns are counted.
    pub raw_names: bool,
    /// How many percent of the time the rows of [`Report::Hot`] make together, from 0 to 100. Default: 90.
    pub hot_percent: f64,
    /// Notes that are printed at most, the most important ones; the page has all. Default: 5.
    pub notes: usize,
    /// Rows of each table that are printed at most, and phases of the tree; what is left has one more row with its sum.
    /// Files have all of them. Default: 30.
    pub rows: usize,
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
            rows: ROWS,
        }
    }
}

impl RenderOptions {
    /// Sets the layout of the statistics.
    ///
    /// ```
    /// use range_report::{RenderOptions, TableStyle};
    ///
    /// assert_eq!(RenderOptions::default().style(TableStyle::Legacy).style, TableStyle::Legacy);
    /// ```
    #[must_use]
    pub const fn style(mut self, style: TableStyle) -> Self {
        self.style = style;
        self
    }

    /// Sets whether thousands are separated.
    ///
    /// ```
    /// assert!(!range_report::RenderOptions::default().thousands(false).thousands);
    /// ```
    #[must_use]
    pub const fn thousands(mut self, thousands: bool) -> Self {
        self.thousands = thousands;
        self
    }

    /// Sets the columns for the tree and the footer.
    ///
    /// ```
    /// assert_eq!(range_report::RenderOptions::default().width(120).width, 120);
    /// ```
    #[must_use]
    pub const fn width(mut self, width: usize) -> Self {
        self.width = width;
        self
    }

    /// Sets whether names are printed as they are.
    ///
    /// ```
    /// assert!(range_report::RenderOptions::default().raw_names(true).raw_names);
    /// ```
    #[must_use]
    pub const fn raw_names(mut self, raw_names: bool) -> Self {
        self.raw_names = raw_names;
        self
    }

    /// Sets how many percent of the time the rows of [`Report::Hot`] make together: from 0, the first row only, to 100,
    /// all of them. What is beyond is brought within; what is no number changes nothing.
    ///
    /// ```
    /// use range_report::RenderOptions;
    ///
    /// assert_eq!(RenderOptions::default().hot_percent(50.0).hot_percent, 50.0);
    /// assert_eq!(RenderOptions::default().hot_percent(200.0).hot_percent, 100.0);
    /// ```
    #[must_use]
    pub const fn hot_percent(mut self, percent: f64) -> Self {
        if !percent.is_nan() {
            self.hot_percent = percent.clamp(0.0, 100.0);
        }
        self
    }

    /// Sets how many rows of each table are printed at most; `usize::MAX` for all of them.
    ///
    /// ```
    /// assert_eq!(range_report::RenderOptions::default().rows(usize::MAX).rows, usize::MAX);
    /// ```
    #[must_use]
    pub const fn rows(mut self, most: usize) -> Self {
        self.rows = most;
        self
    }

    /// Sets how many notes are printed at most; `usize::MAX` for all of them.
    ///
    /// ```
    /// assert_eq!(range_report::RenderOptions::default().notes(usize::MAX).notes, usize::MAX);
    /// ```
    #[must_use]
    pub const fn notes(mut self, most: usize) -> Self {
        self.notes = most;
        self
    }

    /// The width, within bounds that can be laid out.
    pub(super) fn columns(&self) -> usize {
        self.width.clamp(60, 1_000)
    }
}

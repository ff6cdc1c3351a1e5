//! How reports are printed.

use super::kinds::FindingKinds;
#[allow(unused_imports)] // for the docs
use super::kinds::Report;
use super::kinds::TableStyle;
use crate::analysis::Finding;
use crate::text::wording::Wording;
use range_model::stats::Lean;

/// The default of [`RenderOptions::hot_percent`].
pub(super) const HOT_PERCENT: f64 = 90.0;

/// Declares an option once: the field, its default, and the method of the same name that sets it.
macro_rules! options {
    ($($(#[$doc:meta])+ $option:ident: $Type:ty = $default:expr;)+) => {
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
            $($(#[$doc])+ pub $option: $Type,)+
        }

        impl Default for RenderOptions {
            fn default() -> Self {
                Self { $($option: $default,)+ }
            }
        }

        /// Setters of the fields.
        impl RenderOptions {
            $(
                $(#[$doc])+
                #[must_use]
                pub const fn $option(mut self, $option: $Type) -> Self {
                    self.$option = $option;
                    self
                }
            )+
        }
    };
}

options! {
    /// Layout of the statistics.
    style: TableStyle = TableStyle::Current;
    /// Separate thousands with commas, as Nsight Systems does in an English locale (and not in the `C` locale).
    /// Default: yes.
    thousands: bool = true;
    /// Columns for the tree, merged tables and the footer: long names are shortened, and a wide tree has bars. The
    /// figures alone take about 70. The statistics have the width that they have in Nsight Systems. Default: 100.
    width: usize = 100;
    /// Print names unchanged, including control characters, and lay out Nsight's tables as Nsight Systems does: it
    /// counts code points, so wide characters misalign its tables. Meant for comparing texts, because control
    /// characters can do anything to a terminal. Default: no; then the columns of a terminal are counted.
    raw_names: bool = false;
    /// The percentage of the time that the rows of [`Report::Hot`] take together: 0 prints the first row only, 100 all
    /// rows up to the tenth. A value below 0 counts as 0, one above 100 as 100, and NaN as the default. Default: 90.
    hot_percent: f64 = HOT_PERCENT;
    /// The largest number of notes; the most important ones are printed first, and `usize::MAX` prints all. The page
    /// has all. Default: 5.
    notes: usize = 5;
    /// Whether [`Report::Hot`] prints full names of kernels. Otherwise C++ names are shortened by meaning, but
    /// differences between kernels stay. Nsight's and nvprof's tables always have full names. Default: no.
    full_names: bool = false;
    /// The largest number of rows of each table, and of phases of the tree; `usize::MAX` prints all. One more row has
    /// the sum of the others. Files have all rows. Default: 30.
    rows: usize = 30;
    /// Whether the command `tracing-gpu` prints a report on a program that was not built with this crate: sentences
    /// then mention ranges and options of the command, not spans and settings of a profiler. Default: no.
    of_command: bool = false;
    /// Findings that are switched off. Default: none.
    without: FindingKinds = FindingKinds::default();
    /// Whether what matters most is bold, and notes are dim, by escape sequences of terminals. Without these the text
    /// is the same. Default: no.
    color: bool = false;
}

impl RenderOptions {
    /// The wording of sentences.
    pub(crate) const fn wording(&self) -> Wording {
        Wording { thousands: self.thousands, raw_names: self.raw_names, of_command: self.of_command }
    }

    /// The kinds of findings that are switched off.
    #[cfg(feature = "page")]
    #[doc(hidden)] // for the crate range-page
    #[must_use]
    pub const fn switched_off(&self) -> FindingKinds {
        self.without
    }

    /// The findings that are not switched off.
    pub(crate) fn kept(&self, findings: Vec<Finding>) -> Vec<Finding> {
        findings.into_iter().filter(|finding| !self.without.has(finding.kind())).in_vec()
    }

    /// The width, within bounds that can be laid out.
    pub(super) fn columns(&self) -> usize {
        self.width.clamp(60, 1_000)
    }
}

//! Rows by name: ranges and categories.

use range_model::stats::{Distribution, Lean, Named, order};
use range_model::{CategoryStats, RangeStats};

use super::names::{Shown, label_shown, label_text};
use super::times::times;
use super::totals::ThreadRows;
use crate::clock::Rate;
use crate::core::record::{style_number, style_of};
use crate::core::session::Names;
use crate::core::session::catalog::CategoryName;

/// Distributions of all threads and parents together.
#[derive(Default)]
pub(crate) struct Merged {
    /// By the shown name, as Nsight Systems groups: `a:b` in the default domain is `b` in the domain `a`.
    ranges: Named<Shown, (u32, Distribution)>,
    categories: Named<Shown, Distribution>,
}

impl Merged {
    pub(crate) fn of(rows: ThreadRows<'_>, names: &Names) -> Self {
        let mut merged = Self::default();
        for (key, times) in rows.iter().map(|(key, row)| (key, &row.times)).filter(|(_, times)| times.count > 0) {
            let shown = (label_shown(names, key.label), style_number(key.style));
            merged.ranges.row_or(shown, || (key.label, Distribution::default())).1.merge(times);
            // A category may be a number in one place and the same digits as text in another: they share a row.
            let category = names.catalog.category_of(key.category).map(|category| match category {
                CategoryName::Text(text) => text.to_string(),
                CategoryName::Number(number) => number.to_string(),
            });
            if let Some(category) = category {
                merged.categories.row((category, 0)).merge(times);
            }
        }
        merged
    }
}

#[inline(never)]
pub(crate) fn ranges(merged: &Merged, names: &Names, rate: Rate, asked: &[f64]) -> Vec<RangeStats> {
    let rows = merged.ranges.iter().filter_map(|((_, style), (label, all))| {
        let (domain, name) = label_text(names, *label)?;
        let mut row = RangeStats::new(name, times(all, rate, asked));
        row.domain = domain;
        row.style = style_of(*style);
        Some(row)
    });
    let mut rows: Vec<RangeStats> = rows.in_vec();
    // Stable: equal totals stay in the order of their names.
    order::by_most(&mut rows, |row| row.times.total_ns);
    rows
}

#[inline(never)]
pub(crate) fn categories(merged: &Merged, rate: Rate, asked: &[f64]) -> Vec<CategoryStats> {
    let rows = merged.categories.iter();
    let mut rows: Vec<CategoryStats> =
        rows.map(|((category, _), all)| CategoryStats::new(category.clone(), times(all, rate, asked))).in_vec();
    // Stable: equal totals stay in the order of their names.
    order::by_most(&mut rows, |row| row.times.total_ns);
    rows
}

//! The sums over `nvtx.category`, in the form of the range statistics.

use std::cmp::Reverse;

use super::cuda::Made;
use super::gpu_work::{NO_CATEGORY, printable};
use super::nsys::{Columns, Row, statistics_table};
use super::options::RenderOptions;
use super::table::{Cell, Table};
use range_model::Summary;
use range_model::stats::{Lean, order};

/// `Categories`: one row per category, by total time. Categories are text here, even if they look like numbers.
pub(crate) fn table(summary: &Summary, options: &RenderOptions) -> Made {
    let mut rows: Vec<_> = summary.categories.iter().filter(|row| row.times.instances > 0).in_vec();
    order::by_key(&mut rows, |row| (Reverse(row.times.total_ns), &row.category));
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|row| {
            let names = vec![Cell::text(printable(&row.category, options))];
            Row { times: &row.times, below: None, names }
        })
        .in_vec();
    let table = statistics_table(&rows, &Columns::of_ranges(&["Category"]), options);
    Ok(Table { absent: Some(NO_CATEGORY), ..table })
}

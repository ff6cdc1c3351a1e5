//! From the launch of a kernel to its end: `cuda_kern_exec_sum` of `nsys stats`, and the same by range.

use super::cuda::Made;
use super::envelope::printed;
use super::gpu_work::{NO_ACTIVITY, nsys_call};
use super::nsys::name_cell;
use super::options::RenderOptions;
use super::table::{Cell, Column, Table};
use crate::TableStyle;
use crate::text::number::Rounding;
use range_model::Summary;
use range_model::summary::{KernelExecution, Times};

pub(crate) const ABOUT: &str =
    "T: from the start of the call to the end of the kernel; A: the call; Q: the queue; K: the kernel.";
const TITLES: [&str; 2] =
    [" ** CUDA Kernel Launch & Exec Time Summary (cuda_kern_exec_sum):", "Kernel Launch & Exec Time Summary:"];
const BY_RANGE: [&str; 2] = [
    " ** CUDA Kernel Launch & Exec Time Summary, by Range (kernel_exec):",
    "Kernel Launch & Exec Time Summary (by range):",
];
const NONE: &str = "No kernel with its launch was recorded.\n";
/// Headers of the figures of each part, without the letter of the part.
const FIGURES: [&str; 5] = ["Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"];

/// `KernelExec`: both tables.
pub(crate) fn kernel_exec(summary: &Summary, options: &RenderOptions) -> String {
    let mut text = printed(TITLES, table(summary, options), options);
    if !summary.range_exec.is_empty() && options.style == TableStyle::Current {
        text.push_str(&printed(BY_RANGE, Ok(by_range(summary, options)), options));
    }
    text
}

/// The table in the tool's form.
pub(crate) fn table(summary: &Summary, options: &RenderOptions) -> Made {
    summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let mut table = table_of(&["PID", "TID", "DevId"].map(Column::of));
    for row in &summary.kernel_exec {
        let places = [summary.process.pid, row.tid, row.device].map(|number| Cell::Whole(number.into()));
        table.push(cells(places.into(), &row.execution, called(&row.api, &row.kernel, options)));
    }
    Ok(Table { absent: Some(NONE), ..table })
}

fn by_range(summary: &Summary, options: &RenderOptions) -> Table {
    let mut table = table_of(&[Column::name("Range")]);
    for row in &summary.range_exec {
        let range =
            row.range.as_deref().map_or_else(|| Cell::text("(no range)"), |name| name_cell(Some(name), options));
        table.push(cells(vec![range], &row.execution, called(&row.api, &row.kernel, options)));
    }
    table
}

/// A table without rows: these columns, then the columns of figures.
fn table_of(places: &[Column]) -> Table {
    let mut columns = [places, &[Column::of("Count"), Column::of("QCount")]].concat();
    for part in ["T", "A", "Q", "K"] {
        FIGURES.iter().for_each(|figure| columns.push(Column::of(format!("{part}{figure}"))));
    }
    columns.push(Column::text("API Name"));
    columns.push(Column::text("Kernel Name"));
    Table::new(columns).rounded(Rounding::Binary)
}

fn called(api: &str, kernel: &str, options: &RenderOptions) -> [Cell; 2] {
    [name_cell(Some(nsys_call(api)), options), name_cell(Some(kernel), options)]
}

fn cells(mut cells: Vec<Cell>, execution: &KernelExecution, called: [Cell; 2]) -> Vec<Cell> {
    let KernelExecution { total, call, queue, kernel, .. } = execution;
    cells.extend([Cell::Whole(total.instances), Cell::Whole(queue.instances)]);
    for times in [total, call, queue, kernel] {
        cells.extend(spread(times));
    }
    cells.extend(called);
    cells
}

fn spread(times: &Times) -> [Cell; 5] {
    if times.instances == 0 {
        let [average, median, least, most] = [(); 4].map(|()| Cell::tested("None")); // as the tool writes
        return [average, median, least, most, Cell::Number(0.0)];
    }
    let median = match times.median_ns {
        Some(median) if times.median_exact => Cell::Number(median),
        Some(median) => Cell::About(median),
        None => Cell::Unknown,
    };
    [
        Cell::mean(times.total_ns, times.instances),
        median,
        Cell::Whole(times.min_ns),
        Cell::Whole(times.max_ns),
        Cell::Number(times.stddev_ns),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tool that has this report has SQLite from 3.43 on.
    #[test]
    fn means_are_rounded_by_the_exact_double() {
        assert_eq!(table_of(&[]).rounding, Rounding::Binary);
    }
}

//! What threads waited for inside of ranges: a table of ranges and system calls.

use super::cuda::Made;
use super::fitted::section_of;
use super::gpu_work::printable;
use super::options::RenderOptions;
use super::table::{Cell, Column, Table};
use range_model::Summary;
use range_model::stats::Lean;

pub(crate) fn off_cpu(summary: &Summary, options: &RenderOptions) -> String {
    section_of(TITLES, table(summary, options), &["Share"], options)
}

const TITLES: [&str; 2] = [
    " ** Off CPU by Range and System Call, sampled (off_cpu):",
    "Off-CPU Statistics (by range and system call, sampled):",
];
pub(crate) const ABOUT: &str = "Time in which the thread of a range did not run, by the system call that it was in: an \
                                estimate from samples.";
const NOT_SEEN: &str = "No sample found a thread off the CPU inside of a range, or none was taken (`off_cpu=on`, Linux \
                        only).\n";

pub(crate) fn table(summary: &Summary, options: &RenderOptions) -> Made {
    if summary.off_cpu.is_empty() {
        return Err(NOT_SEEN);
    }
    let mut table = Table::new([
        Column::name("Range"),
        Column::of("Off CPU (ns)").summed(),
        Column::of("Off CPU (%)").page("Share").share_of(1),
        Column::of("Samples").summed(),
        Column::text("System Call").page("System call"),
        Column::text("Of"),
    ]);
    let whole = summary.off_cpu.iter().map(|row| row.time_ns).total();
    for row in &summary.off_cpu {
        let text = |text: &str| Cell::text(printable(text, options));
        table.push(vec![
            Cell::text(options.wording().label(row.domain.as_deref(), &row.name)),
            Cell::Whole(row.time_ns),
            Cell::Share { part: row.time_ns, whole },
            Cell::Whole(row.samples),
            text(&row.call),
            text(&row.what),
        ]);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use range_model::summary::OffCpuStats;

    #[test]
    fn ranges_with_what_their_threads_waited_for() {
        let row = |name: &str, call: &str, what: &str, samples, ms: u64| {
            let mut row = OffCpuStats::new(name, call, samples, ms * 1_000_000);
            row.what = what.to_owned();
            row
        };
        let mut summary = Summary::default();
        assert!(off_cpu(&summary, &RenderOptions::default()).contains(NOT_SEEN));
        summary.off_cpu = vec![
            row("Module running", "read", "pipe", 2_310, 23_099),
            row("Load\tModule", "futex (lock or condition)", "", 90, 900),
        ];
        summary.off_cpu[1].domain = Some("net".to_owned());
        let expected = "
 ** Off CPU by Range and System Call, sampled (off_cpu):

 Range              Off CPU  Share  Samples  System call                Of
 ----------------  --------  -----  -------  -------------------------  ----
 Module running    23.10 s   96.2%    2,310  read                       pipe
 net:Load\\tModule  900.0 ms   3.8%       90  futex (lock or condition)

";
        assert_eq!(off_cpu(&summary, &RenderOptions::default()), expected);
    }
}

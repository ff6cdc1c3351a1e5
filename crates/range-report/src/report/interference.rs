//! Whose operations made operations of others wait on a GPU: a table of those that waited.

use super::cuda::Made;
use super::fitted::section_of;
use super::gpu_work::printable;
use super::options::RenderOptions;
use super::table::{Cell, Column, Table};
use range_model::Summary;
use range_model::names::joined;
use range_model::stats::Lean;

pub(crate) fn interference(summary: &Summary, options: &RenderOptions) -> String {
    section_of(TITLES, table(summary, options), &["Share", "Possible", "Avg"], options)
}

const TITLES: [&str; 2] = [
    " ** GPU Operations behind Others (interference):",
    "GPU Interference Statistics (operations behind those of other requests):",
];
pub(crate) const ABOUT: &str = "Operations that were ready in a stream while operations of another request ran before \
                                them. Possible: their stream was free, but other streams ran on the device.";
const NOTHING: &str = "No operation is known to have waited behind one of another request. That is known where the run \
                       was measured for `interference` or `why`.\n";

pub(crate) fn table(summary: &Summary, options: &RenderOptions) -> Made {
    if summary.interference.is_empty() {
        return Err(NOTHING);
    }
    let mut table = Table::new([
        Column::name("Waited"),
        Column::text("Behind"),
        Column::of("Ops").summed(),
        Column::of("Time (ns)").summed(),
        Column::of("Time (%)").page("Share").share_of(3),
        Column::of("Avg (ns)"),
        Column::of("Max (ns)"),
        Column::of("Possible (ns)").summed(),
    ]);
    let text = |path: &[String]| Cell::text(printable(&joined(path, " > "), options));
    let whole = summary.interference.iter().map(|row| row.time_ns).total();
    for row in &summary.interference {
        table.push(vec![
            text(&row.waiter),
            text(&row.by),
            Cell::Whole(row.operations),
            Cell::Whole(row.time_ns),
            Cell::Share { part: row.time_ns, whole },
            Cell::known(row.time_ns.checked_div(row.operations)),
            Cell::Whole(row.longest_ns),
            Cell::Whole(row.possible_ns),
        ]);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Report, SummaryExt as _};
    use range_model::summary::InterferenceStats;

    const MS: u64 = 1_000_000;

    fn run() -> Summary {
        let path = |kind: &str| vec![kind.to_owned(), "launch".to_owned()];
        let mut beside = InterferenceStats::new(path("hog"), path("hog"), 0, 0, 0);
        (beside.possible_operations, beside.possible_ns) = (3, 7 * MS);
        let interference = vec![
            InterferenceStats::new(path("small"), path("hog"), 1_960, 19_600 * MS, 120 * MS),
            InterferenceStats::new(path("hog"), path("small\t2"), 40, 400 * MS, 12 * MS),
            beside,
        ];
        Summary { interference, ..Summary::default() }
    }

    #[test]
    fn operations_with_those_before_them() {
        assert!(interference(&Summary::default(), &RenderOptions::default()).contains(NOTHING));
        let expected = "
 ** GPU Operations behind Others (interference):

 Waited          Behind               Ops      Time  Share       Avg       Max  Possible
 --------------  -----------------  -----  --------  -----  --------  --------  --------
 small > launch  hog > launch       1,960  19.60 s   98.0%  10.00 ms  120.0 ms      0 ns
 hog > launch    small\\t2 > launch     40  400.0 ms   2.0%  10.00 ms  12.00 ms      0 ns
 hog > launch    hog > launch           0      0 ns   0.0%      -         0 ns  7.000 ms

";
        assert_eq!(interference(&run(), &RenderOptions::default()), expected);
        let narrow = interference(&run(), &RenderOptions::default().width(80));
        assert!(narrow.contains("Columns left out: Possible.") && narrow.contains(" small > launch "), "{narrow}");
    }

    #[test]
    fn files_have_whole_paths() {
        let mut text = Vec::new();
        run().write_csv(Report::Interference, &mut text).unwrap();
        let expected = "\
Waited,Behind,Ops,Time (ns),Time (%),Avg (ns),Max (ns),Possible (ns)
small > launch,hog > launch,1960,19600000000,98.0,10000000,120000000,0
hog > launch,small\t2 > launch,40,400000000,2.0,10000000,12000000,0
hog > launch,hog > launch,0,0,0.0,,0,7000000
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}

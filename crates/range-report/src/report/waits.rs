//! Who ended the waits of calls: a table of the calls that waited.

use super::cuda::Made;
use super::fitted::section_of;
use super::gpu_work::printable;
use super::options::RenderOptions;
use super::table::{Cell, Column, Table};
use range_model::Summary;
use range_model::stats::Lean;

pub(crate) fn waits(summary: &Summary, options: &RenderOptions) -> String {
    section_of(TITLES, made(summary, options, NO_SPAN), &["Share", "Avg", "p99 without"], options)
}

const TITLES: [&str; 2] =
    [" ** Waits of Calls, by who ended them (waits):", "Wait Statistics (of calls, by who ended them):"];
pub(crate) const ABOUT: &str = "Waits of calls, and of threads in locks, by the span that ended them: told of futures in \
                                `follow`; else, with Of, inferred, since so many of these waits ended right after \
                                that span did. None: no span did, but a timer, I/O or the end of a task. Parts of a \
                                wait behind several spans count for each. p99 without: of the latencies of all calls \
                                of the waiter, if these waits took no time.";
const NO_WAIT: &str = "No future in `tracing_gpu::follow(future)` has waited, and no pattern shows who ended other \
                       waits.\n";
const NO_SPAN: &str = "(no span: a timer, I/O, a task's end)";

pub(crate) fn table(summary: &Summary, options: &RenderOptions) -> Made {
    made(summary, options, "None")
}

/// The table, with `nobody` in place of a span that ended waits.
fn made(summary: &Summary, options: &RenderOptions, nobody: &str) -> Made {
    if summary.waits.is_empty() {
        return Err(NO_WAIT);
    }
    let is_inferred = summary.waits.iter().any(|row| row.of_waits.is_some());
    let inferred = ["Of", "By chance", "Over (ns)", "Within (ns)"].map(Column::of).into_iter().filter(|_| is_inferred);
    let has_p99 = summary.waits.iter().any(|row| row.p99_without_ns.is_some());
    let p99 = Some(Column::of("p99 without (ns)")).filter(|_| has_p99);
    let columns = [
        Column::name("Waiter"),
        Column::of("Time (ns)").summed(),
        Column::of("Time (%)").page("Share").share_of(1),
        Column::of("Waits").summed(),
        Column::of("Avg (ns)"),
        Column::of("Max (ns)"),
    ];
    let columns = columns.into_iter().chain(p99).chain(inferred).chain([Column::text("Ended by")]);
    let mut table = Table::new(columns.in_vec());
    let text = |text: &str| Cell::text(printable(text, options));
    let whole = summary.waits.iter().map(|row| row.time_ns).total();
    for row in &summary.waits {
        // The time has small parts of other waits, too: with many of them, a mean of these waits means nothing.
        let known = |ns: u64| Some(ns).filter(|ns| *ns > 0 || row.of_waits.is_none());
        let mean_ns = row.time_ns.checked_div(row.waits).filter(|mean| *mean <= row.longest_ns).and_then(known);
        let mut cells = vec![
            text(&row.waiter),
            Cell::known(known(row.time_ns)),
            Cell::Share { part: row.time_ns, whole },
            Cell::Whole(row.waits),
            Cell::known(mean_ns),
            Cell::known(known(row.longest_ns)),
        ];
        cells.extend(has_p99.then(|| Cell::known(row.p99_without_ns)));
        if is_inferred {
            cells.extend([row.of_waits, row.by_chance, row.over_ns, row.within_ns].map(Cell::known));
        }
        let by = |by: &str| match (&row.resource, &row.by_value) {
            (Some(resource), _) => text(&format!("{by} (held a {resource})")),
            (None, Some(value)) if row.of_waits.is_some() => text(&format!("{by} with {value}")),
            (None, Some(value)) => text(&format!("{by} (most with {value})")),
            (None, None) => text(by),
        };
        cells.push(row.by.as_deref().map_or_else(|| Cell::text(nobody), by));
        table.push(cells);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Report, SummaryExt as _};
    use range_model::summary::WaitStats;

    const MS: u64 = 1_000_000;

    fn run() -> Summary {
        let by = |name: &str| Some(name.to_owned());
        let waits = vec![
            WaitStats::new("append_ledger", by("compact\tledger"), 68, 19_500 * MS, 602 * MS),
            WaitStats::new("net:request", None, 1_200, 480 * MS, 3 * MS),
            WaitStats::new("append_ledger", by("flush"), 1, 20 * MS, 4 * MS),
        ];
        Summary { waits, ..Summary::default() }
    }

    #[test]
    fn calls_with_who_ended_their_waits() {
        assert!(waits(&Summary::default(), &RenderOptions::default()).contains(NO_WAIT));
        let expected = "
 ** Waits of Calls, by who ended them (waits):

 Waiter             Time  Share  Waits       Avg       Max  Ended by
 -------------  --------  -----  -----  --------  --------  -------------------------------------
 append_ledger  19.50 s   97.5%     68  286.8 ms  602.0 ms  compact\\tledger
 net:request    480.0 ms   2.4%  1,200  400.0 us  3.000 ms  (no span: a timer, I/O, a task's end)
 append_ledger  20.00 ms   0.1%      1      -     4.000 ms  flush

";
        assert_eq!(waits(&run(), &RenderOptions::default()), expected);
        let narrow = waits(&run(), &RenderOptions::default().width(80));
        assert!(narrow.contains("Columns left out: Share, Avg.") && narrow.contains(" append_ledger "), "{narrow}");
    }

    #[test]
    fn what_the_calls_would_take_without_their_waits() {
        let mut summary = run();
        summary.waits[0].p99_without_ns = Some(41 * MS);
        let expected = "
 ** Waits of Calls, by who ended them (waits):

 Waiter             Time  Share  Waits       Avg       Max  p99 without  Ended by
 -------------  --------  -----  -----  --------  --------  -----------  -------------------------------------
 append_ledger  19.50 s   97.5%     68  286.8 ms  602.0 ms     41.00 ms  compact\\tledger
 net:request    480.0 ms   2.4%  1,200  400.0 us  3.000 ms         -     (no span: a timer, I/O, a task's end)
 append_ledger  20.00 ms   0.1%      1      -     4.000 ms         -     flush

";
        assert_eq!(waits(&summary, &RenderOptions::default().width(120)), expected);
    }

    #[test]
    fn inferred_rows_show_their_evidence() {
        let mut summary = run();
        let row = &mut summary.waits[0];
        (row.of_waits, row.by_chance, row.over_ns, row.within_ns) = (Some(70), Some(1), Some(20 * MS), Some(MS / 5));
        summary.waits.truncate(2);
        let mut on_worker = WaitStats::new("request", Some("to_csv".to_owned()), 96, 2 * MS, MS);
        on_worker.resource = Some(WaitStats::WORKER.to_owned());
        summary.waits.push(on_worker);
        let expected = "
 ** Waits of Calls, by who ended them (waits):

 Waiter             Time  Share  Waits       Avg       Max  Of  By chance      Over    Within  Ended by
 -------------  --------  -----  -----  --------  --------  --  ---------  --------  --------  -------------------------------------
 append_ledger  19.50 s   97.6%     68  286.8 ms  602.0 ms  70          1  20.00 ms  200.0 us  compact\\tledger
 net:request    480.0 ms   2.4%  1,200  400.0 us  3.000 ms   -          -      -         -     (no span: a timer, I/O, a task's end)
 request        2.000 ms   0.0%     96  20.83 us  1.000 ms   -          -      -         -     to_csv (held a worker thread)

";
        assert_eq!(waits(&summary, &RenderOptions::default().width(150)), expected);
        let mut text = Vec::new();
        summary.write_csv(Report::Waits, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains(",602000000,70,1,20000000,200000,compact\tledger\n") && text.contains(",,,,,None"),
            "{text}"
        );
    }

    #[test]
    fn files_have_none_where_no_span_ended_a_wait() {
        let mut text = Vec::new();
        run().write_csv(Report::Waits, &mut text).unwrap();
        let expected = "\
Waiter,Time (ns),Time (%),Waits,Avg (ns),Max (ns),Ended by
append_ledger,19500000000,97.5,68,286764705,602000000,compact\tledger
net:request,480000000,2.4,1200,400000,3000000,None
append_ledger,20000000,0.1,1,,4000000,flush
";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}

//! Which ranks were late for collective operations, and what the others waited: of several processes together.

use super::finding::{Evidence, Finding};
use crate::text::number::{human_inline, share};
use crate::text::width::shorten;
use crate::text::wording::Wording;
use range_model::Summary;
use range_model::names::collective;
use range_model::stats::Lean;
use range_model::summary::{IdleCause, LateRank, Lateness, RangeState};

const LONGEST_NAME: usize = 40;
/// Waiting that is due to no single rank is told from this part of the time on, in per cent.
const WORTH: u128 = 5;

/// A finding for each rank that was late, the most costly first.
pub(super) fn late_ranks(summary: &Summary, wording: Wording) -> Vec<Finding> {
    let rows = summary.lateness.iter().flat_map(|lateness| &lateness.late).enumerate();
    rows.map(|(place, row)| finding(place, row, summary.elapsed_ns, wording)).in_vec()
}

fn finding(place: usize, row: &LateRank, elapsed: u64, wording: Wording) -> Finding {
    let each = row.each_ns;
    let others = match row.others {
        1 => "the other rank waits".to_owned(),
        several => format!("the {} others wait", wording.count(several)),
    };
    let name = if row.name.is_empty() { "collectives" } else { &row.name };
    let (once, operations) = match (row.operations, row.of) {
        (1, all) => (" once", format!(" for one of {} {name}", wording.count(all))),
        (some, all) if some == all => ("", format!(" in the median for {} {name}", wording.count(some))),
        (some, all) => ("", format!(" in the median for {} of {} {name}", wording.count(some), wording.count(all))),
    };
    let sentence = format!(
        "{} is late{once}{}, by {}{operations}: {others} {}{} ({} of the run)",
        row.rank,
        row.cause.as_ref().map_or_else(String::new, |cause| in_part(cause, wording)),
        human_inline(row.late_ns),
        human_inline(each),
        if row.others > 1 { " each" } else { "" },
        share(each, elapsed.into()),
    );
    let evidence = Evidence::LateRank {
        row: place,
        operations: row.operations,
        of_operations: row.of,
        late_ns: row.late_ns,
        others: row.others,
        each_ns: row.each_ns,
        waited_ns: row.waited_ns,
        cause_ns: row.cause.as_ref().map(|_| row.cause_ns),
    };
    let mut finding = Finding::of_run(evidence, sentence);
    (finding.at_stake_ns, finding.of_ns) = (each, Some(elapsed));
    finding.span = row.cause.iter().filter_map(|cause| cause.range.clone()).in_vec();
    finding
}

/// ` in `prepare` (host code)`
fn in_part(part: &RangeState, wording: Wording) -> String {
    let state = match part.state.as_str() {
        state if state == IdleCause::Unexplained.name() => "unexplained; perhaps another process uses its GPU",
        state => state,
    };
    match &part.range {
        Some(range) => {
            let name = shorten(&wording.label(None, range), LONGEST_NAME, LONGEST_NAME / 2);
            format!(" in `{name}` ({state})")
        }
        None => format!(" ({state})"),
    }
}

/// The part of a kernel's time in which ranks only waited for others. Kernels of one collective operation have equal
/// parts of it for equal times.
#[must_use]
pub fn waiting_for_ranks(summary: &Summary, kernel: &str, total_ns: u64) -> u64 {
    let operation = |kernel: &str| {
        let name = collective(kernel)?;
        summary.lateness.as_ref()?.operations.iter().find(|row| row.name == name)
    };
    let Some(of) = operation(kernel) else { return 0 };
    let kernels = summary.gpu.iter().flat_map(|gpu| &gpu.kernels);
    let its = kernels.filter(|row| operation(&row.name).is_some_and(|other| other.name == of.name));
    let all = its.map(|row| row.times.total_ns).total();
    let part = u128::from(of.waiting_ns) * u128::from(total_ns) / all.max(1);
    u64::try_from(part).unwrap_or(u64::MAX).min(total_ns)
}

/// How long ranks together waited, with nothing else on their devices: for those that are named, else for any.
fn waiting(lateness: &Lateness) -> u64 {
    match &lateness.late[..] {
        [] => lateness.operations.iter().fold(0, |sum, row| sum.saturating_add(row.idle_ns)),
        named => named.iter().fold(0, |sum, row| sum.saturating_add(row.waited_ns)),
    }
}

/// ` (44.0% waiting for rank 1 in collectives)`, of a time in which devices were busy for `busy`. `None` where that is
/// little, or not known.
pub(super) fn waits(summary: &Summary, [busy, wall]: [u64; 2]) -> Option<(u64, String)> {
    let lateness = summary.lateness.as_ref()?;
    let waiting = waiting(lateness);
    let whom = match &lateness.late[..] {
        [] if u128::from(waiting) * 100 < u128::from(wall) * WORTH => return None,
        [] => "other ranks".to_owned(),
        [one] => one.rank.clone(),
        _ => "late ranks".to_owned(),
    };
    let share = share(waiting, wall.into());
    (waiting > 0 && waiting <= busy).then(|| (waiting, format!(" ({share} waiting for {whom} in collectives)")))
}

#[cfg(test)]
mod tests {
    use range_model::summary::{CollectiveStats, DeviceIdle, GpuActivity, GpuIdle};

    use super::super::gpu::on_gpu;
    use super::*;

    fn part(range: Option<&str>, state: &str) -> Option<RangeState> {
        Some(RangeState { range: range.map(str::to_owned), state: state.to_owned() })
    }

    fn late(rank: &str, others: u64, cause: Option<RangeState>) -> LateRank {
        LateRank {
            rank: rank.to_owned(),
            name: "AllReduce".to_owned(),
            operations: 59,
            of: 59,
            late_ns: 13_900_000,
            others,
            each_ns: 820_000_000,
            waited_ns: 820_000_000 * others,
            cause,
            cause_ns: 800_000_000,
        }
    }

    /// Two devices that were busy for so many milliseconds of two seconds each.
    fn run(late: Vec<LateRank>, busy_ms: u64) -> Summary {
        let waiting_ns = late.iter().map(|row| row.waited_ns).sum();
        let operation = CollectiveStats {
            name: "AllReduce".to_owned(),
            operations: 59,
            time_ns: 2 * waiting_ns,
            waiting_ns,
            idle_ns: waiting_ns,
        };
        let device = |device| {
            let mut row = DeviceIdle { device, wall_ns: 2_000_000_000, ..DeviceIdle::default() };
            row.busy_ns = busy_ms * 500_000;
            row.causes.add(IdleCause::Host, row.wall_ns - row.busy_ns);
            row
        };
        let idle = GpuIdle { devices: vec![device(0), device(1)], ..GpuIdle::default() };
        let mut gpu = GpuActivity::default();
        gpu.total.busy_ns = busy_ms * 1_000_000;
        let lateness = Lateness { operations: vec![operation], late, ..Lateness::default() };
        Summary {
            elapsed_ns: 2_000_000_000,
            gpu: Some(gpu),
            idle: Some(idle),
            lateness: Some(lateness),
            ..Summary::default()
        }
    }

    fn sentences(summary: &Summary) -> Vec<String> {
        on_gpu(summary, Wording::default()).into_iter().map(|finding| finding.sentence).collect()
    }

    #[test]
    fn the_late_rank_is_named_with_its_cause_and_what_the_others_pay() {
        let prepare = part(Some("prepare"), "host code");
        let summary = run(vec![late("rank 1", 1, prepare.clone())], 3_000);
        let expected = [
            "GPU busy 75.0% of 4.000 s (20.5% waiting for rank 1 in collectives): it waits for code of the host (25.0% \
             of the time)",
            "rank 1 is late in `prepare` (host code), by 13.90 ms in the median for 59 AllReduce: the other rank waits \
             820.0 ms (41.0% of the run)",
        ];
        assert_eq!(sentences(&summary)[..2], expected);
        let finding = &on_gpu(&summary, Wording::default())[1];
        assert_eq!((finding.at_stake_ns, finding.of_ns), (820_000_000, Some(2_000_000_000)));
        assert_eq!(finding.span, ["prepare"]);
        let of_eight = |cause| {
            let row = LateRank { of: 296, ..late("rank 5", 7, cause) };
            sentences(&Summary { gpu: None, ..run(vec![row], 0) }).swap_remove(0)
        };
        let ends =
            "by 13.90 ms in the median for 59 of 296 AllReduce: the 7 others wait 820.0 ms each (41.0% of the run)";
        assert_eq!(of_eight(None), format!("rank 5 is late, {ends}"));
        assert_eq!(of_eight(part(None, "GPU work")), format!("rank 5 is late (GPU work), {ends}"));
        let row = LateRank { of: 599, operations: 1, ..late("rank 0", 7, None) };
        let once = sentences(&Summary { gpu: None, ..run(vec![row], 0) }).swap_remove(0);
        let ends = "for one of 599 AllReduce: the 7 others wait 820.0 ms each (41.0% of the run)";
        assert_eq!(once, format!("rank 0 is late once, by 13.90 ms {ends}"));
        let row = LateRank { name: String::new(), ..late("rank 0", 7, None) };
        let mixed = sentences(&Summary { gpu: None, ..run(vec![row], 0) }).swap_remove(0);
        assert!(mixed.starts_with("rank 0 is late, by 13.90 ms in the median for 59 collectives: the 7"), "{mixed}");
        let shared = of_eight(part(Some("reduce"), "unexplained"));
        assert!(shared.contains("in `reduce` (unexplained; perhaps another process uses its GPU), by"), "{shared}");
    }

    /// A first line has one cause: where ranks wait longer than the GPU is idle, that is what it is about.
    #[test]
    fn waiting_is_told_in_place_of_a_smaller_cause() {
        let first = |late, busy| sentences(&run(late, busy)).swap_remove(0);
        let one = || late("rank 1", 1, None);
        assert_eq!(first(vec![one()], 3_400), "GPU busy 85.0% of 4.000 s (20.5% waiting for rank 1 in collectives)");
        let two = first(vec![one(), late("rank 2", 1, None)], 3_400);
        assert_eq!(two, "GPU busy 85.0% of 4.000 s (41.0% waiting for late ranks in collectives)");
        let waits = |percent: u64| {
            let mut summary = run(Vec::new(), 3_400);
            let row = &mut summary.lateness.as_mut().unwrap().operations[0];
            row.idle_ns = percent * 40_000_000;
            sentences(&summary).swap_remove(0)
        };
        assert!(
            waits(5).starts_with("GPU busy 85.0% of 4.000 s (5.0% waiting for other ranks in collectives): it waits")
        );
        assert!(waits(4).starts_with("GPU busy 85.0% of 4.000 s: it waits"), "{}", waits(4));
        assert!(waits(86).starts_with("GPU busy 85.0% of 4.000 s: it waits"), "more than it was busy");
    }
}

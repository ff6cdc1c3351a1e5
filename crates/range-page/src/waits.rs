//! Who ended the waits of calls: parts of single waits as they arrive, the patterns that many waits showed, and who is
//! to blame.

use serde::Serialize;

use super::texts::{LONGEST, presentable};
use range_model::summary::Summary;
use range_report::page::Phases;
use range_report::page::slowest_calls;

/// A part of a wait. The span to which it is owed is a text; 0 if no span ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitPart {
    pub(super) call: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) by: u32,
    pub(super) is_for_worker: bool,
}

/// Parts of waits, the longest up to a limit.
#[derive(Debug, Default)]
pub(super) struct WaitParts {
    pub(super) all: Vec<WaitPart>,
    pub(super) left_out: u64,
}

impl WaitParts {
    pub(super) fn push(&mut self, part: WaitPart, limit: usize) {
        self.all.push(part);
        if self.all.len() > limit.saturating_mul(2) {
            self.keep(limit);
        }
    }

    pub(super) fn keep(&mut self, limit: usize) {
        let Some(surplus) = self.all.len().checked_sub(limit).filter(|surplus| *surplus > 0) else { return };
        self.all.select_nth_unstable_by_key(surplus - 1, |part| part.end.saturating_sub(part.start));
        self.all.drain(..surplus);
        self.left_out = self.left_out.saturating_add(surplus as u64);
    }
}

/// Calls of one name, or ranges, whose waits mostly ended right after a range of another name.
#[derive(Debug, Serialize)]
pub(super) struct Pattern {
    waiter: String,
    by: String,
    /// The field of the ranges that ended the waits, with its value.
    value: Option<String>,
    waits: u64,
    of: u64,
    by_chance: u64,
    /// The length of the shortest waits that were looked at.
    over_ns: u64,
    within_ns: u64,
    before_ns: u64,
}

pub(super) fn patterns(summary: &Summary) -> Vec<Pattern> {
    let shown = |text: &str| presentable(text, LONGEST).into_owned();
    let rows = summary.waits.iter().filter_map(|row| {
        Some(Pattern {
            waiter: shown(&row.waiter),
            by: shown(row.by.as_deref()?),
            value: row.by_value.as_deref().map(shown),
            waits: row.waits,
            of: row.of_waits?,
            by_chance: row.by_chance.unwrap_or(0),
            over_ns: row.over_ns.unwrap_or(0),
            within_ns: row.within_ns.unwrap_or(0),
            before_ns: row.before_ns.unwrap_or(0),
        })
    });
    rows.collect()
}

/// A span that made others wait.
#[derive(Debug, Serialize)]
pub(super) struct Blamed {
    by: String,
    /// The field with its value that tells those who made others wait from others of their name.
    value: Option<String>,
    /// Who waited most for it.
    waiter: String,
    waits: u64,
    ns: u64,
    /// Where it is inferred: of how many waits, and how many of them by chance.
    of: Option<u64>,
    by_chance: u64,
}

/// Pairs of names on the first screen.
const MOST_BLAMED: usize = 4;

/// Who made others wait, the longest time first.
pub(super) fn blamed(summary: &Summary) -> Vec<Blamed> {
    let shown = |text: &str| presentable(text, LONGEST).into_owned();
    let rows = summary.waits.iter().filter_map(|row| {
        let by = row.by.as_deref().filter(|by| *by != row.waiter || row.by_value.is_some())?;
        Some(Blamed {
            by: shown(by),
            value: row.by_value.as_deref().map(shown),
            waiter: shown(&row.waiter),
            waits: row.waits,
            ns: row.time_ns,
            of: row.of_waits,
            by_chance: row.by_chance.unwrap_or(0),
        })
    });
    rows.take(MOST_BLAMED).collect()
}

/// The part of all time that proves that nobody is to blame for a wait, in thousandths.
const NEARLY_ALL: u64 = 990;

/// That no span made another wait, where the summary proves it: spans were on the CPU, and nothing was awaited, or all
/// that was is told of and ended from no span. Of a GPU's work, which is awaited on the CPU, nothing is proved.
pub(super) fn nobody(summary: &Summary, phases: &Phases) -> Option<&'static str> {
    let has_gpu = summary.gpu.as_ref().is_some_and(|gpu| gpu.total.operations > 0);
    if has_gpu || summary.waits.iter().any(|row| row.by.is_some()) {
        return None;
    }
    let is_most = |part: u64, whole: u64| u128::from(part) * 1_000 >= u128::from(whole) * u128::from(NEARLY_ALL);
    let outermost = phases.all().iter().filter(|phase| phase.depth == 0).map(|phase| phase.node);
    let (on_cpu, total) = outermost.fold((0_u64, 0_u64), |(on_cpu, total), node| {
        (on_cpu.saturating_add(node.on_cpu_ns), total.saturating_add(node.total_ns))
    });
    let waits = phases.all().iter().filter_map(|phase| phase.node.awaited_self_ns);
    let awaited = waits.fold(0_u64, u64::saturating_add);
    let told = summary.waits.iter().fold(0_u64, |sum, row| sum.saturating_add(row.time_ns));
    match awaited {
        _ if total == 0 || !is_most(on_cpu, total) => None,
        0 => Some("no span made others wait: they were on the CPU for at least 99 % of their time"),
        _ if is_most(told, awaited) => {
            Some("no span made others wait: what has none, such as timers and I/O, ended the waits")
        }
        _ => None,
    }
}

/// Of names of calls, what the slowest hundredth is made of.
pub(super) fn slowest(summary: &Summary) -> Vec<(String, String)> {
    let shown = |label: String| presentable(&label, LONGEST).into_owned();
    slowest_calls(summary).map(|(label, says)| (shown(label), says)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use range_model::summary::{GpuActivity, TreeNode, WaitStats};

    #[test]
    fn nobody_is_to_blame_where_that_is_proved() {
        let says = |on_cpu_ns, awaited, told: &[(Option<&str>, u64)], operations| {
            let mut node = TreeNode::new("serve");
            (node.total_ns, node.on_cpu_ns, node.awaited_self_ns) = (1_000, on_cpu_ns, awaited);
            let told = told.iter().map(|(by, ns)| WaitStats::new("serve", by.map(str::to_owned), 1, *ns, *ns));
            let mut gpu = GpuActivity::default();
            gpu.total.operations = operations;
            let summary = Summary { tree: vec![node], waits: told.collect(), gpu: Some(gpu), ..Summary::default() };
            nobody(&summary, &Phases::of(&summary)).map(|says| says.split(": ").nth(1).unwrap())
        };
        assert_eq!(says(995, None, &[], 0), Some("they were on the CPU for at least 99 % of their time"));
        let awaited = Some(8_000);
        assert_eq!(
            says(995, awaited, &[(None, 7_950)], 0),
            Some("what has none, such as timers and I/O, ended the waits")
        );
        // Off the CPU; not known; waits that are not told, or owed to a span; work on a GPU.
        assert_eq!(says(980, None, &[], 0), None);
        assert_eq!(says(0, None, &[], 0), None);
        assert_eq!(says(995, awaited, &[(None, 7_000)], 0), None);
        assert_eq!(says(995, awaited, &[(None, 7_000), (Some("job"), 1_000)], 0), None);
        assert_eq!(says(995, None, &[], 1), None);
    }

    #[test]
    fn the_longest_parts_are_kept() {
        let mut parts = WaitParts::default();
        for end in [5, 90, 7, 80, 3, 70, 60] {
            parts.push(WaitPart { call: 1, start: 0, end, by: 0, is_for_worker: false }, 3);
        }
        parts.keep(3);
        let mut ends: Vec<u64> = parts.all.iter().map(|part| part.end).collect();
        ends.sort_unstable();
        assert_eq!((ends, parts.left_out), (vec![70, 80, 90], 4));
    }
}

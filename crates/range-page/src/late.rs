//! Which kernels of NCCL on the timeline wait for a rank that is late.

use std::collections::HashMap;

use serde::Serialize;

use super::items::Bar;
use super::processes::Joined;
use range_model::summary::Lateness;

/// The number of the bar that waits and of the one for which it waits, each plus one, or 0 if that is not on the page;
/// the process that is late; how long it waits; how many ranks the operation has, and by how much that process is late.
/// The page has them as a list of six.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct LateWait(u32, u32, u32, u64, u32, u64);

/// The waits of which a bar is on the page, the longest first. `process_of` returns the process of a bar that is a
/// kernel of NCCL.
pub(super) fn late_waits(
    lateness: Option<&Lateness>,
    joined: &Joined,
    bars: &[Bar],
    process_of: impl Fn(&Bar) -> Option<u32>,
) -> Vec<LateWait> {
    let waits = lateness.map_or(&[][..], |lateness| &lateness.waits);
    if waits.is_empty() || joined.merged.is_empty() {
        return Vec::new();
    }
    let place = |process| joined.processes.iter().position(|other| other == process);
    let places: Vec<Option<usize>> = joined.merged.iter().map(place).collect();
    let key = |process: u32, start: u64| {
        let place = places.get(process as usize).copied().flatten()?;
        Some((u32::try_from(place).ok()?, joined.offsets.get(place)?.saturating_add(start)))
    };
    let keys = waits.iter().map(|wait| [key(wait.process, wait.start_ns), key(wait.late, wait.late_start_ns)]);
    let keys: Vec<[Option<(u32, u64)>; 2]> = keys.collect();
    let mut numbers: HashMap<(u32, u64), u32> = keys.iter().flatten().flatten().map(|key| (*key, 0)).collect();
    for (bar, number) in bars.iter().zip(1..) {
        if let Some(process) = process_of(bar)
            && let Some(of_key) = numbers.get_mut(&(process, bar.start))
        {
            *of_key = number;
        }
    }
    let number = |key: Option<(u32, u64)>| key.and_then(|key| numbers.get(&key).copied()).unwrap_or(0);
    let all = waits.iter().zip(keys).filter_map(|(wait, [own, late])| {
        let shown = LateWait(number(own), number(late), late?.0, wait.wait_ns, wait.ranks, wait.late_ns);
        (shown.0 > 0 || shown.1 > 0).then_some(shown)
    });
    all.collect()
}

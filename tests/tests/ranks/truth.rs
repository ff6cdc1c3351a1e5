//! How long the ranks waited for each other, from the machine itself.

use std::collections::BTreeMap;

use crate::machine::{Done, Machine, Rank};
use crate::plan::{Groups, Plan};
use crate::program::Collective;

pub(crate) struct Truth {
    /// How long others waited for each rank that was late, or that had waited for a late one in another communicator.
    waited: BTreeMap<u32, u64>,
    /// How long others waited for each rank that came last.
    pub(crate) last: BTreeMap<u32, u64>,
    /// The operation in which the others waited longest, with its communicator, number and last rank.
    pub(crate) longest: (u64, usize, usize, u32),
    pub(crate) total: u64,
    pub(crate) elapsed: u64,
    others: u64,
}

impl Truth {
    pub(crate) fn new(plan: &Plan, machine: &Machine) -> Self {
        let planted = plan.planted();
        let (mut waited, mut by_last, mut longest) = (BTreeMap::new(), BTreeMap::new(), (0, 0, 0, 0));
        let busy: Vec<Vec<(u64, u64, usize)>> = machine.ranks.iter().map(busy).collect();
        for (&(communicator, number), together) in &machine.together {
            let members = &machine.communicators[communicator].members;
            if number == 0 || together.what == Some(Collective::Broadcast) || together.parts.len() < members.len() {
                continue;
            }
            let start = |(rank, at): (u32, usize)| machine.ranks[rank as usize].operations[at].start.unwrap_or(0);
            let Some(&last) = together.parts.iter().max_by_key(|part| start(**part)) else { continue };
            let others = together.parts.iter().filter(|part| part.0 != last.0);
            let waiting: u64 =
                others.map(|part| alone(&busy[part.0 as usize], start(*part), start(last), part.1)).sum();
            *by_last.entry(last.0).or_default() += waiting;
            longest = longest.max((waiting, communicator, number, last.0));
            let partner = last.0 ^ 1;
            let held = plan.groups != Groups::World && !planted.contains(&last.0) && planted.contains(&partner);
            *waited.entry(if held { partner } else { last.0 }).or_default() += waiting;
        }
        let first = machine.ranks.iter().map(|rank| rank.start).min().unwrap_or(0);
        let total = by_last.values().sum();
        Self { waited, last: by_last, longest, total, elapsed: machine.end - first, others: u64::from(plan.ranks - 1) }
    }

    pub(crate) fn waited(&self, rank: u32) -> u64 {
        self.waited.get(&rank).copied().unwrap_or(0)
    }

    /// How long each of the others waited for a rank, as a part of the run.
    pub(crate) fn share(&self, rank: u32) -> f64 {
        self.waited(rank) as f64 / (self.others * self.elapsed) as f64
    }
}

/// The operations of a rank by start: start, end, place.
fn busy(rank: &Rank) -> Vec<(u64, u64, usize)> {
    let all = rank.operations.iter().enumerate();
    let mut busy: Vec<_> = all
        .filter_map(|(at, operation)| {
            let unending = matches!(operation.work, Done::Collective { .. }).then_some(u64::MAX);
            Some((operation.start?, operation.end.or(unending)?, at))
        })
        .collect();
    busy.sort_unstable();
    busy
}

/// The part of a time in which no operation but this one runs.
fn alone(busy: &[(u64, u64, usize)], from: u64, until: u64, own: usize) -> u64 {
    let (mut at, mut alone) = (from, 0);
    // Each stream has one operation at a time, so only the few before the first one can reach into the time.
    let first = busy.partition_point(|(start, ..)| *start < from).saturating_sub(40);
    for &(start, end, place) in &busy[first..] {
        if start >= until {
            break;
        }
        if place == own || end <= at {
            continue;
        }
        alone += start.saturating_sub(at);
        at = end.max(at);
    }
    alone + until.saturating_sub(at)
}

//! The processes of a page that shows several, and what a page leaves out.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::texts::{LONGEST, presentable, title};
use range_model::summary::Process;

/// Added to the number of a thread, as often as must be, if another process has one of that number: they ran on other
/// hosts, or in containers. Linux has no such large numbers.
const APART: u32 = 10_000_000;

/// What was joined.
#[derive(Debug, Default)]
pub(super) struct Joined {
    pub(super) processes: Vec<Process>,
    /// By process, how long after the first one it started.
    pub(super) offsets: Vec<u64>,
    /// The processes of the merged summary, to which its waits for late ranks refer.
    pub(super) merged: Vec<Process>,
    /// By process, the number on this page of its main thread.
    pub(super) mains: Vec<u32>,
    threads: HashSet<u32>,
    /// Number of calls and spans so far.
    pub(super) calls: u64,
    /// When the last process ended.
    pub(super) until: u64,
    pub(super) left_out: LeftOut,
}

impl Joined {
    pub(super) fn is_any(&self) -> bool {
        !self.processes.is_empty()
    }

    /// The process to which items belong.
    pub(super) fn present(&self) -> u32 {
        u32::try_from(self.processes.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    pub(super) fn main_of(&self, process: u32) -> Option<u32> {
        self.mains.get(process as usize).copied()
    }

    /// How many processes and hosts there are, in place of what identifies one process.
    pub(super) fn identity(&self) -> Option<Vec<(&'static str, String)>> {
        let hosts: HashSet<&str> = self.processes.iter().map(|process| process.host.as_str()).collect();
        let host = match hosts.len() {
            1 => ("host", presentable(self.processes.first()?.host.as_str(), LONGEST).into_owned()),
            count => ("hosts", count.to_string()),
        };
        let processes = ("processes", self.processes.len().to_string());
        self.is_any().then(|| [host, processes].into_iter().filter(|(_, value)| !value.is_empty()).collect())
    }

    /// `rank 3 (4711)`, with what differs between them: `rank 3: train (4711) on node07`.
    pub(super) fn labels(&self) -> Vec<String> {
        let differs = |of: fn(&Process) -> String| self.processes.iter().map(of).collect::<HashSet<_>>().len() > 1;
        let has_hosts = differs(|process| process.host.clone());
        let has_programs = differs(title);
        let label = |process: &Process| {
            let program = title(process);
            let name = match process.rank {
                Some(rank) if has_programs => format!("rank {rank}: {program}"),
                Some(rank) => format!("rank {rank}"),
                None => program,
            };
            let host = if has_hosts { format!(" on {}", process.host) } else { String::new() };
            presentable(&format!("{name} ({}){host}", process.pid), LONGEST).into_owned()
        };
        self.processes.iter().map(label).collect()
    }

    /// The number of a thread of the present process on this page.
    pub(super) fn thread(&mut self, own: &mut HashMap<u32, u32>, thread: u32) -> u32 {
        *own.entry(thread).or_insert_with(|| {
            let mut number = thread;
            while !self.threads.insert(number) {
                number = number.wrapping_add(APART);
            }
            number
        })
    }
}

/// Items that the timeline does not show. The tables count all of them, except those lost before the profiler saw them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct LeftOut {
    /// Items lost on their way to this file.
    pub(super) lost: u64,
    /// Items that arrived, those too short to be kept, and the length that was needed.
    pub(super) came: u64,
    pub(super) short: u64,
    pub(super) shortest_ns: u64,
    /// Marks beyond their limit, and links of batches.
    pub(super) marks: u64,
    pub(super) links: u64,
    /// Parts of waits beyond their limit: the shortest.
    pub(super) waits: u64,
    /// Items beyond the limit on rows.
    pub(super) deep: u64,
    /// Texts beyond their limit.
    pub(super) texts: u64,
    pub(super) nodes: usize,
}

impl LeftOut {
    /// Together with what the pages of processes have left out.
    pub(super) fn with(self, other: &Self) -> Self {
        Self {
            lost: self.lost.saturating_add(other.lost),
            came: self.came.saturating_add(other.came),
            short: self.short.saturating_add(other.short),
            shortest_ns: self.shortest_ns.max(other.shortest_ns),
            marks: self.marks.saturating_add(other.marks),
            links: self.links.saturating_add(other.links),
            waits: self.waits.saturating_add(other.waits),
            deep: self.deep.saturating_add(other.deep),
            texts: self.texts.saturating_add(other.texts),
            nodes: self.nodes,
        }
    }
}

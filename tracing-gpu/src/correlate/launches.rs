//! The API calls that are remembered until their operations and records have come.

use std::collections::VecDeque;

use super::hash::Map;
use super::projection::NO_SLOT;
use crate::activity::Note;

/// Drains for which a call is remembered after the last that was heard of it.
const DRAINS: usize = 2;

/// Start/end ranges around calls that count as one more call, by their memory; a call in any of them counts as two.
const AROUND: usize = 8;

/// What is expected of a call. In the order of how long it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Expected {
    /// At most its own record.
    Record,
    /// Operations, which come together.
    Operations,
    /// Operations of a graph, which may come long after one another.
    Graph,
}

/// What has come of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    Nothing,
    /// Operations without a time only.
    Untimed,
    Operation,
}

/// A remembered call: 24 bytes, 29 in the table with its id and the table's own byte, which at its fullest is filled to 7/8 and after growth to 7/16: 33 to 66. Then
/// 8 to 32 in the order of arrival, and 4 to 8 for each of three drains in which something was heard of it. At most 122 bytes a launch, and half as much
/// again for the moment in which a table grows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Launch {
    pub(super) node: u32,
    pub(super) thread: u32,
    /// Slot of the innermost instance, or [`NO_SLOT`].
    pub(super) instance: u32,
    /// Tells it from an earlier call of the same id.
    serial: u32,
    /// The drain from which its last two drains count; 0 while it stays.
    ageing: u32,
    pub(super) expected: Expected,
    pub(super) came: Came,
    /// Whether it is the profiler's own, or of an older window: what comes of it is dropped.
    pub(super) dropped: bool,
    /// Whether it is in start/end ranges, too.
    pub(super) within: bool,
}

impl Launch {
    pub(super) fn new(thread: u32, node: u32, instance: u32, expected: Expected) -> Self {
        let (serial, ageing, came) = (0, 0, Came::Nothing);
        Self { node, thread, instance, serial, ageing, expected, came, dropped: false, within: false }
    }

    pub(super) fn own() -> Self {
        Self { dropped: true, ..Self::new(0, 0, NO_SLOT, Expected::Record) }
    }

    fn is_awaited(&self) -> bool {
        self.expected > Expected::Record && self.came == Came::Nothing && !self.dropped
    }
}

/// Remembered calls by correlation id. What it forgets lets go of the slots of instances, through the function that is given for it.
#[derive(Debug)]
pub(super) struct Launches {
    limit: usize,
    known: Map<u32, Launch>,
    /// Start/end ranges around some of them.
    within: Map<u32, Vec<u32>>,
    /// Summed lengths of these.
    around: usize,
    /// Ids and serials in order of arrival; those that are gone are passed over.
    arrived: VecDeque<(u32, u32)>,
    serial: u32,
    /// The last call of each thread of which at most the record is expected. It may still run, as one that waits may for many drains, and ages from the next note of
    /// its thread on.
    running: Map<u32, u32>,
    /// Ids that age from a drain on, for this drain and those before.
    ageing: VecDeque<Vec<u32>>,
    drain: u32,
    /// Those that went by the bound before anything of them had come.
    pub(super) forgotten: u64,
}

impl Launches {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            known: Map::default(),
            within: Map::default(),
            around: 0,
            arrived: VecDeque::new(),
            serial: 0,
            running: Map::default(),
            ageing: VecDeque::from([Vec::new()]),
            drain: 1,
            forgotten: 0,
        }
    }

    pub(super) fn get(&self, id: u32) -> Option<&Launch> {
        self.known.get(&id)
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.known.len()
    }

    /// Launches of which nothing has come.
    pub(super) fn awaited(&self) -> u64 {
        self.known.values().filter(|launch| launch.is_awaited()).count() as u64
    }

    /// Whether this is one more call of the same id in the same place, of which nothing has come: driver calls of one call of the runtime have its id. Then it is one with it.
    pub(super) fn joins(&mut self, id: u32, launch: &Launch) -> bool {
        let Some(known) = self.known.get_mut(&id) else { return false };
        let same = (known.thread, known.node, known.instance) == (launch.thread, launch.node, launch.instance);
        let joins = same && known.came == Came::Nothing && !known.dropped;
        if joins && launch.expected > known.expected {
            known.expected = launch.expected;
            known.ageing = 0;
        }
        joins
    }

    /// A thread noted something: its last call is over, unless this is about that.
    pub(super) fn goes_on(&mut self, thread: u32, note: &Note) {
        let same = match *note {
            Note::Called { correlation, .. } | Note::Within { correlation, .. } | Note::Own { correlation } => {
                Some(correlation)
            }
            Note::Began(_) | Note::Moved { .. } | Note::Ended { .. } => None,
            Note::Left { .. } => return, // it may be another thread that noted this
        };
        if self.running.is_empty() || self.running.get(&thread).copied() == same {
            return;
        }
        let Some(id) = self.running.remove(&thread) else { return };
        let Some(launch) = self.known.get_mut(&id).filter(|launch| launch.thread == thread) else { return };
        if launch.expected == Expected::Record && launch.ageing == 0 {
            launch.ageing = self.drain;
            ages(&mut self.ageing, id);
        }
    }

    /// Remembers a call in place of an earlier one of that id.
    pub(super) fn insert(&mut self, id: u32, mut launch: Launch, mut free: impl FnMut(u32)) {
        self.remove(id, &mut free);
        self.serial = self.serial.wrapping_add(1);
        launch.serial = self.serial;
        if launch.dropped {
            launch.ageing = self.drain;
            ages(&mut self.ageing, id);
        } else if launch.expected == Expected::Record {
            self.running.insert(launch.thread, id);
        }
        self.known.insert(id, launch);
        self.arrived.push_back((id, self.serial));
        while self.known.len() + self.within.len() + self.around / AROUND > self.limit && self.forget_oldest(&mut free)
        {
        }
        if self.arrived.len() > 2 * self.known.len() + 64 {
            let known = &self.known;
            self.arrived.retain(|(id, serial)| known.get(id).is_some_and(|launch| launch.serial == *serial));
        }
    }

    /// Forgets the oldest, however much may come of it. False where there is none.
    pub(super) fn forget_oldest(&mut self, free: impl FnMut(u32)) -> bool {
        let known = &self.known;
        let is_known = |(id, serial): &(u32, u32)| known.get(id).is_some_and(|launch| launch.serial == *serial);
        let oldest = std::iter::from_fn(|| self.arrived.pop_front()).find(is_known);
        let Some((oldest, _)) = oldest else { return false };
        self.forgotten += u64::from(self.known.get(&oldest).is_some_and(Launch::is_awaited));
        self.remove(oldest, free);
        true
    }

    /// Puts a call in a start/end range, too. Whether that is news.
    pub(super) fn put_within(&mut self, id: u32, slot: u32) -> bool {
        let Some(launch) = self.known.get_mut(&id).filter(|launch| !launch.dropped) else { return false };
        launch.within = true;
        let slots = self.within.entry(id).or_default();
        let new = !slots.contains(&slot);
        if new {
            slots.push(slot);
            self.around += 1;
        }
        new
    }

    /// The start/end ranges around a call.
    pub(super) fn within(&self, id: u32) -> &[u32] {
        self.within.get(&id).map_or(&[], Vec::as_slice)
    }

    /// An operation of it has come: the call, as it was before.
    #[inline]
    pub(super) fn came(&mut self, id: u32, timed: bool) -> Option<Launch> {
        let launch = self.known.get_mut(&id)?;
        let before = *launch;
        if timed {
            launch.came = Came::Operation;
        } else if launch.came == Came::Nothing {
            launch.came = Came::Untimed;
        }
        if launch.expected != Expected::Graph && launch.ageing != self.drain {
            launch.ageing = self.drain;
            ages(&mut self.ageing, id);
        }
        Some(before)
    }

    pub(super) fn remove(&mut self, id: u32, mut free: impl FnMut(u32)) {
        let Some(launch) = self.known.remove(&id) else { return };
        if launch.instance != NO_SLOT {
            free(launch.instance);
        }
        if launch.within {
            let slots = self.within.remove(&id).unwrap_or_default();
            self.around -= slots.len().min(self.around);
            slots.into_iter().for_each(free);
        }
    }

    /// A drain is over: forgets those of which nothing was heard in the last two, as far as they age.
    pub(super) fn drained(&mut self, mut free: impl FnMut(u32)) {
        if self.ageing.len() > DRAINS {
            let aged = self.drain.wrapping_sub(DRAINS as u32);
            for id in self.ageing.pop_front().unwrap_or_default() {
                if self.known.get(&id).is_some_and(|launch| launch.ageing == aged) {
                    self.remove(id, &mut free);
                }
            }
        }
        self.ageing.push_back(Vec::new());
        self.drain = self.drain.wrapping_add(1).max(1);
    }

    /// From here on all of them are of an older window.
    pub(super) fn clear(&mut self, mut free: impl FnMut(u32)) {
        for launch in self.known.values_mut() {
            if launch.instance != NO_SLOT {
                free(launch.instance);
            }
            (launch.dropped, launch.instance, launch.within) = (true, NO_SLOT, false);
        }
        self.within.drain().flat_map(|(_, slots)| slots).for_each(free);
        self.around = 0;
        self.forgotten = 0;
    }
}

fn ages(ageing: &mut VecDeque<Vec<u32>>, id: u32) {
    if let Some(now) = ageing.back_mut() {
        now.push(id);
    }
}

//! The API calls that are remembered until their operations and records have arrived.

use std::collections::VecDeque;
use std::sync::Arc;

use range_model::stats::Keyed;
use rustc_hash::FxHashMap;

use super::mere_calls::MereCalls;
use super::pending_call::{DRAINS, Expected, Fate, PendingCall, Progress, Recorded};
use crate::fold::NO_SLOT;
use crate::record::{Api, ApiCall, Detail, Details, Note};

/// Threads whose last call is remembered across drains: records that follow a call arrive in its drain.
const MOST_THREADS: usize = 1 << 12;

/// This much memory of start/end ranges around calls counts as one more call; a call in any of them counts as two.
/// Calls share their list until such a range begins or ends on the thread, and the list counts once. So memory is
/// bounded, and calls are forgotten early only if very many ranges are open and change at each call.
const AROUND: usize = 8;

/// Remembered calls by correlation id. A forgotten call releases the slots of its instances through the given function.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) limit: usize,
    /// Whether calls are recorded. Then each is remembered until its record has arrived, however long CUPTI delays the
    /// record.
    has_records: bool,
    /// Whether calls produce details.
    pub(super) has_details: bool,
    pub(super) known: FxHashMap<u32, PendingCall>,
    pub(super) mere_calls: MereCalls,
    /// Start/end ranges around some of the calls.
    within: Keyed<u32, Arc<[u32]>>,
    /// Summed lengths of these lists; a shared list counts once.
    around: usize,
    /// Ids and serials in order of arrival; forgotten calls are skipped.
    pub(super) arrived: VecDeque<(u32, u32)>,
    serial: u32,
    /// The operating system's thread numbers, by the thread numbers of records.
    pub(super) threads: Keyed<u32, u32>,
    /// The last call of each thread, if calls are recorded or at most its record is expected. It may still run, for
    /// many drains if it waits. A call without work does not age before the next note of its thread.
    running: Keyed<u32, u32>,
    ageing: Ageing,
    /// Number of calls dropped at the bound before anything had arrived for them.
    pub(super) forgotten: u64,
    /// Number of calls dropped at the bound before their record had arrived, if nothing else was expected any more.
    forgotten_calls: u64,
}

impl Pending {
    pub(super) fn new(limit: usize, mere_calls: usize, has_records: bool) -> Self {
        Self { limit: limit.max(1), mere_calls: MereCalls::new(mere_calls), has_records, ..Self::default() }
    }

    /// Number of calls dropped at the bound before any record or operation had arrived, other than launches.
    pub(super) fn forgotten_calls(&self) -> u64 {
        self.forgotten_calls + if self.has_records { self.mere_calls.forgotten } else { 0 }
    }

    /// Launches that still wait for their operations.
    pub(super) fn awaited(&self) -> u64 {
        self.known.values().filter(|launch| launch.is_awaited()).count() as u64
    }

    /// The last calls of all threads that may still run.
    pub(super) fn running(&self) -> Keyed<u32, ()> {
        self.running.rows().iter().map(|call| (*call, ())).collect()
    }

    /// Whether this is part of a remembered call: the driver calls of one runtime call share its id and its place. Once
    /// an operation has arrived for that id, it is another call. The first launch of a mere call takes its place.
    pub(super) fn joins(&mut self, id: u32, launch: &mut PendingCall) -> bool {
        let is_of = |known: &PendingCall, launch: &PendingCall| {
            let place = |of: &PendingCall| (of.launch.thread, of.launch.node);
            place(known) == place(launch) && known.came == Progress::Nothing && !known.is_dropped()
        };
        if let Some(known) = self.known.get_mut(&id) {
            let same_instance = launch.expected == Expected::Record || known.instance == launch.instance;
            let is_same = same_instance && is_of(known, launch);
            if is_same {
                known.expected = known.expected.max(launch.expected);
            }
            return is_same;
        }
        let Some(known) = self.mere_calls.get(id).filter(|known| is_of(known, launch)) else { return false };
        (launch.launch, launch.recorded) = (known.launch, known.recorded);
        launch.expected == Expected::Record
    }

    /// A thread noted something. Its last call is therefore over, unless the note is about that call.
    pub(super) fn goes_on(&mut self, thread: u32, note: &Note) {
        let same = match *note {
            Note::Called { correlation, .. } | Note::Own { correlation } => Some(correlation),
            Note::Began(_) | Note::Ended { .. } => None,
            Note::Left { .. } => return, // another thread may have noted this
        };
        if self.running.get(&thread).copied() != same
            && let Some(id) = self.running.remove(&thread)
        {
            self.mere_calls.hear(id, Recorded::No);
        }
    }

    /// Remembers a call in place of an earlier one of that id.
    pub(super) fn insert(&mut self, id: u32, mut launch: PendingCall, free: &mut dyn FnMut(u32)) {
        self.remove(id, free);
        if launch.is_mere_call() {
            if self.awaits_records() {
                let is_again = self.running.get(&launch.launch.thread) == Some(&id);
                self.running.insert(launch.launch.thread, id);
                self.mere_calls.insert(id, launch.launch, is_again);
            }
            return;
        }
        self.serial = self.serial.wrapping_add(1);
        launch.serial = self.serial;
        self.ageing.hear(id, &mut launch, self.has_records, self.awaits_records());
        if self.has_records && launch.fate != Fate::Own {
            self.running.insert(launch.launch.thread, id);
        }
        self.known.insert(id, launch);
        self.arrived.push_back((id, self.serial));
        while self.known.len() + self.within.len() + self.around / AROUND > self.limit && self.forget_oldest(free) {}
        if self.arrived.len() > 2 * self.known.len() + 64 {
            let known = &self.known;
            self.arrived.retain(|(id, serial)| known.get(id).is_some_and(|launch| launch.serial == *serial));
        }
    }

    /// Forgets the oldest launch or call of the profiler. False if there is none.
    pub(super) fn forget_oldest(&mut self, free: &mut dyn FnMut(u32)) -> bool {
        let known = &self.known;
        let is_known = |(id, serial): &(u32, u32)| known.get(id).is_some_and(|launch| launch.serial == *serial);
        let oldest = std::iter::from_fn(|| self.arrived.pop_front()).find(is_known);
        let Some((id, launch)) = oldest.and_then(|(id, _)| Some((id, known.get(&id)?))) else { return false };
        if launch.is_awaited() {
            self.forgotten += 1;
        } else if self.has_records && launch.recorded == Recorded::No && launch.fate != Fate::Past {
            self.forgotten_calls += 1;
        }
        self.remove(id, free);
        true
    }

    /// Remembers the start/end ranges around a launch. Returns whether the launch is remembered. Nobody holds the list
    /// except this table and, for the moment, the caller.
    pub(super) fn put_within(&mut self, id: u32, slots: &Arc<[u32]>) -> bool {
        let is_there = !slots.is_empty() && self.known.get(&id).is_some_and(|launch| !launch.is_dropped());
        if is_there {
            self.around += if Arc::strong_count(slots) == 1 { slots.len() } else { 0 };
            self.within.insert(id, Arc::clone(slots));
        }
        is_there
    }

    /// The start/end ranges around a call.
    #[inline]
    pub(super) fn within(&self, id: u32) -> &[u32] {
        if self.within.is_empty() {
            return &[];
        }
        self.within.get(&id).map_or(&[], |slots| slots)
    }

    /// An operation of the call has arrived. Returns the call as it was before.
    #[inline]
    pub(super) fn came(&mut self, id: u32, timed: bool) -> Option<PendingCall> {
        let awaits_records = self.awaits_records();
        let Some(launch) = self.known.get_mut(&id) else { return self.mere_calls.get(id) };
        let before = *launch;
        if timed {
            launch.came = Progress::Operation;
        } else if launch.came == Progress::Nothing {
            launch.came = Progress::Untimed;
        }
        self.ageing.hear(id, launch, self.has_records, awaits_records);
        Some(before)
    }

    /// The record of a call has arrived. Returns the call, if it is remembered, and the operating system's number of
    /// its thread; 0 if no call of that thread was remembered yet.
    pub(super) fn recorded(&mut self, call: &ApiCall) -> (Option<PendingCall>, u32) {
        let recorded = if call.api == Api::Runtime { Recorded::Runtime } else { Recorded::Yes };
        let pending = self.record(call.correlation, recorded);
        // A thread without a state, for example at its end, notes calls without a thread.
        if let Some(noted) = pending.filter(|pending| !pending.is_own() && pending.launch.thread != 0) {
            if self.threads.len() >= MOST_THREADS && !self.threads.contains_key(&call.thread) {
                self.threads.clear();
            }
            self.threads.insert(call.thread, noted.launch.thread);
        }
        (pending, self.threads.get(&call.thread).copied().unwrap_or(0))
    }

    fn record(&mut self, id: u32, recorded: Recorded) -> Option<PendingCall> {
        let awaits_records = self.awaits_records();
        let Some(launch) = self.known.get_mut(&id) else {
            self.mere_calls.hear(id, recorded);
            return self.mere_calls.get(id);
        };
        launch.recorded = launch.recorded.max(recorded);
        self.ageing.hear(id, launch, self.has_records, awaits_records);
        let launch = *launch;
        if launch.fate == Fate::Own && !self.has_details {
            self.remove(id, &mut |_no_instance| ());
        }
        Some(launch)
    }

    /// Whether the record of a call of the runtime with this id has arrived.
    pub(super) fn is_of_runtime(&self, id: u32) -> bool {
        let known = self.known.get(&id).copied().or_else(|| self.mere_calls.get(id));
        known.is_some_and(|call| call.recorded == Recorded::Runtime)
    }

    /// Whether a call without expected operations is remembered until its record or detail arrives.
    fn awaits_records(&self) -> bool {
        self.has_records || self.has_details
    }

    /// A detail has arrived. Returns its call, if remembered. The call ages if nothing else is expected of it.
    pub(super) fn detailed(&mut self, detail: &Detail) -> Option<PendingCall> {
        let (id, kind) = (detail.correlation(), detail.kind());
        let known = self.known.get(&id).copied().or_else(|| self.mere_calls.get(id))?;
        let is_all = !self.has_records && kind != Details::OVERHEADS;
        if is_all && known.expected == Expected::Record {
            self.record(id, Recorded::Yes);
        }
        Some(known)
    }

    pub(super) fn remove(&mut self, id: u32, free: &mut dyn FnMut(u32)) {
        let Some(launch) = self.known.remove(&id) else { return self.mere_calls.remove(id) };
        if launch.instance != NO_SLOT {
            free(launch.instance);
        }
        if !self.within.is_empty() {
            let Some(slots) = self.within.remove(&id) else { return };
            self.around -= if Arc::strong_count(&slots) == 1 { slots.len().min(self.around) } else { 0 };
            slots.iter().copied().for_each(free);
        }
    }

    /// Ends a counting drain: forgets ageing calls without a record in the last two drains.
    pub(super) fn drained(&mut self, free: &mut dyn FnMut(u32)) {
        if self.running.len() > MOST_THREADS {
            self.running.clear(); // most of these threads have ended
        }
        let (aged, ids) = self.ageing.drained();
        for id in ids {
            if self.known.get(&id).is_some_and(|launch| launch.ageing == aged) {
                self.remove(id, free);
            }
        }
        let running = &self.running;
        self.mere_calls.drained(|thread, id| running.get(&thread) == Some(&id));
    }

    /// Moves all calls to an older window. If their work `is_shown` all the same, they keep their instances.
    pub(super) fn clear(&mut self, is_shown: bool, free: &mut dyn FnMut(u32)) {
        for launch in self.known.values_mut() {
            if !is_shown && launch.instance != NO_SLOT {
                free(launch.instance);
                launch.instance = NO_SLOT;
            }
            if launch.fate == Fate::Counted {
                launch.fate = Fate::Past;
            }
        }
        self.mere_calls.clear();
        self.within.rows().iter().for_each(|slots| slots.iter().copied().for_each(&mut *free));
        self.within.clear();
        self.around = 0;
        (self.forgotten, self.forgotten_calls) = (0, 0);
    }
}

/// The calls that age.
#[derive(Debug)]
struct Ageing {
    /// Ids of calls with news, for this drain and those before.
    ids: VecDeque<Vec<u32>>,
    drain: u32,
}

impl Default for Ageing {
    fn default() -> Self {
        Self { ids: VecDeque::from([Vec::new()]), drain: 1 }
    }
}

impl Ageing {
    /// Takes news of a call. The call ages from this drain on if the rest of its records must arrive together with
    /// those that have.
    #[inline]
    fn hear(&mut self, id: u32, launch: &mut PendingCall, has_records: bool, awaits_records: bool) {
        if launch.ageing != self.drain && launch.is_answered(has_records, awaits_records) {
            launch.ageing = self.drain;
            self.ids.back_mut().into_iter().for_each(|now| now.push(id));
        }
    }

    /// Ends a counting drain. Returns the drain from which on calls have aged enough, and the calls with news in it.
    fn drained(&mut self) -> (u32, Vec<u32>) {
        let aged = self.drain.wrapping_sub(DRAINS as u32);
        let ids = if self.ids.len() > DRAINS { self.ids.pop_front() } else { None };
        self.ids.push_back(Vec::new());
        self.drain = self.drain.wrapping_add(1).max(1);
        (aged, ids.unwrap_or_default())
    }
}

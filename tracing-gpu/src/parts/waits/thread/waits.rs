//! The waits of followed futures, by who waited and to whom that is owed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use range_model::stats::histogram::{BUCKETS, bucket_of};
use range_model::stats::{Keyed, Lean};

use super::coincidence::keep_frequent;
use crate::clock::Ticks;
use crate::core::record::CallId;
use crate::parts::calls::session::table::Calls;
use crate::parts::waits::session::asked_values::AskedValues;
use crate::parts::waits::session::owed::{Creditor, Owed};

/// Pairs of names that one thread keeps.
const MOST: usize = 4_096;
/// Values that one thread keeps.
const MOST_VALUES: usize = 1_024;
/// Lengths of calls that one thread keeps, of all pairs of names.
const MOST_LENGTHS: usize = 1 << 14;

/// Waits of calls of one name that are owed to one other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WaitSums {
    /// Waits of which the largest part is owed to it.
    pub(crate) waits: u64,
    /// All parts that are owed to it, and the longest of them, in ticks.
    pub(crate) time: u64,
    pub(crate) longest: u64,
}

/// What a thread knows of followed futures.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// To whom the wait of the future is owed that is polled now.
    pub(crate) woken_by: Mutex<Owed>,
    /// The tasks of tokio that are polled now, the innermost last. The thread of a worker is itself inside of one.
    pub(crate) tasks: Mutex<Vec<PolledTask>>,
    pub(crate) waits: Waits,
    pub(crate) values: ValueWaits,
    pub(crate) shorter: ShorterCalls,
}

/// A task of tokio that is polled, or another hidden span.
#[derive(Debug)]
pub(crate) struct PolledTask {
    /// The id of its span.
    pub(crate) span: u64,
    /// The first wake since its last poll; `None` if there was none.
    pub(crate) woken: Option<Ticks>,
    /// When this poll began.
    pub(crate) polled: Ticks,
    /// The last call that was entered in this poll at each depth of the stack.
    entered: Vec<EnteredCall>,
}

#[derive(Debug)]
struct EnteredCall {
    depth: usize,
    id: CallId,
    created: Ticks,
    /// How often it was entered in this poll.
    times: usize,
}

impl PolledTask {
    pub(crate) fn new(span: u64, woken: Option<Ticks>, polled: Ticks) -> Self {
        Self { span, woken, polled, entered: Vec::new() }
    }

    /// Notes that a call is entered. Two at one depth are polled side by side, as in `join!`, if the first has not
    /// ended: a future that has ended is entered once more for its drop.
    pub(crate) fn enter(&mut self, depth: usize, id: CallId, calls: &Calls) {
        while self.entered.pop_if(|before| before.depth > depth).is_some() {}
        let Some(call) = calls.get(id) else { return };
        let (created, mut times) = (call.created(), 1);
        if let Some(before) = self.entered.pop_if(|before| before.depth == depth) {
            let is_other = (before.id, before.created) != (id, created);
            let other = calls.get(before.id).filter(|other| other.created() == before.created && !other.is_closed());
            if let Some(other) = other.filter(|_| is_other && before.times == 1) {
                other.set_joined();
                call.set_joined();
            }
            times += if is_other { 0 } else { before.times };
        }
        self.entered.push(EnteredCall { depth, id, created, times });
    }
}

/// By the labels of who waited and to whom it is owed. Written by the owning thread, read by any.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    rows: Mutex<Keyed<[u32; 2], WaitSums>>,
    /// Parts of waits without room for their row.
    lost: AtomicU64,
}

impl Waits {
    /// A wait has ended that began then. Returns the name to which the largest part of it is owed.
    pub(crate) fn add(&self, waiter: u32, since: Ticks, owed: &Owed) -> Option<u32> {
        let (mainly, _) = owed.of_names(since).largest_by(|(_, part)| *part)?;
        let mut rows = self.rows.lock();
        for (label, part) in owed.of_names(since) {
            if rows.len() >= MOST && rows.get(&[waiter, label]).is_none() {
                self.lost.store(self.lost.load(Relaxed) + 1, Relaxed);
                continue;
            }
            let row = rows.row([waiter, label]);
            row.time += part;
            row.longest = row.longest.max(part);
        }
        if let Some(row) = rows.get_mut(&[waiter, mainly]) {
            row.waits += 1;
        }
        Some(mainly)
    }

    pub(crate) fn clear(&self) {
        *self.rows.lock() = Keyed::default();
        self.lost.store(0, Relaxed);
    }

    pub(crate) fn copy(&self) -> Vec<([u32; 2], WaitSums)> {
        self.rows.lock().iter().map(|(key, sums)| (*key, *sums)).in_vec()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

/// Waits of calls for others of their own name that have one value of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueSums {
    /// Waits of which the largest part is owed to them, and how many of them are of calls that have the value, too.
    pub(crate) waits: u64,
    pub(crate) same: u64,
    /// All parts that are owed to them, in ticks.
    pub(crate) time: u64,
}

/// By the label of the calls and the code of the value. Written by the owning thread, read by any.
#[derive(Debug, Default)]
pub(crate) struct ValueWaits(Mutex<Keyed<[u32; 2], ValueSums>>);

impl ValueWaits {
    /// A wait has ended that began then; waits of `long` ask for values. `is_own`: the largest part of the wait is owed
    /// to calls of the waiter's name.
    pub(crate) fn add(
        &self,
        waiter: Creditor,
        (since, is_own): (Ticks, bool),
        owed: &Owed,
        (asked, long): (&AskedValues, u64),
    ) {
        let own = || owed.of_wait(since).filter(|(by, _)| by.label == waiter.label);
        let Some((mainly, longest)) = own().largest_by(|(_, part)| *part) else { return };
        if longest >= long {
            asked.ask(waiter.label);
        }
        let codes = |by: Creditor| by.codes.into_iter().filter(|code| *code != 0);
        let rows = &mut *self.0.lock();
        for (code, part) in own().flat_map(|(by, part)| codes(by).map(move |code| (code, part))) {
            row_of(rows, [waiter.label, code]).time += part;
        }
        for code in codes(mainly).filter(|_| is_own) {
            if let Some(row) = rows.get_mut(&[waiter.label, code]) {
                row.waits += 1;
                row.same += u64::from(waiter.codes.contains(&code));
                asked.want(code, row.waits);
            }
        }
    }

    pub(crate) fn clear(&self) {
        *self.0.lock() = Keyed::default();
    }

    pub(crate) fn copy(&self) -> Vec<([u32; 2], ValueSums)> {
        self.0.lock().iter().map(|(key, sums)| (*key, *sums)).in_vec()
    }
}

/// How many more calls there are of each length if every call of a name is shorter by what it owes to another name.
/// Written by the owning thread, read by any.
#[derive(Debug, Default)]
pub(crate) struct ShorterCalls {
    /// By the labels of the call and of whom it owes to, and by its length. Rows of 0 stay.
    more: Mutex<Keyed<([u32; 2], Length), i64>>,
    /// Whether there was no room for a call.
    is_partial: AtomicBool,
}

impl ShorterCalls {
    /// A call has closed that began then and took so long.
    pub(crate) fn add(&self, label: u32, [began, latency]: [u64; 2], owed: &Owed) {
        let more = &mut *self.more.lock();
        for (by, part) in owed.of_others(began) {
            if more.len() + 2 > MOST_LENGTHS {
                self.is_partial.store(true, Relaxed);
                return;
            }
            *more.row(([label, by], length_of(latency))) -= 1;
            *more.row(([label, by], length_of(latency.saturating_sub(part)))) += 1;
        }
    }

    pub(crate) fn clear(&self) {
        *self.more.lock() = Keyed::default();
        self.is_partial.store(false, Relaxed);
    }

    /// `None` where some calls are missing.
    pub(crate) fn copy(&self) -> Option<Vec<LengthChange>> {
        let rows = self.more.lock().iter().map(|((labels, length), more)| (*labels, *length, *more)).in_vec();
        (!self.is_partial.load(Relaxed)).then_some(rows)
    }
}

/// A bucket of latencies: an octave, and a part of it.
pub(crate) type Length = (usize, usize);

/// 64 buckets an octave, so that few pairs of names have many: the middle of one differs by at most 0.8 % from each
/// latency in it.
pub(crate) fn length_of(latency: u64) -> Length {
    coarse(bucket_of(latency))
}

/// The same of a bucket of the histogram.
pub(crate) fn coarse((octave, bucket): (usize, usize)) -> Length {
    (octave, bucket / COARSER * COARSER + COARSER / 2)
}

const COARSER: usize = BUCKETS / 64;

/// The labels and the length of a row of [`ShorterCalls`], and how many more calls it has.
pub(crate) type LengthChange = ([u32; 2], Length, i64);

/// The row of a value. Where each call has a value of its own, the rarer half of the rows makes room.
fn row_of(rows: &mut Keyed<[u32; 2], ValueSums>, key: [u32; 2]) -> &mut ValueSums {
    if rows.len() >= MOST_VALUES && rows.get(&key).is_none() {
        keep_frequent(rows, |(_, sums)| sums.waits);
    }
    rows.row(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u64 = 1 << 21;

    #[test]
    fn of_calls_of_one_name_those_with_one_value_are_counted() {
        let (values, asked) = (ValueWaits::default(), AskedValues::new());
        let call = |code| Creditor { label: 3, codes: [5, code, 0, 0] };
        let (big, small, other) = (call(8), call(9), Creditor::of(4));
        let mut second = Owed::NONE;
        second.waited(0, &Owed::to(big, 2 * LEAST));
        let of_second = second.of_waiter(small, 2 * LEAST + 10);
        values.add(small, (0, true), &of_second, (&asked, LEAST));
        values.add(big, (LEAST, true), &of_second, (&asked, LEAST));
        values.add(small, (2 * LEAST, false), &of_second, (&asked, LEAST));
        values.add(other, (0, true), &of_second, (&asked, LEAST));
        let sums = |waits, same, time| ValueSums { waits, same, time };
        let rows = [([3, 5], sums(2, 2, 3 * LEAST + 30)), ([3, 8], sums(2, 1, 3 * LEAST)), ([3, 9], sums(0, 0, 30))];
        assert_eq!(values.copy(), rows);
        assert!(asked.is_asked(3) && !asked.is_asked(4));
    }

    #[test]
    fn values_of_one_call_each_make_room_for_others() {
        let (values, asked) = (ValueWaits::default(), AskedValues::new());
        let wait = |code| values.add(Creditor::of(3), (0, true), &Owed::to(call(code), 10), (&asked, LEAST));
        fn call(code: u32) -> Creditor {
            Creditor { label: 3, codes: [code, 0, 0, 0] }
        }
        for code in 0..10 * MOST_VALUES as u32 {
            wait(code + 2);
            if code >= 5 * MOST_VALUES as u32 {
                wait(1); // twice before the next that needs room
                wait(1);
            }
        }
        let rows = values.copy();
        assert!(rows.len() <= MOST_VALUES);
        assert_eq!(
            rows[0],
            ([3, 1], ValueSums { waits: 10 * MOST_VALUES as u64, same: 0, time: 100 * MOST_VALUES as u64 })
        );
        values.clear();
        assert_eq!(values.copy(), []);
    }

    #[test]
    fn calls_are_shorter_by_what_they_owe_to_each_name() {
        let shorter = ShorterCalls::default();
        let mut held_up_by = Owed::NONE;
        held_up_by.waited(100, &Owed::to(1, 400));
        held_up_by.waited(500, &Owed::to(2, 550));
        shorter.add(7, [100, 600], &held_up_by);
        shorter.add(7, [0, 600], &Owed::NONE);
        let mut rows = shorter.copy().unwrap();
        rows.sort();
        let expected = [([7, 1], 300, 1), ([7, 1], 600, -1), ([7, 2], 550, 1), ([7, 2], 600, -1)];
        assert_eq!(rows, expected.map(|(labels, of, more)| (labels, length_of(of), more)));
        (0..MOST_LENGTHS as u32).for_each(|label| shorter.add(label, [100, 600], &held_up_by));
        assert!(shorter.copy().is_none(), "there was no room");
        shorter.clear();
        assert_eq!(shorter.copy(), Some(Vec::new()));
    }

    #[test]
    fn a_wait_counts_where_most_of_it_is_owed() {
        let waits = Waits::default();
        let mut second = Owed::NONE;
        second.waited(0, &Owed::to(1, 100));
        waits.add(7, 20, &second.of_waiter(2, 110));
        waits.add(7, 99, &second.of_waiter(2, 110));
        waits.add(7, 200, &Owed::to(1, 100));
        let sums = |waits, time, longest| WaitSums { waits, time, longest };
        let mut rows = waits.copy();
        rows.sort_by_key(|(key, _)| *key);
        assert_eq!(rows, [([7, 1], sums(1, 81, 80)), ([7, 2], sums(1, 20, 10))]);
        waits.clear();
        assert_eq!(waits.copy(), []);
    }
}

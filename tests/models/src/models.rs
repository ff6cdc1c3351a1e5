//! The models.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use gpu_activity::record::Note;
use loom::thread;
use range_model::stats::Distribution;

use crate::clock::Ticks;
use crate::core::budget::Budget;
use crate::core::record::{CallId, Ended, Place};
use crate::core::session::gate::{FINISHED, SessionGate};
use crate::core::thread::gate::{Gate, RowsWindow};
use crate::core::thread::hand_over::HandOver;
use crate::core::thread::row::{Row, RowCopy};
use crate::core::thread::slab::{Closed, Slab, SpanRef};
use crate::core::thread::stack::{Ranges, Stack};
use crate::page::{Cursor, Line, Page};
use crate::parts::launches::session::NoteRoom;
use crate::parts::launches::thread::notes::{Notes, Taken};
use crate::sync::Wrong::{LeftOut, Unordered};
use crate::sync::{AtomicU64, Mutex};
use crate::{Harmless, Model};

pub(crate) const MODELS: &[Model] = &[
    Model {
        name: "a row is copied while its thread writes",
        preemptions: 2,
        run: row,
        is_wrong: false,
        sources: &["/row.rs", "/durations.rs", "/sequence.rs"],
    },
    Model {
        name: "a stack is read while its thread pushes and pops",
        preemptions: 2,
        run: stack,
        is_wrong: false,
        sources: &["/stack.rs"],
    },
    Model {
        name: "a stack is read while its thread takes a range out of it",
        preemptions: 3,
        run: stack_moves,
        is_wrong: false,
        sources: &["/stack.rs"],
    },
    Model {
        name: "a span is closed on another thread",
        preemptions: 3,
        run: slab,
        is_wrong: false,
        sources: &["/slab.rs"],
    },
    Model {
        name: "a span gets a call while another thread enters it",
        preemptions: 3,
        run: call_of_span,
        is_wrong: false,
        sources: &["/slab.rs"],
    },
    Model {
        name: "notes are taken while their thread makes more",
        preemptions: 5,
        run: notes,
        is_wrong: false,
        sources: &["/page.rs", "/notes.rs"],
    },
    Model {
        name: "a tape is taken while its thread records",
        preemptions: 5,
        run: tape,
        is_wrong: false,
        sources: &["/page.rs"],
    },
    Model {
        name: "the state of a thread that ends goes to the next",
        preemptions: 2,
        run: || hand_over(true),
        is_wrong: false,
        sources: &["/hand_over.rs", "/notes.rs"],
    },
    Model {
        name: "the same, offered before it is in order",
        preemptions: 2,
        run: || hand_over(false),
        is_wrong: true,
        sources: &[],
    },
    Model {
        name: "a window begins, and the session ends, while a thread counts",
        preemptions: 2,
        run: || gate(true),
        is_wrong: false,
        sources: &["/gate.rs"],
    },
    Model {
        name: "the same, read without holding the window",
        preemptions: 2,
        run: || gate(false),
        is_wrong: true,
        sources: &[],
    },
];

pub(crate) const HARMLESS: &[Harmless] = &[
    (LeftOut, "self.room.store(EMPTY, Relaxed)", "the first instance goes to the sums"),
    (LeftOut, "self.0.store(session, Relaxed)", "the thread looks each time"),
    (Unordered, "if before == thread {", "the thread takes the lock again before its first note"),
    (Unordered, "None => self.behind.lock()", "it guards what is inside, and reads that come before writes"),
    (Unordered, "self.behind.lock().spare", "it guards what is inside"),
    (Unordered, "fetch_sub(1, AcqRel)", "what others have read of the span comes before it is written again"),
    (Unordered, "slot.state.store(u64::from(span.generation) << 32, Release)", "the list of free slots orders it"),
];

/// The last of the instances that fill a row is too long for the pending ones: with it the row changes its sums.
const INSTANCES: [(u64, u64); 3] = [(5, 1), (3, 2), (1 << 33, 4)];

/// Count, total, shortest, longest, squares, nested.
type Figures = (u64, u128, u64, u64, u128, u64);

fn of_instances(count: usize) -> Figures {
    let (durations, nested): (Vec<u64>, Vec<u64>) = INSTANCES[..count].iter().copied().unzip();
    let times = Distribution::of(durations);
    (times.count, times.total, times.min, times.max, times.squares, nested.iter().sum())
}

fn figures(copy: &RowCopy) -> Figures {
    let times = &copy.times;
    (times.count, times.total, times.min, times.max, times.squares, copy.nested)
}

fn row() {
    let row = Arc::new(Row::default());
    let owner = thread::spawn({
        let row = Arc::clone(&row);
        move || {
            let budget = Budget::new(1 << 20);
            for (duration, nested) in INSTANCES {
                if row.is_unused() {
                    row.enter_first(7);
                }
                row.add(duration, nested, &budget);
            }
        }
    });
    let copy = row.copy_from(0);
    let count = copy.times.count as usize;
    assert_eq!(figures(&copy), of_instances(count));
    assert_eq!(
        BTreeSet::from_iter(copy.times.samples),
        INSTANCES[..count].iter().map(|(duration, _)| *duration).collect()
    );
    assert!(count == 0 || copy.first == 7);
    owner.join().unwrap();
    assert_eq!(figures(&row.copy_from(0)), of_instances(INSTANCES.len()));
}

fn stack() {
    let place = |number: u64| Place::new(number as u32, number as u32);
    let stack = Arc::new(Stack::new());
    let owner = thread::spawn({
        let stack = Arc::clone(&stack);
        move || {
            assert!(stack.push_near(1, place(1), 10));
            assert!(stack.push_near(2, place(2), 20));
            assert!(stack.push_near(4, place(4), 21));
            let ended = |number, entered, duration, nested| Ended { place: place(number), entered, duration, nested };
            assert_eq!(stack.pop_near(4, 22), Some(ended(4, 21, 1, 0)));
            assert_eq!(stack.pop_near(2, 25), Some(ended(2, 20, 5, 1)));
            assert!(stack.push_near(3, place(3), 40));
            assert_eq!(stack.ended_at(50), [ended(3, 40, 10, 0), ended(1, 10, 40, 15)]);
        }
    });
    let possible: [&[u64]; 3] = [&[1], &[2, 3], &[4]];
    for ((span, at), possible) in stack.open().zip(possible) {
        assert!(possible.contains(&span) && possible.iter().any(|number| at == place(*number)));
    }
    assert!(stack.ended_at(50).last().is_none_or(|outermost| outermost.entered == 10));
    owner.join().unwrap();
    assert!(stack.open().eq([1, 3].map(|number| (number, place(number)))));
}

fn stack_moves() {
    struct Quiet;
    impl Ranges for Quiet {
        fn close(&mut self, _: Place, _: u64) -> Ticks {
            30
        }
        fn reopen(&mut self, _: Place, _: u64) -> Ticks {
            30
        }
        fn ended(&mut self, _: Ended, _: CallId, _: Ticks, _: usize) {}
        fn domain(&self, _: Place) -> u32 {
            0
        }
    }
    let place = |number: u64| Place::new(number as u32, number as u32);
    let stack = Arc::new(Stack::new());
    (1..=3).for_each(|number| assert!(stack.push_near(number, place(number), 10)));
    let owner = thread::spawn({
        let stack = Arc::clone(&stack);
        move || assert!(stack.exit_below(|span, _| span == 1, &[], &mut Quiet).is_some())
    });
    let seen: Vec<Place> = stack.open().map(|(_, at)| at).filter(|at| !at.is_stand_in()).collect();
    assert!(seen.is_sorted_by_key(|at| at.node()) && seen.windows(2).all(|two| two[0] != two[1]), "{seen:?}");
    owner.join().unwrap();
    assert!(stack.open().eq([2, 3].map(|number| (number, place(number)))));
    let ended = |number, nested| Ended { place: place(number), entered: 30, duration: 10, nested };
    assert_eq!(stack.ended_at(40), [ended(3, 0), ended(2, 10)]);
}

fn slab() {
    let place = |number: u32| Place::new(number, number);
    let closes = |closed| matches!(closed, Closed::Yes { .. });
    // An id that a thread gets without any ordering.
    let shared = Arc::new((Slab::new(), AtomicU64::new(0)));
    let (slab, id) = &*shared;
    let create = |number: u32| {
        let near = slab.create_near(0, place(number));
        near.or_else(|| slab.create(0, place(number), None, 0)).unwrap()
    };
    let spans = [1, 2].map(create);
    slab.add_handle(spans[1]);
    let other = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            let (slab, id) = &*shared;
            assert!(closes(slab.drop_handle(spans[0], false)));
            let was_last = closes(slab.drop_handle(spans[1], false));
            if let Some(span) = Some(id.load(Relaxed)).filter(|id| *id != 0).map(SpanRef::from_id) {
                let found = [slab.near_place(span), slab.place(span)];
                assert!(found.iter().flatten().all(|found| *found == place(3)));
            }
            was_last
        }
    });
    let was_last = closes(slab.drop_handle(spans[1], true));
    let more = [3, 4].map(create);
    id.store(more[0].id(), Relaxed);
    assert_ne!(was_last, other.join().unwrap());
    let is_live = |span: &SpanRef| slab.near_place(*span).is_some();
    assert!(more.iter().all(is_live) && !spans.iter().any(is_live));
    let last = [5, 6].map(create);
    let live = [more, last].concat();
    assert!(live.iter().map(|span| slab.near_place(*span)).eq((3..7).map(|number| Some(place(number)))));
    assert!(live.iter().all(|span| (span.id() as u32) < 4), "slots are used again");
}

fn call_of_span() {
    let shared = Arc::new(Slab::new());
    let place = Place::new(1, 1);
    let span = shared.create_near(0, place).or_else(|| shared.create(0, place, None, 0)).unwrap();
    let other = thread::spawn({
        let slab = Arc::clone(&shared);
        move || slab.place(span).filter(|place| place.is_called()).map(|_| slab.call(span))
    });
    assert!(shared.keep_call(span, 7));
    assert!(shared.place(span).is_some_and(|place| place.is_called()));
    assert!(other.join().unwrap().is_none_or(|call| call == 7));
}

fn note(number: u32) -> Note {
    Note::Called {
        correlation: number,
        node: number,
        instance: u64::from(number),
        graph: false,
        at: 0,
        call: 0,
        enqueues: true,
    }
}

/// Takes the notes, by their threads.
fn take_notes(notes: &Notes, room: &NoteRoom, into: &mut Vec<(u32, Note)>) {
    let mut taken = Taken::default();
    let dropped = notes.take(&mut taken, room);
    assert_eq!(dropped, Default::default());
    into.extend(taken.iter());
    notes.keep(taken.clear(room));
}

fn ample_room() -> NoteRoom {
    let room = NoteRoom::default();
    room.allow(1 << 20);
    room
}

fn notes() {
    const NOTES: u32 = 5;
    let shared = Arc::new((Notes::default(), ample_room()));
    let owner = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            let (notes, room) = &*shared;
            notes.set_thread(7, room);
            assert!((0..NOTES).all(|number| notes.push(&note(number), room)));
        }
    });
    let (notes, room) = &*shared;
    let mut taken = Vec::new();
    take_notes(notes, room, &mut taken);
    owner.join().unwrap();
    take_notes(notes, room, &mut taken);
    take_notes(notes, room, &mut taken);
    assert!(taken.iter().copied().eq((0..NOTES).map(|number| (7, note(number)))));
}

/// The page of a tape, and the lock beside it, used as in `tape.rs`: when the page is full, with or without room for
/// the next one, and for records outside of the page.
fn tape() {
    #[derive(Default)]
    struct Log {
        cursor: Cursor,
        records: Vec<Line>,
        lost: u64,
    }
    /// A record of two lines, like a range.
    fn write(page: &Page, record: [Line; 2]) -> bool {
        let to = page.unwritten().first_chunk::<8>();
        let is_written =
            to.map(|to| to.iter().zip(record.as_flattened()).for_each(|(to, word)| to.store(*word, Relaxed)));
        is_written.inspect(|()| page.publish(2)).is_some()
    }
    const LOST: u64 = 4;
    const APART: u64 = 5;
    const RECORDS: u64 = 8;
    let shared = Arc::new((Page::default(), Mutex::<Log>::default()));
    let owner = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            let (page, log) = &*shared;
            for number in 0..RECORDS {
                let record = [[number; 4], [number; 4]];
                if number != APART && write(page, record) {
                    continue;
                }
                let log = &mut *log.lock();
                log.records.extend(log.cursor.read(page));
                match number {
                    LOST => log.lost += 1,
                    APART => log.records.extend(record),
                    _ => {
                        log.cursor.begin(page);
                        assert!(write(page, record));
                    }
                }
            }
        }
    });
    let (page, log) = &*shared;
    let mut taken = Vec::new();
    let mut take = || {
        let log = &mut *log.lock();
        log.records.extend(log.cursor.read(page));
        taken.append(&mut log.records);
        log.lost
    };
    take();
    owner.join().unwrap();
    assert_eq!(take(), 1);
    let recorded = (0..RECORDS).filter(|number| *number != LOST);
    assert!(taken.into_iter().eq(recorded.flat_map(|number| [[number; 4]; 2])));
}

/// The state that is handed over.
#[derive(Default)]
struct State {
    row: Row,
    notes: Notes,
    /// Whether a range is open.
    open: AtomicU64,
}

fn hand_over(in_order: bool) {
    struct Shared {
        all: Mutex<Vec<Arc<State>>>,
        free: HandOver<Arc<State>>,
        room: NoteRoom,
    }
    fn live(shared: &Shared, number: u32, in_order: bool) {
        let budget = Budget::new(1 << 20);
        let state = shared.free.take().unwrap_or_else(|| {
            let state = Arc::<State>::default();
            shared.all.lock().push(Arc::clone(&state));
            state
        });
        assert_eq!(state.open.load(Relaxed), 0);
        state.notes.set_thread(number, &shared.room);
        state.open.store(1, Relaxed);
        state.row.add(5, 0, &budget);
        assert!(state.notes.push(&note(number), &shared.room));
        if in_order {
            shared.free.offer(state, |state| state.open.store(0, Relaxed));
        } else {
            shared.free.offer(Arc::clone(&state), |_| ());
            state.open.store(0, Relaxed);
        }
    }
    let shared = Arc::new(Shared { all: Mutex::default(), free: HandOver::default(), room: ample_room() });
    let threads = [1, 2].map(|number| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || live(&shared, number, in_order))
    });
    let mut notes = Vec::new();
    let mut collect = || {
        let all = shared.all.lock().clone();
        all.iter().for_each(|state| take_notes(&state.notes, &shared.room, &mut notes));
        all.iter().map(|state| state.row.copy_from(0).times.count).sum::<u64>()
    };
    collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(collect(), 2);
    collect();
    notes.sort_by_key(|(thread, _)| *thread);
    assert!(notes.into_iter().eq([1, 2].map(|number| (number, note(number)))));
}

fn gate(holds: bool) {
    const WINDOWS: [u64; 2] = [10, 20];
    struct Shared {
        session: SessionGate,
        window: RowsWindow,
        /// The window in which an instance was counted; 0 for none.
        row: AtomicU64,
    }
    let shared = Arc::new(Shared {
        session: SessionGate::new(1, WINDOWS[0]),
        window: RowsWindow::new(WINDOWS[0]),
        row: AtomicU64::new(0),
    });
    let owner = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            let gate = Gate::closed();
            for _ in 0..2 {
                if !gate.is(shared.session.number()) {
                    let number = shared.session.number_in_order();
                    if number == FINISHED {
                        return;
                    }
                    shared.window.catch_up(shared.session.start(), || shared.row.store(0, Relaxed));
                    gate.open(number);
                    // The number of the second window is not seen before its start.
                    assert!(number == 1 || shared.window.start() == WINDOWS[1]);
                }
                shared.row.store(shared.window.start(), Relaxed);
            }
        }
    });
    let restarts = thread::spawn({
        let shared = Arc::clone(&shared);
        move || shared.session.restart(|| WINDOWS[1], || 2)
    });
    let summary = || {
        let _same_window = holds.then(|| shared.session.hold());
        let window = shared.session.start();
        if shared.window.is(window) {
            assert!([0, window].contains(&shared.row.load(Relaxed)));
        }
        window
    };
    summary();
    let last = shared.session.number();
    assert!(shared.session.close());
    assert!(last == 1 || shared.session.start() == WINDOWS[1]);
    restarts.join().unwrap();
    owner.join().unwrap();
    assert_eq!((shared.session.number(), shared.session.close()), (FINISHED, false));
    summary();
}

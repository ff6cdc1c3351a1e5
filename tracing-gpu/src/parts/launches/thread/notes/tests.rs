//! Notes are numbers here, except in tests of their form.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::*;
use crate::parts::launches::session::PIECE_BYTES;
use gpu_activity::record::Instance;
use range_model::RangeStyle;

const NOTE: Note = own(0);

const fn own(correlation: u32) -> Note {
    Note::Own { correlation }
}

fn room(pieces: usize) -> NoteRoom {
    let room = NoteRoom::default();
    room.allow(pieces * PIECE_BYTES);
    room
}

fn left(room: &NoteRoom) -> isize {
    room.left.load(Relaxed)
}

/// Writes `count` notes, and returns how many had room.
fn push(notes: &Notes, room: &NoteRoom, count: usize) -> usize {
    (0..count).filter(|_| notes.push(&NOTE, room)).count()
}

/// Takes and reads the notes. Returns the numbers of taken and of dropped ones.
fn collect(notes: &Notes, taken: &mut Taken, room: &NoteRoom) -> (usize, u64) {
    let Dropped { launches: 0, calls: dropped, ranges: 0 } = notes.take(taken, room) else {
        panic!("they are all our own")
    };
    let count = taken.iter().count();
    notes.keep(taken.clear(room));
    (count, dropped)
}

/// The numbers in the present notes.
fn numbers(notes: &Notes, taken: &mut Taken, room: &NoteRoom) -> Vec<u32> {
    notes.take(taken, room);
    assert!(taken.pieces.iter().all(|piece| piece.lines.capacity() <= PAGE), "pieces are counted by their number");
    let numbers = taken.iter().map(|(_, note)| match note {
        Note::Own { correlation } => correlation,
        other => panic!("{other:?}"),
    });
    let numbers = numbers.collect();
    notes.keep(taken.clear(room));
    numbers
}

/// The collector is woken long before the room is used up.
#[test]
fn whoever_collects_is_woken_where_much_is_noted() {
    const LONG: std::time::Duration = std::time::Duration::from_secs(20);
    for (pieces, notes) in [(1 << 20, 10 * PAGE), (20, 1 << 20)] {
        let (room, noted) = (room(pieces), Notes::default());
        std::thread::scope(|scope| {
            let collector = scope.spawn(|| {
                let began = std::time::Instant::now();
                std::thread::park_timeout(LONG);
                began.elapsed() < LONG
            });
            room.wake(collector.thread().clone(), notes);
            assert_eq!(push(&noted, &room, 9 * PAGE), 9 * PAGE);
            assert_eq!(room.turned.load(Relaxed), 9);
            assert!(!collector.is_finished(), "there is not that much yet");
            assert_eq!(push(&noted, &room, 1), 1);
            assert!(collector.join().expect("no panic"), "woken");
        });
        room.begin_collecting();
        assert_eq!(room.turned.load(Relaxed), 0);
    }
}

fn memory(notes: &Notes) -> Vec<*const Line> {
    let behind = notes.behind.lock();
    let mut all: Vec<_> = behind.spare.iter().chain([&behind.current]).map(|piece| piece.lines.as_ptr()).collect();
    all.sort_unstable();
    all
}

fn spare(notes: &Notes) -> usize {
    notes.behind.lock().spare.len()
}

#[test]
fn notes_are_what_they_were() {
    let (room, mut taken, notes) = (room(100), Taken::default(), Notes::default());
    let (most, many) = (u32::MAX - 1, u64::MAX - 2);
    let instance = |style| Note::Began(Instance { id: many, parent: 3, label: most, style, start: many - 1 });
    let called = |graph, enqueues| Note::Called {
        correlation: most,
        node: most - 1,
        instance: many,
        graph,
        at: many - 3,
        call: (1 << 52) - 1,
        enqueues,
    };
    let all = [
        instance(RangeStyle::PushPop),
        instance(RangeStyle::StartEnd),
        called(false, false),
        called(false, true),
        called(true, true),
        Note::Own { correlation: most },
        Note::Ended { instance: many, end: many - 1 },
        Note::Left { instance: many },
    ];
    // Written by threads that follow one another.
    let threads = [most, 1, 1, most];
    let expected: Vec<Noted> = threads.into_iter().flat_map(|thread| all.map(|note| (thread, note))).collect();
    for _ in 0..2 {
        for thread in threads {
            notes.set_thread(thread, &room);
            assert!(all.iter().all(|note| notes.push(note, &room)));
        }
        assert_eq!((notes.take(&mut taken, &room), notes.thread()), (Dropped::default(), most));
        assert_eq!(taken.iter().collect::<Vec<_>>(), expected);
        notes.keep(taken.clear(&room));
    }
}

#[test]
fn notes_are_in_order_whoever_they_are_of_and_whenever_they_are_taken() {
    for period in [1, 2, 3, 50, PAGE, PAGE + 1, 3 * PAGE] {
        let (room, mut taken, notes, mut seen) = (room(100), Taken::default(), Notes::default(), Vec::new());
        for number in 0..1_000 {
            match number % 7 {
                2 => notes.push_from_anywhere(&own(number), &room),
                3 => notes.push_in_any_case(&own(number), &room),
                4 if number % 3 == 0 && number < 500 => {
                    notes.set_thread(number, &room);
                    assert!(notes.push(&own(number), &room));
                }
                5 if notes.push_near(line_of(&own(number))) => {}
                _ => assert!(notes.push(&own(number), &room)),
            }
            if (number as usize).is_multiple_of(period) {
                seen.extend(numbers(&notes, &mut taken, &room));
            }
        }
        seen.extend(numbers(&notes, &mut taken, &room));
        assert!(seen.iter().copied().eq(0..1_000), "taken each {period}: {seen:?}");
    }
}

/// One thread writes notes, one takes them, and one adds notes on behalf of the first.
#[test]
fn each_note_is_seen_once_and_in_its_order() {
    const NOTES: u32 = if cfg!(miri) { 2_000 } else { 400_000 };
    const OTHERS: u32 = 1 << 31;
    for pieces in [3, 1_000] {
        let (room, notes, is_over) = (room(pieces), Notes::default(), AtomicBool::new(false));
        let (mut seen, mut dropped, mut taken) = (Vec::new(), 0, Taken::default());
        let pushed = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut pushed = Vec::new();
                for number in 0..NOTES {
                    if number % 3 == 2 {
                        notes.push_in_any_case(&own(number), &room);
                        pushed.push(number);
                    } else if notes.push(&own(number), &room) {
                        pushed.push(number);
                    }
                }
                is_over.store(true, Release);
                pushed
            });
            scope.spawn(|| {
                for number in 0..NOTES / 100 {
                    notes.push_from_anywhere(&own(OTHERS + number), &room);
                    std::thread::yield_now();
                }
            });
            while !is_over.load(Acquire) {
                dropped += notes.take(&mut taken, &room).calls;
                seen.extend(taken.iter().map(|(_, note)| note));
                notes.keep(taken.clear(&room));
            }
            writer.join().expect("the writer")
        });
        dropped += notes.take(&mut taken, &room).calls;
        seen.extend(taken.iter().map(|(_, note)| note));
        let of = |others: bool| {
            seen.iter().filter_map(move |note| match *note {
                Note::Own { correlation } => (others == (correlation >= OTHERS)).then_some(correlation),
                _ => Some(u32::MAX),
            })
        };
        assert!(of(false).eq(pushed.iter().copied()), "of {} that were noted, {}", pushed.len(), of(false).count());
        assert!(of(true).eq(OTHERS..OTHERS + NOTES / 100));
        assert_eq!(pushed.len() as u64 + dropped, u64::from(NOTES));
    }
}

#[test]
fn all_threads_share_one_bound_and_get_it_back() {
    let (room, mut taken) = (room(10), Taken::default());
    let (one, other) = (Notes::default(), Notes::default());
    for _ in 0..100 {
        assert_eq!(push(&one, &room, 5 * PAGE + 1), 5 * PAGE + 1);
        let noted = push(&other, &room, 5 * PAGE);
        assert_eq!(noted, 4 * PAGE, "beside six pieces, one of them for later notes");
        assert_eq!(collect(&one, &mut taken, &room), (5 * PAGE + 1, 0));
        assert_eq!(collect(&other, &mut taken, &room), (noted, (5 * PAGE - noted) as u64));
        // Unneeded room is released, so that any thread can take it.
        (0..2).for_each(|_| _ = (collect(&one, &mut taken, &room), collect(&other, &mut taken, &room)));
    }
    assert!(left(&room) >= 10 - 2, "one each: {room:?}");
}

#[test]
fn what_must_not_be_lost_goes_beyond_the_bound_and_comes_back_to_it() {
    let (room, mut taken, notes) = (room(1), Taken::default(), Notes::default());
    assert_eq!(push(&notes, &room, 2 * PAGE), PAGE);
    for _ in 0..PAGE {
        notes.push_in_any_case(&NOTE, &room);
        assert_eq!((push(&notes, &room, 1), left(&room)), (0, -1), "one piece beyond it, however many are dropped");
    }
    notes.push_from_anywhere(&NOTE, &room);
    assert_eq!(left(&room), -2);
    assert_eq!(collect(&notes, &mut taken, &room), (2 * PAGE + 1, 2 * PAGE as u64));
    assert_eq!(push(&notes, &room, 1), 1);
    (0..3).for_each(|_| _ = collect(&notes, &mut taken, &room));
    assert!(left(&room) >= 0, "{room:?}");
}

#[test]
fn threads_that_follow_one_another_stay_within_the_bound() {
    let (room, mut taken, notes) = (room(3), Taken::default(), Notes::default());
    let noted = (1..=20).filter(|&thread| {
        notes.set_thread(thread, &room);
        let noted = push(&notes, &room, 1);
        assert!(left(&room) >= 0, "thread {thread}");
        noted == 1
    });
    assert_eq!((noted.count(), collect(&notes, &mut taken, &room)), (3, (3, 17)));
}

#[test]
fn without_room_nothing_is_noted_but_what_must_be() {
    let (room, mut taken, notes) = (NoteRoom::default(), Taken::default(), Notes::default());
    assert_eq!(push(&notes, &room, 10), 0);
    notes.push_in_any_case(&NOTE, &room);
    assert_eq!((notes.page.is_there(), collect(&notes, &mut taken, &room)), (false, (1, 10)));
}

#[test]
fn a_thread_that_notes_as_much_as_before_allocates_nothing() {
    let (room, mut taken, notes) = (room(100), Taken::default(), Notes::default());
    let round = |notes: &Notes, taken: &mut Taken| {
        assert_eq!(push(notes, &room, 40 * PAGE + 7), 40 * PAGE + 7);
        collect(notes, taken, &room)
    };
    (0..20).for_each(|_| _ = round(&notes, &mut taken)); // a page more in every 18th round
    let (before, known, rest) = (left(&room), memory(&notes), taken.rest.lines.as_ptr());
    (0..40).for_each(|_| _ = round(&notes, &mut taken));
    assert_eq!((left(&room), taken.rest.lines.as_ptr()), (before, rest));
    assert!(memory(&notes).iter().all(|piece| known.contains(piece)), "{known:?} {:?}", memory(&notes));
}

#[test]
fn no_more_is_kept_than_was_used() {
    let (room, mut taken, notes) = (room(1_000), Taken::default(), Notes::default());
    push(&notes, &room, 500 * PAGE);
    collect(&notes, &mut taken, &room);
    assert!([499, 500].contains(&spare(&notes)), "{}", spare(&notes));
    for most in [252, 128, 66] {
        push(&notes, &room, PAGE);
        collect(&notes, &mut taken, &room);
        assert!(spare(&notes) <= most, "{} are kept, not {most}", spare(&notes));
    }
    collect(&notes, &mut taken, &room);
    assert_eq!((spare(&notes), left(&room)), (0, 1_000 - 1), "its own");
    assert_eq!(room_of_idle_threads(500, 1_000), 500, "a piece each");
    assert!(room_of_idle_threads(700, 1_000) >= 499, "of 700 threads, no more than half of it");
}

/// The room left after this many threads wrote one note each and then stopped.
fn room_of_idle_threads(threads: usize, pieces: usize) -> isize {
    let (room, mut taken) = (room(pieces), Taken::default());
    let all: Vec<Notes> = (0..threads).map(|_| Notes::default()).collect();
    for round in 0..3 {
        for notes in &all {
            if round == 0 {
                assert!(notes.push(&NOTE, &room));
            }
            collect(notes, &mut taken, &room);
        }
    }
    left(&room)
}

//! Calls in ranges: notes of the fast paths and the general ones, and the memory that they use.

use super::*;
use crate::core::record::Place;
use crate::core::session::catalog::ROOT;
use crate::core::thread::state::CountingExit;

#[cfg(target_pointer_width = "64")]
#[test]
fn what_a_launch_in_one_range_touches_is_in_one_cache_line() {
    use std::mem::offset_of;

    use super::super::{LaunchLog, OpenInstance};

    let touched = [
        (offset_of!(LaunchLog, notes.page), 16),
        (offset_of!(LaunchLog, next_number), 8),
        (offset_of!(LaunchLog, lifetimes_with_calls), 4),
        (offset_of!(LaunchLog, open), size_of::<OpenInstance>()), // the first one is at the start
    ];
    let line = touched[0].0 / 64;
    assert!(
        touched.iter().all(|(start, length)| start / 64 == line && (start + length - 1) / 64 == line),
        "{touched:?}"
    );
}

/// This holds for each path that notes calls.
#[test]
fn calls_are_in_the_innermost_range_however_they_are_noted() {
    type Called<'a> = &'a dyn Fn(u32);
    fn nested(call: Called<'_>, depth: u32) {
        if depth == 0 {
            return call(1);
        }
        info_span!("range").in_scope(|| nested(call, depth - 1));
        if depth % 40 == 1 {
            call(100 + depth);
        }
    }
    let programs: [fn(Called<'_>); 4] = [
        |call| (1..=3).for_each(|correlation| info_span!("one").in_scope(|| call(correlation))),
        |call| {
            info_span!("a").in_scope(|| {
                call(1);
                info_span!("b").in_scope(|| (2..=3).for_each(call));
                info_span!("nothing is called in it").in_scope(|| ());
                call(4);
                info_span!("b").in_scope(|| info_span!("c").in_scope(|| call(5)));
            });
            call(6);
        },
        // More ranges than the fast paths handle.
        |call| nested(call, 130),
        // Closed out of order: the range above begins anew.
        |call| {
            let (a, b) = (info_span!("a"), info_span!("b"));
            let (in_a, in_b) = (a.enter(), b.enter());
            call(1);
            drop(in_a);
            call(2);
            drop(in_b);
            call(3);
        },
    ];
    for (number, program) in programs.into_iter().enumerate() {
        let notes = |is_general: bool| {
            let mut listener = Listener::new(true);
            let engine = listener.engine;
            listener.run(|| {
                call(engine, 0); // from now on the thread has a page
                program(&|correlation| match engine.calling_thread() {
                    Some(thread) if is_general => thread.note_any_call(correlation, false, true, ROOT),
                    _ => call(engine, correlation),
                });
            });
            assert!(engine.all_threads().iter().all(|thread| thread.stack.noted() == 0), "program {number}");
            listener.notes()
        };
        assert_eq!(notes(false), notes(true), "program {number}");
    }
}

#[test]
fn in_a_new_window_what_is_open_begins_anew_with_its_next_call() {
    let mut listener = Listener::new(true);
    let engine = listener.engine;
    let (a, b) = listener.run(|| (info_span!("a").entered(), info_span!("b").entered()));
    listener.run(|| call(engine, 1));
    assert_eq!(listener.notes(), ["a 1 began in 0", "b 2 began in 1", "call 1 in 2"]);
    engine.restart();
    listener.run(|| {
        info_span!("c").in_scope(|| call(engine, 2));
        call(engine, 3);
    });
    let again = ["2 ended", "1 ended", "a 3 began in 0", "b 4 began in 3", "c 5 began in 4", "call 2 in 5", "5 ended"];
    assert_eq!(listener.notes(), [&again[..], &["call 3 in 4"]].concat());
    engine.restart();
    listener.run(|| {
        info_span!("the thread learns of it").in_scope(|| ());
        call(engine, 4);
    });
    drop(b);
    let again = ["4 ended", "3 ended", "a 6 began in 0", "b 7 began in 6", "call 4 in 7", "7 ended"];
    assert_eq!(listener.notes(), again);
    engine.restart();
    drop(a);
    assert_eq!(listener.notes(), ["6 ended"]);
}

#[test]
fn an_instance_begins_with_its_first_call_and_ends_with_its_range() {
    let mut listener = Listener::new(true);
    let engine = listener.engine;
    listener.run(|| {
        info_span!("a").in_scope(|| {
            call(engine, 1);
            info_span!("b").in_scope(|| {
                info_span!("nothing is called in it").in_scope(|| ());
                (2..=3).for_each(|correlation| call(engine, correlation));
            });
            info_span!("c").in_scope(|| info_span!("d").in_scope(|| call(engine, 4)));
            call(engine, 5);
        });
        call(engine, 6);
    });
    let expected = [
        "a 1 began in 0",
        "call 1 in 1",
        "b 2 began in 1",
        "call 2 in 2",
        "call 3 in 2",
        "2 ended",
        "c 3 began in 1",
        "d 4 began in 3",
        "call 4 in 4",
        "4 ended",
        "3 ended",
        "call 5 in 1",
        "1 ended",
        "call 6 in 0",
    ];
    assert_eq!(listener.notes(), expected);
}

/// Inside and after a range with calls, entries and exits still take the fast paths, and none of them checks for
/// changes.
#[test]
fn launches_leave_the_fast_paths_on() {
    let listener = Listener::new(true);
    let engine = listener.engine;
    listener.run(|| {
        info_span!("warm").in_scope(|| ());
        let near = engine.counting().map(|thread| thread.index);
        assert!(near.is_some() || !engine.session.clock.is_counter());
        info_span!("a").in_scope(|| {
            call(engine, 1);
            assert_eq!(engine.counting().map(|thread| thread.index), near);
        });
        assert_eq!(engine.counting().map(|thread| thread.index), near);
    });
}

/// This holds whatever the room on the page and in the row, and whatever the length of the range.
#[test]
fn a_range_with_calls_ends_as_by_the_general_path() {
    /// As long as a clock of some GHz after some seconds: too long for the pending instances.
    const LONG: u64 = 1 << 33;
    // The numbers of earlier notes on the page of 128 lines, so that two first calls, another one and two ends reach
    // its end at each step; of earlier instances in a row of 28 before they go to its sums; and of the range, beyond
    // the first 64.
    let cases = (122..=129).flat_map(|notes| [0, 1, 27, 28, 29].map(|instances| (notes, instances)));
    let cases =
        cases.flat_map(|(notes, instances)| [(false, 0), (true, 0), (false, 70)].map(|rest| (notes, instances, rest)));
    for (notes, instances, (is_long, rows)) in cases {
        let is_long = is_long && crate::clock::Clock::new().is_counter(); // another has not counted so far
        let run = |is_general: bool| {
            let mut listener = Listener::new(true);
            let engine = listener.engine;
            let (count, most) = listener.run(|| {
                let metadata = [info_span!("a"), info_span!("b")].map(|span| span.metadata().unwrap());
                let thread = engine.thread().unwrap();
                let child = |node, metadata| thread.child(node, metadata).packed(node);
                let under = |place: Place| child(place.node(), metadata[0]);
                let [_, outer] = metadata.map(|first| (0..rows / 2).fold(child(0, first), |place, _| under(place)));
                let inner = under(outer);
                assert!(rows < 64 || outer.row() >= 64);
                let exit = |span| {
                    let is_done = !is_general
                        && matches!(thread.exit_counting(span), CountingExit::Noted)
                        && thread.exit_noted(span);
                    assert!(is_done || is_general && thread.exit_general(span));
                };
                let call = |correlation| match is_general {
                    true => thread.note_any_call(correlation, false, true, ROOT),
                    false => thread.note_call(correlation, false, true, |_| ROOT),
                };
                for _ in 0..instances {
                    assert!(thread.enter_counting(1, outer) && thread.exit_general(1));
                }
                (0..notes).for_each(|correlation| thread.note_own(correlation));
                assert!(thread.enter_counting(2, outer));
                call(1001);
                assert!(thread.enter_counting(3, inner));
                (1002..=1003).for_each(call);
                exit(3);
                call(1004);
                if is_long {
                    let (_, start) = thread.stack.near(0).unwrap();
                    thread.stack.top().unwrap().start_at(start - LONG);
                }
                exit(2);
                assert_eq!((thread.stack.depth(), thread.stack.noted()), (0, 0));
                let (outer, inner) = [outer, inner].map(|place| thread.rows.get(place.row()).unwrap().copy()).into();
                assert_eq!(outer.nested, inner.times.total as u64);
                ([outer.times.count, inner.times.count], outer.times.max >= LONG)
            });
            assert_eq!((count, most), ([instances + 1, 1], is_long));
            listener.notes()
        };
        let by_general = run(true);
        assert_eq!(by_general.len(), notes as usize + 8);
        assert_eq!(run(false), by_general, "{notes} notes, {instances} instances, {is_long}, row {rows}");
    }
}

//! Calls in ranges: what the fast paths note, and the general ones.

use super::*;

/// Whichever path notes a call.
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
        // Beyond what the fast paths know.
        |call| nested(call, 130),
        // Closed out of order: what was above begins anew.
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
            let core = listener.core;
            listener.run(|| {
                call(core, 0); // the thread has a page from here on
                program(&|correlation| match core.calling_shard() {
                    Some(shard) if is_general => shard.note_any_call(correlation, false, true),
                    _ => call(core, correlation),
                });
            });
            assert!(core.all_shards().iter().all(|shard| shard.stack.noted() == 0), "program {number}");
            listener.notes()
        };
        assert_eq!(notes(false), notes(true), "program {number}");
    }
}

#[test]
fn in_a_new_window_what_is_open_begins_anew_with_its_next_call() {
    let mut listener = Listener::new(true);
    let core = listener.core;
    let (a, b) = listener.run(|| (info_span!("a").entered(), info_span!("b").entered()));
    listener.run(|| call(core, 1));
    assert_eq!(listener.notes(), ["a 1 began in 0", "b 2 began in 1", "call 1 in 2"]);
    core.restart();
    listener.run(|| {
        info_span!("c").in_scope(|| call(core, 2));
        call(core, 3);
    });
    let again = ["2 ended", "1 ended", "a 3 began in 0", "b 4 began in 3", "c 5 began in 4", "call 2 in 5", "5 ended"];
    assert_eq!(listener.notes(), [&again[..], &["call 3 in 4"]].concat());
    core.restart();
    listener.run(|| {
        info_span!("the thread learns of it").in_scope(|| ());
        call(core, 4);
    });
    drop(b);
    let again = ["4 ended", "3 ended", "a 6 began in 0", "b 7 began in 6", "call 4 in 7", "7 ended"];
    assert_eq!(listener.notes(), again);
    core.restart();
    drop(a);
    assert_eq!(listener.notes(), ["6 ended"]);
}

#[test]
fn an_instance_begins_with_its_first_call_and_ends_with_its_range() {
    let mut listener = Listener::new(true);
    let core = listener.core;
    listener.run(|| {
        info_span!("a").in_scope(|| {
            call(core, 1);
            info_span!("b").in_scope(|| {
                info_span!("nothing is called in it").in_scope(|| ());
                (2..=3).for_each(|correlation| call(core, correlation));
            });
            info_span!("c").in_scope(|| info_span!("d").in_scope(|| call(core, 4)));
            call(core, 5);
        });
        call(core, 6);
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

/// In a range that calls were made in, and behind it, entries and exits take the fast paths as before: none of them asks whether anything has changed.
#[test]
fn launches_leave_the_fast_paths_on() {
    let listener = Listener::new(true);
    let core = listener.core;
    listener.run(|| {
        info_span!("warm").in_scope(|| ());
        let near = core.near_shard().map(|shard| shard.index);
        assert!(near.is_some() || !core.clock.is_tsc());
        info_span!("a").in_scope(|| {
            call(core, 1);
            assert_eq!(core.near_shard().map(|shard| shard.index), near);
        });
        assert_eq!(core.near_shard().map(|shard| shard.index), near);
    });
}

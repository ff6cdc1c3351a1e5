//! What is noted where there is no room for all.

use tracing::{Span, info_span};

use super::{Listener, ROOM, call, lifetime};
use crate::activity::Note;
use crate::thread::notes::{Dropped, Taken};

#[test]
fn an_end_has_room_where_nothing_else_has() {
    let listener = Listener::new(true);
    let core = listener.core;
    let shard = listener.run(|| core.thread().unwrap());
    let mut taken = Taken::default();
    let (room, dropped) = listener.run(|| {
        let (noted, entered) = (lifetime("noted"), info_span!("entered").entered());
        call(core, 1);
        // Four notes by now; as many more as there is room for.
        let room = (2..10_000).take_while(|&correlation| shard.note(&Note::Own { correlation }));
        let room = room.count() + 4;
        let unnoted = lifetime("unnoted");
        info_span!("inner").in_scope(|| call(core, 2));
        drop((unnoted, entered, noted));
        (room, shard.take_notes(&mut taken))
    });
    let all: Vec<_> = taken.iter().collect();
    let ends = all.iter().filter(|(_, note)| matches!(note, Note::Ended { .. })).count();
    assert_eq!((all.len(), ends), (room + 2, 2), "of those that were noted to begin");
    // Our own; two that began, one noted in vain twice; a call in a lifetime, and that it was in that.
    assert_eq!(dropped, Dropped { calls: 1, ranges: 3 + 1, launches: 1 });
    assert!(room * 32 <= ROOM && (room + 128) * 32 > ROOM - 2_048, "{room} notes");
}

/// Each call is in all lifetimes of its thread: what says so takes half of the room, and calls are noted still.
#[test]
fn many_lifetimes_leave_room_for_calls() {
    const CALLS: u64 = 200;
    let listener = Listener::new(true);
    let core = listener.core;
    let mut taken = Taken::default();
    let dropped = listener.run(|| {
        let shard = core.thread().unwrap();
        let requests: Vec<Span> = (0..100).map(|_| lifetime("request")).collect();
        (1..=CALLS).for_each(|correlation| call(core, correlation as u32));
        let dropped = shard.take_notes(&mut taken);
        drop(requests);
        dropped
    });
    let count = |is: fn(&Note) -> bool| taken.iter().filter(|(_, note)| is(note)).count() as u64;
    assert_eq!(count(|note| matches!(note, Note::Called { .. })), CALLS);
    let within = count(|note| matches!(note, Note::Within { .. }));
    assert_eq!(dropped, Dropped { ranges: 100 * CALLS - within, ..Dropped::default() });
    assert!(within * 32 > ROOM as u64 / 4 && within * 32 < ROOM as u64 * 3 / 4, "{within} of {}", 100 * CALLS);
}

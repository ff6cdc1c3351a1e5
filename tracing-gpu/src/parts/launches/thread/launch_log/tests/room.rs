//! Notes beyond the limit on memory.

use tracing::info_span;

use super::{Listener, ROOM, call, lifetime};
use crate::parts::launches::thread::notes::{Dropped, Taken};
use gpu_activity::record::Note;

#[test]
fn an_end_has_room_where_nothing_else_has() {
    let listener = Listener::new(true);
    let engine = listener.engine;
    let thread = listener.run(|| engine.thread().unwrap());
    let mut taken = Taken::default();
    let (room, dropped) = listener.run(|| {
        let (noted, entered) = (lifetime("noted"), info_span!("entered").entered());
        call(engine, 1);
        // There are three notes by now; this adds as many as there is room for.
        let room = (2..10_000).take_while(|&correlation| thread.note(&Note::Own { correlation }));
        let room = room.count() + 3;
        let unnoted = lifetime("unnoted");
        info_span!("inner").in_scope(|| call(engine, 2));
        drop((unnoted, entered, noted));
        (room, thread.take_notes(&mut taken))
    });
    let all: Vec<_> = taken.iter().collect();
    let ends = all.iter().filter(|(_, note)| matches!(note, Note::Ended { .. })).count();
    assert_eq!((all.len(), ends), (room + 2, 2), "of those that were noted to begin");
    // Our own; two that began, one noted in vain twice; and a call in a lifetime.
    assert_eq!(dropped, Dropped { calls: 1, ranges: 3, launches: 1 });
    assert!(room * 32 <= ROOM && (room + 128) * 32 > ROOM - 2_048, "{room} notes");
}

//! Ranges of one domain that stay open above an exited range of another.

use super::*;

/// An exit in another domain does not close ranges of this one. Their instances end there, and new ones begin.
#[test]
fn what_stays_open_above_an_exit_further_down_is_two_instances() {
    let per_target = engine_of(true, false, crate::Domain::PerTarget);
    let mut listener = Listener::on(per_target, Dispatch::new(GpuSubscriber::new(per_target)));
    let engine = listener.engine;
    let totals = |listener: &mut Listener, ran| {
        let totals = listener.totals(ran);
        let name = |label| engine.session.with_names(|names| names.catalog.label_of(label).unwrap().name.to_string());
        let rows = totals.projections.iter().map(|(&(label, _), row)| {
            (name(label), (row.projected.count, row.projected.max), row.operations, (row.level_sum, row.children_sum))
        });
        rows.collect::<Vec<_>>()
    };
    listener.run(|| {
        let below = info_span!(target: "one", "below").entered();
        let [left, again] = ["left", "again"].map(|name| info_span!(target: "one", "one", nvtx.name = name));
        let (left, again) = (left.entered(), again.entered());
        let stays = info_span!(target: "two", "stays").entered();
        call(engine, 1);
        let above = info_span!(target: "two", "above").entered();
        call(engine, 2);
        drop(left);
        call(engine, 3);
        drop(above);
        call(engine, 4);
        drop((stays, again));
        call(engine, 5);
        drop(below);
    });
    let expected = [
        "below 1 began in 0",
        "left 2 began in 1",
        "again 3 began in 2",
        "stays 4 began in 3",
        "call 1 in 4",
        "above 5 began in 4",
        "call 2 in 5",
        "3 ended",
        "2 ended",
        "5 ended",
        "4 ended",
        "again 6 began in 1",
        "stays 7 began in 6",
        "above 8 began in 7",
        "call 3 in 8",
        "8 ended",
        "call 4 in 7",
        "7 ended",
        "6 ended",
        "call 5 in 1",
        "1 ended",
    ];
    assert_eq!(listener.notes(), expected);
    let row =
        |name: &str, count, longest, operations, nesting| (name.to_owned(), (count, longest), operations, nesting);
    let rows = [
        row("below", 1, 410, 5, (0, 2)),
        row("left", 1, 110, 2, (1, 1)),
        row("again", 2, 110, 4, (3, 2)),
        row("stays", 2, 110, 4, (5, 2)),
        row("above", 2, 10, 2, (7, 0)),
    ];
    let mut found = totals(&mut listener, 1..=5);
    found.sort_by_key(|(name, ..)| rows.iter().position(|row| row.0 == *name));
    assert_eq!(found, rows);
}

/// Without room for a new instance, the range that stays open has none.
#[test]
fn what_cannot_begin_again_has_ended() {
    let per_target = engine_of(true, false, crate::Domain::PerTarget);
    let listener = Listener::on(per_target, Dispatch::new(GpuSubscriber::new(per_target)));
    let engine = listener.engine;
    let thread = listener.run(|| engine.thread().unwrap());
    let mut taken = Taken::default();
    listener.run(|| {
        let left = info_span!(target: "one", "left").entered();
        let stays = info_span!(target: "two", "stays").entered();
        call(engine, 1);
        assert!((2..10_000).find(|&correlation| !thread.note(&Note::Own { correlation })).is_some());
        drop(left);
        drop(stays);
        assert_eq!(thread.stack.noted(), 0);
    });
    assert_ne!(thread.take_notes(&mut taken), Dropped::default());
    let ends = taken.iter().filter(|(_, note)| matches!(note, Note::Ended { .. })).count();
    assert_eq!(ends, 2);
}

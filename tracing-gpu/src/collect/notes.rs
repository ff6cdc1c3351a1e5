//! What a thread notes, in pieces of one size, and the bound that the pieces of all threads share.
//!
//! Room is taken by the piece, so that a note touches nothing shared but once in so many. Pieces that were read go back to the thread that filled them, as many as it
//! needed last time: memory that is let go of and taken again is unmapped and mapped again, a page fault for every 43 launches and a wait for the allocator, which the
//! thread that reads has just then. The room of the others is free again, by and by.

use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use crate::activity::{Instance, Note};
use crate::summary::RangeStyle;

/// Notes in a piece.
pub(super) const PIECE: usize = 256;

/// A note, with the operating system's number of the thread that it is of.
pub(crate) type Noted = (u32, Note);

/// A note in four words, half a cache line: what is written here was last read on another processor.
type Line = [u64; 4];

/// Notes of one thread.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    thread: u32,
    lines: Vec<Line>,
}

impl Piece {
    fn new() -> Self {
        Self { thread: 0, lines: Vec::with_capacity(PIECE) }
    }

    fn has_memory(&self) -> bool {
        self.lines.capacity() > 0
    }

    /// Whether a note of this thread goes in.
    #[inline]
    fn takes(&self, thread: u32) -> bool {
        self.lines.len() < self.lines.capacity() && (self.thread == thread || self.lines.is_empty())
    }

    #[inline]
    fn push(&mut self, (thread, note): Noted) {
        self.thread = thread;
        self.lines.push(line_of(&note));
    }
}

/// Memory of a piece, and of its place in a list.
const PIECE_BYTES: usize = PIECE * size_of::<Line>() + 2 * size_of::<Piece>();

/// What a line is, in the lowest bits of its last word, and what is beside.
const BEGAN: u64 = 1;
const ENDED: u64 = 2;
const LEFT: u64 = 3;
const CALLED: u64 = 4;
const WITHIN: u64 = 5;
const OWN: u64 = 6;
const KINDS: u64 = 8;
const START_END: u64 = 1 << 8;
const GRAPH: u64 = 1 << 8;
const ENQUEUES: u64 = 1 << 9;

#[inline]
fn line_of(note: &Note) -> Line {
    let bit = |is_set: bool, bit: u64| if is_set { bit } else { 0 };
    match *note {
        Note::Called { correlation, node, instance, graph, at, enqueues } => {
            let numbers = u64::from(correlation) << 32 | u64::from(node);
            [numbers, instance, at, CALLED | bit(graph, GRAPH) | bit(enqueues, ENQUEUES)]
        }
        Note::Began(Instance { id, parent, label, style, start }) => {
            [id, parent, start, u64::from(label) << 32 | bit(style == RangeStyle::StartEnd, START_END) | BEGAN]
        }
        Note::Ended { instance, end } => [instance, end, 0, ENDED],
        Note::Left { instance } => [instance, 0, 0, LEFT],
        Note::Within { correlation, instance } => [u64::from(correlation), instance, 0, WITHIN],
        Note::Own { correlation } => [u64::from(correlation), 0, 0, OWN],
    }
}

fn note_of(&[first, second, third, bits]: &Line) -> Note {
    match bits % KINDS {
        CALLED => {
            let (graph, enqueues) = (bits & GRAPH != 0, bits & ENQUEUES != 0);
            let (correlation, node) = ((first >> 32) as u32, first as u32);
            Note::Called { correlation, node, instance: second, graph, at: third, enqueues }
        }
        BEGAN => {
            let style = if bits & START_END == 0 { RangeStyle::PushPop } else { RangeStyle::StartEnd };
            Note::Began(Instance { id: first, parent: second, label: (bits >> 32) as u32, style, start: third })
        }
        ENDED => Note::Ended { instance: first, end: second },
        LEFT => Note::Left { instance: first },
        WITHIN => Note::Within { correlation: first as u32, instance: second },
        _ => Note::Own { correlation: first as u32 },
    }
}

/// Room for pieces that are not there yet. Without [`allow`](Self::allow) there is none.
#[derive(Debug, Default)]
pub(crate) struct NoteRoom {
    left: AtomicIsize,
    all: AtomicIsize,
}

impl NoteRoom {
    /// Sets the bound. Before anything is noted.
    #[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
    pub(crate) fn allow(&self, bytes: usize) {
        let pieces = isize::try_from(bytes / PIECE_BYTES).unwrap_or(isize::MAX);
        self.left.store(pieces, Relaxed);
        self.all.store(pieces, Relaxed);
    }

    fn take(&self) -> bool {
        if self.left.load(Relaxed) <= 0 {
            return false; // without a write, which all threads would wait for
        }
        let taken = self.left.fetch_sub(1, Relaxed) > 0;
        if !taken {
            self.give_back(1);
        }
        taken
    }

    fn take_in_any_case(&self) {
        self.left.fetch_sub(1, Relaxed);
    }

    fn give_back(&self, pieces: usize) {
        self.left.fetch_add(isize::try_from(pieces).unwrap_or(0), Relaxed);
    }

    /// Whether so much is taken that threads should keep nothing that they do not use.
    fn is_scarce(&self) -> bool {
        self.left.load(Relaxed).saturating_mul(2) < self.all.load(Relaxed)
    }
}

/// The notes of one thread that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Filled before the current one.
    full: Vec<Piece>,
    /// Without memory before the first note.
    current: Piece,
    spare: Vec<Piece>,
    dropped: u64,
}

impl Notes {
    /// Whether there was room for it.
    #[inline]
    pub(crate) fn push(&mut self, noted: Noted, room: &NoteRoom) -> bool {
        let has_room = self.current.takes(noted.0) || self.begin_piece(|| room.take());
        if has_room {
            self.current.push(noted);
        } else {
            self.dropped += 1;
        }
        has_room
    }

    /// Takes what must not be lost. This may go beyond the bound.
    pub(super) fn push_in_any_case(&mut self, noted: Noted, room: &NoteRoom) {
        if !self.current.takes(noted.0) {
            self.begin_piece(|| {
                room.take_in_any_case();
                true
            });
        }
        self.current.push(noted);
    }

    #[cold]
    fn begin_piece(&mut self, has_room: impl FnOnce() -> bool) -> bool {
        let next = self.spare.pop().or_else(|| has_room().then(Piece::new));
        let Some(next) = next else { return false };
        let full = std::mem::replace(&mut self.current, next);
        if full.has_memory() {
            self.full.push(full);
        }
        true
    }

    /// Hands over what there is. Returns the number of notes that were dropped since the last time. With them go half of the pieces that were kept and not needed, and all
    /// from a thread that noted nothing.
    pub(crate) fn take(&mut self, into: &mut Taken, room: &NoteRoom) -> u64 {
        let is_idle = self.full.is_empty() && self.current.lines.is_empty();
        into.pieces.append(&mut self.full);
        if is_idle {
            into.pieces.append(&mut self.spare);
        }
        if !self.current.lines.is_empty() || is_idle && room.is_scarce() {
            let next = self.spare.pop().unwrap_or_else(|| if is_idle { Piece::default() } else { into.next.take() });
            into.pieces.push(std::mem::replace(&mut self.current, next));
        }
        into.pieces.extend(self.spare.drain(..self.spare.len() / 2));
        std::mem::take(&mut self.dropped)
    }

    #[cfg(test)]
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes pieces that were read for its own.
    pub(crate) fn keep(&mut self, pieces: &mut Vec<Piece>) {
        self.spare.append(pieces);
    }
}

/// What was taken from a thread, and is read now.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pieces: Vec<Piece>,
    /// For the next thread that has none to go on with.
    next: NextPiece,
}

#[derive(Debug, Default)]
struct NextPiece(Piece);

impl NextPiece {
    fn take(&mut self) -> Piece {
        std::mem::take(&mut self.0)
    }
}

#[cfg_attr(not(feature = "cudarc"), allow(dead_code))] // read through CUPTI alone
impl Taken {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.iter().all(|piece| piece.lines.is_empty())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Noted> {
        self.pieces.iter().flat_map(|piece| piece.lines.iter().map(|line| (piece.thread, note_of(line))))
    }

    /// It was read: forgets it, and gives back all room but that of the pieces which remain, for the thread to [`keep`](Notes::keep).
    pub(crate) fn clear(&mut self, room: &NoteRoom) -> &mut Vec<Piece> {
        let mut kept = self.pieces.iter().filter(|piece| !piece.lines.is_empty()).count();
        self.pieces.retain(Piece::has_memory);
        self.pieces.iter_mut().for_each(|piece| piece.lines.clear());
        if room.is_scarce() {
            self.pieces.extend(Some(self.next.take()).filter(Piece::has_memory));
            kept = 0;
        } else if !self.next.0.has_memory() {
            self.next.0 = self.pieces.pop().unwrap_or_default();
        }
        let gone = self.pieces.len().saturating_sub(kept);
        self.pieces.truncate(kept);
        room.give_back(gone);
        &mut self.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: Noted = (0, Note::Own { correlation: 0 });

    fn room(pieces: usize) -> NoteRoom {
        let room = NoteRoom::default();
        room.allow(pieces * PIECE_BYTES);
        room
    }

    /// Notes so many, and tells how many had room.
    fn push(notes: &mut Notes, room: &NoteRoom, count: usize) -> usize {
        (0..count).filter(|_| notes.push(NOTE, room)).count()
    }

    /// Takes and reads: notes taken and dropped.
    fn collect(notes: &mut Notes, taken: &mut Taken, room: &NoteRoom) -> (usize, u64) {
        let dropped = notes.take(taken, room);
        let count = taken.iter().count();
        notes.keep(taken.clear(room));
        (count, dropped)
    }

    fn memory(notes: &Notes) -> Vec<*const Line> {
        let mut all: Vec<_> = notes.spare.iter().chain([&notes.current]).map(|piece| piece.lines.as_ptr()).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn notes_are_what_they_were() {
        let (room, mut taken, mut notes) = (room(100), Taken::default(), Notes::default());
        let (most, many) = (u32::MAX - 1, u64::MAX - 2);
        let instance = |style| Note::Began(Instance { id: many, parent: 3, label: most, style, start: many - 1 });
        let called = |graph, enqueues| Note::Called {
            correlation: most,
            node: most - 1,
            instance: many,
            graph,
            at: many - 3,
            enqueues,
        };
        let all = [
            instance(RangeStyle::PushPop),
            instance(RangeStyle::StartEnd),
            called(false, false),
            called(false, true),
            called(true, true),
            Note::Within { correlation: most, instance: many },
            Note::Own { correlation: most },
            Note::Ended { instance: many, end: many - 1 },
            Note::Left { instance: many },
        ];
        // By threads that follow one another.
        let all: Vec<Noted> = [most, 1, most].into_iter().flat_map(|thread| all.map(|note| (thread, note))).collect();
        for _ in 0..2 {
            assert!(all.iter().all(|noted| notes.push(*noted, &room)));
            assert_eq!(notes.take(&mut taken, &room), 0);
            assert_eq!(taken.iter().collect::<Vec<_>>(), all);
            notes.keep(taken.clear(&room));
        }
    }

    #[test]
    fn all_threads_share_one_bound_and_get_it_back() {
        let (room, mut taken) = (room(8), Taken::default());
        let (mut one, mut other) = (Notes::default(), Notes::default());
        for _ in 0..100 {
            assert_eq!(push(&mut one, &room, 5 * PIECE + 1), 5 * PIECE + 1);
            let (noted, kept) = (push(&mut other, &room, 3 * PIECE), taken.next.0.lines.capacity());
            assert_eq!(noted + kept, 2 * PIECE, "beside six pieces, and perhaps one for the next");
            assert_eq!(collect(&mut one, &mut taken, &room), (5 * PIECE + 1, 0));
            assert_eq!(collect(&mut other, &mut taken, &room), (noted, (3 * PIECE - noted) as u64));
            // What is not needed is let go of, so that it is there for the first to come.
            (0..2).for_each(|_| _ = (collect(&mut one, &mut taken, &room), collect(&mut other, &mut taken, &room)));
        }
        assert!(room.left.load(Relaxed) >= 8 - 3, "one each, and one for the next: {room:?}");
    }

    #[test]
    fn what_must_not_be_lost_goes_beyond_the_bound_and_comes_back_to_it() {
        let (room, mut taken, mut notes) = (room(1), Taken::default(), Notes::default());
        assert_eq!(push(&mut notes, &room, 2 * PIECE), PIECE);
        notes.push_in_any_case(NOTE, &room);
        assert_eq!(room.left.load(Relaxed), -1);
        assert_eq!(collect(&mut notes, &mut taken, &room), (PIECE + 1, PIECE as u64));
        assert_eq!(push(&mut notes, &room, 1), 1);
    }

    #[test]
    fn a_thread_that_notes_as_much_as_before_allocates_nothing() {
        let (room, mut taken, mut notes) = (room(100), Taken::default(), Notes::default());
        let round = |notes: &mut Notes, taken: &mut Taken| {
            assert_eq!(push(notes, &room, 40 * PIECE + 7), 40 * PIECE + 7);
            collect(notes, taken, &room)
        };
        (0..3).for_each(|_| _ = round(&mut notes, &mut taken));
        let left = room.left.load(Relaxed);
        let known: Vec<_> = memory(&notes).into_iter().chain([taken.next.0.lines.as_ptr()]).collect();
        (0..20).for_each(|_| _ = round(&mut notes, &mut taken));
        assert_eq!(room.left.load(Relaxed), left);
        assert!(memory(&notes).iter().all(|piece| known.contains(piece)), "{known:?} {:?}", memory(&notes));
    }

    #[test]
    fn no_more_is_kept_than_was_used() {
        let (room, mut taken, mut notes) = (room(1_000), Taken::default(), Notes::default());
        push(&mut notes, &room, 500 * PIECE);
        collect(&mut notes, &mut taken, &room);
        assert_eq!(notes.spare.len() + notes.current.lines.capacity() / PIECE, 500 - 1, "and one for the next thread");
        for most in [252, 128, 66] {
            push(&mut notes, &room, PIECE);
            collect(&mut notes, &mut taken, &room);
            assert!(notes.spare.len() <= most, "{} are kept, not {most}", notes.spare.len());
        }
        collect(&mut notes, &mut taken, &room);
        assert_eq!(
            (notes.spare.len(), room.left.load(Relaxed)),
            (0, 1_000 - 2),
            "its own, and one for the next thread"
        );
        assert!([499, 500].contains(&room_of_idle_threads(500, 1_000)), "a piece each");
        assert!(room_of_idle_threads(700, 1_000) >= 499, "of so many, no more than half of it");
    }

    /// What is left where so many threads noted once, and then no more.
    fn room_of_idle_threads(threads: usize, pieces: usize) -> isize {
        let (room, mut taken) = (room(pieces), Taken::default());
        let mut all: Vec<Notes> = (0..threads).map(|_| Notes::default()).collect();
        for round in 0..3 {
            for notes in &mut all {
                if round == 0 {
                    assert!(notes.push(NOTE, &room));
                }
                collect(notes, &mut taken, &room);
            }
        }
        room.left.load(Relaxed)
    }
}

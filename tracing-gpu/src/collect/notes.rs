//! What a thread notes, in pieces of one size, and the bound that the pieces of all threads share.
//!
//! Room is taken by the piece, so that a note touches nothing shared but once in so many. Pieces that were read go back to the thread that filled them, as many as it
//! needed last time; the room of the others is free again.

use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use crate::activity::Note;

/// Notes in a piece.
pub(super) const PIECE: usize = 256;
/// Pieces that a thread keeps for as many that it filled.
const KEPT: usize = 16;

/// A note, with the operating system's number of the thread that it is of.
pub(crate) type Noted = (u32, Note);
type Piece = Vec<Noted>;

/// Memory of a piece, and of its place in a list.
const PIECE_BYTES: usize = PIECE * size_of::<Noted>() + 2 * size_of::<Piece>();

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
        let has_room = self.current.len() < self.current.capacity() || self.begin_piece(|| room.take());
        if has_room {
            self.current.push(noted);
        } else {
            self.dropped += 1;
        }
        has_room
    }

    /// Takes what must not be lost. This may go beyond the bound.
    pub(super) fn push_in_any_case(&mut self, noted: Noted, room: &NoteRoom) {
        if self.current.len() == self.current.capacity() {
            self.begin_piece(|| {
                room.take_in_any_case();
                true
            });
        }
        self.current.push(noted);
    }

    #[cold]
    fn begin_piece(&mut self, has_room: impl FnOnce() -> bool) -> bool {
        let next = self.spare.pop().or_else(|| has_room().then(|| Vec::with_capacity(PIECE)));
        let Some(next) = next else { return false };
        let full = std::mem::replace(&mut self.current, next);
        if full.capacity() > 0 {
            self.full.push(full);
        }
        true
    }

    /// Hands over what there is. Returns the number of notes that were dropped since the last time. A thread that noted nothing hands over what it had kept.
    pub(crate) fn take(&mut self, into: &mut Taken, room: &NoteRoom) -> u64 {
        let is_idle = self.full.is_empty() && self.current.is_empty();
        into.pieces.append(&mut self.full);
        if is_idle {
            into.pieces.append(&mut self.spare);
        }
        if !self.current.is_empty() || is_idle && room.is_scarce() {
            let next = self.spare.pop().unwrap_or_else(|| if is_idle { Piece::new() } else { into.next.take() });
            into.pieces.push(std::mem::replace(&mut self.current, next));
        }
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
        self.pieces.iter().all(Vec::is_empty)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Noted> {
        self.pieces.iter().flatten()
    }

    /// It was read: forgets it, and gives back all room but that of the pieces which remain, for the thread to [`keep`](Notes::keep).
    pub(crate) fn clear(&mut self, room: &NoteRoom) -> &mut Vec<Piece> {
        let filled = self.pieces.iter().filter(|piece| !piece.is_empty()).count();
        self.pieces.retain(|piece| piece.capacity() > 0);
        self.pieces.iter_mut().for_each(Vec::clear);
        let mut kept = filled.min(KEPT);
        if room.is_scarce() {
            self.pieces.extend(Some(self.next.take()).filter(|next| next.capacity() > 0));
            kept = 0;
        } else if self.next.0.capacity() == 0 {
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

    fn memory(notes: &Notes) -> Vec<*const Noted> {
        let mut all: Vec<_> = notes.spare.iter().chain([&notes.current]).map(|piece| piece.as_ptr()).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn all_threads_share_one_bound_and_get_it_back() {
        let (room, mut taken) = (room(8), Taken::default());
        let (mut one, mut other) = (Notes::default(), Notes::default());
        for _ in 0..100 {
            assert_eq!(push(&mut one, &room, 5 * PIECE + 1), 5 * PIECE + 1);
            let (noted, kept) = (push(&mut other, &room, 3 * PIECE), taken.next.0.capacity());
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
            assert_eq!(push(notes, &room, 10 * PIECE + 7), 10 * PIECE + 7);
            collect(notes, taken, &room)
        };
        (0..3).for_each(|_| _ = round(&mut notes, &mut taken));
        let left = room.left.load(Relaxed);
        let known: Vec<_> = memory(&notes).into_iter().chain([taken.next.0.as_ptr()]).collect();
        (0..20).for_each(|_| _ = round(&mut notes, &mut taken));
        assert_eq!(room.left.load(Relaxed), left);
        assert!(memory(&notes).iter().all(|piece| known.contains(piece)), "{known:?} {:?}", memory(&notes));
    }

    #[test]
    fn no_more_is_kept_than_was_used() {
        let (room, mut taken, mut notes) = (room(1_000), Taken::default(), Notes::default());
        push(&mut notes, &room, 500 * PIECE);
        collect(&mut notes, &mut taken, &room);
        assert_eq!((notes.spare.len(), room.left.load(Relaxed)), (KEPT, 1_000 - KEPT as isize - 1));
        collect(&mut notes, &mut taken, &room);
        assert_eq!((notes.spare.len(), room.left.load(Relaxed)), (0, 1_000 - 1), "one for the next thread");
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

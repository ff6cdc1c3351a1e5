//! The notes of a thread: first on a page of its own, then in pieces of one size, within a limit for all threads
//! together.
//!
//! A note is a few plain stores. Once a page, the thread takes a lock and a piece, copies the page, and begins it anew.
//! So the stores of a launch stay in the cache of its processor, and memory that another processor read last is written
//! in one go. The copying happens outside of a launch's instructions, many of which wait for all earlier writes.
//!
//! Pieces that were read go back to the thread that filled them, as many as it needed last time: freed and reallocated
//! memory would be unmapped and mapped again, with a page fault for every 43 launches and a wait for the allocator,
//! which the reading thread uses at that moment. The room of the others is freed gradually.

use std::ops::AddAssign;
use std::sync::atomic::Ordering::Relaxed;

use super::note_line::{line_of, notes_of};
use crate::page::{Cursor, Line, PAGE, Page};
use crate::parts::launches::session::NoteRoom;
use crate::sync::{AtomicU32, Mutex};
use gpu_activity::record::Note;

#[cfg(test)]
#[path = "notes/tests.rs"]
mod tests;

/// A note, with the operating system's number of its thread.
pub(crate) type Noted = (u32, Note);

/// Notes of one thread, as many as a page holds.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    thread: u32,
    lines: Vec<Line>,
}

impl Piece {
    fn new() -> Self {
        Self { thread: 0, lines: Vec::with_capacity(PAGE) }
    }

    fn has_memory(&self) -> bool {
        self.lines.capacity() > 0
    }

    fn is_full(&self) -> bool {
        self.lines.len() == self.lines.capacity()
    }
}

/// The uncollected notes of one thread. Calls of [`push`](Self::push) must not overlap.
#[derive(Debug, Default)]
#[repr(C)] // the page is last: see `LaunchLog`
pub(crate) struct Notes {
    behind: Mutex<Behind>,
    /// The operating system's number of the thread.
    thread: AtomicU32,
    /// Allocated at the first note, outside of the limit: as large as a timeline's page, and smaller than a thread's
    /// other memory.
    pub(crate) page: Page,
}

/// Numbers of notes that found no room, by the figure that lacks them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dropped {
    /// Launches that are in no span.
    pub(crate) launches: u64,
    /// Calls of the program that are in no span, and our own calls, which look like the program's.
    pub(crate) calls: u64,
    pub(crate) ranges: u64,
}

impl Dropped {
    fn count(&mut self, note: &Note) {
        match note {
            Note::Called { enqueues: true, .. } => self.launches += 1,
            Note::Called { .. } | Note::Own { .. } => self.calls += 1,
            _ => self.ranges += 1,
        }
    }
}

impl AddAssign for Dropped {
    fn add_assign(&mut self, more: Self) {
        self.launches += more.launches;
        self.calls += more.calls;
        self.ranges += more.ranges;
    }
}

/// The copied part of the page, and the memory for the rest.
#[derive(Debug, Default)]
struct Behind {
    /// Pieces filled before the current one.
    full: Vec<Piece>,
    /// While the page is open, this piece has room for the whole page.
    current: Piece,
    spare: Vec<Piece>,
    /// How far the page was copied.
    cursor: Cursor,
    /// Boxed, to keep it out of the memory that each launch uses.
    dropped: Box<Dropped>,
}

impl Notes {
    pub(crate) fn thread(&self) -> u32 {
        self.thread.load(Relaxed)
    }

    /// Changes the thread that pushes.
    pub(crate) fn set_thread(&self, thread: u32, room: &NoteRoom) {
        let before = self.thread();
        if before == thread {
            return;
        }
        let mut behind = self.behind.lock();
        if self.page.is_there() {
            behind.take_over(&self.page, before, room);
            if !behind.current.lines.is_empty() {
                behind.end_piece(Piece::default()); // a piece belongs to one thread
            }
            behind.cursor.close(&self.page);
        }
        self.thread.store(thread, Relaxed);
    }

    /// A number that changes with each note. On any thread.
    pub(crate) fn written(&self) -> usize {
        self.page.written()
    }

    /// Writes this note to the page; returns false and changes nothing if the page is full.
    #[inline]
    pub(crate) fn push_near(&self, note: Line) -> bool {
        self.page.write(note)
    }

    /// Stores this note. Returns whether there was room.
    #[inline]
    pub(crate) fn push(&self, note: &Note, room: &NoteRoom) -> bool {
        let line = line_of(note);
        self.page.write(line) || self.turn(line, room, false)
    }

    /// Stores a note that must not be lost. May exceed the limit.
    #[inline]
    pub(crate) fn push_in_any_case(&self, note: &Note, room: &NoteRoom) {
        let line = line_of(note);
        let _always = self.page.write(line) || self.turn(line, room, true);
    }

    /// The same, on any thread.
    pub(crate) fn push_from_anywhere(&self, note: &Note, room: &NoteRoom) {
        let mut behind = self.behind.lock();
        behind.take_over(&self.page, self.thread(), room); // earlier notes come first
        behind.add(self.thread(), line_of(note), room);
    }

    /// Begins the page anew, if there is room for further notes.
    #[cold]
    #[inline(never)]
    fn turn(&self, line: Line, room: &NoteRoom, in_any_case: bool) -> bool {
        room.turns();
        let thread = self.thread();
        let mut behind = match self.behind.try_lock() {
            Some(behind) => behind,
            None if room.is_forked() => return false, // a thread that this child does not have may hold the lock
            None => self.behind.lock(),
        };
        behind.take_over(&self.page, thread, room);
        if behind.is_ready() || behind.begin_piece(|| room.take()) {
            behind.cursor.begin(&self.page);
            return self.page.write(line);
        }
        if in_any_case {
            behind.add(thread, line, room);
        } else {
            let (note, then) = notes_of(&line);
            [Some(note), then].iter().flatten().for_each(|note| behind.dropped.count(note));
        }
        in_any_case
    }

    /// Passes all notes on. On any thread. Returns which notes were dropped since the last time. Frees half of the kept
    /// pieces that were not needed, and all of a thread that noted nothing.
    pub(crate) fn take(&self, into: &mut Taken, room: &NoteRoom) -> Dropped {
        let mut behind = self.behind.lock();
        into.pieces.append(&mut behind.full);
        if !behind.current.lines.is_empty() {
            if !behind.begin_piece(|| room.take()) {
                behind.end_piece(Piece::default());
            }
            into.pieces.append(&mut behind.full);
        }
        if self.page.is_there() {
            into.rest.thread = self.thread();
            into.rest.lines.reserve(PAGE); // once
            into.rest.lines.extend(behind.cursor.read(&self.page));
        }
        if into.is_empty() {
            into.pieces.append(&mut behind.spare);
            if room.is_scarce() {
                into.pieces.push(std::mem::take(&mut behind.current));
            }
        }
        let unneeded = behind.spare.len() / 2;
        into.pieces.extend(behind.spare.drain(..unneeded));
        std::mem::take(&mut *behind.dropped)
    }

    /// Keeps pieces that were read for this thread's use.
    pub(crate) fn keep(&self, pieces: &mut Vec<Piece>) {
        if !pieces.is_empty() {
            self.behind.lock().spare.append(pieces);
        }
    }
}

impl Behind {
    /// Copies the new part of the page. There is room for it, unless a piece was released or otherwise filled
    /// meanwhile.
    fn take_over(&mut self, page: &Page, thread: u32, room: &NoteRoom) {
        let lines = self.cursor.read(page);
        if self.current.lines.capacity() - self.current.lines.len() >= lines.len() {
            self.current.thread = thread;
            self.current.lines.extend(lines);
        } else {
            lines.for_each(|line| self.add(thread, line, room));
        }
    }

    fn add(&mut self, thread: u32, line: Line, room: &NoteRoom) {
        if self.current.is_full() {
            self.begin_piece(|| {
                room.take_in_any_case();
                true
            });
        }
        self.current.thread = thread;
        self.current.lines.push(line);
    }

    /// Whether a whole page fits into the current piece.
    fn is_ready(&self) -> bool {
        self.current.has_memory() && self.current.lines.is_empty()
    }

    /// Begins a piece: a kept one, or a new one if there is room. Returns whether that worked.
    fn begin_piece(&mut self, has_room: impl FnOnce() -> bool) -> bool {
        let next = self.spare.pop().or_else(|| has_room().then(Piece::new));
        let has_next = next.is_some();
        if let Some(next) = next {
            self.end_piece(next);
        }
        has_next
    }

    fn end_piece(&mut self, next: Piece) {
        let ended = std::mem::replace(&mut self.current, next);
        if ended.has_memory() {
            self.full.push(ended);
        }
    }
}

/// Notes taken from a thread, to be read now.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pieces: Vec<Piece>,
    /// The notes on the page after those pieces. The memory stays here.
    rest: Piece,
}

impl Taken {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.iter().chain([&self.rest]).all(|piece| piece.lines.is_empty())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Noted> {
        let pieces = self.pieces.iter().chain([&self.rest]);
        let noted = |(thread, line)| {
            let (note, then) = notes_of(line);
            std::iter::once((thread, note)).chain(then.map(|note| (thread, note)))
        };
        pieces.flat_map(|piece| piece.lines.iter().map(|line| (piece.thread, line))).flat_map(noted)
    }

    /// Clears notes after they were read. Returns their room, except that of the remaining pieces, which the thread may
    /// [`keep`](Notes::keep).
    pub(crate) fn clear(&mut self, room: &NoteRoom) -> &mut Vec<Piece> {
        let filled = self.pieces.iter().filter(|piece| !piece.lines.is_empty()).count();
        self.rest.lines.clear();
        self.pieces.retain(Piece::has_memory);
        self.pieces.iter_mut().for_each(|piece| piece.lines.clear());
        let kept = if room.is_scarce() { 0 } else { filled };
        let gone = self.pieces.len().saturating_sub(kept);
        self.pieces.truncate(kept);
        room.give_back(gone);
        &mut self.pieces
    }
}

//! Parts of an idle time, each with one cause.

use range_model::summary::IdleCause;

use super::gaps::Name;

/// Idle time with one cause.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) cause: IdleCause,
    /// Number of its gap, the device, and the operation that ended the gap.
    pub(super) gap: u64,
    pub(super) device: u32,
    pub(super) ended_by: Name,
}

/// The parts of one gap, in order. A part lasts as long as its cause.
pub(super) struct Pieces {
    pub(super) gap: u64,
    pub(super) device: u32,
    pub(super) ended_by: Name,
    /// Start of the next part.
    pub(super) at: u64,
    pub(super) pieces: Vec<Piece>,
}

impl Pieces {
    pub(super) fn until(&mut self, end: u64, cause: IdleCause) {
        if end <= self.at {
            return;
        }
        let Self { gap, device, ended_by, at: start, .. } = *self;
        self.at = end;
        match self.pieces.last_mut().filter(|last| last.cause == cause) {
            Some(last) => last.end = end,
            None => self.pieces.push(Piece { start, end, cause, gap, device, ended_by }),
        }
    }
}

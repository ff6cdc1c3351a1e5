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
    /// When the host began to wait for the device, if that is why nothing was in the queue now: the range of that
    /// moment is charged.
    pub(super) waited: Option<u64>,
}

/// The parts of one gap, in order. A part lasts as long as its cause.
pub(super) struct Pieces {
    pub(super) gap: u64,
    pub(super) device: u32,
    pub(super) ended_by: Name,
    /// Start of the next part.
    pub(super) at: u64,
    pub(super) pieces: Vec<Piece>,
    /// When the host began to wait in the call during which the device ran dry, if it has done nothing else since.
    pub(super) waited: Option<u64>,
}

impl Pieces {
    pub(super) fn until(&mut self, end: u64, cause: IdleCause) {
        if end <= self.at {
            return;
        }
        // The way to the next launch takes as long as elsewhere, but a host that has not waited hides it.
        let (cause, waited) = match cause {
            IdleCause::Launching if self.waited.is_some() => (IdleCause::Synchronising, self.waited),
            IdleCause::Launching | IdleCause::Synchronising | IdleCause::Copying => (cause, None),
            _ => {
                self.waited = None;
                (cause, None)
            }
        };
        let Self { gap, device, ended_by, at: start, .. } = *self;
        self.at = end;
        match self.pieces.last_mut().filter(|last| (last.cause, last.waited) == (cause, waited)) {
            Some(last) => last.end = end,
            None => self.pieces.push(Piece { start, end, cause, gap, device, ended_by, waited }),
        }
    }
}

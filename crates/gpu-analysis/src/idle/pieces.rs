//! Parts of an idle time, each with one cause.

use range_model::summary::IdleCause;

use super::functions::{BETWEEN_LAUNCHES, BLOCKING_COPY};
use super::gaps::Name;

/// The way from a wait to the next launch is due to the wait if it takes at most this many times as long as the wait.
const MOST_WAY: u64 = 4;

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
    /// The range that waited for the thread which launched that operation, and when it did.
    pub(super) handed_over: Option<([u32; 2], u64)>,
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
    pub(super) handed_over: Option<([u32; 2], u64)>,
}

impl Pieces {
    pub(super) fn until(&mut self, end: u64, cause: IdleCause) {
        if end <= self.at {
            return;
        }
        // The way to the next launch takes as long as elsewhere, but a host that has not waited hides it. What else
        // takes long ends it.
        let most = match cause {
            IdleCause::Launching => BETWEEN_LAUNCHES,
            IdleCause::Synchronising | IdleCause::Copying => u64::MAX,
            _ => BLOCKING_COPY,
        };
        self.waited = self.waited.filter(|_| end - self.at < most);
        let waited = self.waited.filter(|_| cause == IdleCause::Launching);
        let cause = if waited.is_some() { IdleCause::Synchronising } else { cause };
        let Self { gap, device, ended_by, at: start, handed_over, .. } = *self;
        self.at = end;
        match self.pieces.last_mut().filter(|last| (last.cause, last.waited) == (cause, waited)) {
            Some(last) => last.end = end,
            None => self.pieces.push(Piece { start, end, cause, gap, device, ended_by, waited, handed_over }),
        }
    }

    /// Without the wait the host would have been ahead by as long as it waited while the device was busy, up to
    /// `begin`. If the way to the launch took many times as long, the launches would be as late.
    pub(super) fn weigh_wait(&mut self, begin: u64) {
        let its = || self.pieces.iter().filter_map(|piece| Some((piece.waited?, piece.end - piece.start)));
        let way = its().fold(0, |sum, (_, ns)| sum + ns);
        if its().next().is_some_and(|(wait, _)| (begin - wait).saturating_mul(MOST_WAY) < way) {
            for piece in self.pieces.iter_mut().filter(|piece| piece.waited.is_some()) {
                (piece.cause, piece.waited) = (IdleCause::Launching, None);
            }
        }
    }
}

//! Arrows from each range of a call to the next one, where a call has several: the polls of a future.

use super::draw::{At, Draw};

/// Calls whose last range is remembered.
const CALLS: u64 = 1 << 14;
const POLL: &str = "poll";

/// The last ranges of the latest calls. Where one is forgotten, there is no arrow from it.
#[derive(Debug, Default)]
pub(super) struct Polls {
    /// By number, modulo [`CALLS`].
    last: Vec<(u64, At)>,
    arrows: u64,
}

impl Polls {
    /// A range of this call begins there. An arrow does not go back in time.
    pub(super) fn range<D: Draw>(&mut self, lines: &mut D, call: u64, at: At) {
        if !D::POLLS {
            return;
        }
        self.last.resize(CALLS as usize, (0, At::default()));
        let last = &mut self.last[(call % CALLS) as usize];
        let before = std::mem::replace(last, (call, at));
        if before.0 == call && before.1.time <= at.time {
            self.arrows += 1;
            lines.arrow(POLL, self.arrows, before.1, at);
        }
    }
}

//! Arrows from the calls that batches serve to the batches.

use super::draw::{At, Draw};
use range_model::stats::Keyed;
use range_model::timeline::Link;

/// Calls whose first range is remembered, and links that wait for one.
const CALLS: u64 = 1 << 14;
const WAITING: usize = 1 << 16;
const BATCH: &str = "batch";

/// Links, and the first ranges of the latest calls. Where one of the two ranges is forgotten, there is no arrow.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// By number, modulo [`CALLS`]: the call, and where its first range begins.
    first: Vec<(u64, Option<At>)>,
    /// By the call whose first range has not come.
    waiting: Keyed<u64, Vec<Link>>,
    count: usize,
    arrows: u64,
}

impl Batches {
    pub(super) fn range(&mut self, lines: &mut impl Draw, call: u64, at: At) {
        self.first.resize(CALLS as usize, (0, None));
        let first = &mut self.first[(call % CALLS) as usize];
        if first.0 == call {
            return;
        }
        *first = (call, Some(at));
        let links = self.waiting.remove(&call).unwrap_or_default();
        self.count -= links.len();
        links.into_iter().for_each(|link| self.link(lines, link));
    }

    pub(super) fn link(&mut self, lines: &mut impl Draw, link: Link) {
        let first = |call: u64| self.first.get((call % CALLS) as usize).filter(|(of, _)| *of == call)?.1;
        match (first(link.served), first(link.batch)) {
            (Some(from), Some(to)) => self.arrow(lines, from, to),
            (Some(_), None) => self.wait(link.batch, link),
            (None, _) => self.wait(link.served, link),
        }
    }

    fn wait(&mut self, call: u64, link: Link) {
        if self.count >= WAITING {
            self.waiting.clear();
            self.count = 0;
        }
        self.waiting.row(call).push(link);
        self.count += 1;
    }

    /// An arrow does not go back in time.
    fn arrow(&mut self, lines: &mut impl Draw, from: At, to: At) {
        if from.time <= to.time {
            self.arrows += 1;
            lines.arrow(BATCH, self.arrows, from, to);
        }
    }
}

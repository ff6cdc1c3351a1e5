//! What asks a question about a run while it runs.

use super::{ApiCall, Call, Details, Item, Link, Operation, PlacedDetail, Range};
use crate::summary::Summary;

/// One question about the window of a run, answered from the stream of its items.
///
/// It gets everything that [sinks](super::Sink) get, whether or not there is one, in the same order: ranges of a thread
/// by their ends, with no order across threads and devices. It is called on the thread that writes timelines. If no
/// report asks for a fold, nothing is recorded for it.
pub trait Fold: Send {
    /// The kinds of details that it needs. Asked once, before the run.
    fn details(&self) -> Details {
        Details::NONE
    }
    /// An instance of a range that has ended.
    fn range(&mut self, _: &Range<'_>) {}
    /// A call of a span that was entered several times, at its close.
    fn call(&mut self, _: &Call<'_>) {}
    /// An operation on a GPU, with the place of its launch.
    fn operation(&mut self, _: &Operation<'_>) {}
    /// A call of the GPU's API.
    fn api(&mut self, _: &ApiCall<'_>) {}
    /// A batch and a call that it serves.
    fn link(&mut self, _: &Link) {}
    /// A detail of the kinds that any fold needs.
    fn detail(&mut self, _: &PlacedDetail<'_>) {}
    /// Any of these.
    fn item(&mut self, item: &Item<'_>) {
        match item {
            Item::Range(range) => self.range(range),
            Item::Call(call) => self.call(call),
            Item::Operation(operation) => self.operation(operation),
            Item::ApiCall(call) => self.api(call),
            Item::Link(link) => self.link(link),
            Item::Detail(detail) => self.detail(detail),
            _ => {}
        }
    }
    /// A window begins at this moment, in nanoseconds of the items: discards what ended before. Later items may have
    /// ended before, too.
    fn restart(&mut self, _at: u64) {}
    /// Everything has arrived. Adds the answer to the last summary, before it is printed and before files end with it.
    fn finish(&mut self, summary: &mut Summary);
    /// Passes new parts of the answer to files that show it. Called about every 50 ms, and once after `finish`.
    fn show(&mut self, _give: &mut dyn FnMut(&Item<'_>)) {}
}

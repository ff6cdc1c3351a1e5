//! Calls of helper threads that could belong to either of two ranges.

use range_model::Summary;

use super::cursor::Reader;
use super::names::label_shown;
use super::part::{Part, Run};
use crate::session::splits::Joined;
use crate::thread::helper::Undecided;
use crate::thread::state::ThreadState;

/// By helper, the calls that stayed outside of ranges.
#[derive(Default)]
pub(super) struct Helpers(Vec<Undecided>);

impl Part for Helpers {
    fn copy(&mut self, thread: &'static ThreadState, _: &mut Reader<'_>) {
        let undecided = thread.undecided();
        if undecided.calls > 0 {
            self.0.push(undecided);
        }
    }

    fn join(&mut self, joined: &Joined) {
        self.0.iter_mut().flat_map(|undecided| &mut undecided.between).for_each(|label| *label = joined.label(*label));
    }

    fn finish(&mut self, run: &Run<'_>, _: &mut Reader<'_>, summary: &mut Summary) {
        for Undecided { calls, helper, between } in &self.0 {
            let [one, other] = between.map(|label| label_shown(run.names, label));
            let (calls, stand, they) = match calls {
                1 => ("A CUDA call".to_owned(), "stands", "it"),
                _ => (format!("{calls} CUDA calls"), "stand", "they"),
            };
            summary.notes.push(format!(
                "{calls} of the thread `{helper}` {stand} outside of ranges: {they} could belong to `{one}` or \
                 `{other}`, which both waited then."
            ));
        }
    }
}

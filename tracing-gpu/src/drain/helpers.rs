//! Calls of helper threads that could belong to either of two ranges.

use range_model::Summary;

use super::cursor::Reader;
use super::names::label_shown;
use super::part::{Part, Run};
use crate::session::splits::Joined;
use crate::thread::state::ThreadState;

/// By thread, the calls that stayed outside of ranges, and the labels of two that waited.
#[derive(Default)]
pub(super) struct Helpers(Vec<(String, u64, [u32; 2])>);

impl Part for Helpers {
    fn copy(&mut self, thread: &'static ThreadState, _: &mut Reader<'_>) {
        let undecided = thread.undecided();
        if undecided.calls > 0 {
            self.0.push((thread.name.lock().clone(), undecided.calls, undecided.between));
        }
    }

    fn join(&mut self, joined: &Joined) {
        self.0.iter_mut().flat_map(|row| &mut row.2).for_each(|label| *label = joined.label(*label));
    }

    fn finish(&mut self, run: &Run<'_>, _: &mut Reader<'_>, summary: &mut Summary) {
        for (thread, calls, between) in &self.0 {
            let [one, other] = between.map(|label| label_shown(run.names, label));
            summary.notes.push(format!(
                "{calls} CUDA calls of the thread `{thread}` stand outside of ranges: they could belong to `{one}` or \
                 `{other}`, which both waited then."
            ));
        }
    }
}

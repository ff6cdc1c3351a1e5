//! Calls of helper threads that could belong to either of two ranges.

use range_model::{Note, Summary};

use crate::core::drain::cursor::Reader;
use crate::core::drain::names::label_shown;
use crate::core::drain::part::{Part, Run};
use crate::parts::launches::thread::helper::ContestedCalls;

pub(crate) struct Helpers;

impl Part for Helpers {
    /// A helper that has made no call of a span since the window began counts, too.
    fn finish(&mut self, run: &Run<'_>, reader: &mut Reader<'_>, summary: &mut Summary) {
        let all = run.all_threads.iter().flat_map(|thread| thread.contested_calls(run.window));
        for ContestedCalls { calls, helper, between, .. } in all.filter(|_| !reader.is_part()) {
            let between = between.map(|label| label_shown(run.names, run.joined.label(label)));
            summary.notes.push(Note::ContestedCalls { calls, helper, between });
        }
    }
}

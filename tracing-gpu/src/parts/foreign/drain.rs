//! Ranges of other code.

use range_model::{Note, Summary};

use crate::core::drain::cursor::Reader;
use crate::core::drain::part::{Part, Run};

pub(crate) struct Foreign;

impl Part for Foreign {
    fn finish(&mut self, run: &Run<'_>, _: &mut Reader<'_>, summary: &mut Summary) {
        let calls = nvtx_rs::tool::ignored_calls();
        if run.engine.session.parts.foreign.is_received() && calls > 0 {
            summary.notes.push(Note::SignalHandlerCalls { calls });
        }
    }
}

//! Ranges of other code.

use range_model::Summary;

use crate::drain::cursor::Reader;
use crate::drain::part::{Part, Run};

pub(crate) struct Foreign;

impl Part for Foreign {
    fn finish(&mut self, run: &Run<'_>, _: &mut Reader<'_>, summary: &mut Summary) {
        let ignored = nvtx_rs::tool::ignored_calls();
        if run.engine.session.foreign.is_received() && ignored > 0 {
            summary.notes.push(format!(
                "{ignored} NVTX calls of signal handlers came while another call of their thread was being measured. \
                 They are in no table."
            ));
        }
    }
}

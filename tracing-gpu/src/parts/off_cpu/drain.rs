//! Where threads inside of ranges were, when they were off the CPU.

use range_model::Summary;

use crate::core::drain::cursor::Reader;
use crate::core::drain::part::{Part, Run};
use crate::parts::off_cpu::sampler::Sampler;

pub(crate) struct OffCpu<'a>(pub(crate) &'a Sampler);

impl Part for OffCpu<'_> {
    fn finish(&mut self, run: &Run<'_>, reader: &mut Reader<'_>, summary: &mut Summary) {
        summary.off_cpu = reader.off_cpu(self.0.stats(run.window, run.names, run.joined));
    }
}

//! Where threads inside of ranges were, when they were off the CPU.

use range_model::Summary;

use super::cursor::Reader;
use super::part::{Part, Run};
use crate::sampler::Sampler;

pub(super) struct OffCpu<'a>(pub(super) &'a Sampler);

impl Part for OffCpu<'_> {
    fn finish(&mut self, run: &Run<'_>, reader: &mut Reader<'_>, summary: &mut Summary) {
        summary.off_cpu = reader.off_cpu(self.0.stats(run.window, run.names, run.joined));
    }
}

//! Nobody looks at threads on this system: only Linux tells what they wait for, and numbers of system calls are known
//! for two processors.

use range_model::summary::OffCpuStats;

use crate::clock::Ticks;
use crate::core::session::Names;
use crate::core::session::joined::Joined;
use crate::core::thread::engine::Engine;

/// There is none.
#[derive(Debug)]
pub(crate) enum Sampler {}

impl Sampler {
    pub(crate) fn start(_engine: &'static Engine) -> Option<&'static Self> {
        None
    }

    pub(crate) fn stats(&self, _window: Ticks, _names: &Names, _joined: &Joined) -> Vec<OffCpuStats> {
        Vec::new()
    }

    pub(crate) fn finish(&self) {}
}

//! Records of ranges, calls and marks, for timelines and for the analysis of the GPU's time.

pub(crate) mod recorder;
pub(crate) mod session;
pub(crate) mod thread;
pub(crate) mod tier;

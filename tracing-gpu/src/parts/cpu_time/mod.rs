//! Processor time of long ranges: on and off the CPU.

pub(crate) mod thread;

//! Events of an OpenACC runtime, through the profiling interface of the OpenACC specification.
//!
//! `abi` is the interface, `receive` takes the runtime's calls, `source` converts addresses to lines. The rows are a
//! part of a thread's state (`parts/openacc/thread.rs`).

mod abi;
mod receive;
pub(crate) mod source;

pub(crate) use abi::name_of;
pub use abi::{OpenAccCallback, OpenAccRegister};

use crate::core::thread::engine::Engine;

/// Receives the events of an OpenACC runtime for a profiler; from [`Profiler::openacc`](crate::Profiler::openacc).
#[derive(Clone, Copy, Debug)]
pub struct OpenAcc {
    engine: &'static Engine,
}

impl OpenAcc {
    /// Sends all events to this profiler from now on.
    pub(crate) fn new(engine: &'static Engine) -> Self {
        receive::take_over(engine);
        Self { engine }
    }

    /// Makes a runtime report all events that have a row in [`Summary::openacc`](range_model::Summary::openacc). To be
    /// called once, from `acc_register_library`, with its first argument.
    ///
    /// If the runtime is linked statically into the program, such as libgomp with `-static-libgomp`, the place of
    /// events is not known.
    pub fn register(self, register: OpenAccRegister) {
        if let Some(register) = register.filter(|_| self.engine.session.is_running()) {
            receive::register(register);
        }
    }
}

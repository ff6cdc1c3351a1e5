//! The one-line start.

use crate::Profiler;
use crate::profiler::complain;

/// Prints the report when it is dropped. Keep it in `main`.
#[derive(Debug)]
#[must_use = "the report is printed when the guard is dropped: bind it to a name (`let _profile = ...`), not to `_`"]
pub struct Guard {
    profiler: Option<Profiler>,
}

impl Guard {
    /// The profiler behind the guard; `None` where [`init`] could not install one.
    #[must_use]
    pub fn profiler(&self) -> Option<&Profiler> {
        self.profiler.as_ref()
    }
}

/// Measures all spans of the program from here on, and prints ranges and tree to standard error when the guard is dropped.
///
/// Installs the subscriber without a registry: the fastest, for programs that only profile. A program that logs composes
/// [`Profiler::layer`] with its other layers instead. Never fails: where a global subscriber is installed already, it says so in one
/// line on standard error and returns a guard that does nothing.
///
/// ```
/// let _profile = tracing_gpu::init();
/// tracing::info_span!("Load Module").in_scope(|| { /* ... */ });
/// ```
pub fn init() -> Guard {
    let profiler = match Profiler::builder().build() {
        Ok(profiler) => profiler,
        Err(error) => {
            complain(&error.to_string());
            return Guard { profiler: None };
        }
    };
    if !profiler.is_enabled() {
        return Guard { profiler: None };
    }
    if tracing::subscriber::set_global_default(profiler.subscriber()).is_err() {
        profiler.cancel();
        complain(
            "a global subscriber is installed already, nothing is measured: add `profiler.layer()` to it instead of `init()`",
        );
        return Guard { profiler: None };
    }
    Guard { profiler: Some(profiler) }
}

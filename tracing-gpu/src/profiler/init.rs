//! The one-line start.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::{Profiler, complain};

/// What became of the first [`init`]: for the words of the next one alone, so that nothing is published by it.
static FIRST: AtomicU8 = AtomicU8::new(NONE);
const NONE: u8 = 0;
const MEASURING: u8 = 1;
const ENDED: u8 = 2;

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

impl Drop for Guard {
    fn drop(&mut self) {
        if self.profiler.is_some() {
            FIRST.store(ENDED, Relaxed);
        }
    }
}

/// Measures all spans of the program from here on, and prints ranges and tree to standard error when the guard is
/// dropped.
///
/// Installs the subscriber without a registry: the fastest, for programs that only profile. A program that logs
/// composes [`Profiler::layer`] with its other layers instead. Never fails: where a global subscriber is installed
/// already, by an `init` before or by the program, it says so in one line on standard error and returns a guard that
/// does nothing.
///
/// ```
/// let _profile = tracing_gpu::init();
/// tracing::info_span!("Load Module").in_scope(|| { /* ... */ });
/// ```
pub fn init() -> Guard {
    if FIRST.load(Relaxed) != NONE {
        return refuse(); // before a second profiler opens the files of the first
    }
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
        return refuse();
    }
    FIRST.store(MEASURING, Relaxed);
    Guard { profiler: Some(profiler) }
}

/// Says who has the place of the global subscriber, which only one can ever have.
fn refuse() -> Guard {
    complain(match FIRST.load(Relaxed) {
        MEASURING => "`init()` was called before, and that profiler goes on measuring: this call changes nothing",
        ENDED => {
            "`init()` was called before, and its guard is dropped: nothing is measured any more, keep the first guard \
             until the program ends"
        }
        _ => {
            "a global subscriber is installed already, nothing is measured: add `profiler.layer()` to it instead of \
             `init()`"
        }
    });
    Guard { profiler: None }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::io;

    use crate::config::Output;
    use crate::profiler::Profiler;

    /// What becomes of it where a global subscriber is installed already.
    #[test]
    fn a_profiler_that_is_cancelled_has_no_file_open() -> io::Result<()> {
        let path = std::env::temp_dir().join(format!("cancelled-{}.json", std::process::id()));
        let open = || {
            let all = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
            all.filter(|descriptor| std::fs::read_link(descriptor.path()).is_ok_and(|file| file == path)).count()
        };
        let builder = Profiler::builder().nvtx(false).output(Output::None).trace(&path);
        let profiler = builder.build().map_err(io::Error::other)?;
        let before = open();
        profiler.cancel();
        let after = open();
        std::fs::remove_file(&path)?;
        assert_eq!((before, after), (1, 0));
        Ok(())
    }
}

//! The one-line starts: `init` and `install`.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::builder::ProfilerBuilder;
use super::complaint::complain;
use super::handle::Profiler;
use crate::config::ConfigError;

/// The result of the first [`init`]. Only the wording of a later one's message depends on it, so relaxed ordering
/// suffices.
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
    /// The profiler behind the guard; `None` if [`init`] could not install one, and after `TRACING_GPU=off`.
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

/// Why [`ProfilerBuilder::install`] has installed nothing.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InstallError {
    /// A setting cannot be used.
    Config(ConfigError),
    /// An earlier profiler is installed and still measures.
    Installed,
    /// An earlier profiler was installed, and its guard is dropped. A program can install a global subscriber only
    /// once.
    Ended,
    /// The program has installed another global subscriber: add [`Profiler::layer`] to it instead.
    OtherSubscriber,
}

/// The same sentence as `Display`, because a `main` that returns the error prints its `Debug` form.
impl fmt::Debug for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Config(error) => return fmt::Display::fmt(error, f),
            Self::Installed => {
                "`init()` was called before, and that profiler goes on measuring: this call changes nothing"
            }
            Self::Ended => {
                "`init()` was called before, and its guard is dropped: nothing is measured any more, keep the first \
                 guard until the program ends"
            }
            Self::OtherSubscriber => {
                "a global subscriber is installed already, nothing is measured: add `profiler.layer()` to it instead \
                 of `init()`"
            }
        })
    }
}

impl std::error::Error for InstallError {}

impl From<ConfigError> for InstallError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl ProfilerBuilder {
    /// Builds the profiler and installs it as the global subscriber, without a registry: the fastest, for programs that
    /// only profile. The guard prints the report when it is dropped. SIGINT and SIGTERM print it too, unless
    /// [`on_signal`](Self::on_signal) is set to `false`.
    ///
    /// ```
    /// use tracing_gpu::{Profiler, Report};
    ///
    /// let _profile = Profiler::builder().report([Report::Tree]).install()?;
    /// tracing::info_span!("Load Module").in_scope(|| { /* ... */ });
    /// # Ok::<(), tracing_gpu::InstallError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// For settings that cannot be used, and if the program has a global subscriber already. Then nothing is measured.
    pub fn install(mut self) -> Result<Guard, InstallError> {
        // Must come before a second profiler opens the files of the first.
        match FIRST.load(Relaxed) {
            MEASURING => return Err(InstallError::Installed),
            ENDED => return Err(InstallError::Ended),
            _ => {}
        }
        self.config.on_signal.get_or_insert(true);
        self.config.off_cpu.get_or_insert(true);
        let profiler = self.build()?;
        if !profiler.is_enabled() {
            return Ok(Guard { profiler: None });
        }
        if tracing::subscriber::set_global_default(profiler.subscriber()).is_err() {
            profiler.cancel();
            return Err(InstallError::OtherSubscriber);
        }
        profiler.set_alone();
        FIRST.store(MEASURING, Relaxed);
        Ok(Guard { profiler: Some(profiler) })
    }
}

/// Measures all spans of the program from here on. Prints tree and ranges to standard error when the guard is dropped,
/// and on SIGINT and SIGTERM if the program does not handle them.
///
/// Installs the subscriber without a registry: the fastest, for programs that only profile. A program that logs
/// composes [`Profiler::layer`] with its other layers instead. Never fails: if a global subscriber is installed
/// already, by an earlier `init` or by the program, it prints one line on standard error and returns a guard that does
/// nothing. [`ProfilerBuilder::install`] takes settings, and returns the error.
///
/// ```
/// let _profile = tracing_gpu::init();
/// tracing::info_span!("Load Module").in_scope(|| { /* ... */ });
/// ```
pub fn init() -> Guard {
    Profiler::builder().install().unwrap_or_else(|error| {
        complain(&error.to_string());
        Guard { profiler: None }
    })
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::io;

    use crate::config::Output;
    use crate::profiler::Profiler;

    /// This happens if a global subscriber is installed already.
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

//! SIGINT and SIGTERM print the reports, when asked for.

use std::io;

use once_cell::sync::OnceCell;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::profiler::finish_all;

/// Starts, once a process, a thread that waits for SIGINT and SIGTERM, finishes all profilers, and lets the signal take its
/// default course.
pub(crate) fn finish_on_signal() -> io::Result<()> {
    static WATCHING: OnceCell<()> = OnceCell::new();
    WATCHING
        .get_or_try_init(|| {
            let mut signals = Signals::new([SIGINT, SIGTERM])?;
            std::thread::Builder::new().name("tracing-gpu signals".to_owned()).spawn(move || {
                if let Some(signal) = signals.forever().next() {
                    finish_all();
                    let _ = signal_hook::low_level::emulate_default_handler(signal); // ends the process
                }
            })?;
            Ok(())
        })
        .copied()
}

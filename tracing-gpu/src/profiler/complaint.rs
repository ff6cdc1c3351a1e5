//! Errors that no caller can be given.

use std::io;

use range_model::names::escaped;

use crate::process;

/// Prints one line for each error on standard error, for places that cannot return an error. The signal of a failed
/// write (such as SIGPIPE) does not reach the program.
#[doc(hidden)]
pub fn complain(lines: &str) {
    let text: String = lines.lines().map(|line| format!("tracing-gpu: {}\n", escaped(line))).collect();
    if !text.is_empty() {
        let write = || io::Write::write_all(&mut io::stderr(), text.as_bytes());
        let _nowhere_left_to_say_it = process::without_write_signals(write);
    }
}

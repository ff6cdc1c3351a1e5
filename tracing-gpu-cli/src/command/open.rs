//! Opens a page in a browser.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::complain;

/// Programs that open a file by default.
const OPENERS: [&str; 2] = ["xdg-open", "wslview"];

/// Opens the first page, and prints its name, because a browser cannot report a failure. Prints the number of other
/// pages.
pub(super) fn page(pages: &[PathBuf]) {
    let Some((first, others)) = pages.split_first() else { return };
    let browser = std::env::var("BROWSER").ok().filter(|browser| !browser.is_empty());
    let opener = browser.as_deref().into_iter().chain(OPENERS).find(|opener| {
        let (null, nothing, silent) = (Stdio::null(), Stdio::null(), Stdio::null());
        Command::new(opener).arg(first).stdin(null).stdout(nothing).stderr(silent).spawn().is_ok()
    });
    let first = first.display();
    let more = if others.is_empty() { String::new() } else { format!("; {} more pages are beside it", others.len()) };
    complain(&match opener {
        Some(opener) => format!("opening {first} ({opener}){more}"),
        None => format!("no browser was found ($BROWSER, xdg-open): open {first}{more}"),
    });
}

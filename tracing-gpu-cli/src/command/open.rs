//! Opens a page in a browser.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::complain;

/// What opens a file where the user has not said so.
const OPENERS: [&str; 2] = ["xdg-open", "wslview"];

/// Opens the first page; the others are named.
pub(super) fn page(pages: &[PathBuf]) {
    let Some((first, others)) = pages.split_first() else { return };
    let browser = std::env::var("BROWSER").ok().filter(|browser| !browser.is_empty());
    let opened = browser.as_deref().into_iter().chain(OPENERS).any(|opener| {
        let (null, nothing, silent) = (Stdio::null(), Stdio::null(), Stdio::null());
        Command::new(opener).arg(first).stdin(null).stdout(nothing).stderr(silent).spawn().is_ok()
    });
    if !opened {
        complain(&format!("no browser was found ($BROWSER, xdg-open): open {}", first.display()));
    }
    if !others.is_empty() {
        complain(&format!("{} more pages lie beside {}", others.len(), first.display()));
    }
}

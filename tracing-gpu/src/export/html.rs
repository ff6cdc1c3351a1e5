//! The page: one HTML file that shows a run. Timeline, flame graphs and tables; no network, nothing beside it.
//!
//! Items are kept in memory, within bounds, until the run has ended; then the page is written. What comes before the end is the head of the page with a
//! notice, so that a run that is killed leaves a file that opens and says what happened.
//!
//! The page is plain JavaScript on canvases (`html/page/`). No crate brings a timeline at build time; those that bring charts draw an element for each
//! range, or weigh megabytes in every file written, and know nothing of nesting.

mod columns;
mod data;
mod details;
mod items;
mod lay_out;
mod page;
mod tables;
mod texts;
mod tree;

use std::io::{self, BufWriter, Write};

use crate::summary::{Process, Summary};
use crate::timeline::{Item, Sink};
use items::Items;

const BUFFER: usize = 256 << 10;

/// How much a page holds. What is beyond is counted, and the page says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Ranges, operations and calls: the shortest give way. A tenth as many marks beside them.
    pub items: usize,
    /// Bytes of names, fields and messages.
    pub text: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { items: 1_000_000, text: 64 << 20 }
    }
}

/// Writes the page.
#[derive(Debug)]
pub struct HtmlSink<W> {
    out: W,
    items: Items,
}

impl<W: Write + Send> HtmlSink<W> {
    pub fn new(out: W) -> Self {
        Self::with_limits(out, Limits::default())
    }

    pub fn with_limits(out: W, limits: Limits) -> Self {
        Self { out, items: Items::new(limits) }
    }
}

impl<W: Write + Send> Sink for HtmlSink<W> {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        page::begin(process, &mut self.out)?;
        self.out.flush()
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        self.items.add(item);
        Ok(())
    }

    /// Nothing can be seen before the end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, summary: &Summary, lost: u64) -> io::Result<()> {
        let shown = data::shown(std::mem::take(&mut self.items), summary, lost);
        let mut out = BufWriter::with_capacity(BUFFER, &mut self.out);
        page::end(&shown, &mut out)?;
        out.flush()
    }
}

#[cfg(test)]
mod tests;

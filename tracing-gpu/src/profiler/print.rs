//! Where the reports go at the end.

use std::io;
use std::path::Path;

use super::Inner;
use crate::config::Output;
use crate::outputs;
use crate::path;
use crate::process;
use crate::replace;
use crate::report::{self, RenderOptions};
use crate::summary::Summary;

impl Inner {
    pub(super) fn print(&self, summary: &Summary) -> io::Result<()> {
        let options = |descriptor| {
            let width = process::terminal_columns(descriptor).unwrap_or(RenderOptions::default().width);
            RenderOptions::default().style(self.config.style).width(width).hot_share(self.config.hot_share)
        };
        if !self.config.prints() {
            return Ok(());
        }
        let (process, reports) = (&summary.process, &self.config.reports);
        match &self.config.output {
            Output::None => Ok(()),
            Output::Stderr => {
                of_stream("standard error", report::render(summary, reports, &options(2), &mut io::stderr()))
            }
            Output::Stdout => {
                of_stream("standard output", report::render(summary, reports, &options(1), &mut io::stdout()))
            }
            Output::File(path) => self.print_to(&path::expand(path, process), summary, &options(-1)),
        }
    }

    fn print_to(&self, path: &Path, summary: &Summary, options: &RenderOptions) -> io::Result<()> {
        let mut text = Vec::new();
        report::render(summary, &self.config.reports, options, &mut text)?;
        replace::write(path, &text).map_err(|error| {
            // What was measured is worth more than where it was to go.
            let _nowhere_left = io::Write::write_all(&mut io::stderr(), &text);
            outputs::cannot_write("the report", path, &error)
        })
    }
}

/// What became of a report on a stream of the program. A reader that has gone (`| head`) wanted no more: that is no error.
fn of_stream(stream: &str, printed: io::Result<()>) -> io::Result<()> {
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write the report to {stream}: {error}"))),
        Ok(()) => Ok(()),
    }
}

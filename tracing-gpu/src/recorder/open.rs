//! Opens the files that timelines are written to.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::TimelineFile;
use crate::export;
use crate::export::chrome::{Chrome, is_compressed};
use crate::summary::Process;
use crate::timeline::Sink;

/// Which timelines are written, and where. Names may hold what [`export::expand`] puts in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimelinePaths {
    pub(crate) trace: Option<PathBuf>,
    pub(crate) sqlite: Option<PathBuf>,
    pub(crate) html: Option<PathBuf>,
}

impl TimelinePaths {
    /// Whether there is any, so that single ranges are to be recorded.
    pub(crate) fn any(&self) -> bool {
        self.trace.is_some() || self.sqlite.is_some() || self.html.is_some()
    }

    /// Opens all of them. Each that cannot be opened is one error, which names it.
    pub(crate) fn open(&self, process: &Process) -> (Vec<TimelineFile>, Vec<io::Error>) {
        let (mut files, mut errors) = (Vec::new(), Vec::new());
        for (path, open) in [(&self.trace, trace as Open), (&self.sqlite, sqlite), (&self.html, html)] {
            let Some(path) = path.as_ref().map(|path| export::expand(path, process)) else { continue };
            match open(&path) {
                Ok(sink) => files.push(TimelineFile { path, sink }),
                Err(error) => errors.push(super::cannot_write(&path, &error)),
            }
        }
        (files, errors)
    }
}

type Open = fn(&Path) -> io::Result<Box<dyn Sink>>;

fn trace(path: &Path) -> io::Result<Box<dyn Sink>> {
    match is_compressed(path).map_err(io::Error::other)? {
        #[cfg(feature = "gzip")]
        true => Ok(Box::new(Chrome::gzip(File::create(path)?))),
        _ => Ok(Box::new(Chrome::new(File::create(path)?))),
    }
}

#[cfg(feature = "sqlite")]
fn sqlite(path: &Path) -> io::Result<Box<dyn Sink>> {
    Ok(Box::new(export::sqlite::Sqlite::new(path)))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &Path) -> io::Result<Box<dyn Sink>> {
    Err(io::Error::other("it needs the feature `sqlite` of the crate tracing-gpu"))
}

#[cfg(feature = "html")]
fn html(path: &Path) -> io::Result<Box<dyn Sink>> {
    Ok(Box::new(export::html::HtmlSink::new(File::create(path)?)))
}

#[cfg(not(feature = "html"))]
fn html(_: &Path) -> io::Result<Box<dyn Sink>> {
    Err(io::Error::other("it needs the feature `html` of the crate tracing-gpu"))
}

//! Opens the files that timelines are written to.

use std::io;
use std::path::{Path, PathBuf};

use range_report::timeline::Sink;
use range_report::{Process, Summary};

use super::TimelineFile;
use crate::export::{Chrome, is_compressed};
use crate::outputs::cannot_write;
use crate::path;
use crate::replace;

/// Which timelines are written, and where. Names may hold what [`path::expand`] puts in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimelinePaths {
    pub(crate) trace: Option<PathBuf>,
    pub(crate) sqlite: Option<PathBuf>,
    pub(crate) html: Option<PathBuf>,
    /// A summary that the page compares the run with. It is read when the page is opened: the run may then write its
    /// own in its place.
    pub(crate) baseline: Option<PathBuf>,
}

impl TimelinePaths {
    /// Whether there is any, so that single ranges are to be recorded.
    pub(crate) fn any(&self) -> bool {
        self.trace.is_some() || self.sqlite.is_some() || self.html.is_some()
    }

    /// Opens all of them. Each that cannot be opened is one error, which names it.
    pub(crate) fn open(&self, process: &Process) -> (Vec<TimelineFile>, Vec<io::Error>) {
        let (mut files, mut errors) = (Vec::new(), Vec::new());
        let compared_with = self.read_baseline(process, &mut errors);
        let page = |path: &Path| html(path, compared_with);
        let mut open = |what, path: &Option<PathBuf>, open: Open<'_>| {
            let Some(path) = path.as_ref().map(|path| path::expand(path, process)) else { return };
            match open(&path) {
                Ok(sink) => files.push(TimelineFile { what, path, sink }),
                Err(error) => errors.push(cannot_write(what, &path, &error)),
            }
        };
        open("the trace", &self.trace, Box::new(trace));
        open("the database", &self.sqlite, Box::new(sqlite));
        open("the page", &self.html, Box::new(page));
        (files, errors)
    }

    /// What the page compares the run with: its name, and the summary, or why there is none, which is an error besides.
    fn read_baseline(&self, process: &Process, errors: &mut Vec<io::Error>) -> Option<Baseline> {
        let path = path::expand(self.baseline.as_ref().filter(|_| self.html.is_some())?, process);
        let read = read_summary(&path).map_err(|error| {
            let said = error.to_string();
            errors.push(error);
            said
        });
        Some((name(&path), read))
    }
}

type Baseline = (String, Result<Summary, String>);
type Open<'a> = Box<dyn FnOnce(&Path) -> io::Result<Box<dyn Sink>> + 'a>;

fn trace(path: &Path) -> io::Result<Box<dyn Sink>> {
    match is_compressed(path).map_err(io::Error::other)? {
        #[cfg(feature = "gzip")]
        true => Ok(Box::new(Chrome::gzip(replace::create(path)?))),
        _ => Ok(Box::new(Chrome::new(replace::create(path)?))),
    }
}

#[cfg(feature = "sqlite")]
fn sqlite(path: &Path) -> io::Result<Box<dyn Sink>> {
    Ok(Box::new(crate::export::Sqlite::new(path)))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &Path) -> io::Result<Box<dyn Sink>> {
    Err(io::Error::other("it needs the feature `sqlite` of the crate tracing-gpu"))
}

#[cfg(feature = "html")]
fn html(path: &Path, baseline: Option<Baseline>) -> io::Result<Box<dyn Sink>> {
    let page = crate::export::HtmlSink::new(replace::create(path)?);
    Ok(Box::new(match baseline {
        Some((name, summary)) => page.compared_with(name, summary),
        None => page,
    }))
}

#[cfg(not(feature = "html"))]
fn html(_: &Path, _: Option<Baseline>) -> io::Result<Box<dyn Sink>> {
    Err(io::Error::other("it needs the feature `html` of the crate tracing-gpu"))
}

/// Reads it. An error names the file.
fn read_summary(path: &Path) -> io::Result<Summary> {
    summary(path).map_err(|error| {
        let path = path.to_string_lossy();
        io::Error::new(error.kind(), format!("cannot read the baseline `{}`: {error}", crate::report::escaped(&path)))
    })
}

/// What the page calls it: the name of the file, without what says that it is JSON.
fn name(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(feature = "json")]
fn summary(path: &Path) -> io::Result<Summary> {
    // A pipe or a device might keep the program waiting, or never end.
    let found = std::fs::metadata(path)?;
    if !found.is_file() && !found.is_dir() {
        return Err(io::Error::other("it is no ordinary file"));
    }
    Summary::from_json(&mut std::fs::File::open(path)?).map_err(|error| match error {
        crate::JsonError::Io(error) => error,
        other => io::Error::other(other),
    })
}

/// Never asked for: no setting gets here without the feature.
#[cfg(not(feature = "json"))]
fn summary(_: &Path) -> io::Result<Summary> {
    Err(io::Error::other("it needs the feature `json` of the crate tracing-gpu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_opened_is_called_by_its_name() {
        let nowhere = |name: &str| Some(PathBuf::from(format!("/no/such/folder/{name}")));
        let paths = TimelinePaths { trace: nowhere("a"), html: nowhere("b"), ..TimelinePaths::default() };
        let said: Vec<String> = paths.open(&Process::default()).1.iter().map(io::Error::to_string).collect();
        let expected =
            ["cannot write the trace to `/no/such/folder/a`: ", "cannot write the page to `/no/such/folder/b`: "];
        assert!(said.len() == 2 && said.iter().zip(expected).all(|(said, start)| said.starts_with(start)), "{said:?}");
    }

    #[cfg(not(feature = "gzip"))]
    #[test]
    fn what_a_feature_would_open_names_it() {
        let path = std::env::temp_dir().join("open-%p.json.gz");
        let paths = TimelinePaths { trace: Some(path), ..TimelinePaths::default() };
        let (files, errors) = paths.open(&Process { pid: 7, ..Process::default() });
        let said = errors[0].to_string();
        assert!(files.is_empty() && errors.len() == 1, "{said}");
        assert!(
            said.ends_with("open-7.json.gz`: a file name that ends in .gz needs the feature `gzip` of tracing-gpu"),
            "{said}"
        );
    }
}

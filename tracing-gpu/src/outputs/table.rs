//! The table of outputs.
//!
//! To add an output, write its format (a [`Sink`] for a timeline, a function of a [`Summary`] for a file of the end),
//! add a row here and a method to the builder. The grammar of `TRACING_GPU`, the check that no two outputs go to one
//! file, the messages, the opening and the writing follow the table.

use std::io;
use std::path::{Path, PathBuf};

use range_files::{Chrome, is_compressed};
use range_model::names::escaped;
use range_model::timeline::Sink;
use range_model::{Process, Summary};
use range_report::export::GpuTrace;
use range_report::{RenderOptions, SummaryExt as _};

use super::lasting::LastingFile;
#[cfg(any(feature = "parquet", feature = "sqlite"))]
use super::shared;
use super::{path, replace};
use crate::config::{Config, Output, OwnSink};

/// Opens a file that is written while the program runs.
fn lasting(path: &Path) -> io::Result<LastingFile> {
    LastingFile::new(replace::create(path)?)
}

/// Every output, in the order in which messages list them, and in which they claim their files and are opened.
#[rustfmt::skip]
pub(crate) const TABLE: &[Row] = &[
    REPORT,
    Row { key: "trace",      label: "the trace",          needs: "",                     how: TRACE },
    Row { key: "perfetto",   label: "the Perfetto trace", needs: "feature `perfetto`",   how: PERFETTO },
    Row { key: "sqlite",     label: "the database",       needs: "feature `sqlite`",     how: SQLITE },
    Row { key: "parquet",    label: "the datasets",       needs: "feature `parquet`",    how: PARQUET },
    Row { key: "gpu_trace",  label: "the GPU trace",      needs: "",                     how: GPU_TRACE },
    Row { key: "html",       label: "the page",           needs: "feature `html`",       how: HTML },
    Row { key: "baseline",   label: "the baseline",       needs: "feature `html`",       how: BASELINE },
    Row { key: "json",       label: "the JSON",           needs: "feature `json`",       how: JSON },
    Row { key: "folded",     label: "the folded stacks",  needs: "",                     how: FOLDED },
];

/// The reports, where they go to a file. The profiler prints them.
pub(crate) const REPORT: Row = Row { key: "out", label: "the report", needs: "", how: Some(How::Printed) };

/// One output.
pub(crate) struct Row {
    /// Its key in `TRACING_GPU` and in [`Config::files`].
    pub(crate) key: &'static str,
    /// Its name in messages.
    pub(crate) label: &'static str,
    /// Which features of this crate it needs; empty for none.
    pub(crate) needs: &'static str,
    /// `None` where one of them is off.
    pub(crate) how: Option<How>,
}

/// When an output is written, and by which function.
#[derive(Clone, Copy)]
pub(crate) enum How {
    /// While the program runs; opened at the start.
    Timeline(fn(&Path, &mut Opening<'_>) -> io::Result<Box<dyn Sink>>),
    /// At the end, after the report.
    AtEnd(Form),
    /// At the end, by the profiler.
    Printed,
    /// Never: another output reads this file when that output is opened.
    Read,
}

const TRACE: Option<How> = Some(How::Timeline(|path, _| {
    Ok(match is_compressed(path).map_err(io::Error::other)? {
        #[cfg(feature = "perfetto")]
        true => Box::new(Chrome::gzip(lasting(path)?)),
        _ => Box::new(Chrome::new(lasting(path)?)),
    })
}));

#[cfg(feature = "perfetto")]
const PERFETTO: Option<How> = Some(How::Timeline(|path, opening| {
    use range_files::Perfetto;
    let Some((bytes, files)) = opening.config.rotate else { return Ok(Box::new(Perfetto::new(lasting(path)?))) };
    let path = std::path::absolute(path)?; // the program may go elsewhere
    Ok(Box::new(Perfetto::rotating(bytes, move |number| {
        if let Some(oldest) = number.checked_sub(files).filter(|oldest| *oldest > 0) {
            let _was_moved = std::fs::remove_file(path::numbered(&path, oldest));
        }
        lasting(&path::numbered(&path, number))
    })?))
}));
#[cfg(not(feature = "perfetto"))]
const PERFETTO: Option<How> = None;

const GPU_TRACE: Option<How> = Some(How::Timeline(|path, _| {
    let file = lasting(path)?;
    let is_csv = path.extension().is_some_and(|kind| kind == "csv");
    Ok(if is_csv { Box::new(GpuTrace::csv(file)) } else { Box::new(GpuTrace::new(file)) })
}));

#[cfg(feature = "sqlite")]
const SQLITE: Option<How> =
    Some(How::Timeline(|path, _| Ok(Box::new(range_files::Sqlite::new(shared::for_database(path)?)))));
#[cfg(not(feature = "sqlite"))]
const SQLITE: Option<How> = None;

#[cfg(feature = "parquet")]
const PARQUET: Option<How> = Some(How::Timeline(|path, opening| {
    let began = std::time::Instant::now();
    let sink = range_files::Parquet::new(shared::resolved(path)?, move || began.elapsed());
    Ok(Box::new(sink.options(&opening.config.render_options())))
}));
#[cfg(not(feature = "parquet"))]
const PARQUET: Option<How> = None;

#[cfg(feature = "html")]
const HTML: Option<How> = Some(How::Timeline(|path, opening| {
    let baseline = baseline(opening); // before the page is created: both may be the same file
    let page = range_page::HtmlSink::new(lasting(path)?).without(opening.config.without);
    Ok(Box::new(match baseline {
        Some((name, summary)) => page.compared_with(name, summary),
        None => page,
    }))
}));
#[cfg(not(feature = "html"))]
const HTML: Option<How> = None;

const BASELINE: Option<How> = if cfg!(feature = "html") { Some(How::Read) } else { None };

#[cfg(feature = "json")]
const JSON: Option<How> = Some(How::AtEnd(|summary, options, out| Ok(summary.write_json_with(options, out)?)));
#[cfg(not(feature = "json"))]
const JSON: Option<How> = None;

const FOLDED: Option<How> = Some(How::AtEnd(|summary, _, out| summary.write_folded(out)));

/// Writes a summary in the form of an output.
type Form = fn(&Summary, &RenderOptions, &mut Vec<u8>) -> io::Result<()>;

/// The page of a window has no timeline.
#[cfg(feature = "html")]
const PAGE_OF_WINDOW: Option<Form> =
    Some(|summary, options, out| range_page::write_html_without(summary, options.without, out));
#[cfg(not(feature = "html"))]
const PAGE_OF_WINDOW: Option<Form> = None;

impl Row {
    /// The path and the form of its files of windows, if the settings ask for some.
    fn of_windows<'a>(&self, config: &'a Config) -> Option<(&'a PathBuf, Form)> {
        let form = match self.how? {
            How::AtEnd(form) => Some(form),
            How::Timeline(_) if self.key == "html" => PAGE_OF_WINDOW,
            How::Timeline(_) | How::Printed | How::Read => None,
        };
        config.file(self.key).filter(|path| config.is_of_windows(path)).zip(form)
    }

    /// The path that the settings have for it.
    pub(crate) fn path<'a>(&self, config: &'a Config) -> Option<&'a PathBuf> {
        match (self.how?, &config.output) {
            (How::Printed, Output::File(path)) if config.prints() => Some(path),
            (How::Printed, _) => None,
            _ => config.file(self.key),
        }
    }

    /// The same, unless its files are those of windows.
    fn path_of_run<'a>(&self, config: &'a Config) -> Option<&'a PathBuf> {
        self.path(config).filter(|_| self.of_windows(config).is_none())
    }

    /// Whether it is a folder in which each process and profiler has files of its own.
    pub(crate) fn is_shared(&self) -> bool {
        self.key == "parquet"
    }

    /// Writes a file of the end.
    pub(crate) fn write(&self, path: &Path, text: &[u8]) -> io::Result<()> {
        replace::write(path, text).map_err(|error| cannot_write(self.label, path, &error))
    }
}

/// Whether a timeline is asked for, so that single ranges are recorded.
pub(crate) fn has_timeline(config: &Config) -> bool {
    let is_asked_for = |row: &Row| matches!(row.how, Some(How::Timeline(_))) && row.path_of_run(config).is_some();
    !config.sinks.is_empty() || TABLE.iter().any(is_asked_for)
}

/// Whether an output is asked for that has windows: files of their own, or rows among others.
pub(crate) fn has_windows(config: &Config) -> bool {
    TABLE.iter().any(|row| row.of_windows(config).is_some() || row.is_shared() && row.path(config).is_some())
}

/// Lines for settings that have no effect.
pub(crate) fn without_effect(config: &Config) -> Vec<String> {
    #[cfg(feature = "otlp")]
    let has_pushes = config.otlp.is_some();
    #[cfg(not(feature = "otlp"))]
    let has_pushes = false;
    let every = config.every.filter(|_| !has_windows(config) && !has_pushes).map(|_| {
        "`every` has no effect without an output of windows: name one with `json`, `html` or `folded`, with %t in its \
         name, or with `parquet`"
            .to_owned()
    });
    let rotate = config.rotate.filter(|_| config.file("perfetto").is_none());
    let rotate = rotate.map(|_| "`rotate` has no effect without `perfetto`, whose files it limits".to_owned());
    baseline_without_page(config).into_iter().chain(every).chain(rotate).collect()
}

fn baseline_without_page(config: &Config) -> Option<String> {
    let path = config.file("baseline").filter(|_| config.file("html").is_none())?.to_string_lossy();
    Some(format!("the baseline `{}` has no effect without a page: name one with `html`", escaped(&path)))
}

/// What the functions that open timelines get, and the errors so far.
pub(crate) struct Opening<'a> {
    config: &'a Config,
    process: &'a Process,
    errors: Vec<io::Error>,
}

/// Opens all timelines. Returns an error for each that cannot be opened, and for a baseline that cannot be read.
pub(crate) fn open_timelines(config: &Config, process: &Process) -> (Vec<OpenFile>, Vec<io::Error>) {
    let (mut opening, mut files) = (Opening { config, process, errors: Vec::new() }, Vec::new());
    for row in TABLE {
        let (Some(How::Timeline(open)), Some(path)) = (row.how, row.path_of_run(opening.config)) else { continue };
        let path = path::expand(path, opening.process);
        match open(&path, &mut opening) {
            Ok(sink) => files.push(OpenFile { failure: failure(row.label, &path), sink }),
            Err(error) => opening.errors.push(cannot_write(row.label, &path, &error)),
        }
    }
    for sink in config.sinks.iter().filter_map(OwnSink::take) {
        files.push(OpenFile { failure: "cannot write the timeline to a sink of the program".to_owned(), sink });
    }
    (files, opening.errors)
}

/// Writes all files of the end. Returns the key and an error for each that cannot be written, and writes the others.
pub(crate) fn write_at_end(config: &Config, summary: &Summary) -> Vec<(&'static str, io::Error)> {
    let mut errors = Vec::new();
    for row in TABLE {
        let (Some(How::AtEnd(form)), Some(path)) = (row.how, row.path_of_run(config)) else { continue };
        let written = write_summary(row, form, &path::expand(path, &summary.process), config, summary);
        errors.extend(written.err().map(|error| (row.key, error)));
    }
    errors
}

/// Writes the files of a window. Returns an error for each that cannot be written, and writes the others.
pub(crate) fn write_window(config: &Config, summary: &Summary) -> Vec<io::Error> {
    let mut errors = Vec::new();
    for row in TABLE {
        let Some((path, form)) = row.of_windows(config) else { continue };
        let path = path::expand_at(path, &summary.process, summary.ended_unix_ns.unwrap_or_default());
        errors.extend(write_summary(row, form, &path, config, summary).err());
    }
    errors
}

fn write_summary(row: &Row, form: Form, path: &Path, config: &Config, summary: &Summary) -> io::Result<()> {
    let mut text = Vec::new();
    // All of the text comes first: a process that writes to the same file does not cut through it.
    match form(summary, &config.render_options(), &mut text) {
        Ok(()) => row.write(path, &text),
        Err(error) => Err(cannot_write(row.label, path, &error)),
    }
}

/// The baseline of the page, if there is one: its name, and its summary or the error of reading it. The error is also
/// added to `opening`. The file is read at the start, because the run may replace it by its own summary.
#[cfg(feature = "html")]
fn baseline(opening: &mut Opening<'_>) -> Option<(String, io::Result<Summary>)> {
    let path = path::expand(opening.config.file("baseline")?, opening.process);
    let name = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let read = || -> io::Result<Summary> {
        // A pipe or a device may keep the program waiting, or never end.
        let found = std::fs::metadata(&path)?;
        if !found.is_file() && !found.is_dir() {
            return Err(io::Error::other("it is no ordinary file"));
        }
        Ok(Summary::read_json(std::fs::File::open(&path)?)?)
    };
    let summary = read().map_err(|error| {
        let said = format!("cannot read the baseline `{}`: {error}", escaped(&path.to_string_lossy()));
        opening.errors.push(io::Error::new(error.kind(), said.clone()));
        io::Error::new(error.kind(), said)
    });
    Some((name, summary))
}

/// A file that is open, and what its errors begin with.
pub(crate) struct OpenFile {
    pub(crate) failure: String,
    pub(crate) sink: Box<dyn Sink>,
}

impl OpenFile {
    pub(crate) fn write(&mut self, what: &mut dyn FnMut(&mut dyn Sink) -> io::Result<()>) -> io::Result<()> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", self.failure));
        what(&mut *self.sink).map_err(named)
    }
}

/// An error that names the output and its file.
pub(super) fn cannot_write(label: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", failure(label, path)))
}

fn failure(label: &str, path: &Path) -> String {
    format!("cannot write {label} to `{}`", escaped(&path.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(files: &[(&'static str, &Path)]) -> Config {
        let files = files.iter().map(|(key, path)| (*key, path.to_path_buf())).collect();
        Config { files, ..Config::default() }
    }

    #[test]
    fn the_docs_have_every_row_and_none_is_there_twice() {
        let options = include_str!("../../../docs/options.md");
        let files = include_str!("../../../docs/files.md");
        for (index, row) in TABLE.iter().enumerate() {
            let key = format!("`{}=", row.key);
            assert!(files.contains(&key) && options.contains(&key), "{key} is not in the docs");
            let feature = if row.needs.is_empty() { String::new() } else { format!(", {}", row.needs) };
            let method = format!("| `.{}(path)`{feature} |", row.key);
            assert!(row.key == REPORT.key || options.contains(&method), "{method} is not in the docs");
            let is_like = |other: &Row| other.key == row.key || other.label == row.label;
            assert!(!TABLE[..index].iter().any(is_like), "{key} is there twice");
        }
    }

    #[test]
    fn a_timeline_that_cannot_be_opened_is_named() {
        let (trace, page) = (Path::new("/no/such/folder/a"), Path::new("/no/such/folder/b"));
        let (sinks, errors) = open_timelines(&settings(&[("trace", trace), ("html", page)]), &Process::default());
        let said: Vec<String> = errors.iter().map(io::Error::to_string).collect();
        let expected: &[&str] = &[
            "cannot write the trace to `/no/such/folder/a`: ",
            #[cfg(feature = "html")]
            "cannot write the page to `/no/such/folder/b`: ",
        ];
        assert!(sinks.is_empty() && said.len() == expected.len(), "{said:?}");
        assert!(said.iter().zip(expected).all(|(said, start)| said.starts_with(start)), "{said:?}");
    }

    #[cfg(feature = "html")]
    #[test]
    fn a_baseline_that_cannot_be_read_is_an_error_beside_the_page() {
        let page = std::env::temp_dir().join(format!("baseline-{}.html", std::process::id()));
        let config = settings(&[("html", &page), ("baseline", Path::new("/no/such/run.json"))]);
        let (sinks, errors) = open_timelines(&config, &Process::default());
        std::fs::remove_file(page).unwrap();
        let said: Vec<String> = errors.iter().map(io::Error::to_string).collect();
        let why = "No such file or directory (os error 2)";
        assert_eq!((sinks.len(), said), (1, vec![format!("cannot read the baseline `/no/such/run.json`: {why}")]));
        let alone = Config { files: [("baseline", "run.json".into())].into(), ..Config::default() };
        assert_eq!([config, alone].map(|config| without_effect(&config).len()), [0, 1]);
    }

    #[cfg(feature = "html")]
    #[test]
    fn findings_that_are_off_are_not_on_the_page() {
        let path = std::env::temp_dir().join(format!("without-{}.html", std::process::id()));
        let mut step = range_model::TreeNode::new("step");
        (step.calls, step.instances, step.total_ns, step.self_ns) = (10, 10, 5_000, 5_000);
        let mut summary = Summary::default();
        (summary.elapsed_ns, summary.outside_ns, summary.tree) = (10_000, Some(5_000), vec![step]);
        for name in ["outside_ranges", "long_loop"] {
            let config = Config { without: name.parse().unwrap(), ..settings(&[("html", &path)]) };
            let (mut sinks, errors) = open_timelines(&config, &Process::default());
            assert!(errors.is_empty(), "{errors:?}");
            sinks[0].write(&mut |sink| sink.begin(&Process::default())).unwrap();
            sinks[0].write(&mut |sink| sink.end(&summary, 0)).unwrap();
            drop(sinks);
            let page = std::fs::read_to_string(&path).unwrap();
            assert_eq!(page.contains("of which is in no span"), name == "long_loop", "{name}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_timeline_that_fails_later_is_named() {
        let failure = failure("the trace", Path::new("run\n.json"));
        let mut file = OpenFile { failure, sink: Box::new(Chrome::new(Vec::new())) };
        let error = file.write(&mut |_| Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        let kind = io::ErrorKind::StorageFull;
        assert_eq!(
            (error.kind(), error.to_string()),
            (kind, format!("cannot write the trace to `run\\n.json`: {kind}"))
        );
        assert!(file.write(&mut |sink| sink.flush()).is_ok());
    }

    #[cfg(not(feature = "perfetto"))]
    #[test]
    fn what_a_feature_would_open_names_it() {
        let path = std::env::temp_dir().join("open-%p.json.gz");
        let mut process = Process::default();
        process.pid = 7;
        let (sinks, errors) = open_timelines(&settings(&[("trace", &path)]), &process);
        let said = errors[0].to_string();
        assert!(sinks.is_empty() && errors.len() == 1, "{said}");
        let end = "open-7.json.gz`: a file name that ends in .gz needs the feature `perfetto` of tracing-gpu";
        assert!(said.ends_with(end), "{said}");
    }
}

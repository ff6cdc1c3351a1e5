//! Files that are written at the end of a run, after the report.

use std::io;
use std::path::{Path, PathBuf};

use crate::export;
use crate::outputs;
use crate::path;
use crate::recorder::TimelinePaths;
use crate::replace;
use crate::report::escaped;
use crate::{ProfilerBuilder, Summary};

/// What is written where. Names may hold what [`export::expand`] puts in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files {
    pub(crate) json: Option<PathBuf>,
    pub(crate) folded: Option<PathBuf>,
    pub(crate) flamegraph: Option<PathBuf>,
    /// Those that are written while the program runs.
    pub(crate) timelines: TimelinePaths,
}

/// Writes one form of a summary.
type Form = fn(&Summary, &mut Vec<u8>) -> io::Result<()>;

impl ProfilerBuilder {
    /// Writes the final summary to a file, as [`Summary::to_json`] does, when the profiler ends, after the report. Its name may hold `%h`, `%p` and `%r`; see
    /// [`Output::File`](crate::Output::File).
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler, Summary};
    ///
    /// let path = std::env::temp_dir().join("tracing-gpu-example-%p.json");
    /// let profiler = Profiler::builder().output(Output::None).json(&path).build()?;
    /// profiler.finish()?;
    /// let path = std::env::temp_dir().join(format!("tracing-gpu-example-{}.json", std::process::id()));
    /// let summary = Summary::from_json(&mut std::fs::File::open(&path)?)?;
    /// assert_eq!(summary.process.pid, std::process::id());
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "json")]
    pub fn json(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.files.json = Some(path.into());
        self
    }

    /// Writes folded stacks to a file, as [`export::folded`] does, when the profiler ends, after the report. Its name may hold `%h`, `%p` and `%r`; see
    /// [`Output::File`](crate::Output::File).
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let path = std::env::temp_dir().join(format!("tracing-gpu-example-{}.folded", std::process::id()));
    /// let profiler = Profiler::builder().output(Output::None).folded(&path).build()?;
    /// tracing::subscriber::with_default(profiler.subscriber(), || tracing::info_span!("Load Module").in_scope(|| ()));
    /// profiler.finish()?;
    /// assert!(std::fs::read_to_string(&path)?.starts_with("Load Module "));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn folded(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.files.folded = Some(path.into());
        self
    }

    /// Draws a flame graph to a file, as [`export::flamegraph`] does, when the profiler ends, after the report. Its name may hold `%h`, `%p` and `%r`; see
    /// [`Output::File`](crate::Output::File).
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let path = std::env::temp_dir().join(format!("tracing-gpu-example-{}.svg", std::process::id()));
    /// let profiler = Profiler::builder().output(Output::None).flamegraph(&path).build()?;
    /// tracing::subscriber::with_default(profiler.subscriber(), || tracing::info_span!("Load Module").in_scope(|| ()));
    /// profiler.finish()?;
    /// assert!(std::fs::read_to_string(&path)?.contains("Load Module"));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "flamegraph")]
    pub fn flamegraph(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.files.flamegraph = Some(path.into());
        self
    }
}

impl ProfilerBuilder {
    /// Writes a timeline while the program runs: Chrome trace events, which ui.perfetto.dev and chrome://tracing open. Threads with their ranges and events, and,
    /// where CUPTI records, streams with their operations, the ranges projected onto them, and arrows from launch to operation. With the feature `gzip` a name that
    /// ends in `.gz` is compressed. A run that is killed leaves a file that opens. Its name may hold `%h`, `%p` and `%r`; see
    /// [`Output::File`](crate::Output::File).
    ///
    /// Each range costs some 30 ns more than without, and 32 bytes until it is written; one of a span with values or fields some 120 ns, and 32 bytes more for all values and
    /// for each field, and its texts. An event takes some 100 bytes, 32 more for each field, and its texts. What does not fit [`timeline_memory`](Self::timeline_memory) is counted.
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let path = std::env::temp_dir().join(format!("tracing-gpu-example-{}.trace.json", std::process::id()));
    /// let profiler = Profiler::builder().output(Output::None).trace(&path).build()?;
    /// tracing::subscriber::with_default(profiler.subscriber(), || tracing::info_span!("Load Module").in_scope(|| ()));
    /// profiler.finish()?;
    /// assert!(std::fs::read_to_string(&path)?.contains("Load Module"));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.files.timelines.trace = Some(path.into());
        self
    }

    /// Writes a timeline while the program runs, as the database that `nsys export` writes: `nsys stats FILE` prints NVIDIA's own reports over it. Its name is to end
    /// in `.sqlite`, and may hold `%h`, `%p` and `%r`; a file that is there is written anew. Costs as [`trace`](Self::trace) does.
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let path = std::env::temp_dir().join(format!("tracing-gpu-example-{}.sqlite", std::process::id()));
    /// let profiler = Profiler::builder().output(Output::None).sqlite(&path).build()?;
    /// tracing::subscriber::with_default(profiler.subscriber(), || tracing::info_span!("Load Module").in_scope(|| ()));
    /// profiler.finish()?;
    /// assert!(std::fs::read(&path)?.starts_with(b"SQLite format 3"));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "sqlite")]
    pub fn sqlite(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.files.timelines.sqlite = Some(path.into());
        self
    }

    /// Writes a page at the end: one file without a network, with the timeline, flame graphs and the tables of the run. Its name may hold `%h`, `%p` and `%r`. Costs as
    /// [`trace`](Self::trace) does.
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let path = std::env::temp_dir().join(format!("tracing-gpu-example-{}.html", std::process::id()));
    /// let profiler = Profiler::builder().output(Output::None).html(&path).build()?;
    /// tracing::subscriber::with_default(profiler.subscriber(), || tracing::info_span!("Load Module").in_scope(|| ()));
    /// profiler.finish()?;
    /// assert!(std::fs::read_to_string(&path)?.contains("Load Module"));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "html")]
    pub fn html(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.files.timelines.html = Some(path.into());
        self
    }

    /// Compares the run with another one, in a section of its page: `path` is the summary of that run, as [`json`](Self::json) writes it. It is read when the profiler
    /// is built, so that a run may be compared with the last one and then write its own summary in its place. Where it cannot be read, that is one line at the
    /// start, and the page is written without it. Used by [`html`](Self::html) alone. The name may hold `%h`, `%p` and `%r`.
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler, Summary};
    ///
    /// let folder = std::env::temp_dir();
    /// let [base, page] = ["json", "html"].map(|end| folder.join(format!("tracing-gpu-baseline-{}.{end}", std::process::id())));
    /// Summary::default().to_json(&mut std::fs::File::create(&base)?)?;
    /// let profiler = Profiler::builder().output(Output::None).html(&page).baseline(&base).build()?;
    /// profiler.finish()?;
    /// # std::fs::remove_file(base)?;
    /// # std::fs::remove_file(page)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(all(feature = "html", feature = "json"))]
    pub fn baseline(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.files.timelines.baseline = Some(path.into());
        self
    }

    /// Memory for ranges and events that wait to be written into a timeline, in bytes, for all threads together; where the GPU's work is recorded, as much again for what
    /// waits of that, and for what is remembered of launches and instances until they are whole. What does not fit is counted, and the report says so. Beside it there are the
    /// values of at most 65,536 open ranges, and, with a database, at most a quarter more for the durations that its table's medians come from. Default: 128 MiB.
    pub fn timeline_memory(mut self, bytes: usize) -> Self {
        self.config.timeline_memory = bytes;
        self
    }
}

impl Files {
    /// Sets the file of this form, as the environment asks for it.
    pub(crate) fn set(&mut self, key: &str, path: &str) -> Result<(), String> {
        let (file, features, built) = match key {
            "json" => (&mut self.json, "feature `json`", cfg!(feature = "json")),
            "flamegraph" => (&mut self.flamegraph, "feature `flamegraph`", cfg!(feature = "flamegraph")),
            "trace" => (&mut self.timelines.trace, "", true),
            "sqlite" => (&mut self.timelines.sqlite, "feature `sqlite`", cfg!(feature = "sqlite")),
            "html" => (&mut self.timelines.html, "feature `html`", cfg!(feature = "html")),
            "baseline" => {
                let built = cfg!(all(feature = "html", feature = "json"));
                (&mut self.timelines.baseline, "features `html` and `json`", built)
            }
            _ => (&mut self.folded, "", true),
        };
        if !built {
            return Err(format!("TRACING_GPU: `{key}` needs the {features} of the crate tracing-gpu"));
        }
        if path.is_empty() {
            return Err(format!("TRACING_GPU: `{key}` cannot be ``: allowed is a path"));
        }
        *file = Some(PathBuf::from(path));
        Ok(())
    }

    /// A line for what was set and changes nothing.
    pub(crate) fn without_effect(&self) -> Option<String> {
        let TimelinePaths { html: None, baseline: Some(path), .. } = &self.timelines else { return None };
        let path = path.to_string_lossy();
        Some(format!("the baseline `{}` is compared with in the page alone: name one with `html`", escaped(&path)))
    }

    /// Writes all of them. Each that cannot be written is one error, which names it; the others are written.
    pub(crate) fn write(&self, summary: &Summary) -> Vec<io::Error> {
        let forms = [
            ("the JSON", &self.json, json as Form),
            ("the folded stacks", &self.folded, |summary, out| export::folded(summary, out)),
            ("the flame graph", &self.flamegraph, flamegraph),
        ];
        let wanted = forms.into_iter().filter_map(|(what, path, form)| Some((what, path.as_ref()?, form)));
        wanted.filter_map(|(what, path, form)| write(what, path, form, summary).err()).collect()
    }
}

/// The text is made before the file is opened: another process that writes to the same file does not cut through it.
fn write(what: &str, path: &Path, form: Form, summary: &Summary) -> io::Result<()> {
    let path = path::expand(path, &summary.process);
    let mut text = Vec::new();
    form(summary, &mut text)
        .and_then(|()| replace::write(&path, &text))
        .map_err(|error| outputs::cannot_write(what, &path, &error))
}

#[cfg(feature = "json")]
fn json(summary: &Summary, out: &mut Vec<u8>) -> io::Result<()> {
    summary.to_json(out).map_err(|error| match error {
        crate::JsonError::Io(error) => error,
        other => io::Error::other(other),
    })
}

#[cfg(feature = "flamegraph")]
fn flamegraph(summary: &Summary, out: &mut Vec<u8>) -> io::Result<()> {
    export::flamegraph(summary, out)
}

/// Never asked for: no setting gets here without the feature.
#[cfg(not(feature = "json"))]
fn json(_: &Summary, _: &mut Vec<u8>) -> io::Result<()> {
    Ok(())
}

/// Never asked for, as above.
#[cfg(not(feature = "flamegraph"))]
fn flamegraph(_: &Summary, _: &mut Vec<u8>) -> io::Result<()> {
    Ok(())
}

/// Several errors as one: the kind of the first, a line each.
pub(crate) fn together(errors: Vec<io::Error>) -> io::Result<()> {
    let Some(kind) = errors.first().map(io::Error::kind) else { return Ok(()) };
    let lines: Vec<String> = errors.iter().map(io::Error::to_string).collect();
    Err(io::Error::new(kind, lines.join("\n")))
}

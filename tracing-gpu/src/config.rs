//! The settings of a profiler and their defaults. The builder sets them in code, and `profiler/environment.rs` from the
//! environment.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use range_model::stats::{Lean, order};
use range_model::timeline::{ApiCalls, ApiRecords, Graphs, Sink};
use range_model::{Fold, UnknownName};
use range_report::{FindingKinds, RenderOptions, Report, TableStyle};
use tracing_subscriber::filter::Targets;

use crate::watch::Watch;

/// Which NVTX domain ranges and marks go to. Nsight Systems shows a range of a named domain as `domain:name`.
///
/// Settings in `TRACING_GPU=domain=..`:
///
/// ```
/// use tracing_gpu::Domain;
///
/// assert_eq!("default".parse(), Ok(Domain::Default));
/// assert_eq!("target".parse(), Ok(Domain::PerTarget));
/// assert_eq!("solver".parse(), Ok(Domain::Named("solver".to_owned())));
/// assert_eq!(Domain::PerTarget.to_string(), "target");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Domain {
    /// The default domain: names stand alone.
    #[default]
    Default,
    /// One domain of this name.
    Named(String),
    /// A domain for every `tracing` target. The target is the module path unless a span sets one.
    PerTarget,
}

/// Which span is the parent of a span in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parents {
    /// The range in which the span runs: the innermost open range of its thread. If that range is an ancestor of the
    /// span by creation, or no range is open, the parent is the one by creation. So a layer of a model that was created
    /// at load time stands under the forward pass that runs it, and a task that a worker polls stands under its
    /// request.
    #[default]
    Entered,
    /// The span's parent at creation, wherever it is entered.
    Created,
}

/// How GPU time is measured.
///
/// Settings in `TRACING_GPU=gpu=..`:
///
/// ```
/// use tracing_gpu::Gpu;
///
/// assert_eq!("cupti".parse(), Ok(Gpu::Cupti));
/// assert_eq!(Gpu::Off.to_string(), "off");
/// let error = "on".parse::<Gpu>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown GPU setting `on`: expected auto, events, cupti or off");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gpu {
    /// With CUDA events, after the program names its first stream. CUDA is not touched before.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// With CUDA events. If no stream was named, a note in the report warns.
    Events,
    /// Exactly, through CUPTI: every kernel, copy and set, attributed to the span that launched it. Named streams are
    /// timed with CUDA events, too. CUDA is initialised in `build`. [`Auto`](Self::Auto) does the same if a report asks
    /// for it.
    Cupti,
}

/// Where reports are printed.
///
/// Settings in `TRACING_GPU=out=..`; any other value is a path:
///
/// ```
/// use tracing_gpu::Output;
///
/// assert_eq!("stdout".parse(), Ok(Output::Stdout));
/// assert_eq!("report.txt".parse(), Ok(Output::File("report.txt".into())));
/// assert_eq!(Output::None.to_string(), "none");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// Standard error, so that a program's own output stays clean.
    #[default]
    Stderr,
    /// Standard output.
    Stdout,
    /// A file, written anew. In its name `%h` is the host, `%p` the process id, `%r` the rank (0 where there is none),
    /// `%q{NAME}` a variable of the environment and `%%` a percent sign, so that many processes have a file each.
    File(PathBuf),
    /// Nowhere: the program reads the [`Summary`](crate::Summary) itself.
    None,
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Default => "default",
            Self::PerTarget => "target",
            Self::Named(name) => name,
        })
    }
}

impl FromStr for Domain {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        match word {
            "default" => Ok(Self::Default),
            "target" => Ok(Self::PerTarget),
            "" => Err(UnknownName::new("domain", word, "default, target or a name")),
            name => Ok(Self::Named(name.to_owned())),
        }
    }
}

/// The words of a setting, by which it is printed and read.
macro_rules! words {
    ($Setting:ident, $what:literal, $expected:literal: $($Value:ident = $word:literal),+) => {
        impl fmt::Display for $Setting {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self {
                    $(Self::$Value => $word,)+
                })
            }
        }

        impl FromStr for $Setting {
            type Err = UnknownName;

            fn from_str(word: &str) -> Result<Self, UnknownName> {
                match word {
                    $($word => Ok(Self::$Value),)+
                    _ => Err(UnknownName::new($what, word, $expected)),
                }
            }
        }
    };
}

words!(Parents, "parents", "entered or created": Entered = "entered", Created = "created");
words!(Gpu, "GPU setting", "auto, events, cupti or off":
    Auto = "auto", Off = "off", Events = "events", Cupti = "cupti");

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stderr => f.pad("stderr"),
            Self::Stdout => f.pad("stdout"),
            Self::None => f.pad("none"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for Output {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        match word {
            "stderr" => Ok(Self::Stderr),
            "stdout" => Ok(Self::Stdout),
            "none" => Ok(Self::None),
            "" => Err(UnknownName::new("output", word, "stderr, stdout, none or a path")),
            path => Ok(Self::File(path.into())),
        }
    }
}

/// A setting that cannot be used. Returned by [`ProfilerBuilder::build`](crate::ProfilerBuilder::build): a missing GPU
/// or tool is never an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The NVTX domain has an empty name, which makes Nsight Systems fail to import the whole run. Give it a name, or
    /// use [`Domain::Default`](crate::Domain::Default).
    EmptyDomain,
    /// The memory for durations is too small to be of use.
    SampleBudget {
        /// Bytes that were asked for.
        bytes: usize,
        /// The smallest allowed number of bytes.
        least: usize,
    },
    /// The memory for GPU records is too small to be of use.
    GpuMemory {
        /// Bytes that were asked for.
        bytes: usize,
        /// The smallest allowed number of bytes.
        least: usize,
    },
    /// A percentile is not from 0 to 100.
    Percentile {
        /// The percentile asked for, as text.
        percent: String,
    },
    /// A window is too short.
    Every {
        /// The length that was asked for.
        every: Duration,
    },
    /// The percentage of the time that [`Report::Hot`] lists is not from 0 to 100.
    HotPercent {
        /// The percentage asked for, as text.
        percent: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile { percent } => {
                write!(f, "there is no percentile {percent}: percentiles are numbers from 0 to 100")
            }
            Self::Every { every } => write!(f, "a window of {every:?} is too short: give it at least {LEAST_EVERY:?}"),
            Self::EmptyDomain => f.write_str("the NVTX domain has an empty name: give it one, or use Domain::Default"),
            Self::SampleBudget { bytes, least } => {
                write!(f, "a sample budget of {bytes} bytes is too small: give it at least {least}")
            }
            Self::GpuMemory { bytes, least } => {
                write!(f, "{bytes} bytes for GPU records are too few: allow at least {least}")
            }
            Self::HotPercent { percent } => {
                write!(f, "the rows of `hot` cannot make {percent} % of the time: give a percentage from 0 to 100")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// The fields of spans that the profiler reads besides `nvtx.` and `gpu.` fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldNames {
    /// The fields of NVIDIA's own layer, which have no prefix.
    pub(crate) bare: bool,
    /// The first of these fields that a span has gives its name. `None` if none were chosen: then known fields split
    /// their call sites automatically.
    pub(crate) name_from: Option<Vec<String>>,
}

/// A sink of the program, until the timeline begins.
#[derive(Clone)]
pub(crate) struct OwnSink(Arc<Mutex<Option<Box<dyn Sink>>>>);

impl OwnSink {
    pub(crate) fn new(sink: impl Sink + 'static) -> Self {
        Self(Arc::new(Mutex::new(Some(Box::new(sink)))))
    }

    pub(crate) fn take(&self) -> Option<Box<dyn Sink>> {
        self.0.lock().take()
    }
}

impl fmt::Debug for OwnSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnSink")
    }
}

/// Declares a setting once: its field and its default.
macro_rules! settings {
    ($($(#[doc = $doc:literal])* $(#[cfg($condition:meta)])? $setting:ident: $Type:ty = $default:expr;)+) => {
        /// All settings of a profiler.
        #[derive(Clone, Debug)]
        pub(crate) struct Config {
            $($(#[doc = $doc])* $(#[cfg($condition)])? pub(crate) $setting: $Type,)+
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($(#[cfg($condition)])? $setting: $default,)+ }
            }
        }
    };
}

settings! {
    enabled: bool = true;
    /// Whether `TRACING_GPU` overrides the settings.
    environment: bool = true;
    nvtx: bool = true;
    statistics: bool = true;
    /// Whether the processor time of long ranges is read. If nothing is said, that of spans alone.
    on_cpu: Option<bool> = None;
    gpu: Gpu = Gpu::Auto;
    /// Whether CUPTI is left alone until the driver calls us inside `cuInit`.
    gpu_when_injected: bool = false;
    /// Path of a file that keeps the rows even if the process crashes, and a function that is called when the first row
    /// is not in it.
    row_file: Option<(PathBuf, fn())> = None;
    domain: Domain = Domain::Default;
    parents: Parents = Parents::Entered;
    /// `None` for the default, INFO, which a filter of the layer's own replaces.
    filter: Option<Targets> = None;
    fields: FieldNames = FieldNames::default();
    /// Whether NVTX ranges of other code in the program are measured.
    #[cfg(feature = "foreign")]
    foreign_ranges: bool = false;
    /// Whether foreign ranges keep the unique numbers at the end of their names.
    whole_names: bool = false;
    reports: Vec<Report> = DEFAULT_REPORTS.to_vec();
    style: TableStyle = TableStyle::Current;
    output: Output = Output::Stderr;
    /// Paths of files, each by the key of its output. They may hold `%h`, `%p`, `%r` and `%t`.
    files: Vec<(&'static str, PathBuf)> = Vec::new();
    /// What else receives the timeline.
    sinks: Vec<OwnSink> = Vec::new();
    /// How long a window is of which files are written whose name has `%t`.
    every: Option<Duration> = None;
    /// The bytes of a file of `perfetto`, and how many of its files are kept. `None` for one file.
    rotate: Option<(u64, u64)> = None;
    /// The collector that metrics are pushed to; empty for the one of the environment.
    #[cfg(feature = "otlp")]
    otlp: Option<String> = None;
    /// `None` where it is not set: then yes for a profiler that `init` or `install` installs, else no.
    on_signal: Option<bool> = None;
    /// Whether threads are looked at, to know what they wait for. `None` where it is not set: then yes for a profiler
    /// that `init` or `install` installs, or whose reports ask for it.
    off_cpu: Option<bool> = None;
    sample_budget: usize = 64 << 20;
    gpu_memory: usize = 256 << 20;
    graphs: Graphs = Graphs::Whole;
    api_calls: ApiCalls = ApiCalls::Auto;
    timeline_memory: usize = 128 << 20;
    hot_percent: f64 = 90.0;
    /// Additional folds.
    folds: Vec<fn() -> Box<dyn Fold>> = Vec::new();
    /// Sees every item that folds see.
    watch: Option<Watch> = None;
    /// Quantiles that were asked for, from 0 to 1, ascending.
    quantiles: Vec<f64> = Vec::new();
    notes: usize = 5;
    /// Whether our own reports print full names of kernels.
    full_kernel_names: bool = false;
    /// Findings that are switched off.
    without: FindingKinds = FindingKinds::default();
    /// Whether the user wants colour, or none, wherever reports are printed.
    color: Option<bool> = None;
    rows: usize = 30;
}

/// The default reports. `Calls` is printed only if calls awaited long enough. The report that names the slow part comes
/// first.
pub(crate) const DEFAULT_REPORTS: [Report; 3] = [Report::Tree, Report::Calls, Report::Ranges];

/// Smallest memory for GPU records: a few of CUPTI's buffers, and remembered launches.
const LEAST_GPU_MEMORY: usize = 32 << 20;

/// Smallest memory for durations: a few rows.
const LEAST_BUDGET: usize = 64 << 10;

/// Shortest window of which files are written.
pub(crate) const LEAST_EVERY: Duration = Duration::from_millis(10);
/// The fewest bytes of a file that is followed by another.
pub(crate) const LEAST_ROTATED: u64 = 100_000;

impl Config {
    /// How reports are printed, wherever that is.
    pub(crate) fn render_options(&self) -> RenderOptions {
        RenderOptions::default()
            .style(self.style)
            .hot_percent(self.hot_percent)
            .notes(self.notes)
            .full_names(self.full_kernel_names)
            .without(self.without)
            .rows(self.rows)
    }

    /// Sets the quantiles, from percentiles.
    pub(crate) fn ask_for(&mut self, percentiles: &[f64]) {
        // In floating point, 99.9 / 100 is not 0.999.
        self.quantiles = percentiles.iter().map(|percent| (percent * 1e7).round() / 1e9).in_vec();
        order::numbers(&mut self.quantiles);
    }

    /// Whether kernels, copies and sets are recorded through CUPTI.
    pub(crate) fn wants_activity(&self) -> bool {
        match self.gpu {
            Gpu::Cupti => true,
            Gpu::Auto => self.reports.iter().any(|report| report.needs_activity()),
            Gpu::Off | Gpu::Events => false,
        }
    }

    /// Whether threads are looked at.
    pub(crate) fn wants_off_cpu(&self) -> bool {
        self.enabled && self.statistics && self.off_cpu.unwrap_or_else(|| self.reports.contains(&Report::OffCpu))
    }

    /// Which calls of the CUDA API are recorded.
    pub(crate) fn api_records(&self) -> ApiRecords {
        if self.api_calls == ApiCalls::All || self.reports.iter().any(|report| report.needs_all_calls()) {
            ApiRecords::All
        } else if self.reports.iter().any(|report| report.needs_calls()) || self.has_page() {
            ApiRecords::Weighty
        } else {
            ApiRecords::None
        }
    }

    /// The path of the file of this output.
    pub(crate) fn file(&self, key: &str) -> Option<&PathBuf> {
        self.files.iter().find(|(of, _)| *of == key).map(|(_, path)| path)
    }

    pub(crate) fn set_file(&mut self, key: &'static str, path: PathBuf) {
        self.files.retain(|(of, _)| *of != key);
        self.files.push((key, path));
    }

    /// Whether a page is written, which shows why the GPU was idle.
    pub(crate) fn has_page(&self) -> bool {
        cfg!(feature = "html") && self.file("html").is_some_and(|path| !self.is_of_windows(path))
    }

    /// Whether a file of this name is written for each window, if its output can be.
    pub(crate) fn is_of_windows(&self, path: &Path) -> bool {
        self.every.is_some() && has_time(path)
    }

    /// Whether a report needs all ranges, calls and operations in order, and the settings allow CUPTI to record them.
    pub(crate) fn needs_stream(&self) -> bool {
        self.wants_activity() && self.reports.iter().any(|report| report.needs_stream())
    }

    /// Whether a report shows whose operations made those of others wait.
    pub(crate) fn asks_who_held(&self) -> bool {
        self.reports.iter().any(|report| matches!(report, Report::Interference | Report::Why))
    }

    /// Whether reports are printed at the end.
    pub(crate) fn prints(&self) -> bool {
        self.statistics && !self.reports.is_empty()
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.domain == Domain::Named(String::new()) {
            return Err(ConfigError::EmptyDomain);
        }
        if let Some(quantile) = self.quantiles.iter().find(|quantile| !(0.0..=1.0).contains(*quantile)) {
            return Err(ConfigError::Percentile { percent: (quantile * 100.0).to_string() });
        }
        if self.sample_budget < LEAST_BUDGET {
            return Err(ConfigError::SampleBudget { bytes: self.sample_budget, least: LEAST_BUDGET });
        }
        if self.gpu_memory < LEAST_GPU_MEMORY {
            return Err(ConfigError::GpuMemory { bytes: self.gpu_memory, least: LEAST_GPU_MEMORY });
        }
        if let Some(every) = self.every.filter(|every| *every < LEAST_EVERY) {
            return Err(ConfigError::Every { every });
        }
        if !(0.0..=100.0).contains(&self.hot_percent) {
            return Err(ConfigError::HotPercent { percent: self.hot_percent.to_string() });
        }
        Ok(())
    }
}

/// Whether the name has `%t`.
fn has_time(path: &Path) -> bool {
    let path = path.to_string_lossy();
    let mut letters = path.chars();
    while letters.by_ref().any(|letter| letter == '%') {
        if letters.next() == Some('t') {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_a_time_are_those_of_windows() {
        assert_eq!(["%t", "a%%t", "%%%t", "%p"].map(|path| has_time(Path::new(path))), [true, false, true, false]);
    }

    fn comes_back<T: FromStr<Err = UnknownName> + fmt::Display + fmt::Debug + PartialEq>(values: &[T]) {
        for value in values {
            assert_eq!(value.to_string().parse().as_ref(), Ok(value));
            assert_eq!(format!("{value:>12}"), format!("{:>12}", value.to_string()));
        }
        for word in ["", "\n"] {
            let Err(error) = word.parse::<T>() else { continue };
            let (text, word) = (error.to_string(), word.escape_default().to_string());
            assert!(text.contains(&format!("`{word}`")) && text.ends_with(error.expected()), "{text}");
        }
    }

    #[test]
    fn what_is_printed_is_read_back() {
        comes_back(&[Domain::Default, Domain::PerTarget, Domain::Named("solver".into())]);
        comes_back(&[Gpu::Auto, Gpu::Off, Gpu::Events, Gpu::Cupti]);
        comes_back(&[Output::Stderr, Output::Stdout, Output::None, Output::File("a/report %p.txt".into())]);
        comes_back(&[TableStyle::Current, TableStyle::Legacy]);
        comes_back(Report::ALL);
        assert!("".parse::<Domain>().is_err() && "".parse::<Output>().is_err() && "".parse::<Gpu>().is_err());
    }
}

//! What a profiler does: set in code, overridden by `TRACING_GPU` and `TRACING_GPU_FILTER`.
//!
//! The parser is pure: it takes the text of the variables and returns the changes and the complaints.

use std::fmt;
use std::path::PathBuf;

use tracing_core::LevelFilter;
use tracing_subscriber::filter::Targets;

use crate::files::Files;
use crate::report::{Report, TableStyle};

/// Which NVTX domain ranges and marks go to. Nsight Systems shows a range of a named domain as `domain:name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Domain {
    /// The default domain: names stand alone.
    #[default]
    Default,
    /// One domain of this name.
    Named(String),
    /// A domain for every `tracing` target; that is the module path where a span does not set one.
    PerTarget,
}

/// How GPU time is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gpu {
    /// With CUDA events, from the first stream that the program names on. CUDA is not touched before.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// With CUDA events; the report says so where no stream was named.
    Events,
    /// Exactly, through CUPTI: every kernel, copy and set, attributed to the span that launched it; with CUDA events besides, on named streams. CUDA is
    /// initialised in `build`. [`Auto`](Self::Auto) does the same where a report asks for it.
    Cupti,
}

/// Where reports are printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// Standard error, so that a program's own output stays clean.
    #[default]
    Stderr,
    /// Standard output.
    Stdout,
    /// A file, written anew. In its name `%h` is the host, `%p` the process id, `%r` the rank (0 where there is none) and `%%` a percent sign, so that many
    /// processes have a file each.
    File(PathBuf),
    /// Nowhere: the program reads the [`Summary`](crate::Summary) itself.
    None,
}

/// A setting that cannot be used. Returned by [`ProfilerBuilder::build`](crate::ProfilerBuilder::build): a missing GPU or tool is
/// never an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The NVTX domain has an empty name, which makes Nsight Systems fail to import the whole run. Give it a name, or use
    /// [`Domain::Default`](crate::Domain::Default).
    EmptyDomain,
    /// The bound on memory for durations is too small to be of use: the bytes asked for, and the least that is accepted.
    SampleBudget {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes needed at least.
        least: usize,
    },
    /// The bound on memory for GPU records is too small to be of use: the bytes asked for, and the least that is accepted.
    GpuMemory {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes needed at least.
        least: usize,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyDomain => f.write_str("the NVTX domain has an empty name: give it one, or use Domain::Default"),
            Self::SampleBudget { bytes, least } => {
                write!(f, "a sample budget of {bytes} bytes is too small: give it at least {least}")
            }
            Self::GpuMemory { bytes, least } => {
                write!(f, "{bytes} bytes for GPU records are too few: allow at least {least}")
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// Everything a profiler is told, before it is checked.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) enabled: bool,
    pub(crate) nvtx: bool,
    pub(crate) statistics: bool,
    pub(crate) gpu: Gpu,
    pub(crate) domain: Domain,
    pub(crate) filter: Targets,
    pub(crate) reports: Vec<Report>,
    pub(crate) style: TableStyle,
    pub(crate) output: Output,
    pub(crate) files: Files,
    pub(crate) on_signal: bool,
    pub(crate) sample_budget: usize,
    pub(crate) gpu_memory: usize,
    pub(crate) timeline_memory: usize,
    pub(crate) hot_share: f64,
}

/// Least memory for GPU records: a few of CUPTI's buffers, and what is remembered of launches.
const LEAST_GPU_MEMORY: usize = 32 << 20;

/// Least memory for durations: a few rows' worth.
const LEAST_BUDGET: usize = 64 << 10;

impl Default for Config {
    fn default() -> Self {
        Self {
            enabled: true,
            nvtx: true,
            statistics: true,
            gpu: Gpu::Auto,
            domain: Domain::Default,
            filter: Targets::new().with_default(LevelFilter::INFO),
            reports: vec![Report::Ranges, Report::Tree],
            style: TableStyle::Current,
            output: Output::Stderr,
            files: Files::default(),
            on_signal: false,
            sample_budget: 64 << 20,
            gpu_memory: 256 << 20,
            timeline_memory: 128 << 20,
            hot_share: 0.9,
        }
    }
}

impl Config {
    /// Whether kernels, copies and sets are recorded through CUPTI.
    pub(crate) fn wants_activity(&self) -> bool {
        match self.gpu {
            Gpu::Cupti => true,
            Gpu::Auto => self.reports.iter().any(|report| report.needs_activity()),
            Gpu::Off | Gpu::Events => false,
        }
    }

    /// Whether single calls of the CUDA API are.
    pub(crate) fn wants_calls(&self) -> bool {
        self.reports.iter().any(|report| report.needs_calls())
    }

    /// Whether there is a report at the end.
    pub(crate) fn prints(&self) -> bool {
        self.statistics && !self.reports.is_empty()
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.domain == Domain::Named(String::new()) {
            return Err(ConfigError::EmptyDomain);
        }
        if self.sample_budget < LEAST_BUDGET {
            return Err(ConfigError::SampleBudget { bytes: self.sample_budget, least: LEAST_BUDGET });
        }
        if self.gpu_memory < LEAST_GPU_MEMORY {
            return Err(ConfigError::GpuMemory { bytes: self.gpu_memory, least: LEAST_GPU_MEMORY });
        }
        Ok(())
    }

    /// Applies the text of `TRACING_GPU`. Returns one line for every part that is not understood, and for every key that has a value already; the rest counts.
    pub(crate) fn apply(&mut self, text: &str) -> Vec<String> {
        let items = split_unescaped(text);
        let mut given: Vec<(&str, &str)> = Vec::new();
        let mut complaints = Vec::new();
        for item in items.iter().map(|item| item.trim()) {
            let pair = item.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
            let before = pair.and_then(|(key, _)| given.iter().find(|(other, _)| *other == key));
            let applied = match (pair, before) {
                (Some((key, value)), Some((_, first))) => Err(refused_again(key, first, value)),
                _ => self.apply_item(item),
            };
            match applied {
                Ok(()) => given.extend(pair),
                Err(complaint) => complaints.push(complaint),
            }
        }
        complaints
    }

    /// Applies the text of `TRACING_GPU_FILTER`.
    pub(crate) fn apply_filter(&mut self, text: &str) -> Vec<String> {
        if text.trim().is_empty() {
            return Vec::new(); // set to nothing is nothing said
        }
        // `Targets` takes what `EnvFilter` writes in brackets, and then enables nothing by it.
        let filter = if text.contains(['[', ']', '{', '}']) {
            Err("spans and fields cannot be chosen".to_owned())
        } else {
            text.parse::<Targets>().map_err(|error| error.to_string())
        };
        match filter {
            Ok(filter) => {
                self.filter = filter;
                Vec::new()
            }
            Err(error) => vec![format!(
                "TRACING_GPU_FILTER=`{}` is not a filter ({error}): use TARGET=LEVEL, separated by commas, LEVEL being off, error, \
                 warn, info, debug or trace",
                text.escape_debug()
            )],
        }
    }

    fn apply_item(&mut self, item: &str) -> Result<(), String> {
        if item.is_empty() {
            return Ok(());
        }
        let (key, value) = item.split_once('=').map_or((item, None), |(key, value)| (key.trim(), Some(value.trim())));
        match (key, value) {
            ("0", None) => self.enabled = false,
            ("1", None) => {}
            (off, None) if off.eq_ignore_ascii_case("off") => self.enabled = false,
            (on, None) if on.eq_ignore_ascii_case("on") => {}
            ("report", Some(value)) => self.reports = reports(value)?,
            ("style", Some(value)) => {
                self.style = value.parse().map_err(|_| refused(key, value, "current or legacy"))?
            }
            ("nvtx", Some(value)) => self.nvtx = switch(key, value)?,
            ("gpu", Some(value)) => self.gpu = gpu(value)?,
            ("hot", Some(value)) => self.hot_share = share(key, value)?,
            ("signals", Some(value)) => self.on_signal = signals(value)?,
            ("domain", Some("default")) => self.domain = Domain::Default,
            ("domain", Some("target")) => self.domain = Domain::PerTarget,
            ("domain", Some(name)) if !name.is_empty() => self.domain = Domain::Named(name.to_owned()),
            ("domain", Some(name)) => return Err(refused(key, name, "default, target or a name")),
            ("out", Some("stderr")) => self.output = Output::Stderr,
            ("out", Some("stdout")) => self.output = Output::Stdout,
            ("out", Some("none")) => self.output = Output::None,
            ("out", Some(path)) if !path.is_empty() => self.output = Output::File(PathBuf::from(path)),
            ("out", Some(path)) => return Err(refused(key, path, "stderr, stdout, none or a path")),
            ("json" | "folded" | "flamegraph" | "trace" | "sqlite" | "html" | "baseline", Some(path)) => {
                self.files.set(key, path)?
            }
            (
                "report" | "style" | "nvtx" | "gpu" | "hot" | "signals" | "domain" | "out" | "json" | "folded"
                | "flamegraph" | "trace" | "sqlite" | "html" | "baseline",
                None,
            ) => {
                return Err(format!("TRACING_GPU: `{key}` needs a value: write {key}=..."));
            }
            _ => return Err(refused_key(item)),
        }
        Ok(())
    }
}

fn reports(value: &str) -> Result<Vec<Report>, String> {
    let all: Vec<&str> = Report::ALL.iter().map(|report| report.name()).collect();
    value
        .split('+')
        .map(|name| {
            name.trim().parse().map_err(|_| refused("report", name, &format!("{}, joined by +", all.join(", "))))
        })
        .collect()
}

fn switch(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(refused(key, value, "on or off")),
    }
}

fn gpu(value: &str) -> Result<Gpu, String> {
    match value {
        "off" => Ok(Gpu::Off),
        "auto" => Ok(Gpu::Auto),
        "events" if cfg!(feature = "cudarc") => Ok(Gpu::Events),
        "cupti" if cfg!(feature = "cudarc") => Ok(Gpu::Cupti),
        "events" | "cupti" => {
            Err(format!("TRACING_GPU: `gpu={value}` needs the feature `cudarc` of the crate tracing-gpu"))
        }
        _ => Err(refused("gpu", value, "auto, events, cupti or off")),
    }
}

/// A percentage, as a share.
fn share(key: &str, value: &str) -> Result<f64, String> {
    let percent = value.trim_end_matches('%').trim_end().parse::<f64>().ok();
    match percent.filter(|percent| (0.0..=100.0).contains(percent)) {
        Some(percent) => Ok(percent / 100.0),
        None => Err(refused(key, value, "a percentage from 0 to 100")),
    }
}

fn signals(value: &str) -> Result<bool, String> {
    let on = switch("signals", value)?;
    if on && !cfg!(feature = "signals") {
        return Err("TRACING_GPU: `signals` needs the feature `signals` of the crate tracing-gpu".to_owned());
    }
    Ok(on)
}

fn refused(key: &str, value: &str, allowed: &str) -> String {
    format!("TRACING_GPU: `{key}` cannot be `{}`: allowed is {allowed}", value.escape_debug())
}

/// The last one silently winning would leave a file unwritten that somebody waits for.
fn refused_again(key: &str, first: &str, again: &str) -> String {
    let (first, again) = (first.escape_debug(), again.escape_debug());
    format!("TRACING_GPU: `{key}` is given twice: `{first}` counts and `{again}` does not, give it once")
}

fn refused_key(item: &str) -> String {
    if item.parse::<Report>().is_ok() {
        return format!("TRACING_GPU: `{item}` is a report: reports are joined by +, as in report=tree+{item}");
    }
    let allowed = "off, report, style, nvtx, gpu, hot, domain, out, trace, sqlite, html, baseline, json, folded, flamegraph and signals";
    format!("TRACING_GPU: `{}` is not known: allowed are {allowed}", item.escape_debug())
}

/// Splits at commas; `\,` is a comma and `\\` a backslash.
fn split_unescaped(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let escaped = letter == '\\' && letters.peek().is_some_and(|&next| next == ',' || next == '\\');
        match (letter, escaped, items.last_mut()) {
            (',', _, _) => items.push(String::new()),
            (_, true, Some(item)) => item.extend(letters.next()),
            (_, _, Some(item)) => item.push(letter),
            (_, _, None) => {}
        }
    }
    items
}

#[cfg(test)]
mod tests;

//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser as _, ValueHint};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tracing_gpu::compare::{Basis, Gate};
use tracing_gpu::{FindingKinds, Report, UnknownName};

use crate::folder::CaptureRange;

/// The default reports. Those without contents are not printed.
const REPORTS: &[Report] = &[Report::Why, Report::Tree, Report::Ranges, Report::Hot, Report::OpenAcc];
/// The default for comma-separated values, which consist of tables alone.
const TABLES: &[Report] = &[Report::Nvprof, Report::Ranges, Report::GpuProjection];

/// The exit status of shells for wrong use.
pub(super) const WRONG_USE: u8 = 2;

const COMPARE_USAGE: &str = "tracing-gpu compare [OPTIONS] BEFORE.json AFTER.json ...
       tracing-gpu compare [OPTIONS] --base RUN.json ... --new RUN.json ...";

/// Shows where the time of any program goes: NVTX ranges, kernels, copies and CUDA calls, in the tables of nvprof and
/// Nsight Systems.
#[derive(Debug, Parser)]
#[command(
    name = "tracing-gpu",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    after_help = "TRACING_GPU has more settings, and wins: TRACING_GPU=rows=all tracing-gpu ./app"
)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) other: Option<Other>,
    #[command(flatten)]
    pub(super) run: Run,
}

#[derive(Debug, Subcommand)]
pub(super) enum Other {
    /// Prints the summaries that `--json` wrote into a folder, of one host or of several, as one report
    ///
    /// It also takes one file: of `--json`, `--perfetto`, `--sqlite`, or of `nsys export --type sqlite`.
    Merge {
        /// The folder, or one file
        #[arg(value_hint = ValueHint::AnyPath)]
        folder: PathBuf,
        #[command(flatten)]
        print: Print,
    },
    /// Compares runs by their summaries: which ranges became slower
    ///
    /// The exit status is 0 if nothing became slower than allowed, 1 if something did, and 2 if the files cannot be
    /// compared.
    #[command(override_usage = COMPARE_USAGE)]
    Compare(Compare),
    /// Writes a page of a run from its summary, or from a file of Nsight Systems: figures, flame graphs and tables
    ///
    /// A page that is written during the run (`--html`) has more: the timeline, the slowest calls and requests, and how
    /// the times of each range are spread.
    Page {
        /// The summary, as `--json` writes it; or a file of `--perfetto`, `--sqlite` or `nsys export --type sqlite`
        #[arg(value_name = "RUN.json", value_hint = ValueHint::FilePath)]
        summary: PathBuf,
        /// Where the page goes: a file that is there is replaced [default: RUN.html, if there is none]
        #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
        /// Findings that are switched off, joined by + or commas: docs/gpu.md lists them
        #[arg(long, value_name = "LIST", value_parser = findings)]
        without: Option<String>,
    },
    /// Writes datasets of Parquet files, for DuckDB and Spark, from the database or the trace of a run
    Convert(Convert),
    /// Gone: the answer names what runs the queries
    #[command(hide = true)]
    Query {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _any: Vec<OsString>,
    },
    /// Prints what a shell needs to complete options
    #[command(hide = true)]
    Completions { shell: Shell },
    /// Prints the manual page
    #[command(hide = true)]
    Man,
}

impl Print {
    /// The reports if the user chose none.
    pub(super) const fn default_reports(&self) -> &'static [Report] {
        if self.csv { TABLES } else { REPORTS }
    }
}

/// What is printed, and where.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Print {
    /// Reports, joined by + or commas [default: why+tree+hot; with --csv nvprof+ranges+gpu_projection]
    #[arg(short, long, value_name = "LIST", value_parser = reports)]
    pub(super) report: Option<String>,
    /// Where reports go: a file, stdout, stderr or none [default: stderr]
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath, visible_alias = "log-file")]
    pub(super) output: Option<PathBuf>,
    /// Print comma-separated values, one table for each report
    #[arg(long)]
    pub(super) csv: bool,
    /// Percentage of the time that the report hot lists [default: 90]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(super) hot: Option<String>,
    /// Findings that are switched off, joined by + or commas: docs/gpu.md lists them
    #[arg(long, value_name = "LIST", value_parser = findings)]
    pub(super) without: Option<String>,
    /// Whose tables: Nsight Systems' of today or of 2021
    #[arg(long, value_parser = PossibleValuesParser::new(["current", "legacy"]))]
    pub(super) style: Option<String>,
}

/// What is converted.
#[derive(Args, Clone, Debug)]
pub(super) struct Convert {
    /// A database of `--sqlite` or of `nsys export --type sqlite`, or a timeline of `--trace` or
    /// `--perfetto`
    #[arg(value_name = "RUN", value_hint = ValueHint::FilePath)]
    pub(super) input: PathBuf,
    /// The folder of the datasets, in which those of other runs may be
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(super) folder: PathBuf,
    /// The run's name, in place of the one in the file
    #[arg(long, value_name = "NAME")]
    pub(super) run: Option<String>,
    /// The host, in place of the one in the file
    #[arg(long, value_name = "NAME")]
    pub(super) host: Option<String>,
    /// The rank, in place of the one in the file
    #[arg(long, value_name = "NUMBER")]
    pub(super) rank: Option<u32>,
}

/// What is compared, and what fails.
#[derive(Args, Clone, Debug)]
pub(super) struct Compare {
    /// A run before and a run after a change, as `--json` writes them; each further run is compared with the first, too
    #[arg(value_names = ["BEFORE.json", "AFTER.json"], num_args = 2.., value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present_any = ["base", "new"], conflicts_with_all = ["base", "new"])]
    pub(super) runs: Vec<PathBuf>,
    /// Several runs before the change: 20, to tell a small change from noise
    #[arg(long, value_name = "RUN.json", num_args = 1.., requires = "new", value_hint = ValueHint::FilePath)]
    pub(super) base: Vec<PathBuf>,
    /// As many after it, recorded alternately with those before
    #[arg(long, value_name = "RUN.json", num_args = 1.., requires = "base", value_hint = ValueHint::FilePath)]
    pub(super) new: Vec<PathBuf>,
    /// How much slower a range may become
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = amount)]
    threshold: f64,
    /// Differences in a run below this do not count
    #[arg(long, value_name = "MILLISECONDS", default_value = "0.1", value_parser = amount)]
    least: f64,
    /// What is compared of ranges with 30 instances or more; of others it is the total
    #[arg(long, default_value = "median")]
    #[arg(value_parser = PossibleValuesParser::new(["median", "total", "p99"]).map(basis))]
    basis: Basis,
    /// Fail on ranges that the first run does not have, too
    #[arg(long)]
    pub(super) added: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub(super) csv: bool,
    /// Write the result as JSON of at most 2 KB: what is slower, by how much and why
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(super) verdict: Option<PathBuf>,
    /// Write the comparison as JSON, too
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(super) json: Option<PathBuf>,
    /// Write the comparison as a page, too
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(super) html: Option<PathBuf>,
}

impl Compare {
    /// The limits beyond which a range counts as slower.
    pub(super) fn gate(&self) -> Gate {
        let mut gate = Gate::new(self.threshold);
        gate.basis = self.basis;
        gate.least_ns = (self.least * 1e6) as u64;
        gate
    }
}

#[derive(Args, Clone, Debug)]
pub(super) struct Run {
    #[command(flatten)]
    pub(super) print: Print,
    /// Write the summary, for `tracing-gpu merge`, `compare` and `page`
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(super) json: Option<PathBuf>,
    /// Write a timeline of all processes for ui.perfetto.dev (.json or .json.gz)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(super) trace: Option<PathBuf>,
    /// Write a timeline in Perfetto's own format, a tenth of the size (.pftrace)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(super) perfetto: Option<PathBuf>,
    /// Print nvprof's list of all operations on GPUs in the order of time, in place of the default reports
    #[arg(long)]
    pub(super) print_gpu_trace: bool,
    /// Write a database of all processes that `nsys stats` reads
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(super) sqlite: Option<PathBuf>,
    /// Write a page with timeline, flame graphs and tables
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(super) html: Option<PathBuf>,
    /// Open the page in a browser at the end
    #[arg(long, requires = "html")]
    pub(super) open: bool,
    /// Whether kernels, copies and CUDA calls are recorded
    #[arg(long, value_parser = PossibleValuesParser::new(["auto", "off"]))]
    pub(super) gpu: Option<String>,
    /// What is recorded of a CUDA graph that is replayed: one operation, or each kernel, which costs more
    #[arg(long, value_parser = PossibleValuesParser::new(["whole", "nodes", "off"]))]
    pub(super) graphs: Option<String>,
    /// Which CUDA calls are recorded: all, or only those that explain something
    #[arg(long, value_parser = PossibleValuesParser::new(["auto", "all"]))]
    pub(super) api: Option<String>,
    /// Whether the command looks at threads inside of ranges, to know what they wait for
    #[arg(long, value_parser = PossibleValuesParser::new(["on", "off"]))]
    pub(super) off_cpu: Option<String>,
    /// Whether the program reads the processor time of ranges of 50 us and more, a system call each [default: off]
    #[arg(long, value_parser = PossibleValuesParser::new(["on", "off"]))]
    pub(super) on_cpu: Option<String>,
    /// What is printed of several processes; `each` leaves a timeline of each, too
    #[arg(long, value_name = "WHICH", default_value = "merged")]
    pub(super) processes: Processes,
    /// Whom to wait for
    #[arg(long, value_name = "WHOM", default_value = "all")]
    pub(super) wait: Wait,
    /// Measure, in each process, only from cudaProfilerStart to cudaProfilerStop, or the first NVTX range of a name
    #[arg(long, value_name = "none|cuda|nvtx:NAME", default_value = "none", hide_default_value = true)]
    pub(super) capture_range: CaptureRange,
    /// `off` is `--capture-range cuda`
    #[arg(long, hide = true, value_parser = PossibleValuesParser::new(["on", "off"]))]
    #[arg(conflicts_with = "capture_range")]
    pub(super) profile_from_start: Option<String>,
    /// End the program after this time
    #[arg(short, long, value_name = "SECONDS")]
    pub(super) timeout: Option<Seconds>,
    /// Files are overwritten in any case
    #[arg(short = 'f', long = "force-overwrite", hide = true)]
    pub(super) force: bool,
    /// Processes that the program starts are measured in any case
    #[arg(long, hide = true)]
    pub(super) profile_child_processes: bool,
    /// The program and its arguments; behind `--` if it has the name of a command
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub(super) command: Vec<OsString>,
}

impl Run {
    /// The measured part, from either option.
    pub(super) fn captured(&self) -> CaptureRange {
        match self.profile_from_start.as_deref() {
            Some("off") => CaptureRange::Cuda,
            _ => self.capture_range.clone(),
        }
    }
}

/// What is printed where several processes were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Processes {
    /// One report of all
    Merged,
    /// A report and a timeline for each
    Each,
    /// The report of the one that began first
    First,
}

/// When the report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Wait {
    /// The program and all processes that it leaves behind
    All,
    /// The program
    Primary,
}

/// A time above 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seconds(pub(super) Duration);

impl std::str::FromStr for Seconds {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let seconds = word.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let above_0 = seconds.filter(|seconds| !seconds.is_zero());
        above_0.map(Self).ok_or_else(|| "expected a number of seconds above 0".to_owned())
    }
}

/// A list of reports, joined by `+`. Other profilers join by commas, so these are taken, too.
fn reports(text: &str) -> Result<String, String> {
    let list = text.replace(',', "+");
    let all: Result<Vec<Report>, _> = list.split('+').map(|name| name.trim().parse()).collect();
    all.map(|_| list).map_err(|error: UnknownName| error.to_string())
}

/// A list of findings, in the same way.
fn findings(text: &str) -> Result<String, String> {
    let list = text.replace(',', "+");
    list.parse::<FindingKinds>().map(|_| list).map_err(|error| error.to_string())
}

/// The text as it is, if it is a percentage.
fn percent(text: &str) -> Result<String, String> {
    let percent = text.trim_end_matches('%').trim_end().parse::<f64>().ok();
    let known = percent.filter(|percent| (0.0..=100.0).contains(percent));
    known.map(|_| text.to_owned()).ok_or_else(|| "expected a percentage from 0 to 100".to_owned())
}

/// A number that is not negative, with or without a percent sign.
fn amount(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end().parse().ok();
    number.filter(|number| *number >= 0.0).ok_or_else(|| "expected a number, 0 or more".to_owned())
}

fn basis(name: String) -> Basis {
    match &*name {
        "total" => Basis::Total,
        "p99" => Basis::P99,
        _ => Basis::Median,
    }
}

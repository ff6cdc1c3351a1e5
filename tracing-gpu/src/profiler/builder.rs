//! How a profiler is set up.

use tracing_subscriber::filter::Targets;

use super::{Inner, Profiler, complain};
use crate::config::{Config, ConfigError, Domain, Gpu, Output};
use crate::report::{Report, TableStyle};

/// Sets up a [`Profiler`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is measured until `build`"]
pub struct ProfilerBuilder {
    pub(crate) config: Config,
}

impl ProfilerBuilder {
    /// Whether spans become NVTX ranges while a tool is attached. Default: yes.
    pub fn nvtx(mut self, on: bool) -> Self {
        self.config.nvtx = on;
        self
    }

    /// Whether durations are measured and counted. Without, spans only become NVTX ranges and nothing is printed. Default: yes.
    pub fn statistics(mut self, on: bool) -> Self {
        self.config.statistics = on;
        self
    }

    /// Whether spans entered under a named stream are timed on the GPU. Default: [`Gpu::Auto`].
    pub fn gpu(mut self, gpu: Gpu) -> Self {
        self.config.gpu = gpu;
        self
    }

    /// NVTX domain of the ranges. Default: the default domain.
    pub fn domain(mut self, domain: Domain) -> Self {
        self.config.domain = domain;
        self
    }

    /// Which spans are measured, decided once a call site. Other layers are not affected. Default: INFO and above.
    pub fn filter(mut self, filter: Targets) -> Self {
        self.config.filter = filter;
        self
    }

    /// What is printed at the end, in this order. Default: ranges and tree.
    pub fn report(mut self, reports: impl IntoIterator<Item = Report>) -> Self {
        self.config.reports = reports.into_iter().collect();
        self
    }

    /// Layout of the statistics. Default: [`TableStyle::Current`].
    pub fn style(mut self, style: TableStyle) -> Self {
        self.config.style = style;
        self
    }

    /// Where the reports go. Default: standard error.
    pub fn output(mut self, output: Output) -> Self {
        self.config.output = output;
        self
    }

    /// Whether SIGINT and SIGTERM print the reports and then take their default course, which ends the program. Where it shuts down
    /// gracefully on these signals by itself, leave this off: the guard prints then. One more, a second later or more, ends it at once. Default: no.
    ///
    /// A signal that the program ignores when the first such profiler is built stays ignored (on Linux, which tells): so `trap '' INT TERM` of a shell works, and a shell
    /// script's commands in the background live through Ctrl-C.
    #[cfg(feature = "signals")]
    pub fn on_signal(mut self, on: bool) -> Self {
        self.config.on_signal = on;
        self
    }

    /// Memory for single durations, in bytes, for all ranges and threads together. Medians are exact as long as it lasts; when it is
    /// spent, rows without one print `-`. Default: 64 MiB.
    pub fn sample_budget(mut self, bytes: usize) -> Self {
        self.config.sample_budget = bytes;
        self
    }

    /// Memory for the GPU's work while it is attributed, in bytes, for all threads and devices together: CUPTI's buffers and those that wait to be read, launches and instances of
    /// ranges whose operations have not all come, and what threads note of their launches until that is collected, ten times a second. What does not fit is
    /// counted, and the report says so. Used only where kernels, copies or API calls are recorded. Default: 256 MiB, at least 32 MiB.
    ///
    /// Beside it there is what does not grow with the number of launches:
    /// - rows of tables: one for each kernel, function and direction, for each kernel by range and thread, and for each node of the tree, with at most 8 KiB for
    ///   each device that its work ran on. There are at most 65,536 nodes, and as many names of kernels, each kept once; further ones share a row. Single durations
    ///   are in [`sample_budget`](Self::sample_budget);
    /// - for an instance that waits, 16 bytes for each kernel by name that was launched in it;
    /// - the ends of instances that were noted to begin, for which there is always room, and 8 KiB a thread for the last of them;
    /// - what CUPTI allocates itself, on the host and on devices, and the 64 KiB buffers it gets in place of those beyond the bound, whose records are counted and thrown away;
    /// - the old memory of a table while it grows, for that moment;
    /// - timelines, which have [`timeline_memory`](Self::timeline_memory).
    pub fn gpu_memory(mut self, bytes: usize) -> Self {
        self.config.gpu_memory = bytes;
        self
    }

    /// The share of their section that the rows of [`Report::Hot`] make together, from 0 to 1. Default: 0.9.
    pub fn hot_share(mut self, share: f64) -> Self {
        self.config.hot_share = share;
        self
    }

    /// Starts measuring. `TRACING_GPU` and `TRACING_GPU_FILTER` override what was set here; what is not understood in them, or given twice,
    /// is one line on standard error, and the rest counts. So is a file that cannot be written; those that are written at the end are only looked for, and tried again then.
    ///
    /// # Errors
    ///
    /// Only for settings that cannot be used. A machine without a GPU or a tool is fine.
    pub fn build(mut self) -> Result<Profiler, ConfigError> {
        self.config.check()?;
        let complaints = self.config.apply_environment();
        for complaint in complaints.into_iter().chain(self.config.files.without_effect()) {
            complain(&complaint);
        }
        Ok(Profiler { inner: Inner::start(self.config) })
    }
}

impl Config {
    fn apply_environment(&mut self) -> Vec<String> {
        let read = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        let mut complaints = read("TRACING_GPU").map(|text| self.apply(&text)).unwrap_or_default();
        complaints.extend(read("TRACING_GPU_FILTER").map(|text| self.apply_filter(&text)).unwrap_or_default());
        complaints
    }
}

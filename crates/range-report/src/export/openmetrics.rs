//! Metrics in the text formats of OpenMetrics and of Prometheus, for a route that is scraped.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::io::{self, Write};

use range_model::stats::Lean;
use range_model::summary::schema::Join as _;
use range_model::summary::{HISTOGRAM_SCALE, Sizes, WaitStats};
use range_model::{
    CallStats, GpuActivity, GpuWork, KernelStats, Losses, MemoryKind, MemoryStats, Process, ProjectionStats,
    RangeStats, StreamStats, Summary, Times,
};

/// How many values the first label of a metric has at most, besides `other` for all further ones.
pub const MOST_ROWS: usize = 100;

/// How many rows a metric has at most, if it has two labels.
const MOST_PAIRS: usize = 10 * MOST_ROWS;

/// Upper bounds of buckets: powers of two, in nanoseconds, from 1 us to 69 s. The same for all, so that histograms of
/// several hosts can be added.
const BOUNDS: std::ops::RangeInclusive<u32> = 10..=36;

/// The name of the row of all rows beyond the limit.
const OTHER: &str = "other";

/// The two formats.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    OpenMetrics,
    Prometheus,
}

/// Sums of windows, as metrics: counters and histograms that never become smaller, so a scraper can take differences.
///
/// A [`Summary`] of the whole run is no such sum: its nanoseconds come from ticks, by a rate that becomes more exact as
/// the run goes on, and its longest rows change places.
///
/// Each metric has at most [`MOST_ROWS`] rows: the first ones to arrive, and of one window the longest. Further ones
/// are in the row `other`, and `tracing_gpu_rows_in_other` counts them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    all: Summary,
}

impl Metrics {
    /// Adds what came since the last window.
    pub fn add(&mut self, window: Summary) {
        let Summary { process, elapsed_ns, ranges, stream_ranges, calls, gpu, waits, losses, .. } = window;
        let all = &mut self.all;
        all.process = process;
        all.elapsed_ns = all.elapsed_ns.saturating_add(elapsed_ns);
        let key = |row: &RangeStats| (row.label(), row.style);
        add_rows(&mut all.ranges, ranges, key, |all, more| all.times = join(&all.times, &more.times));
        let key = |row: &StreamStats| (row.domain.clone(), row.name.clone(), row.stream.clone());
        add_rows(&mut all.stream_ranges, stream_ranges, key, |all, more| all.times = join(&all.times, &more.times));
        add_rows(&mut all.calls, calls, CallStats::label, |all, more| {
            let (domain, name) = (all.domain.take(), std::mem::take(&mut all.name));
            let sum = range_model::summary::CallTotals::join(&[&all.totals(), &more.totals()]);
            *all = CallStats::of_totals(&sum);
            (all.domain, all.name) = (domain, name);
        });
        if let Some(gpu) = gpu {
            add_activity(all.gpu.get_or_insert_default(), gpu);
        }
        let key = |row: &WaitStats| (row.waiter.clone(), row.by.clone(), row.resource.clone());
        add_rows(&mut all.waits, waits, key, |all, more| *all = WaitStats::join(&[all, more]));
        all.losses = Losses::join(&[&all.losses, &losses]);
        all.losses.open = losses.open;
    }

    /// Writes them as [`openmetrics`] does.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn openmetrics(&self, out: impl Write) -> io::Result<()> {
        openmetrics(&self.all, out)
    }

    /// Writes them as [`prometheus`] does.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn prometheus(&self, out: impl Write) -> io::Result<()> {
        prometheus(&self.all, out)
    }

    /// All metrics.
    #[doc(hidden)]
    #[must_use]
    pub fn families(&self) -> Vec<Family<'_>> {
        families(&self.all)
    }
}

fn join(all: &Times, more: &Times) -> Times {
    Times::join(&[all, more])
}

fn add_activity(all: &mut GpuActivity, more: GpuActivity) {
    let key = |row: &KernelStats| row.name.clone();
    add_rows(&mut all.kernels, more.kernels, key, |all, more| all.times = join(&all.times, &more.times));
    let key = |row: &MemoryStats| row.kind;
    add_rows(&mut all.memory, more.memory, key, |all, more| {
        (all.times, all.sizes) = (join(&all.times, &more.times), Sizes::join(&[&all.sizes, &more.sizes]));
    });
    let key = |row: &ProjectionStats| (row.domain.clone(), row.name.clone(), row.style);
    add_rows(&mut all.projections, more.projections, key, |all, more| {
        all.projected = join(&all.projected, &more.projected);
    });
    all.total = GpuWork::join(&[&all.total, &more.total]);
}

/// Adds rows to those with their keys. New ones come last.
fn add_rows<T, K: Eq + Hash>(all: &mut Vec<T>, more: Vec<T>, key: impl Fn(&T) -> K, add: impl Fn(&mut T, &T)) {
    let mut places: HashMap<K, usize> = HashMap::new();
    for (place, row) in all.iter().enumerate() {
        places.insert(key(row), place);
    }
    for row in more {
        match places.get(&key(&row)).and_then(|place| all.get_mut(*place)) {
            Some(sum) => add(sum, &row),
            None => all.push(row),
        }
    }
}

/// Writes a summary as OpenMetrics 1.0 (`application/openmetrics-text; version=1.0.0; charset=utf-8`).
///
/// For a route that is scraped again and again, add up windows in [`Metrics`].
///
/// ```
/// use range_report::export::openmetrics;
/// use range_model::summary::{RangeStats, Summary, Times};
///
/// let mut summary = Summary::default();
/// summary.ranges.push(RangeStats::new("say \"hi\"", Times::new(2, 3_000_000)));
/// let mut text = Vec::new();
/// openmetrics(&summary, &mut text)?;
/// let text = String::from_utf8(text)?;
/// assert!(text.contains("tracing_gpu_range_duration_seconds_sum{span=\"say \\\"hi\\\"\"} 0.003\n"));
/// assert!(text.ends_with("# EOF\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Errors of `out`.
pub fn openmetrics(summary: &Summary, mut out: impl Write) -> io::Result<()> {
    out.write_all(text(summary, Format::OpenMetrics).as_bytes())
}

/// Writes a summary in the text format of Prometheus (`text/plain; version=0.0.4`), for scrapers that do not accept
/// OpenMetrics.
///
/// # Errors
///
/// Errors of `out`.
pub fn prometheus(summary: &Summary, mut out: impl Write) -> io::Result<()> {
    out.write_all(text(summary, Format::Prometheus).as_bytes())
}

fn text(summary: &Summary, format: Format) -> String {
    let mut writer = Writer { out: String::new(), format };
    writer.process(&summary.process);
    families(summary).iter().for_each(|family| writer.family(family));
    if format == Format::OpenMetrics {
        writer.out += "# EOF\n";
    }
    writer.out
}

/// Values of at most two labels.
#[doc(hidden)]
pub type Labels<'a> = [Cow<'a, str>; 2];

/// A metric, for writers of other formats.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Family<'a> {
    /// Words with dots between them, without the unit.
    pub name: &'static str,
    /// `s`, `By`, or empty.
    pub unit: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Names of labels; empty where there is none.
    pub labels: [&'static str; 2],
    /// Rows with different values of the labels.
    pub rows: Rows<'a>,
}

/// The rows of a metric.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum Rows<'a> {
    /// Durations.
    Histogram(Vec<(Labels<'a>, Times)>),
    /// Sums that never become smaller; nanoseconds if the unit is seconds.
    Counter(Vec<(Labels<'a>, u64)>),
    /// What there is now.
    Gauge(Vec<(Labels<'a>, f64)>),
}

impl Family<'_> {
    /// The last part of its name in text, or empty.
    fn unit_in_text(&self) -> &'static str {
        match self.unit {
            "s" => "seconds",
            "By" => "bytes",
            _ => "",
        }
    }

    /// Its name in text, without that of the crate.
    fn name_in_text(&self) -> String {
        let name = self.name.replace('.', "_");
        if self.unit.is_empty() { name } else { format!("{name}_{}", self.unit_in_text()) }
    }
}

/// All metrics of a summary, in the order in which they are written. Each has at least one row.
fn families(summary: &Summary) -> Vec<Family<'_>> {
    let mut families = Families::default();
    let one = |value: u64| std::iter::once((["".into(), "".into()], value));
    let about = "Time in which was measured.";
    families.counters("measured", "s", about, ["", ""], one(summary.elapsed_ns));
    let ranges = summary.ranges.iter().map(|row| ([row.label().into(), "".into()], &row.times));
    families.histogram("range.duration", "Durations of ranges.", ["span", ""], ranges);
    families.calls(&summary.calls);
    let streams = summary.stream_ranges.iter().map(|row| {
        let span = range_model::names::in_domain(row.domain.as_deref(), &row.name);
        ([span.into(), row.stream.as_str().into()], &row.times)
    });
    let about = "Times of ranges on a stream, by CUDA events.";
    families.histogram("stream.duration", about, ["span", "stream"], streams);
    if let Some(gpu) = &summary.gpu {
        families.activity(gpu);
    }
    families.waits(&summary.waits);
    families.losses(&summary.losses);
    let in_other = std::mem::take(&mut families.in_other);
    let rows = in_other.into_iter().map(|(metric, rows)| ([metric.into(), "".into()], rows as f64));
    let about = "Rows beyond the limit, which are in the row `other`.";
    families.gauges("rows_in_other", about, ["metric", ""], rows);
    families.all
}

struct Writer {
    out: String,
    format: Format,
}

impl Writer {
    /// The lines above the samples of a metric. `unit` is the last part of its name, or empty.
    fn head(&mut self, name: &str, kind: &str, unit: &str, about: &str) {
        // In the older format a counter has the name of its samples.
        let name = match (self.format, kind) {
            (Format::Prometheus, "counter") => format!("{name}_total"),
            (Format::Prometheus, "info") => format!("{name}_info"),
            _ => name.to_owned(),
        };
        let kind = if (self.format, kind) == (Format::Prometheus, "info") { "gauge" } else { kind };
        self.out += &format!("# TYPE tracing_gpu_{name} {kind}\n");
        if !unit.is_empty() && self.format == Format::OpenMetrics {
            self.out += &format!("# UNIT tracing_gpu_{name} {unit}\n");
        }
        self.out += &format!("# HELP tracing_gpu_{name} {about}\n");
    }

    fn sample(&mut self, name: &str, names: [&str; 2], values: &Labels<'_>, le: &str, value: &str) {
        self.out += "tracing_gpu_";
        self.out += name;
        let labels = names.into_iter().zip(values.iter().map(|value| &**value)).chain([("le", le)]);
        let mut before = '{';
        for (label, text) in labels.filter(|(label, text)| !label.is_empty() && (*label != "le" || !text.is_empty())) {
            self.out.extend([before]);
            self.out += label;
            self.out += "=\"";
            escape(text, &mut self.out);
            self.out += "\"";
            before = ',';
        }
        self.out += if before == ',' { "} " } else { " " };
        self.out += value;
        self.out += "\n";
    }

    fn process(&mut self, process: &Process) {
        self.head("process", "info", "", "The process, and the run that it is a part of.");
        let rank = process.rank.map(|rank| rank.to_string()).unwrap_or_default();
        self.out += "tracing_gpu_process_info{";
        let labels = [("host", &process.host), ("rank", &rank), ("run", &process.run_id)];
        for (number, (label, text)) in labels.into_iter().enumerate() {
            self.out += if number > 0 { "," } else { "" };
            self.out += label;
            self.out += "=\"";
            escape(text, &mut self.out);
            self.out += "\"";
        }
        self.out += "} 1\n";
    }

    fn family(&mut self, family: &Family<'_>) {
        let (name, unit, labels) = (family.name_in_text(), family.unit_in_text(), family.labels);
        match &family.rows {
            Rows::Histogram(rows) => {
                self.head(&name, "histogram", unit, family.about);
                rows.iter().for_each(|(values, times)| self.histogram(&name, labels, values, times));
            }
            Rows::Counter(rows) => {
                self.head(&name, "counter", unit, family.about);
                let total = format!("{name}_total");
                for (values, value) in rows {
                    let value = if unit == "seconds" { seconds(*value) } else { value.to_string() };
                    self.sample(&total, labels, values, "", &value);
                }
            }
            Rows::Gauge(rows) => {
                self.head(&name, "gauge", unit, family.about);
                rows.iter().for_each(|(values, value)| self.sample(&name, labels, values, "", &value.to_string()));
            }
        }
    }

    fn histogram(&mut self, name: &str, names: [&str; 2], values: &Labels<'_>, times: &Times) {
        let [bucket, count, sum] = ["bucket", "count", "sum"].map(|end| format!("{name}_{end}"));
        for bound in BOUNDS {
            let below = times.histogram.iter().filter(|(at, _)| *at <= bound * HISTOGRAM_SCALE);
            let below: u64 = below.map(|(_, count)| *count).fold(0, u64::saturating_add);
            self.sample(&bucket, names, values, &seconds(1 << bound), &below.to_string());
        }
        self.sample(&bucket, names, values, "+Inf", &times.instances.to_string());
        self.sample(&count, names, values, "", &times.instances.to_string());
        self.sample(&sum, names, values, "", &seconds(times.total_ns));
    }
}

/// The metrics so far.
#[derive(Default)]
struct Families<'a> {
    all: Vec<Family<'a>>,
    /// How many rows of a metric are in `other`.
    in_other: Vec<(String, usize)>,
}

impl<'a> Families<'a> {
    /// Adds a metric of the first rows, and of the sum of the others. Rows with the same labels are one.
    fn push<T>(
        &mut self,
        mut family: Family<'a>,
        rows: impl Iterator<Item = (Labels<'a>, T)>,
        add: impl Fn(&mut T, T),
        kind: impl Fn(Vec<(Labels<'a>, T)>) -> Rows<'a>,
    ) {
        let (mut all, mut places): (Vec<(Labels<'a>, T)>, HashMap<Labels<'a>, usize>) = Default::default();
        let (mut first, mut left) = (HashSet::new(), 0);
        for (mut labels, value) in rows {
            if !places.contains_key(&labels) && places.len() >= MOST_PAIRS {
                labels = labels.map(|text| if text.is_empty() { text } else { OTHER.into() });
                left += 1;
            } else if first.len() >= MOST_ROWS && !first.contains(&labels[0]) {
                labels[0] = OTHER.into();
                left += 1;
            } else {
                first.insert(labels[0].clone());
            }
            match places.get(&labels).and_then(|place| all.get_mut(*place)) {
                Some((_, sum)) => add(sum, value),
                None => {
                    places.insert(labels.clone(), all.len());
                    all.push((labels, value));
                }
            }
        }
        if left > 0 {
            self.in_other.push((family.name_in_text(), left));
        }
        if !all.is_empty() {
            family.rows = kind(all);
            self.all.push(family);
        }
    }

    fn histogram(
        &mut self,
        name: &'static str,
        about: &'static str,
        labels: [&'static str; 2],
        rows: impl Iterator<Item = (Labels<'a>, &'a Times)>,
    ) {
        let rows = rows.filter(|(_, times)| times.instances > 0).map(|(labels, times)| (labels, times.clone()));
        let family = Family { name, unit: "s", about, labels, rows: Rows::Histogram(Vec::new()) };
        self.push(family, rows, |all, more| *all = join(all, &more), Rows::Histogram);
    }

    fn counters(
        &mut self,
        name: &'static str,
        unit: &'static str,
        about: &'static str,
        labels: [&'static str; 2],
        rows: impl Iterator<Item = (Labels<'a>, u64)>,
    ) {
        let family = Family { name, unit, about, labels, rows: Rows::Counter(Vec::new()) };
        self.push(family, rows, |all, more| *all = all.saturating_add(more), Rows::Counter);
    }

    fn gauges(
        &mut self,
        name: &'static str,
        about: &'static str,
        labels: [&'static str; 2],
        rows: impl Iterator<Item = (Labels<'a>, f64)>,
    ) {
        let family = Family { name, unit: "", about, labels, rows: Rows::Gauge(Vec::new()) };
        self.push(family, rows, |all, more| *all += more, Rows::Gauge);
    }

    fn calls(&mut self, calls: &'a [CallStats]) {
        let about = "Latencies of calls: uses of spans that are futures, or that are entered more than once.";
        let rows = calls.iter().map(|row| ([row.label().into(), "".into()], &row.latency));
        self.histogram("call.duration", about, ["span", ""], rows);
        let states = calls.iter().filter_map(|row| Some((row.label(), row.states?))).flat_map(|(label, states)| {
            let all = [
                ("in_cuda", states.in_cuda_ns),
                ("on_cpu", states.on_cpu_ns),
                ("off_cpu", states.off_cpu_ns),
                ("on_thread", states.on_thread_ns),
                ("ready", states.ready_ns),
                ("child_call", states.child_call_ns),
                ("gpu_work", states.gpu_work_ns),
                ("otherwise", states.otherwise_ns),
                ("outlived", states.outlived_ns),
            ];
            all.map(|(state, ns)| ([label.clone().into(), state.into()], ns))
        });
        let about = "What the latencies of calls are made of.";
        self.counters("call.state", "s", about, ["span", "state"], states);
        let cancelled = calls.iter().filter_map(|row| Some(([row.label().into(), "".into()], row.cancelled?)));
        self.counters("calls.cancelled", "", "Calls that were cancelled.", ["span", ""], cancelled);
    }

    fn activity(&mut self, gpu: &'a GpuActivity) {
        let of = |row: &ProjectionStats| range_model::names::in_domain(row.domain.as_deref(), &row.name);
        let rows = gpu.projections.iter().map(|row| ([of(row).into(), "".into()], &row.projected));
        let about = "GPU time of ranges, each from the start of its first operation to the end of its last.";
        self.histogram("gpu_range.duration", about, ["span", ""], rows);
        let rows = gpu.kernels.iter().map(|row| ([row.name.as_str().into(), "".into()], &row.times));
        self.histogram("kernel.duration", "Execution times of kernels.", ["kernel", ""], rows);
        let rows = gpu.memory.iter().map(|row| ([direction(row.kind).into(), "".into()], &row.times));
        self.histogram("copy.duration", "Times of copies and sets.", ["kind", ""], rows);
        let rows = gpu.memory.iter().map(|row| ([direction(row.kind).into(), "".into()], row.sizes.total_bytes));
        self.counters("copied", "By", "Bytes copied or set.", ["kind", ""], rows);
        let one = |value: u64| std::iter::once((["".into(), "".into()], value));
        let about = "Time in which a GPU ran an operation, summed over GPUs.";
        self.counters("gpu.busy", "s", about, ["", ""], one(gpu.total.busy_ns));
        self.counters("gpu.operations", "", "Kernels, copies and sets.", ["", ""], one(gpu.total.operations));
    }

    fn waits(&mut self, waits: &'a [WaitStats]) {
        let waits = waits.iter().filter(|row| row.of_waits.is_none()).in_vec();
        let labels =
            |row: &WaitStats| [row.waiter.clone().into(), row.by.clone().unwrap_or("(none)".to_owned()).into()];
        let rows = waits.iter().map(|row| (labels(row), row.time_ns));
        let about = "Waits of calls, by the span that ended them.";
        self.counters("wait", "s", about, ["span", "by"], rows);
    }

    fn losses(&mut self, losses: &'a Losses) {
        let open = losses.open.iter().map(|row| ([row.label.as_str().into(), "".into()], row.count as f64));
        self.gauges("open_ranges", "Ranges that are open.", ["span", ""], open);
        let activity = &losses.activity;
        let lost = [
            ("spans", losses.spans_dropped),
            ("names", losses.names_over_limit.saturating_add(losses.categories_over_limit)),
            ("stray_exits", losses.stray_exits),
            ("gpu_records", activity.dropped_records.saturating_add(activity.over_budget_records)),
            ("gpu_launches", activity.forgotten_launches.saturating_add(activity.unmatched)),
            ("stream_times", losses.streams.dropped.saturating_add(losses.streams.unreadable)),
        ];
        let lost = lost.into_iter().map(|(what, count)| ([what.into(), "".into()], count));
        self.counters("lost", "", "What was not measured, or not attributed.", ["what", ""], lost);
    }
}

fn direction(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Unknown => "unknown",
        MemoryKind::HtoD => "host_to_device",
        MemoryKind::DtoH => "device_to_host",
        MemoryKind::HtoA => "host_to_array",
        MemoryKind::AtoH => "array_to_host",
        MemoryKind::AtoA => "array_to_array",
        MemoryKind::AtoD => "array_to_device",
        MemoryKind::DtoA => "device_to_array",
        MemoryKind::DtoD => "device_to_device",
        MemoryKind::HtoH => "host_to_host",
        MemoryKind::PtoP => "peer_to_peer",
        MemoryKind::Set => "set",
    }
}

/// Nanoseconds as seconds, exactly.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

/// A value of a label: both formats escape these three.
fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '\\' => *out += "\\\\",
            '"' => *out += "\\\"",
            '\n' => *out += "\\n",
            _ => out.push(letter),
        }
    }
}

#[cfg(test)]
mod tests;

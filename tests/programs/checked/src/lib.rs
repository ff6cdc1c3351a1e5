//! The truth around the profiler: a layer on each side of it counts and times every span in the plainest way, and all
//! three are compared at the end of a program.
//!
//! A program builds its stack of layers with [`Run::layer`] in it, does its work, drops all its spans, and calls
//! [`Run::finish`] with its expectations. Counts must be equal, and the printed report must contain the words that name
//! the slow part. At each moment, one layer reads the clock before the profiler does and the other after it. So every
//! time has a lower and an upper bound, which differ only if the machine stopped a thread in between. The profiler's
//! time must be within 1 % or 50 us of them. If, by the same clock, a thread was stopped between the last poll of a
//! future and its drop, one more call may count as cancelled.
//!
//! A program with a planted [`Cause`] states which span the first line of the verdict must name.

pub mod call_log;
pub mod shapes;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_gpu::summary::{RangeStyle, TreeNode};
use tracing_gpu::{Output, Profiler, ProfilerBuilder, RenderOptions, Report, Summary, SummaryExt as _};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// The names from the root of the tree.
type Path = Vec<&'static str>;

/// The lower and the upper bound of a time.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    least: Duration,
    most: Duration,
}

impl Bounds {
    fn add(&mut self, other: Self) {
        self.least += other.least;
        self.most += other.most;
    }

    fn without(self, other: Self) -> Self {
        Self { least: self.least.saturating_sub(other.most), most: self.most.saturating_sub(other.least) }
    }
}

/// A moment between two readings of the clock.
#[derive(Clone, Copy, Debug)]
struct Moment {
    before: Instant,
    after: Instant,
}

impl Moment {
    /// A moment that only the first layer has seen so far.
    fn began() -> Self {
        let now = Instant::now();
        Self { before: now, after: now }
    }

    fn since(self, start: Self) -> Bounds {
        Bounds {
            least: self.before.saturating_duration_since(start.after),
            most: self.after.saturating_duration_since(start.before),
        }
    }
}

/// The expected figures of all spans of one name.
#[derive(Clone, Debug, Default)]
struct Totals {
    /// Uses. A span that is entered in ranges that are not above it is used once in each, and once more when it returns
    /// from them; a span without a parent is used at each entry on a thread without an open range; any other span once.
    calls: u64,
    /// Sum over the entries.
    total: Bounds,
    /// Time in which a span was entered on some thread, added up over the spans.
    busy: Bounds,
    /// For each span, the time from its creation to its close.
    latencies: Vec<Bounds>,
    /// For each span, the time from its creation to its last exit, and between its last two entries.
    polled: Vec<(Bounds, Bounds)>,
    /// How many look cancelled by the profiler's rule, because the machine stopped their thread between their last poll
    /// and their drop.
    stopped: u64,
    /// Entries at each place in the tree.
    places: BTreeMap<Path, u64>,
}

/// State of one span until it is closed.
struct Open {
    name: &'static str,
    created: Moment,
    /// Whether it was made as `parent: None`.
    is_alone: bool,
    /// Its place by creation.
    home: Path,
    /// The last range in which it was entered and that is not above it; and the number of such ranges.
    inside: Option<(Id, Instant)>,
    uses: u64,
    total: Bounds,
    /// `surely`: on how many threads it is surely entered, since when it is entered on any, and for how long before.
    /// `perhaps`: the same for threads on which it may be entered.
    surely: Busy,
    perhaps: Busy,
    exited: Option<Moment>,
    /// From the exit before the last entry to that entry.
    pause: Bounds,
    /// Whether the last entry surely followed that exit as fast as the drop of a finished future; and whether it came
    /// late, but neither it nor the one before surely did so.
    is_drop: bool,
    is_stopped: bool,
    places: Vec<(Path, u64)>,
}

#[derive(Default)]
struct Busy {
    entered: u32,
    since: Option<Instant>,
    time: Duration,
}

impl Busy {
    fn enter(&mut self, now: Instant) {
        self.entered += 1;
        self.since.get_or_insert(now);
    }

    fn exit(&mut self, now: Instant) {
        self.entered -= 1;
        if let Some(since) = self.since.take_if(|_| self.entered == 0) {
            self.time += now.saturating_duration_since(since);
        }
    }
}

/// A range that is open on a thread.
struct Inside {
    id: Id,
    place: Path,
    /// Whether its thread entered nothing else after its previous exit of the same span.
    is_next: bool,
    entered: Moment,
    exited: Moment,
}

/// Upper bound of the time between last poll and drop that is surely a drop; and the lower bound of a possible wait.
const AT_ONCE: Duration = Duration::from_micros(9);
const WAIT: Duration = Duration::from_micros(50);

thread_local! {
    /// The span that this thread exited last, if it has entered nothing since.
    static EXITED: Cell<Option<u64>> = const { Cell::new(None) };
    static INSIDE: RefCell<Vec<Inside>> = const { RefCell::new(Vec::new()) };
}

/// The layer that is called before the profiler's.
#[derive(Clone, Copy, Debug, Default)]
struct Before;

/// Fields that name a span, the best one first. The first gives the whole name; the others are appended to the span's
/// own name.
const NAME_FIELDS: [&str; 3] = ["otel.name", "http.route", "name"];

/// Their values.
#[derive(Default)]
struct Naming([String; 3]);

impl Naming {
    fn name(&self, own: &'static str) -> &'static str {
        match self.0.iter().position(|value| !value.is_empty()) {
            Some(0) => kept(self.0[0].clone()),
            Some(field) => kept(format!("{own}: {}", self.0[field])),
            None => own,
        }
    }
}

impl Visit for Naming {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if let Some(field) = NAME_FIELDS.iter().position(|name| *name == field.name()) {
            self.0[field] = format!("{value:?}");
        }
    }
}

/// One copy of each name that was made at run time.
static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

fn kept(name: String) -> &'static str {
    let mut names = NAMES.lock().expect("no panic");
    let known = names.get(name.as_str()).copied();
    known.unwrap_or_else(|| {
        let name = name.leak();
        names.insert(name);
        name
    })
}

/// The layer that is called after the profiler's, with the figures of all names.
#[derive(Clone, Debug, Default)]
struct After(Arc<Mutex<BTreeMap<&'static str, Totals>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Before {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).expect("a new span");
        let mut naming = Naming::default();
        attributes.record(&mut naming);
        let name = naming.name(span.name());
        let parent = span.parent().filter(|_| !attributes.is_contextual());
        let mut home = match parent {
            Some(parent) => parent.extensions().get::<Open>().map(|open| open.home.clone()).unwrap_or_default(),
            None if attributes.is_contextual() => innermost().map(|(_, place, _)| place).unwrap_or_default(),
            None => Path::new(),
        };
        home.push(name);
        span.extensions_mut().insert(Open {
            name,
            is_alone: attributes.is_root(),
            created: Moment::began(),
            home,
            inside: None,
            uses: 0,
            total: Bounds::default(),
            surely: Busy::default(),
            perhaps: Busy::default(),
            exited: None,
            pause: Bounds::default(),
            is_drop: false,
            is_stopped: false,
            places: Vec::new(),
        });
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut extensions = span.extensions_mut();
        let Some(open) = extensions.get_mut::<Open>() else { return };
        // It runs in the innermost open range of its thread, unless that has the span's own place or one above it.
        let around = innermost();
        let is_idle = around.is_none();
        let elsewhere = around.filter(|(_, place, _)| !open.home.starts_with(place));
        let place = match &elsewhere {
            Some((_, place, _)) => [place, &[open.name][..]].concat(),
            None => open.home.clone(),
        };
        match open.places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, entries)) => *entries += 1,
            None => open.places.push((place.clone(), 1)),
        }
        if let Some((range, _, since)) = elsewhere {
            let inside = Some((range, since));
            open.uses += u64::from(open.inside != inside);
            open.inside = inside;
        } else if open.inside.take().is_some() || open.is_alone && is_idle {
            open.uses += 1;
        }
        let entered = Moment::began();
        open.perhaps.enter(entered.before);
        let is_next = EXITED.take() == Some(id.into_u64());
        INSIDE
            .with_borrow_mut(|inside| inside.push(Inside { id: id.clone(), place, is_next, entered, exited: entered }));
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let exited = Moment::began();
        with_open(id, &context, |open, inside| {
            inside.exited = exited;
            open.surely.exit(exited.before);
        });
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for After {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).expect("a new span");
        span.extensions_mut().get_mut::<Open>().expect("it was seen before").created.after = Instant::now();
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        with_open(id, &context, |open, inside| {
            inside.entered.after = Instant::now();
            open.surely.enter(inside.entered.after);
            // While it is open elsewhere, it does not wait.
            let exited = open.exited.filter(|_| open.perhaps.entered == 1);
            open.pause = exited.map(|exited| inside.entered.since(exited)).unwrap_or_default();
            let is_drop = exited.is_some() && inside.is_next && open.pause.most < AT_ONCE;
            let was_drop = std::mem::replace(&mut open.is_drop, is_drop);
            open.is_stopped = !open.is_drop && !was_drop && open.pause.most > WAIT;
        });
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        with_open(id, &context, |open, inside| {
            inside.exited.after = Instant::now();
            open.perhaps.exit(inside.exited.after);
            open.total.add(inside.exited.since(inside.entered));
            open.exited = Some(inside.exited);
        });
        INSIDE.with_borrow_mut(|inside| {
            if let Some(at) = inside.iter().rposition(|inside| inside.id == *id) {
                inside.remove(at);
            }
        });
        EXITED.set(Some(id.into_u64()));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let before = Instant::now();
        let Some(span) = context.span(&id) else { return };
        let extensions = span.extensions();
        let Some(open) = extensions.get::<Open>() else { return };
        let mut all = self.0.lock().expect("no panic");
        let closed = Moment { before, after: Instant::now() };
        let totals = all.entry(open.name).or_default();
        totals.calls += open.uses.max(1);
        totals.total.add(open.total);
        totals.busy.add(Bounds { least: open.surely.time, most: open.perhaps.time });
        totals.latencies.push(closed.since(open.created));
        let polled = open.exited.map(|exited| exited.since(open.created)).unwrap_or_default();
        // A drop that may be late ends no wait, or it does.
        let least = if open.is_stopped { Duration::ZERO } else { open.pause.least };
        totals.polled.push((polled, Bounds { least, ..open.pause }));
        totals.stopped += u64::from(open.is_stopped);
        for (place, entries) in &open.places {
            *totals.places.entry(place.clone()).or_default() += entries;
        }
    }
}

/// The innermost range of this thread: its span, its place, and its begin.
fn innermost() -> Option<(Id, Path, Instant)> {
    INSIDE.with_borrow(|inside| {
        inside.last().map(|inside| (inside.id.clone(), inside.place.clone(), inside.entered.before))
    })
}

/// The state of a span that is open on this thread.
fn with_open<S>(id: &Id, context: &Context<'_, S>, change: impl FnOnce(&mut Open, &mut Inside))
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let Some(span) = context.span(id) else { return };
    let mut extensions = span.extensions_mut();
    let Some(open) = extensions.get_mut::<Open>() else { return };
    INSIDE.with_borrow_mut(|inside| {
        if let Some(inside) = inside.iter_mut().rfind(|inside| inside.id == *id) {
            change(open, inside);
        }
    });
}

/// The expectations at the end of a program.
#[derive(Clone, Debug, Default)]
pub struct Expected<'a> {
    /// The number of spans of a name, by the program's own count.
    pub spans: &'a [(&'a str, u64)],
    /// The number of calls of a name, by the program's own count, if spans are used several times.
    pub calls: &'a [(&'a str, u64)],
    /// The names of all futures.
    pub futures: &'a [&'a str],
    /// The number of cancelled calls of a name; 0 for names that are not listed.
    pub cancelled: &'a [(&'a str, u64)],
    /// The names of futures none of which may look cancelled, even if the machine stops a thread.
    pub never_cancelled: &'a [&'a str],
    /// All parents of a name in the tree.
    pub parents: &'a [(&'a str, &'a [&'a str])],
    /// Contents of the printed report: the words of a line, in this order.
    pub says: &'a [&'a str],
    /// Texts that it must not contain.
    pub never: &'a [&'a str],
    /// The names in the first lines of the verdict, in the report's file and at each width of a terminal.
    pub culprits: &'a [&'a str],
    /// The span that the first line names first.
    pub cause: Option<Cause<'a>>,
}

/// A cause that costs at most so many times as much as the second is not told from it.
const NEARLY: f64 = 1.25;

/// Why a program is slow, by its own clock.
#[derive(Clone, Debug)]
pub struct Cause<'a> {
    /// The span that the first line of the verdict must name first.
    pub name: &'a str,
    /// The time that the program lost by it, and by the second cause. On a machine that is so busy that the second is
    /// nearly as long, as where timers come late, the first line may name either, and is not compared.
    pub costs: Duration,
    pub second: Duration,
    /// The time of the span itself, on threads and waiting: that of its row is within 10 %.
    pub own: Duration,
    /// Spans that the line may name first without being wrong: those that wait for it. Then the cause is missed, which
    /// is printed and fails nothing.
    pub also_true: &'a [&'a str],
}

/// A sum of times that a program measures itself.
#[derive(Debug, Default)]
pub struct Stopwatch(AtomicU64);

impl Stopwatch {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    pub fn add(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    pub fn run<T>(&self, run: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = run();
        self.add(began.elapsed());
        result
    }

    /// From its first poll to its end.
    pub async fn follow<T>(&self, future: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let result = future.await;
        self.add(began.elapsed());
        result
    }

    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Relaxed))
    }
}

/// The number of first lines of the verdict, and the widths at which they are read.
const FIRST_LINES: usize = 3;
const WIDTHS: [usize; 3] = [80, 100, 200];

/// One run of a program.
#[derive(Debug)]
pub struct Run {
    filter: Targets,
    truth: After,
    profiler: Profiler,
    report: std::path::PathBuf,
}

impl Run {
    /// Measures the spans that this filter lets through.
    pub fn new(filter: &str) -> Self {
        Self::with(filter, Profiler::builder())
    }

    /// The same, with more settings.
    pub fn with(filter: &str, builder: ProfilerBuilder) -> Self {
        let filter: Targets = filter.parse().expect("a filter");
        let report = std::env::temp_dir().join(format!("checked-{}.txt", std::process::id()));
        let profiler = builder.filter(filter.clone()).output(Output::File(report.clone())).build().expect("a profiler");
        Self { filter, truth: After::default(), profiler, report }
    }

    /// The profiler's layer between those of the truth, all under one filter.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let after = self.truth.clone().with_filter(self.filter.clone());
        Before.with_filter(self.filter.clone()).and_then(self.profiler.layer()).and_then(after)
    }

    /// The figures so far.
    pub fn summary(&self) -> Summary {
        self.profiler.summary()
    }

    /// Prints the report, and compares it with the truth. All spans must be closed.
    pub fn finish(self, expected: Expected<'_>) -> ExitCode {
        let summary = self.profiler.summary();
        self.profiler.finish().expect("a report");
        let report = std::fs::read_to_string(&self.report).expect("the report");
        std::fs::remove_file(&self.report).expect("the report");
        print!("{report}");
        let truth = self.truth.0.lock().expect("no panic");
        let mut wrong = compare(&truth, &summary, expected.futures);
        wrong.extend(compare_calls(&truth, &summary, &expected));
        for (name, spans) in expected.spans {
            let counted = truth.get(name).map_or(0, |totals| totals.latencies.len() as u64);
            if counted != *spans {
                wrong.push(format!("{name}: {counted} spans, not {spans}"));
            }
        }
        for (name, calls) in expected.calls {
            let counted = calls_by_name(&summary).get(name).copied().unwrap_or_default();
            if counted != *calls {
                wrong.push(format!("{name}: {counted} calls, not {calls}"));
            }
        }
        for (name, parents) in expected.parents {
            let found: BTreeSet<&str> = places(&summary)
                .into_keys()
                .filter_map(|place| {
                    let (last, above) = place.split_last()?;
                    (last == name).then(|| above.last().copied().unwrap_or_default())
                })
                .collect();
            if found != parents.iter().copied().collect() {
                wrong.push(format!("{name}: below {found:?}, not {parents:?}"));
            }
        }
        let said = expected.says.iter().filter(|words| !says(&report, words));
        wrong.extend(said.map(|words| format!("no line says: {words}")));
        let said = expected.never.iter().filter(|words| says(&report, words));
        wrong.extend(said.map(|words| format!("a line says: {words}")));
        wrong.extend(unnamed(&summary, &report, expected.culprits));
        if let Some(cause) = &expected.cause {
            wrong.extend(compare_cause(&truth, &summary, &report, cause));
        }
        wrong.iter().for_each(|wrong| println!("WRONG {wrong}"));
        if !wrong.is_empty() {
            return ExitCode::FAILURE;
        }
        println!("as it was: {} names of spans", truth.len());
        ExitCode::SUCCESS
    }
}

/// The report in its file, and at each width of a terminal.
fn texts(summary: &Summary, report: &str) -> impl Iterator<Item = (String, String)> {
    let at = |width: usize| {
        let mut text = Vec::new();
        summary.render(&[Report::Tree], &RenderOptions::default().width(width), &mut text).expect("a report");
        (format!("at {width} columns"), String::from_utf8(text).expect("text"))
    };
    WIDTHS.into_iter().map(at).chain([("in the file".to_owned(), report.to_owned())])
}

/// What the first line of the verdict names instead of the cause, and what its row has instead of its time.
fn compare_cause(
    truth: &BTreeMap<&'static str, Totals>,
    summary: &Summary,
    report: &str,
    cause: &Cause<'_>,
) -> Vec<String> {
    let Cause { name, costs, second, own, also_true } = cause;
    let mut wrong = Vec::new();
    let mut ours = Duration::ZERO;
    walk(&summary.tree, &[], &mut |_, node| {
        if node.name == *name {
            ours += Duration::from_nanos(node.self_ns + node.awaited_self_ns.unwrap_or(0));
        }
    });
    if !(own.mul_f64(0.9)..=own.mul_f64(1.1)).contains(&ours) {
        wrong.push(format!("{name}: {ours:?} of its own, not {own:?}"));
    }
    let is_planted = *costs > second.mul_f64(NEARLY);
    for (place, text) in texts(summary, report).filter(|_| is_planted) {
        let line = verdict(&text).lines().next().unwrap_or_default().to_owned();
        let first = first_named(&line, truth.keys().copied());
        if first == Some(*name) {
            continue;
        }
        match first {
            Some(first) if also_true.contains(&first) => println!("{place} the first line misses `{name}`: {line}"),
            _ => wrong.push(format!("{place} the first line does not name `{name}`: {line}")),
        }
    }
    let but = if is_planted { "" } else { ", since the machine was too busy" };
    println!("cause: `{name}` costs {costs:?}, the next {second:?}{but}; its own {own:?}, by the report {ours:?}");
    wrong
}

/// The span that a line of the verdict names first: not those before it in its path.
fn first_named(line: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let places = names.flat_map(|name| line.match_indices(name).map(move |(at, _)| (at, name)));
    let whole = places.filter(|(at, name)| {
        let (before, after) = (&line[..*at], &line[at + name.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part) && !after.starts_with(" > ")
    });
    whole.min_by_key(|(at, name)| (*at, std::cmp::Reverse(name.len()))).map(|(_, name)| name)
}

/// The culprits that are missing in the first lines of the verdict, with these lines.
fn unnamed(summary: &Summary, report: &str, culprits: &[&str]) -> Vec<String> {
    texts(summary, report)
        .flat_map(|(place, text)| {
            let verdict = verdict(&text);
            let missing = culprits.iter().filter(|culprit| !verdict.contains(**culprit));
            missing
                .map(|culprit| format!("{place} the verdict does not name {culprit}:\n{verdict}"))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The first lines below the tree, which is the first report: after its title and its table.
fn verdict(report: &str) -> String {
    let below = report.trim_start().split("\n\n").nth(2).unwrap_or_default();
    below.lines().take(FIRST_LINES).collect::<Vec<_>>().join("\n")
}

/// Whether a line has these words, in this order, with any text between them.
fn says(report: &str, words: &str) -> bool {
    report.lines().any(|line| {
        let mut rest = line;
        words.split(" .. ").all(|part| match rest.split_once(part) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    })
}

/// The nodes of a tree, each with the names from its root.
fn walk<'a>(nodes: &'a [TreeNode], above: &[&'a str], visit: &mut impl FnMut(&[&'a str], &'a TreeNode)) {
    for node in nodes {
        let place = [above, &[node.name.as_str()]].concat();
        visit(&place, node);
        walk(&node.children, &place, visit);
    }
}

/// Entries at each place in the tree.
fn places(summary: &Summary) -> BTreeMap<Vec<&str>, u64> {
    let mut places = BTreeMap::new();
    walk(&summary.tree, &[], &mut |place, node| {
        if node.instances > 0 {
            *places.entry(place.to_vec()).or_default() += node.instances;
        }
    });
    places
}

/// Calls of each name, anywhere in the tree.
fn calls_by_name(summary: &Summary) -> BTreeMap<&str, u64> {
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    walk(&summary.tree, &[], &mut |_, node| *calls.entry(&node.name).or_default() += node.calls);
    calls
}

/// Spans of every name, some of which are futures: their number, and the number, places and duration of their entries.
fn compare(truth: &BTreeMap<&'static str, Totals>, summary: &Summary, futures: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let calls = calls_by_name(summary);
    let rows: BTreeMap<&str, (u64, u64)> = summary
        .ranges
        .iter()
        .filter(|row| row.style == RangeStyle::PushPop)
        .map(|row| (row.name.as_str(), (row.times.instances, row.times.total_ns)))
        .collect();
    if !calls.keys().eq(truth.keys()) {
        wrong.push(format!("names: {:?}, not {:?}", calls.keys(), truth.keys()));
    }
    for (name, totals) in truth {
        let (instances, total_ns) = rows.get(name).copied().unwrap_or_default();
        let entries = totals.places.values().sum::<u64>();
        if instances != entries {
            wrong.push(format!("{name}: {instances} instances, not {entries}"));
        }
        let counted = calls.get(name).copied().unwrap_or_default();
        // A future is one call, however many ranges poll it or enter its span.
        let expected = if futures.contains(name) { totals.latencies.len() as u64 } else { totals.calls };
        if counted != expected {
            wrong.push(format!("{name}: {counted} calls, not {expected}"));
        }
        wrong.extend(far(name, "total", total_ns, totals.total));
    }
    let of_truth: BTreeMap<_, _> = truth.values().flat_map(|totals| totals.places.clone()).collect();
    let of_ours = places(summary);
    for place in of_ours.keys().chain(of_truth.keys()).collect::<BTreeSet<_>>() {
        let [ours, truth] = [&of_ours, &of_truth].map(|places| places.get(place).copied().unwrap_or_default());
        if ours != truth {
            wrong.push(format!("{}: {ours} entries, not {truth}", place.join(" > ")));
        }
    }
    wrong
}

/// Calls of futures: their number and duration, and their busy and awaited time.
fn compare_calls(truth: &BTreeMap<&'static str, Totals>, summary: &Summary, expected: &Expected<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    let found: BTreeSet<&str> = summary.calls.iter().map(|row| row.name.as_str()).collect();
    if found != expected.futures.iter().copied().collect() {
        wrong.push(format!("futures: {found:?}, not {:?}", expected.futures));
    }
    for row in &summary.calls {
        let name = row.name.as_str();
        let Some(totals) = truth.get(name) else { continue };
        let spans = totals.latencies.len() as u64;
        if row.latency.instances != spans {
            wrong.push(format!("{name}: {} calls that ended, not {spans}", row.latency.instances));
        }
        let cancelled = expected.cancelled.iter().find(|(cancelled, _)| *cancelled == name).map_or(0, |(_, all)| *all);
        // The machine may make further calls look cancelled.
        let stopped = if expected.never_cancelled.contains(&name) { 0 } else { totals.stopped };
        let most = cancelled.max(stopped);
        if let Some(found) = row.cancelled.filter(|found| !(cancelled..=most).contains(found)) {
            wrong.push(format!("{name}: {found} cancelled, not {cancelled} to {most}"));
        }
        let (mut latency, mut longest) = (Bounds::default(), Bounds::default());
        for call in &totals.latencies {
            latency.add(*call);
            longest.least = longest.least.max(call.least);
            longest.most = longest.most.max(call.most);
        }
        // A finished future awaits nothing until it is dropped.
        let mut polled = Bounds::default();
        for (call, pause) in &totals.polled {
            polled.add(if cancelled == 0 { call.without(*pause) } else { *call });
        }
        wrong.extend(far(name, "latency", row.latency.total_ns, latency));
        wrong.extend(far(name, "longest latency", row.latency.max_ns, longest));
        wrong.extend(far(name, "busy", row.busy_ns, totals.busy));
        wrong.extend(far(name, "awaited", row.awaited_ns, polled.without(totals.busy)));
    }
    wrong
}

/// The complaint about a time that is more than 1 % and 50 us outside of its bounds.
fn far(name: &str, what: &str, ours: u64, truth: Bounds) -> Option<String> {
    let ours = Duration::from_nanos(ours);
    let allowed = (truth.most / 100).max(Duration::from_micros(50));
    let is_near = (truth.least.saturating_sub(allowed)..=truth.most + allowed).contains(&ours);
    (!is_near).then(|| format!("{name}: {what} {ours:?}, not {:?} to {:?}", truth.least, truth.most))
}

/// Keeps a processor busy.
pub fn spin(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

//! The truth beside the profiler: a layer that counts and times every span in the plainest way, and the comparison of
//! both at the end of a program.
//!
//! A program builds its stack of layers with [`Run::layer`] in it, does its work, lets go of all its spans, and calls
//! [`Run::finish`] with what must hold. Counts must be equal, times agree within 1 % or 50 us, and the printed report
//! must contain the words that name the slow part.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tracing::Subscriber;
use tracing::span::{Attributes, Id};
use tracing_gpu::summary::{RangeStyle, TreeNode};
use tracing_gpu::{Output, Profiler, ProfilerBuilder, Summary};
use tracing_subscriber::filter::{FilterExt as _, Targets};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// What is known of all spans of one name.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Spans created.
    pub spans: u64,
    /// Uses: a span that is entered in ranges that are not above it is used once in each, others are used once.
    pub calls: u64,
    /// Entries.
    pub instances: u64,
    /// Sum over the entries.
    pub total: Duration,
    /// Time in which a span was entered on some thread, summed over the spans.
    pub busy: Duration,
    /// From creation to close, summed over the spans.
    pub latency: Duration,
    /// The longest of these.
    pub longest: Duration,
    /// Entries below each parent.
    pub parents: BTreeMap<Option<&'static str>, u64>,
}

/// What is known of one span until it is closed.
struct Open {
    created: Instant,
    /// The range that it was entered in last that is not above it, and in how many.
    inside: Option<(Id, Instant)>,
    uses: u64,
    instances: u64,
    total: Duration,
    /// On how many threads it is entered, since when it is on any, and for how long it was before.
    entered: u32,
    since: Instant,
    busy: Duration,
    parents: Vec<(Option<&'static str>, u64)>,
}

#[derive(Clone, Debug, Default)]
struct Truth(Arc<Mutex<BTreeMap<&'static str, Totals>>>);

thread_local! {
    /// The spans that this thread is inside.
    static INSIDE: RefCell<Vec<(Id, &'static str, Instant)>> = const { RefCell::new(Vec::new()) };
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Truth {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let now = Instant::now();
        let open = Open {
            created: now,
            inside: None,
            uses: 0,
            instances: 0,
            total: Duration::ZERO,
            entered: 0,
            since: now,
            busy: Duration::ZERO,
            parents: Vec::new(),
        };
        context.span(id).expect("a new span").extensions_mut().insert(open);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        // It runs in the innermost open range of its thread, unless that is its own or an ancestor's, or one of the
        // same name: the tree's rows are names.
        let top = INSIDE.with_borrow(|inside| inside.last().cloned());
        let elsewhere = top.filter(|(_, name, _)| !span.scope().any(|ancestor| ancestor.name() == *name));
        let parent = match &elsewhere {
            Some((_, name, _)) => Some(*name),
            None => span.parent().map(|parent| parent.name()),
        };
        let mut extensions = span.extensions_mut();
        let Some(open) = extensions.get_mut::<Open>() else { return };
        match open.parents.iter_mut().find(|(known, _)| *known == parent) {
            Some((_, entries)) => *entries += 1,
            None => open.parents.push((parent, 1)),
        }
        if let Some((range, _, since)) = elsewhere {
            let inside = Some((range, since));
            open.uses += u64::from(open.inside != inside);
            open.inside = inside;
        }
        open.entered += 1;
        let now = Instant::now();
        if open.entered == 1 {
            open.since = now;
        }
        INSIDE.with_borrow_mut(|inside| inside.push((id.clone(), span.name(), now)));
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let now = Instant::now();
        let left = INSIDE.with_borrow_mut(|inside| {
            let at = inside.iter().rposition(|(inside, ..)| inside == id)?;
            Some(inside.remove(at))
        });
        let (Some((.., entered)), Some(span)) = (left, context.span(id)) else { return };
        let mut extensions = span.extensions_mut();
        let Some(open) = extensions.get_mut::<Open>() else { return };
        open.instances += 1;
        open.total += now - entered;
        open.entered -= 1;
        if open.entered == 0 {
            open.busy += now.saturating_duration_since(open.since);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let now = Instant::now();
        let Some(span) = context.span(&id) else { return };
        let extensions = span.extensions();
        let Some(open) = extensions.get::<Open>() else { return };
        let mut all = self.0.lock().expect("no panic");
        let totals = all.entry(span.name()).or_default();
        totals.spans += 1;
        totals.calls += open.uses.max(1);
        totals.instances += open.instances;
        totals.total += open.total;
        totals.busy += open.busy;
        totals.latency += now - open.created;
        totals.longest = totals.longest.max(now - open.created);
        for (parent, entries) in &open.parents {
            *totals.parents.entry(*parent).or_default() += entries;
        }
    }
}

/// What must hold at the end of a program.
#[derive(Clone, Debug, Default)]
pub struct Expected<'a> {
    /// How many spans of a name there were, by the program's own count.
    pub spans: &'a [(&'a str, u64)],
    /// The names of all futures.
    pub futures: &'a [&'a str],
    /// Those that may be taken for futures or not.
    pub perhaps: &'a [&'a str],
    /// How many of their calls were dropped before they were ready; none of those that are not listed.
    pub cancelled: &'a [(&'a str, RangeInclusive<u64>)],
    /// All parents of a name in the tree.
    pub parents: &'a [(&'a str, &'a [&'a str])],
    /// What the printed report contains: of each line the words, in this order.
    pub says: &'a [&'a str],
    /// What it does not contain.
    pub never: &'a [&'a str],
}

/// What did not hold. Where times alone are wrong, the machine may have stopped a thread between the two layers: exit
/// status 2.
#[derive(Debug, Default)]
struct Wrong {
    facts: Vec<String>,
    times: Vec<String>,
}

/// One run of a program.
#[derive(Debug)]
pub struct Run {
    filter: Targets,
    truth: Truth,
    profiler: Profiler,
    report: std::path::PathBuf,
}

impl Run {
    /// Measures spans by this filter.
    pub fn new(filter: &str) -> Self {
        Self::with(filter, Profiler::builder())
    }

    /// The same, with more settings.
    pub fn with(filter: &str, builder: ProfilerBuilder) -> Self {
        let filter: Targets = filter.parse().expect("a filter");
        let report = std::env::temp_dir().join(format!("checked-{}.txt", std::process::id()));
        let profiler = builder.filter(filter.clone()).output(Output::File(report.clone())).build().expect("a profiler");
        Self { filter, truth: Truth::default(), profiler, report }
    }

    /// The profiler's layer and the truth, under one filter.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        // Events are no business of either.
        let spans = tracing_subscriber::filter::filter_fn(|metadata| metadata.is_span());
        let truth = self.truth.clone().with_filter(self.filter.clone().and(spans));
        self.profiler.layer().and_then(truth)
    }

    /// What was measured so far.
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
        let mut wrong = Wrong::default();
        compare(&truth, &summary, &mut wrong);
        compare_calls(&truth, &summary, &expected, &mut wrong);
        for (name, spans) in expected.spans {
            let counted = truth.get(name).map_or(0, |totals| totals.spans);
            if counted != *spans {
                wrong.facts.push(format!("{name}: {counted} spans, not {spans}"));
            }
        }
        for (name, parents) in expected.parents {
            let found: BTreeSet<&str> =
                edges(&summary).into_keys().filter(|edge| edge.1 == *name).map(|edge| edge.0).collect();
            if found != parents.iter().copied().collect() {
                wrong.facts.push(format!("{name}: below {found:?}, not {parents:?}"));
            }
        }
        wrong.facts.extend(
            expected.says.iter().filter(|words| !says(&report, words)).map(|words| format!("no line says: {words}")),
        );
        wrong.facts.extend(
            expected.never.iter().filter(|words| says(&report, words)).map(|words| format!("a line says: {words}")),
        );
        let Wrong { facts, times } = wrong;
        facts.iter().chain(&times).for_each(|wrong| println!("WRONG {wrong}"));
        match (facts.is_empty(), times.is_empty()) {
            (true, true) => println!("as it was: {} names of spans", truth.len()),
            (true, false) => return ExitCode::from(2),
            (false, _) => return ExitCode::FAILURE,
        }
        ExitCode::SUCCESS
    }
}

/// Whether a line has these words, in this order, with anything between them.
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

/// The nodes of a tree, each with the name of its parent, which is empty for roots.
fn walk<'a>(nodes: &'a [TreeNode], parent: &'a str, visit: &mut impl FnMut(&'a str, &'a TreeNode)) {
    for node in nodes {
        visit(parent, node);
        walk(&node.children, &node.name, visit);
    }
}

/// Entries of each name below each parent.
fn edges(summary: &Summary) -> BTreeMap<(&str, &str), u64> {
    let mut edges = BTreeMap::new();
    walk(&summary.tree, "", &mut |parent, node| {
        *edges.entry((parent, node.name.as_str())).or_default() += node.instances
    });
    edges.retain(|_, entries| *entries > 0);
    edges
}

fn compare(truth: &BTreeMap<&'static str, Totals>, summary: &Summary, wrong: &mut Wrong) {
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    walk(&summary.tree, "", &mut |_, node| *calls.entry(&node.name).or_default() += node.calls);
    let rows: BTreeMap<&str, (u64, u64)> = summary
        .ranges
        .iter()
        .filter(|row| row.style == RangeStyle::PushPop)
        .map(|row| (row.name.as_str(), (row.times.instances, row.times.total_ns)))
        .collect();
    let names = |known: &mut dyn Iterator<Item = &str>| known.map(str::to_owned).collect::<BTreeSet<String>>();
    let (of_truth, of_ours) = (names(&mut truth.keys().copied()), names(&mut calls.keys().copied()));
    if of_truth != of_ours {
        wrong.facts.push(format!("names: {of_ours:?}, not {of_truth:?}"));
    }
    for (name, totals) in truth {
        let (instances, total_ns) = rows.get(name).copied().unwrap_or_default();
        if instances != totals.instances {
            wrong.facts.push(format!("{name}: {instances} instances, not {}", totals.instances));
        }
        let counted = calls.get(name).copied().unwrap_or_default();
        if counted != totals.calls {
            wrong.facts.push(format!("{name}: {counted} calls, not {}", totals.calls));
        }
        near(name, "total", total_ns, totals.total, totals.instances, wrong);
    }
    let mut of_truth = BTreeMap::new();
    for (name, totals) in truth {
        of_truth.extend(totals.parents.iter().map(|(parent, entries)| ((parent.unwrap_or_default(), *name), *entries)));
    }
    let of_ours = edges(summary);
    if of_ours != of_truth {
        for edge in of_ours.keys().chain(of_truth.keys()).collect::<BTreeSet<_>>() {
            let [ours, truth] = [&of_ours, &of_truth].map(|edges| edges.get(edge).copied().unwrap_or_default());
            if ours != truth {
                wrong.facts.push(format!("{} below {:?}: {ours} entries, not {truth}", edge.1, edge.0));
            }
        }
    }
}

/// Calls of futures: how many, for how long, and how much of that they were busy or waited.
fn compare_calls(
    truth: &BTreeMap<&'static str, Totals>,
    summary: &Summary,
    expected: &Expected<'_>,
    wrong: &mut Wrong,
) {
    let mut found: BTreeSet<&str> = summary.calls.iter().map(|row| row.name.as_str()).collect();
    found.retain(|name| !expected.perhaps.contains(name));
    if found != expected.futures.iter().copied().collect() {
        wrong.facts.push(format!("futures: {found:?}, not {:?}", expected.futures));
    }
    for row in &summary.calls {
        let allowed = expected.cancelled.iter().find(|(name, _)| *name == row.name);
        let allowed = allowed.map_or(0..=0, |(_, allowed)| allowed.clone());
        if !allowed.contains(&row.cancelled) {
            wrong.facts.push(format!("{}: {} cancelled, not {allowed:?}", row.name, row.cancelled));
        }
    }
    for row in &summary.calls {
        let Some(totals) = truth.get(row.name.as_str()) else { continue };
        let (name, calls) = (row.name.as_str(), totals.spans);
        if row.latency.instances != calls {
            wrong.facts.push(format!("{name}: {} calls that ended, not {calls}", row.latency.instances));
        }
        near(name, "latency", row.latency.total_ns, totals.latency, totals.instances, wrong);
        near(name, "longest latency", row.latency.max_ns, totals.longest, 1, wrong);
        near(name, "busy", row.busy_ns, totals.busy, totals.instances, wrong);
        near(name, "awaited", row.awaited_ns, totals.latency.saturating_sub(totals.busy), totals.instances, wrong);
    }
}

/// Times agree within 1 % or 50 us, and the microsecond an entry that both layers' own work takes.
fn near(name: &str, what: &str, ours: u64, truth: Duration, entries: u64, wrong: &mut Wrong) {
    let ours = Duration::from_nanos(ours);
    let allowed = (truth / 100).max(Duration::from_micros(50)) + Duration::from_micros(entries);
    if ours.abs_diff(truth) > allowed {
        wrong.times.push(format!("{name}: {what} {ours:?}, not {truth:?}"));
    }
}

/// Keeps a processor busy.
pub fn spin(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

//! Tests of the notes of threads, and of their join. CUDA calls are numbers here.

use std::sync::Arc;
use std::sync::mpsc::channel;

use tracing::{Dispatch, Level, Span, info_span};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::core::session::SessionOptions;
use crate::core::session::catalog::{Limits, ROOT};
use crate::core::thread::engine::Engine;
use crate::parts::launches::thread::notes::{Dropped, Taken};
use crate::{GpuLayer, GpuSubscriber};
use gpu_activity::join::{self, Context, Join};
use gpu_activity::record::{GpuOp, Kernel, Note, Work};
use gpu_activity::totals::Totals;
use range_model::RangeStyle;

#[path = "tests/moved.rs"]
mod moved;
#[path = "tests/paths.rs"]
mod paths;
#[path = "tests/room.rs"]
mod room;

/// Bytes for some thousand notes.
const ROOM: usize = 48 << 10;

/// A profiler whose notes are read, and the notes so far.
struct Listener {
    engine: &'static Engine,
    dispatch: Dispatch,
    /// Instances in order of their first note.
    instances: Vec<u64>,
    join: Join,
}

impl Listener {
    fn new(collecting: bool) -> Self {
        let engine = engine(collecting);
        Self::on(engine, Dispatch::new(GpuSubscriber::new(engine)))
    }

    fn on(engine: &'static Engine, dispatch: Dispatch) -> Self {
        assert!(!nvtx_rs::is_tool_attached() && nvtx_rs::is_tool_absent()); // from then on the fast paths apply
        let join =
            Join::new(join::Limits { launches: 1_000, nodes: 1_000, calls: 1_000, has_calls: false, instances: 1_000 });
        Self { engine, dispatch, instances: Vec::new(), join }
    }

    fn run<T>(&self, program: impl FnOnce() -> T) -> T {
        tracing::dispatcher::with_default(&self.dispatch, program)
    }

    /// The new notes, in order of threads.
    fn notes(&mut self) -> Vec<String> {
        let (mut all, mut taken) = (Vec::new(), Taken::default());
        for thread in self.engine.all_threads() {
            assert_eq!(thread.take_notes(&mut taken), Dropped::default(), "all had room");
            all.extend(taken.iter());
            thread.give_back(&mut taken);
        }
        all.iter().for_each(|(thread, note)| self.join.note(*thread, note));
        all.iter().map(|(_, note)| self.text(note)).collect()
    }

    fn text(&mut self, note: &Note) -> String {
        let mut number = |id: u64| match self.instances.iter().position(|&known| known == id) {
            _ if id == 0 => 0,
            Some(at) => at + 1,
            None => {
                self.instances.push(id);
                self.instances.len()
            }
        };
        match *note {
            Note::Began(instance) => {
                let (parent, id) = (number(instance.parent), number(instance.id));
                let name = self
                    .engine
                    .session
                    .with_names(|names| names.catalog.label_of(instance.label).unwrap().name.clone());
                let style = if instance.style == RangeStyle::StartEnd { "~" } else { "" };
                assert!(instance.start >= self.engine.session.window());
                format!("{style}{name} {id} began in {parent}")
            }
            Note::Ended { instance, .. } => format!("{} ended", number(instance)),
            Note::Left { instance } => format!("{} left", number(instance)),
            Note::Called { correlation, instance, .. } => format!("call {correlation} in {}", number(instance)),
            Note::Own { correlation } => format!("call {correlation} of our own"),
        }
    }

    /// Adds a kernel of 10 ns for each of these calls. Returns the totals.
    fn totals(&mut self, ran: impl IntoIterator<Item = u32>) -> Totals {
        self.notes();
        let context = Context { parents: &[0], keep: &|_| true };
        for correlation in ran {
            let start = u64::from(correlation) * 100;
            let work = Work::Kernel(Kernel::default());
            let place =
                GpuOp { start, end: start + 10, correlation, device: 0, context: 0, stream: 0, graph_node: 0, work };
            self.join.operation(&place, true, &context);
        }
        self.join.drained(&context, 1);
        self.join.totals(self.engine.session.clock.now())
    }
}

fn engine(collecting: bool) -> &'static Engine {
    engine_of(collecting, false, crate::Domain::Default)
}

fn engine_of(collecting: bool, nvtx: bool, domain: crate::Domain) -> &'static Engine {
    let engine = Box::leak(Box::new(Engine::new(SessionOptions {
        active: true,
        nvtx,
        statistics: true,
        domain,
        filter: Some(Targets::new().with_default(Level::TRACE)),
        sample_budget: 1 << 16,
        limits: Limits { nodes: 100, run_time_names: 100 },
        ..SessionOptions::default()
    })));
    engine.session.parts.note_room.allow(ROOM);
    engine.session.set_collecting(collecting);
    engine
}

fn call(engine: &'static Engine, correlation: u32) {
    engine.calling_thread().unwrap().note_call(correlation, false, true, |_| ROOT);
}

fn lifetime(name: &str) -> Span {
    info_span!("lifetime", nvtx.name = name, nvtx.lifetime = true, nvtx.category = tracing::field::Empty)
}

/// Runs something on a thread of its own, which ends before this returns.
fn elsewhere<T: Send>(listener: &Listener, program: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(|| listener.run(program)).join().unwrap())
}

thread_local! {
    /// Dropped when the thread ends.
    static LAST: std::cell::RefCell<Option<Span>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn calls_are_in_the_lifetimes_that_are_open_on_their_thread() {
    for with_registry in [false, true] {
        let mut listener = Listener::new(true);
        let engine = listener.engine;
        if with_registry {
            let registry = tracing_subscriber::registry().with(GpuLayer::new(engine));
            listener = Listener::on(engine, Dispatch::new(registry));
        }
        listener.run(|| {
            info_span!("outer").in_scope(|| {
                let request = lifetime("request");
                call(engine, 1);
                request.record("nvtx.category", "another");
                let unused = lifetime("unused");
                let inner = lifetime("inner");
                request.in_scope(|| call(engine, 2));
                drop((lifetime("nothing is called in it"), unused));
                drop(request);
                call(engine, 3);
                drop(inner);
            });
            call(engine, 4);
        });
        let expected = [
            "outer 1 began in 0",
            "~request 2 began in 1",
            "call 1 in 1",
            "~unused 3 began in 1",
            "~inner 4 began in 1",
            "request 5 began in 1",
            "call 2 in 5",
            "5 ended",
            "3 ended",
            "2 ended",
            "call 3 in 1",
            "4 ended",
            "1 ended",
            "call 4 in 0",
        ];
        assert_eq!(listener.notes(), expected, "with a registry: {with_registry}");
    }
}

#[test]
fn a_lifetime_that_ends_elsewhere_has_left() {
    let mut listener = Listener::new(true);
    let engine = listener.engine;
    let (called, unused) = listener.run(|| (lifetime("called"), lifetime("unused")));
    listener.run(|| drop(unused));
    listener.run(|| call(engine, 1));
    let late = listener.run(|| lifetime("late"));
    elsewhere(&listener, || {
        drop((called, late));
        call(engine, 2);
    });
    listener.run(|| call(engine, 3));
    let expected = ["~called 1 began in 0", "call 1 in 0", "1 left", "call 3 in 0", "call 2 in 0"];
    assert_eq!(listener.notes(), expected);
    let totals = listener.totals(1..=3);
    assert!(totals.projections.is_empty());
    let kernels: u64 =
        totals.range_kernels.iter().filter(|row| row.0.1.is_none()).map(|row| row.1.kernel_instances).sum();
    assert_eq!((kernels, totals.range_kernels.len()), (3, 2), "outside of any range, on two threads");
}

/// Threads take blocks of numbers.
#[test]
fn no_two_instances_have_one_number() {
    const INSTANCES: u64 = 2 * super::NUMBERS + 10;
    let (listener, mut taken, mut numbers) = (Listener::new(true), Taken::default(), std::collections::HashSet::new());
    let engine = listener.engine;
    engine.session.parts.note_room.allow(1 << 22);
    let program = || (0..INSTANCES).for_each(|_| info_span!("work").in_scope(|| call(engine, 1)));
    std::thread::scope(|scope| {
        (0..2).for_each(|_| _ = scope.spawn(|| listener.run(program)));
    });
    for thread in engine.all_threads() {
        assert_eq!(thread.take_notes(&mut taken), Dropped::default(), "all had room");
        numbers.extend(taken.iter().filter_map(|(_, note)| match note {
            Note::Began(instance) => Some(instance.id),
            _ => None,
        }));
        thread.give_back(&mut taken);
    }
    assert_eq!((numbers.len() as u64, numbers.contains(&0)), (2 * INSTANCES, false));
}

/// Threads share a state one after another, but a lifetime belongs to its thread.
#[test]
fn the_next_thread_is_not_in_the_lifetimes_of_the_last() {
    let mut listener = Listener::new(true);
    let engine = listener.engine;
    let (noted, unnoted, kept) = elsewhere(&listener, || {
        let (noted, kept) = (lifetime("noted"), lifetime("kept"));
        call(engine, 1);
        (noted, lifetime("unnoted"), kept)
    });
    elsewhere(&listener, || {
        call(engine, 2);
        let own = lifetime("own");
        call(engine, 3);
        drop((noted, unnoted, own));
    });
    assert_eq!(engine.all_threads().len(), 1);
    let expected = [
        "~noted 1 began in 0",
        "~kept 2 began in 0",
        "call 1 in 0",
        "call 2 in 0",
        "~own 3 began in 0",
        "call 3 in 0",
        "1 left",
        "3 ended",
    ];
    assert_eq!(listener.notes(), expected);
    let totals = listener.totals(1..=3);
    let names = |label| engine.session.with_names(|names| names.catalog.label_of(label).unwrap().name.to_string());
    let rows: Vec<_> = totals.projections.iter().map(|((label, _), row)| (names(*label), row.operations)).collect();
    assert_eq!(rows, [("kept".to_owned(), 1), ("own".to_owned(), 1)], "what never ends lasts to the end");
    drop(kept);
}

/// While the thread is torn down, closes and launches are not measured.
#[test]
fn a_lifetime_that_ends_with_its_thread_has_left() {
    let mut listener = Listener::new(true);
    let engine = listener.engine;
    elsewhere(&listener, || {
        LAST.set(None); // so that its destructor runs after ours
        let span = lifetime("last");
        call(engine, 1);
        LAST.set(Some(span));
    });
    assert_eq!(listener.notes(), ["~last 1 began in 0", "call 1 in 0", "1 left"]);
    assert_eq!(engine.session.losses.spans_dropped.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[test]
fn a_lifetime_is_as_long_as_the_window() {
    let mut listener = Listener::new(true);
    let engine = listener.engine;
    let (first, second) = listener.run(|| (lifetime("request"), lifetime("request")));
    listener.run(|| drop(first));
    engine.restart();
    listener.run(|| call(engine, 1)); // the start is checked there
    listener.run(|| drop(second));
    assert_eq!(listener.notes(), ["~request 1 began in 0", "call 1 in 0", "1 ended"]);
    let totals = listener.totals([1]);
    let row = totals.projections.values().next().unwrap();
    let window = u128::from(engine.session.clock.now() - engine.session.window());
    assert!((1..window).contains(&row.range_total), "{} of {window}", row.range_total);
}

#[test]
fn what_an_exit_further_down_closes_is_as_long_as_in_the_table() {
    let mut listener = Listener::new(true);
    let engine = listener.engine;
    listener.run(|| {
        let open = [info_span!("outer").entered(), info_span!("inner").entered()];
        call(engine, 1);
        open.into_iter().for_each(drop); // the outer one first
    });
    let outer = listener.totals([1]).projections[&(1, RangeStyle::PushPop)].range_total;
    assert!(engine.all_threads()[0].rows().any(|row| row.copy().times.total == outer));
}

#[test]
fn lifetimes_cost_nothing_while_nobody_collects() {
    let mut listener = Listener::new(false);
    let engine = listener.engine;
    listener.run(|| {
        let request = lifetime("request");
        assert_eq!(lifetimes_with_calls(engine), 0);
        call(engine, 1);
        drop(request);
    });
    assert_eq!(listener.notes(), ["call 1 in 0"]);
}

#[test]
fn lifetimes_that_calls_are_made_in_are_counted_until_they_end() {
    let listener = Listener::new(true);
    let engine = listener.engine;
    listener.run(|| {
        let requests = [lifetime("one"), lifetime("another")];
        assert_eq!(lifetimes_with_calls(engine), 2);
        drop(requests);
        assert_eq!(lifetimes_with_calls(engine), 0);
        let _left = lifetime("left");
        engine.thread().unwrap().parts.launches.leave_lifetimes();
        assert_eq!(lifetimes_with_calls(engine), 0);
    });
}

fn lifetimes_with_calls(engine: &'static Engine) -> u32 {
    engine.thread().unwrap().parts.launches.lifetimes_with_calls.load(std::sync::atomic::Ordering::Relaxed)
}

/// The part `lifetimes` of the check on a GPU (`tests/examples/gpu_check/activity`). Nsight Systems reports the same
/// for that run.
#[test]
fn a_request_is_projected_and_what_was_handed_over_is_not() {
    let mut listener = Listener::new(true);
    let engine = listener.engine;
    let (sender, receiver) = channel::<Span>();
    listener.run(|| {
        let request = lifetime("request");
        call(engine, 1);
        (2..=3).for_each(|correlation| request.in_scope(|| call(engine, correlation)));
        drop(request);
        let handed_over = lifetime("hand over");
        handed_over.in_scope(|| call(engine, 4));
        sender.send(handed_over).unwrap();
    });
    elsewhere(&listener, move || drop(receiver.recv().unwrap()));
    let totals = listener.totals(1..=4);
    let name = |label| engine.session.with_names(|names| Arc::clone(&names.catalog.label_of(label).unwrap().name));
    let nesting: Vec<_> = totals.projections.values().map(|row| (row.level_sum, row.children_sum)).collect();
    assert_eq!(nesting, [(0, 0); 3], "a request is no level");
    let projected: Vec<_> = totals
        .projections
        .iter()
        .map(|(&(label, style), row)| (name(label), style, row.projected.count, row.operations, row.projected.total))
        .collect();
    let (on_stack, whole) = (RangeStyle::PushPop, RangeStyle::StartEnd);
    let row = |name: &str, style, instances, operations, total| (Arc::from(name), style, instances, operations, total);
    let expected =
        [row("request", on_stack, 2, 2, 20), row("request", whole, 1, 3, 210), row("hand over", on_stack, 1, 1, 10)];
    assert_eq!(projected, expected);
    let kernels: Vec<_> = totals
        .range_kernels
        .iter()
        .map(|(&(_, range, _), row)| (range.map(|(label, style)| (name(label), style)), row.kernel_instances))
        .collect();
    let expected = [("request", on_stack, 2), ("request", whole, 3), ("hand over", on_stack, 1)];
    assert_eq!(kernels, expected.map(|(name, style, kernels)| (Some((Arc::from(name), style)), kernels)));
}

#[cfg(feature = "injection")]
/// A tool that measures its own cost may do this. A tool is attached for the life of a process, here a child process.
#[test]
fn calls_that_a_tool_makes_as_a_range_begins_are_of_the_same_instance() {
    let child = "parts::launches::thread::launch_log::tests::child_with_a_tool_that_calls";
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", child, "--ignored"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[cfg(feature = "injection")]
#[test]
#[ignore = "a child of another test"]
fn child_with_a_tool_that_calls() {
    static ENGINE: std::sync::OnceLock<&'static Engine> = std::sync::OnceLock::new();
    let tool = |call: &nvtx_rs::tool::Call<'_>| {
        if let (nvtx_rs::tool::Call::Push { .. }, Some(engine)) = (call, ENGINE.get()) {
            super::tests::call(engine, 1);
        }
    };
    nvtx_rs::tool::attach(Box::new(tool)).unwrap();
    let engine = engine_of(true, true, crate::Domain::Default);
    ENGINE.set(engine).unwrap();
    let join =
        Join::new(join::Limits { launches: 1_000, nodes: 1_000, calls: 1_000, has_calls: false, instances: 1_000 });
    let dispatch = Dispatch::new(GpuSubscriber::new(engine));
    let mut listener = Listener { engine, dispatch, instances: Vec::new(), join };
    listener.run(|| info_span!("a").in_scope(|| call(engine, 2)));
    assert_eq!(listener.notes(), ["a 1 began in 0", "call 1 in 1", "call 2 in 1", "1 ended"]);
}

//! Programs of spans on three threads, one step at a time, against a slow and plain reference: lists of open ranges,
//! and a map from paths to counts.

use range_model::summary::TreeNode;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use tracing::span::Id;
use tracing::{Dispatch, Span, info_span};
use tracing_gpu::{Gpu, Output, Parents, Profiler};
use tracing_subscriber::prelude::*;

const THREADS: usize = 3;
const STEPS: usize = 96;
const SPANS: usize = 16;
/// The longest path, because the number of nodes of a profiler is limited, over all inputs together.
const DEPTH: usize = 5;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A profiler, its dispatcher and its setting of parents.
struct World {
    profiler: Profiler,
    dispatch: Dispatch,
    parents: Parents,
}

/// They live as long as the process, like a profiler's memory.
static WORLDS: LazyLock<[World; 4]> = LazyLock::new(|| {
    [(true, Parents::Entered), (true, Parents::Created), (false, Parents::Entered), (false, Parents::Created)].map(
        |(is_layer, parents)| {
            let builder = Profiler::builder().environment(false).output(Output::None).nvtx(false).gpu(Gpu::Off);
            let profiler = builder.parents(parents).build().expect("settings that can be used");
            let dispatch = match is_layer {
                true => Dispatch::new(tracing_subscriber::registry().with(profiler.layer())),
                false => Dispatch::new(profiler.subscriber()),
            };
            World { profiler, dispatch, parents }
        },
    )
});

pub fn run(data: &[u8]) {
    let Some((world, steps)) = data.split_first() else { return };
    let world = &WORLDS[usize::from(*world) % WORLDS.len()];
    world.profiler.reset();
    std::thread::scope(|scope| {
        let threads: Vec<Worker> = (0..THREADS)
            .map(|_| {
                let (sender, receiver) = sync_channel::<Job>(0);
                let (done, answers) = channel();
                scope.spawn(move || {
                    let _current = tracing::dispatcher::set_default(&world.dispatch);
                    receiver.into_iter().for_each(|job| job(&done));
                });
                Worker { sender, answers }
            })
            .collect();
        let mut program = Program { threads, spans: Vec::new(), reference: Reference::default(), world };
        for step in steps.chunks_exact(3).take(STEPS) {
            program.step(step[0], usize::from(step[1]) % THREADS, step[2]);
        }
        program.end();
        program.compare();
    });
}

type Answer = Option<Span>;
type Job = Box<dyn FnOnce(&Sender<Answer>) + Send>;

struct Worker {
    sender: SyncSender<Job>,
    answers: std::sync::mpsc::Receiver<Answer>,
}

impl Worker {
    /// Runs `work` on this worker's thread, to its end.
    fn run(&self, work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
        let job: Job = Box::new(move |done| done.send(work()).expect("the program waits"));
        self.sender.send(job).expect("the worker waits");
        self.answers.recv().expect("the worker answers")
    }
}

struct Program<'a> {
    threads: Vec<Worker>,
    /// The handles of each span, and its number.
    spans: Vec<(Vec<Span>, Id)>,
    reference: Reference,
    world: &'a World,
}

impl Program<'_> {
    fn step(&mut self, kind: u8, thread: usize, pick: u8) {
        let live: Vec<usize> = (0..self.spans.len()).filter(|span| !self.spans[*span].0.is_empty()).collect();
        let picked = live.get(usize::from(pick) % live.len().max(1)).copied();
        let name = usize::from(pick >> 4) % NAMES.len();
        match (kind % 16, picked) {
            (0..=2, _) => self.create(thread, name, Some(None)),
            (3, _) => self.create(thread, name, None),
            (4, Some(parent)) => self.create(thread, name, Some(Some(parent))),
            (5..=8, Some(span)) => self.enter(thread, span),
            (9..=10, _) => {
                if let Some(span) = self.reference.innermost(thread) {
                    self.exit(thread, span);
                }
            }
            (11, Some(span)) => self.exit(thread, span),
            (12, Some(span)) => {
                let handle = self.spans[span].0[0].clone();
                self.spans[span].0.push(handle);
            }
            (13, Some(span)) => {
                let handle = self.spans[span].0.pop();
                self.threads[thread].run(move || {
                    drop(handle);
                    None
                });
            }
            (14, Some(span)) => {
                let handle = self.spans[span].0[0].clone();
                self.threads[thread].run(move || {
                    handle.record("value", 7);
                    None
                });
            }
            (15, _) if pick < 64 => {
                self.world.profiler.reset();
                self.reference.reset();
            }
            (15, _) => drop(self.world.profiler.summary()),
            _ => {}
        }
    }

    /// Creates a span: without a parent, below the current span, or below a given one.
    fn create(&mut self, thread: usize, name: usize, parent: Option<Option<usize>>) {
        let is_lost = parent.is_none() && !self.is_current(thread);
        if self.spans.len() == SPANS || is_lost || !self.reference.create(thread, name, parent) {
            return;
        }
        let below = parent.flatten().map(|parent| self.spans[parent].1.clone());
        let made = self.threads[thread].run(move || Some(span(name, parent.is_none(), below)));
        let made = made.expect("a span was made");
        let id = made.id().expect("it is enabled");
        self.spans.push((vec![made], id));
    }

    /// Whether profiler and reference agree on the innermost span. A registry keeps a span that was exited elsewhere,
    /// and gives spans that a thread has not exited to a later thread.
    fn is_current(&self, thread: usize) -> bool {
        let innermost = self.reference.innermost(thread).map(|span| self.spans[span].1.clone());
        let dispatch = self.world.dispatch.clone();
        let same = move || (dispatch.current_span().id() == innermost.as_ref()).then(Span::none);
        self.threads[thread].run(same).is_some()
    }

    fn enter(&mut self, thread: usize, span: usize) {
        if self.reference.enter(thread, span, self.world.parents) {
            let handle = self.spans[span].0[0].clone();
            self.threads[thread].run(move || {
                handle.with_subscriber(|(id, dispatch)| dispatch.enter(id));
                None
            });
        }
    }

    fn exit(&mut self, thread: usize, span: usize) {
        self.reference.exit(thread, span);
        let (id, dispatch) = (self.spans[span].1.clone(), self.world.dispatch.clone());
        self.threads[thread].run(move || {
            dispatch.exit(&id);
            None
        });
    }

    /// Ends everything that is open, innermost first, and drops all handles.
    fn end(&mut self) {
        for thread in 0..THREADS {
            while let Some(span) = self.reference.innermost(thread) {
                self.exit(thread, span);
            }
        }
        self.spans.clear();
    }

    fn compare(&self) {
        let summary = self.world.profiler.summary();
        let (mut paths, mut names) = (BTreeMap::new(), BTreeMap::<&str, (u64, u64)>::new());
        add(&summary.tree, "", &mut paths, &mut names);
        let expected = &self.reference;
        assert_eq!(summary.losses.split_instances, expected.split);
        assert_eq!(summary.losses.stray_exits, expected.stray);
        assert_eq!(summary.losses.open, []);
        // If exits did not nest, the tree joins a chain of one name into one node, as for guards that were held too
        // long.
        let is_nested = !expected.misnested;
        if is_nested {
            assert_eq!(paths, expected.paths);
        } else {
            assert_eq!(without_chains(&paths), without_chains(&expected.paths));
        }
        assert_eq!(summary.ranges.len(), names.len());
        for row in &summary.ranges {
            let (instances, total) = names[row.name.as_str()];
            assert_eq!(row.times.instances, instances, "{}", row.name);
            // Each sum is rounded once.
            let rounded = (paths.len() + names.len()) as u64;
            let is_sum = row.times.total_ns.abs_diff(total) <= rounded;
            assert!(is_sum || !is_nested && total <= row.times.total_ns, "{}: {total} ns, {row:?}", row.name);
        }
    }
}

fn without_chains(paths: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (path, instances) in paths {
        let mut letters: Vec<char> = path.chars().collect();
        letters.dedup();
        *all.entry(letters.into_iter().collect()).or_default() += instances;
    }
    all
}

/// Instances by path, and instances and time by name.
fn add<'a>(
    nodes: &'a [TreeNode],
    above: &str,
    paths: &mut BTreeMap<String, u64>,
    names: &mut BTreeMap<&'a str, (u64, u64)>,
) {
    for node in nodes {
        let path = format!("{above}{}", node.name);
        assert!(node.self_ns <= node.total_ns, "{path}: {node:?}");
        add(&node.children, &path, paths, names);
        if node.instances > 0 {
            paths.insert(path, node.instances);
            let (instances, total) = names.entry(&node.name).or_default();
            *instances += node.instances;
            *total += node.total_ns;
        }
    }
}

fn span(name: usize, is_root: bool, below: Option<Id>) -> Span {
    macro_rules! made {
        ($name:literal $(, $field:literal)?) => {
            match (is_root, below) {
                (true, _) => info_span!(parent: None, $name, value = tracing::field::Empty $(, nvtx.name = $field)?),
                (_, Some(id)) => info_span!(parent: id, $name, value = tracing::field::Empty $(, nvtx.name = $field)?),
                _ => info_span!($name, value = tracing::field::Empty $(, nvtx.name = $field)?),
            }
        };
    }
    match name {
        0 => made!("a"),
        1 => made!("b"),
        2 => made!("c"),
        _ => made!("another", "d"),
    }
}

/// The expected state.
#[derive(Default)]
struct Reference {
    /// Name, and path by creation.
    spans: Vec<(usize, String)>,
    open: [Vec<Open>; THREADS],
    /// Exits on other threads of spans that are open on a thread: the span, and when.
    told: [Vec<(usize, u64)>; THREADS],
    now: u64,
    paths: BTreeMap<String, u64>,
    split: u64,
    stray: u64,
    /// Whether an exit was not that of its thread's innermost range.
    misnested: bool,
}

#[derive(Clone)]
struct Open {
    span: usize,
    path: String,
    since: u64,
}

impl Reference {
    fn create(&mut self, thread: usize, name: usize, parent: Option<Option<usize>>) -> bool {
        let above = match parent {
            None => "",
            Some(Some(parent)) => &self.spans[parent].1,
            Some(None) => self.open[thread].last().map_or("", |open| &open.path),
        };
        if above.len() == DEPTH {
            return false;
        }
        let path = format!("{above}{}", NAMES[name]);
        self.spans.push((name, path));
        true
    }

    fn enter(&mut self, thread: usize, span: usize, parents: Parents) -> bool {
        self.now += 1;
        let (name, home) = &self.spans[span];
        let path = match self.open[thread].last() {
            // In the innermost range, unless that is the span itself or above it.
            Some(top) if parents == Parents::Entered && !home.starts_with(&top.path) => {
                format!("{}{}", top.path, NAMES[*name])
            }
            _ => home.clone(),
        };
        if path.len() > DEPTH || self.open[thread].len() > 40 {
            return false;
        }
        self.open[thread].push(Open { span, path, since: self.now });
        true
    }

    fn innermost(&self, thread: usize) -> Option<usize> {
        self.open[thread].last().map(|open| open.span)
    }

    fn exit(&mut self, thread: usize, span: usize) {
        self.now += 1;
        let open = &mut self.open[thread];
        let Some(exited) = open.iter().rposition(|open| open.span == span) else {
            self.stray += 1;
            self.misnested = true;
            for (other, open) in self.open.iter().enumerate() {
                if other != thread && open.iter().any(|open| open.span == span) {
                    self.told[other].push((span, self.now));
                }
            }
            return;
        };
        if exited + 1 == open.len() {
            let ended = open.pop().expect("it is there");
            *self.paths.entry(ended.path).or_default() += 1;
            return;
        }
        self.misnested = true;
        // Spans that were exited elsewhere leave now, too. Everything above the lowest leaving one ends; the rest opens
        // again.
        let mut leaves = vec![false; open.len()];
        leaves[exited] = true;
        for (span, when) in self.told[thread].drain(..) {
            let meant = |at: &usize| open[*at].span == span && open[*at].since <= when && !leaves[*at];
            if let Some(at) = (0..open.len()).rev().find(meant) {
                leaves[at] = true;
            }
        }
        let lowest = leaves.iter().position(|leaves| *leaves).expect("the one that was exited");
        for (at, ended) in open.split_off(lowest).into_iter().enumerate() {
            *self.paths.entry(ended.path.clone()).or_default() += 1;
            if !leaves[lowest + at] {
                self.split += 1;
                open.push(Open { since: self.now, ..ended });
            }
        }
    }

    fn reset(&mut self) {
        self.now += 1;
        self.paths.clear();
        (self.split, self.stray, self.misnested) = (0, 0, false);
        self.open.iter_mut().flatten().for_each(|open| open.since = self.now);
    }
}

//! Batches: a program that serves several requests by one span, which follows from theirs. It logs by its own clock
//! what it did, and prints for each name of a request what its batches must have been.

use std::io::Write as _;
use std::pin::Pin;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tracing::instrument::Instrumented;
use tracing::{Instrument as _, Span, info_span};

use crate::stage::{Pending, measure, on_thread, poll};
use crate::{Outcome, Scenario, Tier};

pub(crate) const ALL: &[Scenario] = &[
    ("batches", batches),
    ("batches-of-one-row", of_one_row),
    ("batches-of-plain-spans", of_plain_spans),
    ("follows-without-batches", follows_without_batches),
];

/// A moment: nanoseconds since the first, before and after what happened.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    before: u64,
    after: u64,
}

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Does something, and logs when.
fn logged<T>(moment: &mut Moment, what: impl FnOnce() -> T) -> T {
    moment.before = now();
    let result = what();
    moment.after = now();
    result
}

/// One instance.
fn stay(span: &Span, pause: Duration) -> (Moment, Moment) {
    let (mut entered, mut exited) = (Moment::default(), Moment::default());
    let guard = logged(&mut entered, || span.enter());
    sleep(pause);
    logged(&mut exited, || drop(guard));
    (entered, exited)
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }

    fn pause(&mut self) {
        sleep(Duration::from_micros(50 + self.below(500)));
    }
}

type Future = Pin<Box<Instrumented<Pending>>>;

struct Request {
    name: String,
    weight: f64,
    future: Option<Future>,
    span: Option<tracing::Id>,
    created: Moment,
    closed: Moment,
}

#[derive(Default)]
struct Batch {
    serves: Vec<usize>,
    /// Entries and exits.
    instances: Vec<(Moment, Moment)>,
}

#[derive(Default)]
struct Log {
    requests: Vec<Request>,
    batches: Vec<Batch>,
}

/// A batch that was begun: its number in the log, and its span or its future, which is polled until it is ready.
enum Running {
    Entered(usize, Span),
    Polled(usize, Future),
}

impl Log {
    /// A request that waits. Every second has a row of its own, and every third a weight.
    fn arrive(&mut self, random: &mut Random) {
        let number = self.requests.len();
        let weight = if number.is_multiple_of(3) { random.below(5) as f64 / 2.0 } else { 1.0 };
        let own_name = format!("request {number}");
        let (mut created, mut span) = (Moment::default(), Span::none());
        let name = logged(&mut created, || match (number % 2, number % 3) {
            (0, 0) => {
                span = info_span!("request", nvtx.name = own_name, gpu.weight = weight);
                own_name
            }
            (0, _) => {
                span = info_span!("request", nvtx.name = own_name);
                own_name
            }
            (_, 0) => {
                span = info_span!("weighted", gpu.weight = weight);
                "weighted".to_owned()
            }
            _ => {
                span = info_span!("request");
                "request".to_owned()
            }
        });
        let id = span.id();
        let mut future = Box::pin(Pending(usize::MAX).instrument(span));
        assert!(poll(future.as_mut()).is_pending());
        self.requests.push(Request { name, weight, future: Some(future), span: id, created, closed: created });
    }

    fn open_requests(&self) -> Vec<usize> {
        (0..self.requests.len()).filter(|number| self.requests[*number].future.is_some()).collect()
    }

    /// Ends a request: it is cancelled, as far as a profiler can tell.
    fn leave(&mut self, number: usize) {
        let request = &mut self.requests[number];
        let _ready = request.future.as_mut().is_some_and(|future| poll(future.as_mut()).is_ready());
        let future = request.future.take();
        logged(&mut request.closed, || drop(future));
        request.span = None;
    }

    /// Links a batch to up to six open requests.
    fn serve(&mut self, span: &Span, random: &mut Random) -> usize {
        let mut batch = Batch::default();
        let mut open = self.open_requests();
        for _ in 0..(1 + random.below(6)).min(open.len() as u64) {
            let request = open.swap_remove(random.below(open.len() as u64) as usize);
            span.follows_from(self.requests[request].span.clone());
            batch.serves.push(request);
        }
        if let Some(request) = batch.serves.first() {
            span.follows_from(self.requests[*request].span.clone()); // once more counts once
        }
        self.batches.push(batch);
        self.batches.len() - 1
    }

    /// Enters the span of a batch for a while, perhaps on another thread.
    fn run(&mut self, number: usize, span: &Span, random: &mut Random) {
        let pause = Duration::from_micros(random.below(400));
        let instance = if random.below(3) == 0 {
            let span = span.clone();
            on_thread("device", move || stay(&span, pause))
        } else {
            stay(span, pause)
        };
        self.batches[number].instances.push(instance);
    }

    /// The sums of this name: how many batches, and within which bounds the times must be.
    fn truth(&self, name: &str) -> (u64, [u64; 2], [f64; 2]) {
        let (mut count, mut in_batch, mut share) = (0, [0; 2], [0.0; 2]);
        for (number, request) in self.requests.iter().enumerate().filter(|(_, request)| request.name == name) {
            let (mut surely, mut perhaps) = (Vec::new(), Vec::new());
            for batch in self.batches.iter().filter(|batch| batch.serves.contains(&number)) {
                count += 1;
                let (Some((first, _)), Some((_, last))) = (batch.instances.first(), batch.instances.last()) else {
                    continue;
                };
                let Request { created, closed, .. } = request;
                surely.push((first.after.max(created.after), last.before.min(closed.before)));
                perhaps.push((first.before.max(created.before), last.after.min(closed.after)));
                let all: f64 = batch.serves.iter().map(|served| self.requests[*served].weight).sum();
                let part = if all > 0.0 { request.weight / all } else { 1.0 / batch.serves.len() as f64 };
                for (entered, exited) in &batch.instances {
                    share[0] += exited.before.saturating_sub(entered.after) as f64 * part;
                    share[1] += (exited.after - entered.before) as f64 * part;
                }
            }
            in_batch[0] += union(surely);
            in_batch[1] += union(perhaps);
        }
        (count, in_batch, share)
    }

    /// A line for each name of a request: the name, the number of batches, and the bounds.
    fn print(&self) -> Outcome {
        let mut names: Vec<&str> = self.requests.iter().map(|request| request.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let (count, [low, high], [least, most]) = self.truth(name);
            writeln!(std::io::stdout(), "truth|{name}|{count}|{low}|{high}|{least:.1}|{most:.1}")?;
        }
        Ok(())
    }
}

/// The length of all moments that are in one of these, end excluded.
fn union(mut stretches: Vec<(u64, u64)>) -> u64 {
    stretches.sort_unstable();
    let (mut sum, mut reached) = (0, 0);
    for (begin, end) in stretches {
        sum += end.saturating_sub(begin.max(reached));
        reached = reached.max(end);
    }
    sum
}

/// Requests arrive, are cancelled, and are served by batches of all kinds: entered once or more, polled, begun before
/// they are linked, on other threads, inside each other, with requests that leave before their batch. `SEED` in the
/// environment makes another program.
fn batches(tier: Tier) -> Outcome {
    let mut log = Log::default();
    measure(tier, || {
        let mut random = Random(std::env::var("SEED").map_or(7, |seed| seed.parse().expect("a number")));
        let mut running: Vec<Running> = Vec::new();
        for _ in 0..160 {
            let open = log.open_requests();
            match random.below(8) {
                0..=2 => log.arrive(&mut random),
                3 if !open.is_empty() => log.leave(open[random.below(open.len() as u64) as usize]),
                4 => {
                    let span = info_span!("batch");
                    let number = log.serve(&span, &mut random);
                    running.push(Running::Entered(number, span));
                }
                5 => linked_inside(&mut log, &mut random, 0),
                6 => {
                    let span = info_span!("decode", nvtx.color = "red");
                    let number = log.serve(&span, &mut random);
                    let steps = random.below(3) as usize;
                    running.push(Running::Polled(number, Box::pin(Pending(steps).instrument(span))));
                }
                _ => {}
            }
            random.pause();
            let any = random.below(running.len().max(1) as u64) as usize;
            if let Some(batch) = running.get_mut(any) {
                let is_over = match batch {
                    Running::Entered(number, span) => {
                        log.run(*number, span, &mut random);
                        random.below(2) == 0
                    }
                    Running::Polled(number, future) => {
                        // The instance lasts as long as the poll, between the clock's readings at both ends.
                        let (before, is_ready, after) = (now(), poll(future.as_mut()).is_ready(), now());
                        let end = Moment { before, after };
                        log.batches[*number].instances.push((end, end));
                        is_ready
                    }
                };
                if is_over {
                    let over = running.swap_remove(any);
                    if let Running::Polled(number, future) = over {
                        // The drop enters its span once more.
                        let mut end = Moment::default();
                        logged(&mut end, || drop(future));
                        log.batches[number].instances.push((end, end));
                    }
                }
            }
        }
        for batch in running {
            if let Running::Polled(number, future) = batch {
                let mut end = Moment::default();
                logged(&mut end, || drop(future));
                log.batches[number].instances.push((end, end));
            }
        }
        log.open_requests().into_iter().for_each(|request| log.leave(request));
    })?;
    log.print()
}

/// A batch that is linked while it is entered, once or twice, and perhaps has another one inside.
fn linked_inside(log: &mut Log, random: &mut Random, depth: u64) {
    let is_once = random.below(2) == 0;
    let span = if is_once { info_span!("inside once") } else { info_span!("inside") };
    let [mut entered, mut exited] = [Moment::default(); 2];
    let guard = logged(&mut entered, || span.enter());
    random.pause();
    let inner = (!is_once).then(|| span.enter());
    let number = log.serve(&Span::current(), random);
    if depth < 3 && random.below(2) == 0 {
        linked_inside(log, random, depth + 1);
    }
    if random.below(2) == 0
        && let Some(request) = log.batches[number].serves.first()
        && log.requests[*request].future.is_some()
    {
        log.leave(*request);
    }
    random.pause();
    drop(inner);
    logged(&mut exited, || drop(guard));
    // Its running time is the time in which an instance was open.
    log.batches[number].instances.push((entered, exited));
}

/// All requests have one name, and so have all batches, of ten requests each.
fn of_one_row(tier: Tier) -> Outcome {
    measure(tier, || {
        for _ in 0..7 {
            let mut requests: Vec<_> = (0..10)
                .map(|_| {
                    let span = info_span!("request");
                    (span.id(), Box::pin(Pending(1).instrument(span)))
                })
                .collect();
            requests.iter_mut().for_each(|(_, future)| assert!(poll(future.as_mut()).is_pending()));
            let span = info_span!("batch");
            requests.iter().for_each(|(id, _)| _ = span.follows_from(id.clone()));
            span.in_scope(|| sleep(Duration::from_millis(1)));
            drop(span);
            requests.iter_mut().for_each(|(_, future)| assert!(poll(future.as_mut()).is_ready()));
        }
    })
}

/// Requests that block their threads: their spans are entered once, and are no calls. The last batch serves a future,
/// too.
fn of_plain_spans(tier: Tier) -> Outcome {
    measure(tier, || {
        for number in 0..10 {
            let request = info_span!("request");
            let _guard = request.enter();
            let batch = info_span!("batch");
            batch.follows_from(&request);
            let mut future = Box::pin(Pending(1).instrument(info_span!("future")));
            assert!(poll(future.as_mut()).is_pending());
            if number == 9 {
                batch.follows_from(future.span());
            }
            batch.in_scope(|| sleep(Duration::from_millis(1)));
            assert!(poll(future.as_mut()).is_ready());
        }
    })
}

/// Spans that follow from others that have closed, from themselves, and from spans that are not measured.
fn follows_without_batches(tier: Tier) -> Outcome {
    measure(tier, || {
        let span = info_span!("span");
        span.follows_from(&span);
        span.follows_from(tracing::debug_span!("hidden"));
        tracing::debug_span!("hidden").follows_from(&span);
        span.in_scope(|| ());
    })
}

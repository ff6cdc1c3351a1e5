use super::*;
use crate::core::record::OnCpu;
use crate::parts::calls::session::table::Spare;
use crate::parts::calls::session::{EndedCall, Entry, LastExit};

/// A program in simulated time: what it does goes to the calls and, tick by tick, into a log.
struct Program {
    calls: Calls,
    spare: Spare,
    batches: Batches,
    random: u64,
    now: Ticks,
    spans: Vec<Span>,
    served: Vec<Served>,
}

/// What the log has of one span.
#[derive(Default)]
struct Span {
    call: CallId,
    created: Ticks,
    closed: Option<Ticks>,
    /// Open instances, and the ticks in which there were any.
    open: u64,
    busy: Vec<Ticks>,
    /// From its first entry to its last exit.
    stay: Option<(Ticks, Ticks)>,
    serves: Vec<(usize, f64)>,
}

impl Program {
    fn new(seed: u64) -> Self {
        let (calls, spare, batches) = (Calls::new(&crate::clock::Clock::new()), Spare::default(), Batches::default());
        Self { calls, spare, batches, random: seed, now: 10, spans: Vec::new(), served: Vec::new() }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.random >> 33) % end
    }

    fn pass(&mut self, ticks: u64) {
        for tick in self.now..self.now + ticks {
            self.spans.iter_mut().filter(|span| span.open > 0).for_each(|span| span.busy.push(tick));
        }
        self.now += ticks;
    }

    /// A new span. The number of the thread tells which.
    fn create(&mut self) -> usize {
        let number = self.spans.len();
        let call = self.calls.begin(&self.spare, number as u32, Place::new(3, 2), 0, self.now);
        self.spans.push(Span { call, created: self.now, ..Span::default() });
        number
    }

    fn link(&mut self, batch: usize, served: usize, weight: Option<f64>) {
        self.batches.link(&self.calls, self.spans[batch].call, self.spans[served].call, weight);
        let span = &mut self.spans[batch];
        if batch != served && span.serves.iter().all(|(known, _)| *known != served) {
            span.serves.push((served, weight.unwrap_or(1.0)));
        }
    }

    fn enter(&mut self, number: usize) {
        let span = &mut self.spans[number];
        span.open += 1;
        span.stay.get_or_insert((self.now, self.now));
        self.calls.enter(0, self.calls.get(span.call).unwrap(), Entry::at(self.now, LastExit::Other));
    }

    fn exit(&mut self, number: usize) {
        let span = &mut self.spans[number];
        span.open -= 1;
        span.stay = span.stay.map(|(began, _)| (began, self.now));
        self.calls.exit(0, span.call, self.now, OnCpu::default());
    }

    fn close(&mut self, number: usize) {
        let span = &mut self.spans[number];
        span.closed = Some(self.now);
        let (linked, stay) = self.calls.get(span.call).unwrap().take_linked();
        let ended = self.calls.end(Some(&self.spare), span.call, self.now).unwrap();
        if linked != 0 {
            let EndedCall { created, closed, busy, thread, place, node, .. } = ended;
            let stay = Some(stay).filter(|_| ended.entries > 0);
            let closed = ClosedSpan { created, closed, busy, stay, thread, place, node, is_call: true };
            self.served.extend(self.batches.close(linked, closed));
        }
    }

    fn alive(&mut self) -> Option<usize> {
        let alive: Vec<usize> = (0..self.spans.len()).filter(|span| self.spans[*span].closed.is_none()).collect();
        let any = self.below(alive.len().max(1) as u64) as usize;
        alive.get(any).copied()
    }

    /// Batches of random requests and of other batches, with weights or none; each span lives and runs as it likes.
    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            let more = self.below(9);
            self.pass(more);
            let what = self.below(8);
            let any = self.alive();
            match (what, any) {
                (0, _) | (_, None) => _ = self.create(),
                (1, _) => {
                    let batch = self.create();
                    let is_weighted = self.below(2) == 0;
                    for _ in 0..self.below(6) {
                        let weight = [0.0, 0.5, 3.0, 1e3][self.below(4) as usize];
                        if let Some(served) = self.alive() {
                            self.link(batch, served, Some(weight).filter(|_| is_weighted));
                        }
                    }
                }
                (2..=4, Some(any)) => self.enter(any),
                (7, Some(any)) => {
                    // It may have run before this span was created.
                    let served = self.alive().unwrap_or(any);
                    self.link(any, served, None);
                }
                (5, Some(any)) if self.spans[any].open > 0 => self.exit(any),
                (_, Some(any)) if self.spans[any].open == 0 => self.close(any),
                _ => {}
            }
        }
        while let Some(any) = self.alive() {
            self.pass(1);
            (0..self.spans[any].open).for_each(|_| self.exit(any));
            self.close(any);
        }
    }

    /// What the log has of a span: its batches, the time in which one of them was open, and its share.
    fn truth(&self, number: usize) -> (u64, u64, f64) {
        let of = |batch: &Span| batch.serves.iter().find(|(served, _)| *served == number).map(|(_, weight)| *weight);
        let batches: Vec<(&Span, f64)> = self.spans.iter().filter_map(|batch| Some((batch, of(batch)?))).collect();
        let is_open = |batch: &Span, tick| batch.stay.is_some_and(|(began, exited)| (began..exited).contains(&tick));
        let life = self.spans[number].created..self.spans[number].closed.unwrap();
        let in_batch = life.filter(|tick| batches.iter().any(|(batch, _)| is_open(batch, *tick))).count();
        let share = |(batch, weight): &(&Span, f64)| {
            let all: f64 = batch.serves.iter().map(|(_, weight)| weight).sum();
            let part = if all > 0.0 { weight / all } else { 1.0 / batch.serves.len() as f64 };
            batch.busy.len() as f64 * part
        };
        (batches.len() as u64, in_batch as u64, batches.iter().map(share).sum())
    }
}

#[test]
fn what_batches_were_for_each_call_is_what_the_log_of_a_generated_program_says() {
    let mut found = 0;
    for seed in 0..300 {
        let mut program = Program::new(seed);
        program.run(120);
        let mut sum = 0;
        for number in 0..program.spans.len() {
            let (batches, in_batch, share) = program.truth(number);
            let served = program.served.iter().find(|served| served.thread as usize == number);
            let Some(served) = served else {
                assert_eq!(batches, 0, "seed {seed}, span {number}");
                continue;
            };
            assert_eq!((served.batches, served.in_batch), (batches, in_batch), "seed {seed}, span {number}");
            assert!((served.share as f64 - share).abs() <= batches as f64, "seed {seed}, {share}: {served:?}");
            sum += served.share;
            found += 1;
        }
        let busy: usize =
            program.spans.iter().filter(|span| !span.serves.is_empty()).map(|batch| batch.busy.len()).sum();
        assert_eq!(sum, busy as u64, "seed {seed}: shares add up to the running time of batches");
        let spans = program.batches.spans.lock();
        assert_eq!((spans.links, spans.free.len()), (0, spans.all.len()), "seed {seed}: all are settled");
    }
    assert!(found > 3_000, "{found}");
}

#[test]
fn shares_add_up_to_the_time_whatever_the_weights() {
    let of = |time, weights: &[f64]| parts(time, weights.iter().copied());
    assert_eq!(of(10, &[1.0; 3]), [3, 4, 3]);
    assert_eq!(of(10, &[3.0, 0.0, 1.0]), [8, 0, 2]);
    assert_eq!(of(10, &[0.0; 2]), [5, 5], "no weight at all");
    assert_eq!(of(10, &[f64::MAX; 3]), [3, 4, 3], "their sum is no number");
    assert_eq!(of(0, &[1.0; 2]), [0, 0]);
    assert!(of(7, &[]).is_empty());
    for count in 1..200 {
        let weights: Vec<f64> = (0..count).map(|number| f64::from(number % 7) + 0.1).collect();
        assert_eq!(of(1_234_567_891_011, &weights).iter().sum::<u64>(), 1_234_567_891_011);
    }
}

/// A server that batches anew for each token serves one request by thousands of batches.
#[test]
fn a_call_in_many_batches_keeps_the_latest_stretches_and_the_length_of_the_others() {
    let mut stretches = Stretches::default();
    (0..1_000).for_each(|step| stretches.add(10 * step, 10 * step + 4));
    assert_eq!((stretches.total(), stretches.latest.len()), (4_000, STRETCHES));
    stretches.add(0, 9_995);
    assert_eq!(stretches.total(), 984 * 4 + (9_995 - 9_834), "what lies before the kept ones is not added");
}

#[test]
fn links_beyond_the_limit_are_counted_and_take_no_memory() {
    let mut program = Program::new(1);
    let [batch, first] = [program.create(), program.create()];
    program.link(batch, first, None);
    program.batches.spans.lock().links = LINKS;
    let served = program.create();
    program.link(batch, served, None);
    assert_eq!(program.batches.lost.load(Relaxed), 1);
    let spans = program.batches.spans.lock();
    assert_eq!((spans.all.len(), spans.free.len()), (3, 1));
}

#[test]
fn a_closed_span_is_not_linked() {
    let mut program = Program::new(1);
    let [batch, served] = [program.create(), program.create()];
    program.enter(served);
    program.close(served); // still open, so nobody else has its number
    program.link(batch, served, None);
    program.close(batch);
    assert_eq!((program.batches.lost.load(Relaxed), program.served.len()), (1, 0));
    assert_eq!(program.batches.notes(false).len(), 1);
}

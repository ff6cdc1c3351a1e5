//! Reused ids of spans: data remembered under an id belongs to the span, not to the id.

use crate::stage::{measure_with, on_thread, silent, thread};
use crate::{Outcome, Scenario, Tier};
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::mpsc::channel;
use tracing::{Span, info_span};

pub(crate) const ALL: &[Scenario] = &[
    ("ids-again", ids_again),
    ("ids-again-elsewhere", ids_again_elsewhere),
    ("ids-again-elsewhere-only", ids_again_elsewhere_only),
    ("ids-again-on-dead-threads", ids_again_on_dead_threads),
];

/// Enters spans of two call sites, and records how often, and which ids were reused by the other call site.
#[derive(Default)]
struct Ids {
    last: HashMap<u64, &'static str>,
    entries: HashMap<&'static str, u64>,
    changed_hands: u64,
}

impl Ids {
    /// Not alternately: an id is reused after 8,191 others of its slot, an odd number.
    fn create(number: usize) -> Span {
        if number.is_multiple_of(3) { info_span!("third") } else { info_span!("other") }
    }

    fn name(span: &Span) -> &'static str {
        span.metadata().map_or("", |metadata| metadata.name())
    }

    fn saw(&mut self, span: &Span) {
        let id = span.id().map_or(0, |id| id.into_u64());
        let before = self.last.insert(id, Self::name(span));
        self.changed_hands += u64::from(before.is_some_and(|before| before != Self::name(span)));
    }

    fn counts(&mut self, span: &Span, entries: u64) {
        *self.entries.entry(Self::name(span)).or_default() += entries;
    }

    /// One line: ids that changed hands, entries of `other` and of `third`.
    fn print(&self) -> Outcome {
        let entries = |name| self.entries.get(name).copied().unwrap_or(0);
        writeln!(std::io::stderr(), "{} {} {}", self.changed_hands, entries("other"), entries("third"))?;
        Ok(())
    }
}

fn ids_again(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let mut ids = Ids::default();
        for number in 0..30_000 {
            let span = Ids::create(number);
            ids.saw(&span);
            ids.counts(&span, 1);
            span.in_scope(|| ());
        }
        ids.print()
    })
}

/// The same, each span entered here, then entered and closed on another thread.
fn ids_again_elsewhere(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let (to_worker, spans) = channel::<Span>();
        let (closed, to_main) = channel::<()>();
        let worker = thread("worker", move || {
            for span in spans {
                span.in_scope(|| ());
                drop(span);
                if closed.send(()).is_err() {
                    break;
                }
            }
        })?;
        // The registry has 32 slots at first, and takes ids that other threads return in turn: with one slot left its
        // ids are reused.
        let taken: Vec<Span> = (0..31).map(|_| info_span!("taken")).collect();
        let mut ids = Ids::default();
        for number in 0..30_000 {
            let span = Ids::create(number);
            ids.saw(&span);
            ids.counts(&span, 2);
            span.in_scope(|| ());
            to_worker.send(span)?;
            to_main.recv()?;
        }
        drop((to_worker, taken));
        worker.join().map_err(|_| "the worker failed")?;
        ids.print()
    })
}

/// The worker sees a span only if its id is that of the first one: nothing else makes it forget the first.
fn ids_again_elsewhere_only(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let (to_worker, spans) = channel::<Span>();
        let (entered, to_main) = channel::<()>();
        let worker = thread("worker", move || {
            spans.into_iter().all(|span| {
                span.in_scope(|| ());
                drop(span); // the last handle is the creator's
                entered.send(()).is_ok()
            })
        })?;
        let mut ids = Ids::default();
        let mut first = None;
        for number in 0..30_000 {
            let span = Ids::create(number);
            ids.saw(&span);
            let is_first = span.id() == *first.get_or_insert(span.id());
            if is_first {
                ids.counts(&span, 1);
                to_worker.send(span.clone())?;
                to_main.recv()?;
            }
        }
        drop(to_worker);
        assert!(worker.join().map_err(|_| "the worker failed")?);
        ids.print()
    })
}

/// Threads end and others begin: the data that a thread remembered about its spans belongs to no other thread.
fn ids_again_on_dead_threads(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let mut kept: Vec<Span> = Vec::new();
        let mut ids = Ids::default();
        for round in 0..300 {
            let created = on_thread("creator", move || {
                let spans: Vec<Span> = (0..100).map(|number| Ids::create(number + round)).collect();
                spans.iter().for_each(|span| span.in_scope(|| ()));
                spans
            });
            created.iter().for_each(|span| ids.counts(span, 1));
            kept.extend(created);
            for span in &kept {
                ids.counts(span, 1);
                span.in_scope(|| ());
            }
            kept.truncate(kept.len() / 2);
        }
        ids.print()
    })
}

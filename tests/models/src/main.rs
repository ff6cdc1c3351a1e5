//! Tests the lock-free protocols with `loom`: in every order in which their threads may meet, and with every value that
//! a read may return, up to two or three preemptions. The files are those of `tracing-gpu`; only `sync.rs` is
//! different, with the model's atomics.
//!
//! A model proves little unless it fails for wrong code. So each ordering access is weakened in turn, each store is
//! left out in turn, and a model must fail; exceptions are listed with their reason.
//!
//! `cargo run -p models [WORDS OF A NAME]` prints the number of orders of each model, and the results of the mutants.
//! `MODEL_PANICS=1` prints why a model fails.
//!
//! Cells that fill once (`OnceCell`, `OnceBox`) are the real ones, whose own ordering loom does not see: the models
//! hold without it. In loom no read returns a later write.

#![cfg(not(test))] // the files have unit tests of their own, which run without loom

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use sync::{Mutant, Wrong};

mod models;
mod sync;

extern crate tracing as tracing_core;

mod clock {
    pub(crate) type Ticks = u64;
}
#[path = "../../../tracing-gpu/src/core"]
#[allow(dead_code)]
mod core {
    pub(crate) mod budget;
    pub(crate) mod chunked;
    pub(crate) mod record;
    pub(crate) mod samples;
    pub(crate) mod session {
        pub(crate) mod gate;

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct NvtxRange;
    }
    pub(crate) mod thread {
        mod durations;
        pub(crate) mod gate;
        pub(crate) mod hand_over;
        pub(crate) mod row;
        mod sequence;
        pub(crate) mod slab;
        pub(crate) mod stack;
    }
}
#[path = "../../../tracing-gpu/src/page.rs"]
mod page;
#[path = "../../../tracing-gpu/src/parts"]
mod parts {
    #[allow(dead_code)]
    pub(crate) mod launches {
        pub(crate) mod session;
        pub(crate) mod thread {
            pub(crate) mod note_line;
            pub(crate) mod notes;
        }
    }
    pub(crate) mod thread {
        #[derive(Debug)]
        pub(crate) struct SpanValues;
    }
}

/// One protocol.
struct Model {
    name: &'static str,
    /// How often a thread is interrupted at most where it could continue.
    preemptions: usize,
    run: fn(),
    /// Whether it omits something on purpose, so that it must fail.
    is_wrong: bool,
    /// The sources that it tests, by the ends of their names; mutants change each of them.
    sources: &'static [&'static str],
}

/// A harmless mutation: part of its line and the lines before, and the reason.
type Harmless = (Wrong, &'static str, &'static str);

/// The number of orders in which a model was run, and the possible mutations in them.
type Checked = (u64, Vec<Mutant>);

impl Model {
    /// Runs it in every order.
    fn check(&self, mutant: Option<Mutant>) -> Result<Checked, String> {
        let (run, preemptions) = (self.run, self.preemptions);
        // On a separate thread, because a failed model leaves loom in a changed state.
        let checked = std::thread::spawn(move || {
            sync::do_wrong(mutant);
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(preemptions);
            builder.max_branches = 10_000;
            let orders = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&orders);
            builder.check(move || {
                counted.fetch_add(1, Ordering::Relaxed);
                sync::begin();
                run();
            });
            (orders.load(Ordering::Relaxed), sync::take_met())
        });
        checked.join().map_err(|panic| match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text.clone(),
            (_, Some(text)) => (*text).to_owned(),
            _ => "a panic without a text".to_owned(),
        })
    }

    /// The possible mutations of its sources, if it does not fail without them.
    fn mutants(&self) -> Result<Vec<Mutant>, String> {
        let began = Instant::now();
        let checked = self.check(None);
        let took = began.elapsed().as_secs_f64();
        match checked {
            Ok(_) if self.is_wrong => Err(format!("{}: nothing fails", self.name)),
            Err(_) if self.is_wrong => {
                println!("{}: fails, as it must", self.name);
                Ok(Vec::new())
            }
            Ok((orders, mut met)) => {
                println!("{}: {orders} orders in {took:.1} s", self.name);
                met.retain(|((file, ..), _)| self.sources.iter().any(|source| file.ends_with(source)));
                Ok(met)
            }
            Err(failure) => Err(format!("{}: {failure}", self.name)),
        }
    }
}

/// That line of a source, and the three before it.
fn lines_of(file: &str, line: u32) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).map(|root| root.join(file)).unwrap_or_default();
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines: Vec<&str> =
        text.lines().take(line as usize).skip(line.saturating_sub(4) as usize).map(str::trim).collect();
    lines.join(" ")
}

/// Checks that each mutant fails in one of its models. Returns those that do not.
fn catch(mutants: &BTreeMap<Mutant, Vec<&Model>>) -> Vec<String> {
    let began = Instant::now();
    let (mut wrong, mut caught, mut allowed) = (Vec::new(), 0, BTreeSet::new());
    for (&mutant, models) in mutants {
        let ((file, line, _), kind) = mutant;
        let lines = lines_of(file, line);
        let is_it = |(wrong, part, _): &Harmless| *wrong == kind && lines.contains(part);
        if let Some(reason) = models::HARMLESS.iter().position(is_it) {
            allowed.insert(reason);
        } else if models.iter().any(|model| model.check(Some(mutant)).is_err()) {
            caught += 1;
        } else {
            wrong.push(format!("{kind:?} and nothing fails: {file}:{line}: {lines}"));
        }
    }
    println!("{caught} mutants caught in {:.1} s, {} harmless", began.elapsed().as_secs_f64(), allowed.len());
    wrong
}

fn main() {
    let words = std::env::args().nth(1).unwrap_or_default();
    if std::env::var_os("MODEL_PANICS").is_none() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    let (mut mutants, mut wrong) = (BTreeMap::<Mutant, Vec<&Model>>::new(), Vec::new());
    for model in models::MODELS.iter().filter(|model| model.name.contains(&words)) {
        match model.mutants() {
            Ok(met) => met.into_iter().for_each(|mutant| mutants.entry(mutant).or_default().push(model)),
            Err(failure) => wrong.push(failure),
        }
    }
    wrong.extend(catch(&mutants));
    wrong.iter().for_each(|line| eprintln!("{line}"));
    std::process::exit(i32::from(!wrong.is_empty()));
}

//! rayon, with its work stealing, and scoped threads of crossbeam. The thread that starts them only waits.

use std::process::ExitCode;
use std::time::Duration;

use checked::{Expected, Run, spin};
use rayon::prelude::*;
use tracing::{Span, info_span, instrument};
use tracing_subscriber::prelude::*;

const ITEMS: u64 = 256;
const PARTS: u64 = 8;

#[instrument(skip_all)]
fn half(milliseconds: u64) {
    spin(Duration::from_millis(milliseconds));
}

/// Each item is split again, so that a thread that waits for one half runs other items meanwhile.
fn item(batch: &Span) {
    let _item = info_span!(parent: batch, "item").entered();
    let item = Span::current();
    let (first, second) = (item.clone(), item);
    rayon::join(|| first.in_scope(|| half(1)), || second.in_scope(|| half(1)));
}

#[instrument]
fn on_rayon() {
    let batch = Span::current();
    (0..ITEMS).into_par_iter().for_each(|_| item(&batch));
}

#[instrument]
fn on_crossbeam() {
    let all = Span::current();
    crossbeam::thread::scope(|scope| {
        for _ in 0..PARTS {
            scope.spawn(|_| info_span!(parent: &all, "part").in_scope(|| spin(Duration::from_millis(20))));
        }
    })
    .expect("no panic");
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    rayon::ThreadPoolBuilder::new().num_threads(4).build_global().expect("the first pool");
    on_rayon();
    on_crossbeam();
    run.finish(Expected {
        spans: &[("on_rayon", 1), ("item", ITEMS), ("half", 2 * ITEMS), ("on_crossbeam", 1), ("part", PARTS)],
        parents: &[
            ("on_rayon", &[""]),
            ("item", &["on_rayon"]),
            ("half", &["item"]),
            ("on_crossbeam", &[""]),
            ("part", &["on_crossbeam"]),
        ],
        says: &["most time of its own: .. half"],
        never: &["most time of its own: on_rayon"],
        culprits: &["half"],
        ..Expected::default()
    })
}

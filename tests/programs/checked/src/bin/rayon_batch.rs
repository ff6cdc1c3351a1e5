//! rayon: a batch of 240 documents that are compared with a text by their distance of strsim, in which one document in
//! the middle is 50 times as long as the others.
//!
//! Cause: `compare` of that document, which takes most of the run. It is no first call. The first line names `compare`,
//! not `save_index`, which takes 100 ms after the batch, nor `find_duplicates`, which waits for the batch.

use std::process::ExitCode;
use std::time::Duration;

use checked::{Cause, Expected, Run, Stopwatch, spin};
use rayon::prelude::*;
use tracing::{Span, info_span, instrument};
use tracing_subscriber::prelude::*;

const DOCUMENTS: usize = 240;
const LONG: usize = 117;

static LONG_ONE: Stopwatch = Stopwatch::new();
static OTHERS: Stopwatch = Stopwatch::new();
static SAVE: Stopwatch = Stopwatch::new();

fn document(number: usize) -> String {
    "lorem ipsum dolor sit amet ".chars().cycle().take(if number == LONG { 20_000 } else { 400 }).collect()
}

#[instrument(skip_all)]
fn find_duplicates(documents: &[String]) -> usize {
    let batch = Span::current();
    let compare = |(number, text): (usize, &String)| {
        let watch = if number == LONG { &LONG_ONE } else { &OTHERS };
        watch.run(|| {
            info_span!(parent: &batch, "compare", document = number).in_scope(|| {
                let reversed: String = text.chars().rev().collect();
                strsim::levenshtein(text, &reversed)
            })
        })
    };
    documents.par_iter().enumerate().map(compare).filter(|&distance| distance == 0).count()
}

#[instrument]
fn save_index(duplicates: usize) {
    SAVE.run(|| spin(Duration::from_millis(100)));
}

fn main() -> ExitCode {
    let documents: Vec<String> = (0..DOCUMENTS).map(document).collect();
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    rayon::ThreadPoolBuilder::new().num_threads(4).build_global().expect("the first pool");
    save_index(find_duplicates(&documents));
    run.finish(Expected {
        spans: &[("find_duplicates", 1), ("compare", DOCUMENTS as u64), ("save_index", 1)],
        parents: &[("find_duplicates", &[""]), ("compare", &["find_duplicates"]), ("save_index", &[""])],
        cause: Some(Cause {
            name: "compare",
            costs: LONG_ONE.total(),
            second: OTHERS.total().max(SAVE.total()),
            own: LONG_ONE.total() + OTHERS.total(),
            also_true: &[],
        }),
        ..Expected::default()
    })
}

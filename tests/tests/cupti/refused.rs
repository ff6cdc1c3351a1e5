//! A profiler whose CUPTI refuses one call: losses are counted, or a note states why nothing was recorded.

use tracing::info_span;
use tracing_gpu::Report;

use crate::fake::{Fake, LAUNCH, RUNTIME_LAUNCH};
use crate::profiler::{Files, HANDLE, finish, start};

/// Rounds of a span with launches, with a summary after each. Records are dropped in two of them, and at the end.
const ROUNDS: u32 = 3;
const LAUNCHES: u32 = 5;

/// Prints the last summary, the number of CUPTI calls, and the number of mere lookups.
pub(crate) fn refused(fake: &Fake, tier: &str) {
    let files = Files::new();
    let profiler = start(files.builder().json(files.json()).report([Report::Kernels, Report::Api]), tier);
    for round in 0..ROUNDS {
        info_span!("work").in_scope(|| {
            for number in 1..=LAUNCHES {
                let id = round * 100 + number;
                fake.runtime(RUNTIME_LAUNCH, LAUNCH, id);
                fake.kernel(id, c"spin", 500);
            }
        });
        fake.tell("fake_drop", usize::from(round > 0));
        fake.call(LAUNCH, round * 100 + 50, HANDLE);
        fake.kernel(round * 100 + 50, c"beside", 500);
        drop(profiler.summary());
    }
    fake.tell("fake_drop", 1);
    finish(fake, profiler);
    println!("{}", serde_json::json!({ "summary": files.summary(), "calls": [fake.calls(false), fake.calls(true)] }));
}

//! Programs with spans for the tests: `spans SCENARIO TIER`, TIER being `layer`, `subscriber` or, with the feature
//! `nvidia`, `nvidia` for NVIDIA's own layer.
//!
//! A scenario prints its profilers' counts as JSON, one summary a line; calls to a tool are recorded outside.

#[path = "spans/batches.rs"]
mod batches;
#[path = "spans/crowds.rs"]
mod crowds;
#[path = "spans/empty.rs"]
mod empty;
#[path = "spans/entries.rs"]
mod entries;
#[path = "spans/exits.rs"]
mod exits;
#[path = "spans/faults.rs"]
mod faults;
#[path = "spans/fields.rs"]
mod fields;
#[path = "spans/foreign.rs"]
mod foreign;
#[path = "spans/forks.rs"]
mod forks;
#[path = "spans/ids.rs"]
mod ids;
#[path = "spans/lineage.rs"]
mod lineage;
#[path = "spans/many.rs"]
mod many;
#[path = "spans/memory.rs"]
mod memory;
#[path = "spans/messages.rs"]
mod messages;
#[path = "spans/stage.rs"]
mod stage;
#[path = "spans/threads.rs"]
mod threads;
#[path = "spans/timelines.rs"]
mod timelines;
#[path = "spans/windows.rs"]
mod windows;

use stage::Tier;
use std::error::Error;
use std::time::Duration;

/// An error of a scenario means that the test did not see what it wanted.
type Outcome = Result<(), Box<dyn Error>>;

type Scenario = (&'static str, fn(Tier) -> Outcome);

fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(tier)) = (arguments.next(), arguments.next()) else {
        return Err("spans SCENARIO TIER".into());
    };
    // A scenario that hangs is a failure, not a test run without end.
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(120));
        eprintln!("the scenario hangs");
        std::process::abort();
    });
    let mut all = vec![empty::ALL, entries::ALL, exits::ALL, faults::ALL, fields::ALL, foreign::ALL, forks::ALL];
    all.extend([
        batches::ALL,
        crowds::ALL,
        lineage::ALL,
        ids::ALL,
        many::ALL,
        memory::ALL,
        messages::ALL,
        threads::ALL,
        timelines::ALL,
        windows::ALL,
    ]);
    let scenario = all.into_iter().flatten().find(|(known, _)| *known == name);
    let (_, run) = scenario.ok_or_else(|| format!("no scenario {name:?}"))?;
    run(tier.parse()?)
}

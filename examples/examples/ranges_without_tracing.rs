//! NVTX ranges only: `nvtx-rs` in a program that does not use `tracing`.
//!
//! Threads count the primes up to a billion, segment by segment, and send their counts to the main thread. Nsight
//! Systems shows:
//!
//! - a domain of its own, `primes`, and threads with names;
//! - `range!`: on each worker a nested range for each segment and step, with colour, category and the segment's number;
//! - `StartRange`: a count on its way to the main thread, started on one thread and ended on another;
//! - `mark!`: a worker that found no more work.
//!
//! Without a tool each call costs one load and one comparison.
//!
//! ```text
//! cargo run --release --example ranges_without_tracing
//! nsys profile -t nvtx target/release/examples/ranges_without_tracing
//! ```

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use examples::sieve::{SEGMENT, count, cross_off, sieving_primes};
use nvtx_rs::{Attributes, Category, Color, Domain, PushRange, StartRange, mark, naming, range};

const LIMIT: u64 = 1_000_000_000;
/// The value in every table of the prime-counting function.
const PRIMES: u64 = 50_847_534;

const ORANGE: Color = Color::rgb(230, 130, 20);
const TEAL: Color = Color::rgb(0, 140, 140);

/// Shared by all ranges of this program.
#[derive(Clone, Copy)]
struct Annotations {
    domain: Domain,
    sieving: Category,
    sending: Category,
}

/// The primes found in one segment. The range lasts from sending them to adding them.
struct Found {
    primes: u64,
    _on_its_way: StartRange,
}

fn main() -> Result<(), Box<dyn Error>> {
    let domain = Domain::named("primes")?;
    let annotations = Annotations { domain, sieving: domain.category("sieving"), sending: domain.category("sending") };
    naming::name_current_thread("adder");

    let primes = {
        // A name made at run time is an attribute; `range!` takes constants, which it registers once.
        let name = format!("primes up to {LIMIT}");
        let _whole = PushRange::new(domain, &Attributes::new().message(&name).payload(LIMIT));
        count_primes(annotations)?
    };
    println!("{primes} primes up to {LIMIT}");
    assert_eq!(primes, PRIMES);

    if nvtx_rs::is_tool_attached() {
        println!("A tool is attached and has seen every range.");
    } else {
        println!(
            "No tool is attached. To see the ranges: nsys profile -t nvtx {}",
            std::env::args().next().unwrap_or_default()
        );
    }
    Ok(())
}

fn count_primes(annotations: Annotations) -> Result<u64, Box<dyn Error>> {
    let sieving_primes = {
        let _range = range!(domain: annotations.domain, "find sieving primes", category: annotations.sieving);
        sieving_primes(LIMIT)
    };
    let workers = thread::available_parallelism().map_or(2, |cores| cores.get().min(8));
    let next_segment = AtomicU64::new(0);
    let (sender, receiver) = mpsc::channel::<Found>();
    thread::scope(|scope| {
        for index in 0..workers {
            let (sieving_primes, next_segment, sender) = (&sieving_primes, &next_segment, sender.clone());
            let work = move || sieve(annotations, sieving_primes, next_segment, &sender);
            thread::Builder::new().name(format!("sieve {index}")).spawn_scoped(scope, work)?;
        }
        // The sum ends when all senders are dropped: ours, and those of the workers.
        drop(sender);
        let two = 1;
        Ok(two + receiver.into_iter().map(|found| found.primes).sum::<u64>())
    })
}

/// Takes segments until there are none.
fn sieve(annotations: Annotations, sieving_primes: &[u64], next_segment: &AtomicU64, sender: &Sender<Found>) {
    naming::name_current_thread(thread::current().name().unwrap_or("sieve"));
    let Annotations { domain, sieving, sending } = annotations;
    let on_its_way = Attributes::new().registered(domain.register("on its way")).category(sending).color(TEAL);
    let mut composite = vec![false; SEGMENT as usize / 2];
    let mut segments = 0_u64;
    loop {
        let segment = next_segment.fetch_add(1, Ordering::Relaxed);
        let start = segment * SEGMENT;
        if start > LIMIT {
            break;
        }
        let _segment = range!(domain: domain, "segment", category: sieving, payload: segment);
        {
            let _range = range!(domain: domain, "cross off", category: sieving, color: ORANGE);
            cross_off(start, sieving_primes, &mut composite);
        }
        let primes = {
            let _range = range!(domain: domain, "count", category: sieving);
            count(&composite, (LIMIT - start).div_ceil(2) as usize)
        };
        let found = Found { primes, _on_its_way: StartRange::new(domain, &on_its_way.payload(primes)) };
        // The receiver outlives all workers, unless the main thread has panicked.
        if sender.send(found).is_err() {
            break;
        }
        segments += 1;
    }
    mark!(domain: domain, "no segments left", category: sieving, payload: segments);
}

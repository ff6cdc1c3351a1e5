//! smol, whose executor has one thread by default: a checkout calls a client that blocks that thread, and everything
//! else is late.
//!
//! Cause: `charge_card`, which sleeps 20 ms on the thread of the executor; so each `ping` of 5 ms takes some 22. The
//! first line names `charge_card`, neither `ping` nor `load_cart`, which wait for timers.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use checked::{Cause, Expected, Run, Stopwatch};
use smol::Timer;
use tracing::instrument;
use tracing_subscriber::prelude::*;

const CHECKOUTS: u64 = 40;
const PINGS: u64 = 20;
const EACH: u64 = 30;
const ON_TIME: Duration = Duration::from_millis(5);

static CHARGED: Stopwatch = Stopwatch::new();
static LATE: Stopwatch = Stopwatch::new();
static TIMERS: Stopwatch = Stopwatch::new();

/// A client that blocks.
#[instrument]
fn charge_card(cents: u64) -> bool {
    CHARGED.run(|| thread::sleep(Duration::from_millis(20)));
    cents > 0
}

#[instrument]
async fn load_cart(customer: u64) -> u64 {
    let time = Duration::from_millis(2);
    TIMERS.add(time);
    Timer::after(time).await;
    customer + 1
}

#[instrument]
async fn checkout(customer: u64) -> bool {
    let cents = load_cart(customer).await;
    charge_card(cents)
}

#[instrument]
async fn ping(number: u64) {
    let began = Instant::now();
    TIMERS.add(ON_TIME);
    Timer::after(ON_TIME).await;
    LATE.add(began.elapsed() - ON_TIME);
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let checkouts = smol::spawn(async {
        for customer in 0..CHECKOUTS {
            assert!(checkout(customer).await);
        }
    });
    let pings: Vec<_> = (0..PINGS)
        .map(|client| {
            smol::spawn(async move {
                for number in 0..EACH {
                    ping(client * EACH + number).await;
                }
            })
        })
        .collect();
    smol::block_on(async {
        checkouts.await;
        for client in pings {
            client.await;
        }
    });
    let all = PINGS * EACH;
    run.finish(Expected {
        spans: &[("checkout", CHECKOUTS), ("load_cart", CHECKOUTS), ("charge_card", CHECKOUTS), ("ping", all)],
        futures: &["checkout", "load_cart", "ping"],
        parents: &[("checkout", &[""]), ("load_cart", &["checkout"]), ("charge_card", &["checkout"]), ("ping", &[""])],
        cause: Some(Cause {
            name: "charge_card",
            costs: LATE.total(),
            second: TIMERS.total(),
            own: CHARGED.total(),
            also_true: &[],
        }),
        ..Expected::default()
    })
}

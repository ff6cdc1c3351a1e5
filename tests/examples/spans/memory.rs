//! A system without memory from a given allocation on.
#![allow(unsafe_code)] // fork

use crate::forks::with_allocations;
use crate::stage::{Tier, silent};
use crate::{Outcome, Scenario};
use std::hint::black_box;
use std::io::Write as _;
use tracing::field::Empty;
use tracing::{info, info_span};
use tracing_gpu::Profiler;

pub(crate) const ALL: &[Scenario] = &[("out-of-memory", out_of_memory), ("warm-without-memory", warm_without_memory)];

/// A part of a run, which may use an earlier profiler.
type Part = fn(&Profiler);

const PARTS: [(&str, Part); 6] = [
    ("build", |_| drop(black_box(silent().build()))),
    ("first spans", |_| info_span!("work").in_scope(|| info_span!("step").in_scope(|| info!("event")))),
    ("values", |_| {
        let span = info_span!("span", nvtx.name = "named", nvtx.category = "c", nvtx.lifetime = true, other = Empty);
        span.record("nvtx.name", "again").in_scope(|| info!(other = 7, "event"));
    }),
    ("out of order", |_| {
        let (outer, inner) = (info_span!("outer").entered(), info_span!("inner").entered());
        drop(outer);
        drop(inner);
    }),
    ("summary", |profiler| drop(black_box(profiler.summary()))),
    ("reset", Profiler::reset),
];

/// Each part in a process of its own, with memory for no allocation, for one, and so on, until it gets all. The process
/// ends like any Rust program without memory, or has lost nothing.
fn out_of_memory(tier: Tier) -> Outcome {
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is live.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core) }, 0);
    for (name, part) in PARTS {
        let (mut aborted, mut other) = (0, Vec::new());
        for given in 0.. {
            match in_child(|| short_of_memory(tier, part, given)) {
                status if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGABRT => aborted += 1,
                0 => break,
                status if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == REFUSED => {}
                status => other.push((given, status)),
            }
        }
        writeln!(std::io::stdout(), "{name}: {aborted} aborted, others {other:?}")?;
    }
    Ok(())
}

/// The exit code of a child that was refused memory and continued.
const REFUSED: i32 = 3;
const LOST: i32 = 4;

fn short_of_memory(tier: Tier, part: Part, given: u64) -> Result<i32, Box<dyn std::error::Error>> {
    let profiler = silent().build()?;
    tier.install(&profiler)?;
    let refused = with_allocations(given, || part(&profiler));
    (0..3).for_each(|_| info_span!("afterwards").in_scope(|| ()));
    let rows = profiler.summary().ranges;
    let is_whole = rows.iter().any(|row| row.name == "afterwards" && row.times.instances == 3);
    Ok(if !is_whole {
        LOST
    } else if refused > 0 {
        REFUSED
    } else {
        0
    })
}

fn in_child(body: impl FnOnce() -> Result<i32, Box<dyn std::error::Error>>) -> i32 {
    // SAFETY: no other thread of this process allocates or holds a lock.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let code = body().unwrap_or(LOST);
        // SAFETY: ends the child at once, which has nothing to clean up.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process that nobody else waits for, and `status` is a live `c_int`.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

/// Once its rows have had this number of spans, a thread needs no memory for more. Without processor times: a look for
/// who made a long range wait may need some.
fn warm_without_memory(tier: Tier) -> Outcome {
    crate::stage::measure_by(tier, silent().on_cpu(false), || {
        let spans = || (0..40_000).for_each(|_| info_span!("outer").in_scope(|| info_span!("inner").in_scope(|| ())));
        spans();
        assert_eq!(with_allocations(0, spans), 0);
    })
}

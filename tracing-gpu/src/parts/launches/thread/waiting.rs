//! Finds the range that waits for a helper thread: see [`helper`](super::helper).

use range_model::RangeStyle;

use super::helper::{Burst, Caller, Found, Standing, Waiter};
use crate::core::record::RangeKey;
use crate::core::session::catalog::ROOT;
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;
use crate::process;

/// The largest number of threads whose state is read in one look. Of more, nobody knows who waits for whom.
const MOST_LOOKED_AT: usize = 8;

/// The node of a call that `helper` is about to make, which has no open range.
#[cold]
#[inline(never)]
pub(crate) fn waiting_node(helper: &ThreadState, engine: &Engine) -> u32 {
    let session = &engine.session;
    if !helper.may_help() || session.is_of_parent() {
        return ROOT;
    }
    let (clock, window, own_ranges) = (&session.clock, session.window(), helper.own_ranges());
    let caller = Caller { clock, window, name: &helper.name, thread: helper.thread_id(), own_ranges };
    helper.helper().node(&caller, |burst| process::undisturbed(|| look(helper, engine, burst)))
}

/// Looks for the range that waits for a burst.
fn look(helper: &ThreadState, engine: &Engine, burst: &Burst) -> Found {
    let others = engine.states().filter(|thread| thread.index != helper.index);
    let open: Vec<_> = others.filter_map(|thread| Some((thread, thread.view().standing()?))).collect();
    let may_wait = |(_, standing): &&(&ThreadState, Standing)| burst.may_come_of(standing.place.node(), standing.start);
    let candidates: Vec<_> = open.iter().filter(may_wait).take(MOST_LOOKED_AT + 1).collect();
    if candidates.len() > MOST_LOOKED_AT {
        return Found::Nobody;
    }
    let waits = |(thread, standing): &&&(&'static ThreadState, Standing)| {
        sleeps(thread.thread_id()) && thread.view().standing() == Some(*standing)
    };
    let mut waiting = candidates.iter().filter(waits);
    let label = |thread: &ThreadState, place| thread.identity(place).map_or(0, |identity| identity.key.label);
    match (waiting.next(), waiting.next()) {
        (Some((thread, standing)), None) => match row(helper, burst, standing.place.node()) {
            Some(node) => Found::One(Waiter { thread: thread.view(), standing: *standing, node }),
            None => Found::NoRange,
        },
        (Some((one, standing)), Some((other, beside))) => {
            Found::Two([label(one, standing.place), label(other, beside.place)])
        }
        _ if open.is_empty() => Found::NoRange,
        _ => Found::Nobody,
    }
}

/// The row of a helper below a range, as a node of the tree; `None` beyond the limit on names. Takes locks the first
/// time only.
fn row(helper: &ThreadState, burst: &Burst, range: u32) -> Option<u32> {
    burst.row(range).or_else(|| {
        let name = format!("[thread {}]", helper.name.lock());
        let label = helper.session.run_time_label(0, &name)?;
        Some(helper.session.node(range, RangeKey { label, category: 0, style: RangeStyle::PushPop }))
    })
}

/// Whether a thread of this process sleeps in a lock or condition without a time limit.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn sleeps(thread: u32) -> bool {
    use crate::parts::off_cpu::look::{own_process, sleeps_until_woken, state_file};
    state_file(&own_process(), thread).is_ok_and(|state| sleeps_until_woken(&state))
}

/// The same: unknown on this system.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn sleeps(_: u32) -> bool {
    false
}

//! Finds the range that waits for a helper thread: see [`helper`](super::helper).

use range_model::RangeStyle;

use super::engine::Engine;
use super::helper::{Begin, Found, Waiter};
use super::state::ThreadState;
use crate::process;
use crate::record::RangeKey;
use crate::session::catalog::ROOT;

/// The node of a call that `helper` is about to make, which has no open range.
#[cold]
#[inline(never)]
pub(crate) fn waiting_node(helper: &ThreadState, engine: &Engine) -> u32 {
    if !helper.may_help() || engine.session.is_of_parent() {
        return ROOT;
    }
    helper.helper().node(&engine.session.clock, helper.notes_written(), &helper.name, |begin| {
        process::undisturbed(|| look(helper, engine, begin))
    })
}

/// Looks for the range that waits for a burst.
fn look(helper: &ThreadState, engine: &Engine, begin: &Begin) -> Found {
    let mut is_any_open = false;
    let others = engine.states().filter(|thread| thread.index != helper.index);
    let mut waiting = others.filter_map(|thread| {
        let standing = thread.watched().standing().inspect(|_| is_any_open = true)?;
        let waits = begin.may_come_of(standing.place, standing.start)
            && sleeps(thread.thread_id())
            && thread.watched().standing() == Some(standing);
        waits.then_some((thread, standing))
    });
    let found = (waiting.next(), waiting.next());
    let (Some((thread, standing)), other) = found else {
        return if is_any_open { Found::Nobody } else { Found::NoRange };
    };
    let label = |thread: &ThreadState, place| thread.identity(place).map_or(0, |identity| identity.key.label);
    if let Some((other, beside)) = other {
        return Found::Two([label(thread, standing.place), label(other, beside.place)]);
    }
    match row(helper, standing.place.node()) {
        Some(node) => Found::One(Waiter { thread: thread.watched(), standing, node }),
        None => Found::Nobody,
    }
}

/// The row of a helper below a range, as a node of the tree; `None` beyond the limit on names.
fn row(helper: &ThreadState, parent: u32) -> Option<u32> {
    let name = format!("[thread {}]", helper.name.lock());
    let label = helper.session.run_time_label(0, &name)?;
    Some(helper.session.node(parent, RangeKey { label, category: 0, style: RangeStyle::PushPop }))
}

/// Whether a thread of this process sleeps in a lock or condition without a time limit.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn sleeps(thread: u32) -> bool {
    use crate::off_cpu::{own_process, sleeps_until_woken, state_file};
    state_file(&own_process(), thread).is_ok_and(|state| sleeps_until_woken(&state))
}

/// The same: unknown on this system.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn sleeps(_: u32) -> bool {
    false
}

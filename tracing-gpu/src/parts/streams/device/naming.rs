//! Assigns numbers to streams.

use std::cell::Cell;
use std::collections::VecDeque;
#[cfg(any(test, feature = "cudarc"))]
use std::sync::Arc;
use std::sync::{Once, Weak};

use gpu_activity::driver::Handle;
use gpu_activity::{forks, own_calls};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use range_model::stats::Keyed;

use super::context::{NamedContext, Owned};
use super::named::{self, NamedStream, get};
use super::owner::{OwnerKind, StreamOwner};
use super::{reading, scope};
use crate::parts::streams::StreamId;

#[derive(Default)]
struct Names {
    streams: Keyed<(Handle, Handle), StreamId>,
    contexts: Keyed<Handle, &'static NamedContext>,
    next: StreamId,
}

static NAMES: OnceCell<Mutex<Names>> = OnceCell::new();

thread_local! {
    /// The stream that this thread named last: context handle, stream handle, number.
    static LAST: Cell<(Handle, Handle, StreamId)> = const { Cell::new((0, 0, 0)) };
}

/// Names a stream that lives as long as its last `Arc`; a default stream lives as long as its context.
#[cfg(any(test, feature = "cudarc"))]
pub(crate) fn name<C: Owned + 'static, S: Owned + 'static>(
    (context, context_alive): (Handle, &Arc<C>),
    (handle, alive): (Handle, &Arc<S>),
) -> StreamId {
    // 0 and 1 are the legacy default stream, 2 is the per-thread one. cudarc makes a new wrapper for them at each call.
    let owner = if handle <= 2 { OwnerKind::Context } else { OwnerKind::Binding(downgrade(alive)) };
    register(context, Some(downgrade(context_alive)), handle, owner)
}

#[cfg(any(test, feature = "cudarc"))]
fn downgrade<T: Owned + 'static>(held: &Arc<T>) -> Weak<dyn Owned> {
    let held: Weak<T> = Arc::downgrade(held);
    held
}

/// Names a stream that the caller keeps alive.
pub(crate) fn name_raw(context: Handle, stream: Handle) -> StreamId {
    register(context, None, stream, OwnerKind::Caller)
}

fn register(context: Handle, alive: Option<Weak<dyn Owned>>, handle: Handle, owner: OwnerKind) -> StreamId {
    // The same handle is the same stream only while the known one lives. Later the driver may give the handle to
    // another stream.
    let is_same = |id: StreamId| {
        get(id).is_some_and(|known| {
            known.owner.lives() && matches!(known.owner.kind, OwnerKind::Caller) == matches!(owner, OwnerKind::Caller)
        })
    };
    // A thread that names the same stream again and again takes no lock.
    let (last_context, last_handle, last) = LAST.get();
    if (last_context, last_handle) == (context, handle) && is_same(last) {
        return last;
    }
    if forks::is_child() {
        return 0; // a child times nothing, and the footer says so
    }
    watch_forks();
    let mut names = NAMES.get_or_init(Mutex::default).lock();
    let known = names.streams.get(&(context, handle)).copied();
    let known = known.filter(|&id| is_same(id));
    let id = match known {
        Some(id) => id,
        None => names.add(context, alive, handle, owner).unwrap_or(0),
    };
    drop(names);
    LAST.set((context, handle, id));
    if known.is_none() {
        retire_some(id);
    }
    id
}

/// Prepares for forked children. Must be called before taking a lock that a child may take.
fn watch_forks() {
    static WATCHED: Once = Once::new();
    forks::watch();
    WATCHED.call_once(|| forks::in_forked_child(scope::forget));
}

/// Retires some of the streams that were named before this one, the oldest first. A program that repeatedly makes
/// streams leaves a few unread pairs on each. Without this call all of them would stay until a summary.
fn retire_some(new: StreamId) {
    static IN_USE: Mutex<VecDeque<StreamId>> = Mutex::new(VecDeque::new());
    for _ in 0..2 {
        // The list is not locked during driver calls.
        let Some(oldest) = IN_USE.lock().pop_front() else { break };
        if get(oldest).is_some_and(|stream| !own_calls::during(|| reading::retire(stream))) {
            IN_USE.lock().push_back(oldest);
        }
    }
    IN_USE.lock().push_back(new);
}

impl Names {
    /// Numbers a new stream. `None` beyond the limit on streams.
    fn add(
        &mut self,
        context: Handle,
        alive: Option<Weak<dyn Owned>>,
        handle: Handle,
        owner: OwnerKind,
    ) -> Option<StreamId> {
        let context = self.context(context, alive);
        let id = self.next + 1;
        let slot = named::slot(id)?;
        let context_handle = context.handle;
        let owner = StreamOwner { context, kind: owner };
        let stream = NamedStream { handle, context_handle, id, owner, queue: Mutex::default() };
        slot.set(Box::leak(Box::new(stream))).ok()?; // the slot is empty: numbers are unique, under the lock
        self.next = id;
        self.streams.insert((context.handle, handle), id);
        Some(id)
    }

    fn context(&mut self, handle: Handle, alive: Option<Weak<dyn Owned>>) -> &'static NamedContext {
        if let Some(known) = self.contexts.get(&handle) {
            // A known context that its user keeps alive cannot be held: it does not serve if a holdable one is needed.
            let serves = if known.can_be_held() { known.lives() } else { alive.is_none() };
            if serves {
                return known;
            }
        }
        // A destroyed context takes its events along; a new one with the same handle starts with none.
        let context: &'static NamedContext = Box::leak(Box::new(NamedContext::new(handle, alive)));
        self.contexts.insert(handle, context);
        context
    }
}

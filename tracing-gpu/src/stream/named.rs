//! The streams that a program has named, each under a number that a span field can hold.

use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Once, Weak};

use gpu_activity::driver::{Driver, Handle};
use gpu_activity::{forks, own_calls};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::binding::Held;
use super::context::NamedContext;
use super::queue::Queue;
use super::{events, scope};
use crate::chunked::Chunked;
use crate::record::StreamId;

/// A stream that was named. Lives as long as the process; the stream itself may be gone. Entries and exits read one
/// cache line of it, which nobody writes.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct NamedStream {
    pub(super) handle: Handle,
    /// The handle of `context`.
    pub(super) context_handle: Handle,
    pub(super) id: StreamId,
    pub(super) context: &'static NamedContext,
    owner: Owner,
    pub(super) queue: Mutex<Queue>,
}

#[derive(Debug)]
enum Owner {
    /// Its last `Arc`, with which it is gone.
    Binding(Weak<dyn Held>),
    /// A default stream: gone with its context.
    Context,
    /// A raw stream: alive by the contract of `RawStream`.
    Caller,
}

/// As long as it is held, the stream lives.
#[derive(Clone, Debug, Default)]
pub(super) struct Alive(Option<Arc<dyn Held>>);

impl Alive {
    /// Drops it. The caller holds no lock.
    pub(super) fn let_go(this: Option<Self>, driver: &Driver) {
        if let Some(Self(Some(held))) = this {
            held.let_go(driver);
        }
    }
}

impl NamedStream {
    /// Holds the stream alive; `None` when it is gone.
    pub(super) fn hold(&self) -> Option<Alive> {
        match &self.owner {
            Owner::Binding(stream) => Some(Alive(Some(stream.upgrade()?))),
            Owner::Context => Some(Alive(Some(self.context.hold()?))),
            Owner::Caller => Some(Alive::default()), // by contract
        }
    }

    /// How many hold a stream that its last `Arc` destroys, its queue included; `None` for other streams.
    pub(super) fn holders(&self) -> Option<usize> {
        match &self.owner {
            Owner::Binding(stream) => Some(stream.strong_count()),
            Owner::Context | Owner::Caller => None,
        }
    }

    /// Whether it can be held now. It is not held to find out: that may become the last hold, which must not be dropped
    /// under a lock.
    fn lives(&self) -> bool {
        match &self.owner {
            Owner::Binding(stream) => stream.strong_count() > 0,
            Owner::Context => self.context.lives(),
            Owner::Caller => true,
        }
    }
}

#[derive(Default)]
struct Names {
    streams: HashMap<(Handle, Handle), StreamId>,
    contexts: HashMap<Handle, &'static NamedContext>,
    next: StreamId,
}

static NAMES: OnceCell<Mutex<Names>> = OnceCell::new();
static STREAMS: OnceCell<Chunked<OnceCell<&'static NamedStream>, 64>> = OnceCell::new();

thread_local! {
    /// The stream that this thread named last: handle of its context, handle, number.
    static LAST: Cell<(Handle, Handle, StreamId)> = const { Cell::new((0, 0, 0)) };
}

/// The stream of a number. Takes no lock.
pub(super) fn get(id: StreamId) -> Option<&'static NamedStream> {
    STREAMS.get()?.get(id as usize)?.get().copied()
}

/// All streams named so far, in the order of their numbers.
pub(super) fn all() -> impl Iterator<Item = &'static NamedStream> {
    (1..).map_while(get)
}

/// Names a stream that lives as long as its last `Arc`, or, a default stream, as long as its context's.
pub(super) fn name<C: Held + 'static, S: Held + 'static>(
    (context, context_alive): (Handle, &Arc<C>),
    (handle, alive): (Handle, &Arc<S>),
) -> StreamId {
    // 0 and 1 are the legacy default stream, 2 the per-thread one. cudarc makes a new wrapper for them at each call.
    let owner = if handle <= 2 { Owner::Context } else { Owner::Binding(downgrade(alive)) };
    register(context, Some(downgrade(context_alive)), handle, owner)
}

fn downgrade<T: Held + 'static>(held: &Arc<T>) -> Weak<dyn Held> {
    let held: Weak<T> = Arc::downgrade(held);
    held
}

/// Names a stream that the caller keeps alive.
pub(super) fn name_raw(context: Handle, stream: Handle) -> StreamId {
    register(context, None, stream, Owner::Caller)
}

fn register(context: Handle, alive: Option<Weak<dyn Held>>, handle: Handle, owner: Owner) -> StreamId {
    // The same handle is the same stream only while the known one lives: after that the driver may give the handle to
    // another.
    let is_same = |id: StreamId| {
        get(id).is_some_and(|known| {
            known.lives() && matches!(known.owner, Owner::Caller) == matches!(owner, Owner::Caller)
        })
    };
    // A thread that names one stream over and over takes no lock.
    let (last_context, last_handle, last) = LAST.get();
    if (last_context, last_handle) == (context, handle) && is_same(last) {
        return last;
    }
    if forks::is_child() {
        return 0; // no stream: a child times nothing, and the footer says so
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

/// Prepares for children that are forked off. Must be called before anything is locked that a child may lock.
fn watch_forks() {
    static WATCHED: Once = Once::new();
    forks::watch();
    WATCHED.call_once(|| forks::in_forked_child(scope::forget));
}

/// Retires some of the streams that were named before this one, the oldest first. A program that makes streams again
/// and again leaves a few unread pairs on each, and without this all of them would stay until a summary.
fn retire_some(new: StreamId) {
    static IN_USE: Mutex<VecDeque<StreamId>> = Mutex::new(VecDeque::new());
    for _ in 0..2 {
        // The list is not locked during calls of the driver.
        let Some(oldest) = IN_USE.lock().pop_front() else { break };
        if get(oldest).is_some_and(|stream| !own_calls::during(|| events::retire(stream))) {
            IN_USE.lock().push_back(oldest);
        }
    }
    IN_USE.lock().push_back(new);
}

impl Names {
    /// Gives a number to a stream that has none. `None` beyond the bound on streams.
    fn add(
        &mut self,
        context: Handle,
        alive: Option<Weak<dyn Held>>,
        handle: Handle,
        owner: Owner,
    ) -> Option<StreamId> {
        let context = self.context(context, alive);
        let id = self.next + 1;
        let slot = STREAMS.get_or_init(Chunked::new).get_or_grow(id as usize)?;
        let context_handle = context.handle;
        let stream = NamedStream { handle, context_handle, id, context, owner, queue: Mutex::default() };
        slot.set(Box::leak(Box::new(stream))).ok()?; // it is empty: a number is given once, under the lock
        self.next = id;
        self.streams.insert((context.handle, handle), id);
        Some(id)
    }

    fn context(&mut self, handle: Handle, alive: Option<Weak<dyn Held>>) -> &'static NamedContext {
        if let Some(known) = self.contexts.get(&handle) {
            // A caller's context cannot be held, so it does not serve where one that can be is wanted.
            let serves = if known.can_be_held() { known.lives() } else { alive.is_none() };
            if serves {
                return known;
            }
        }
        // A context that is gone took its events along; a new one with the same handle starts with none.
        let context: &'static NamedContext = Box::leak(Box::new(NamedContext::new(handle, alive)));
        self.contexts.insert(handle, context);
        context
    }
}

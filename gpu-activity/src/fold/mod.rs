//! What the join hands on, once: each joined record says whether it belongs to the window, and each fold decides what to
//! do with it. The folds are `totals`, and the events for timelines (`join/events.rs`).

mod instances;

use std::fmt;

pub(crate) use self::instances::{InstanceState, Instances, NO_SLOT, REFUSED};
pub use self::instances::{Range, StreamSpan};
use crate::record::{Api, ApiCall, Detail, GpuOp, Ticks};

/// The caller's knowledge at the time of a drain.
pub struct Context<'a> {
    /// Parent of each node of the lineage tree. A parent has a lower number than its child. Node 0 is the root and its
    /// own parent.
    pub parents: &'a [u32],
    /// Whether a row keeps one more single duration, given the number that it keeps already.
    pub keep: &'a dyn Fn(u64) -> bool,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("parents", &self.parents).finish_non_exhaustive()
    }
}

/// Where a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The operating system's number of the thread.
    pub thread: u32,
    /// Node of the lineage tree; [`OUTSIDE`](crate::join::OUTSIDE) outside of any span.
    pub node: u32,
    /// Time of the call; 0 if it was not noted.
    pub at: Ticks,
    /// Number of the span's call in which it was made; 0 if it was not noted.
    pub call: u64,
}

/// An operation that ran at a known time, joined with its launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) op: &'a GpuOp,
    /// Its launch, if known.
    pub(crate) launch: Option<Launch>,
    /// Slot of the innermost instance around the launch; [`NO_SLOT`] for none.
    pub(crate) instance: u32,
    /// Slots of the start/end ranges around the launch, sorted.
    pub(crate) within: &'a [u32],
    /// Whether it is the first of its launch.
    pub(crate) is_first: bool,
    /// Whether it belongs to the window. If not, it was over or launched before.
    pub(crate) of_window: bool,
}

/// A call that the program made to the API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadeCall {
    pub(crate) call: ApiCall,
    /// The operating system's number of its thread; 0 where that is not known.
    pub(crate) thread: u32,
    /// The node in which it was noted.
    pub(crate) node: Option<u32>,
    /// Whether it belongs to the window.
    pub(crate) of_window: bool,
}

impl MadeCall {
    pub(crate) fn function(&self) -> (Api, u32) {
        (self.call.api, self.call.function)
    }

    pub(crate) fn duration(&self) -> u64 {
        self.call.end.saturating_sub(self.call.start)
    }
}

/// One question, answered from all that is joined. A run pays for a fold that is asked for.
pub(crate) trait Fold {
    /// An operation of the program. The fold keeps what it needs of the instances around in `instances`.
    fn operation(&mut self, ran: &Operation<'_>, instances: &mut Instances, context: &Context<'_>);
    /// A call of the program: neither one that the runtime made to the driver, nor one of the profiler.
    fn call(&mut self, made: &MadeCall, context: &Context<'_>);
    /// A detail that the program caused. It belongs to no window.
    fn detail(&mut self, _: &Detail, _: Option<Launch>) {}
    /// An instance that is over and whose work has arrived; at the bound on instances, earlier.
    fn instance(&mut self, instance: &mut InstanceState, context: &Context<'_>);
    /// A drain is over, and `counts` if related records have arrived since the last one that did.
    fn drained(&mut self, instances: &mut Instances, counts: bool, context: &Context<'_>);
    /// A new window begins.
    fn clear(&mut self) {}
}

/// Both folds, one after the other.
impl<A: Fold, B: Fold> Fold for (A, B) {
    fn operation(&mut self, ran: &Operation<'_>, instances: &mut Instances, context: &Context<'_>) {
        self.0.operation(ran, instances, context);
        self.1.operation(ran, instances, context);
    }

    fn call(&mut self, made: &MadeCall, context: &Context<'_>) {
        self.0.call(made, context);
        self.1.call(made, context);
    }

    fn detail(&mut self, detail: &Detail, launch: Option<Launch>) {
        self.0.detail(detail, launch);
        self.1.detail(detail, launch);
    }

    fn instance(&mut self, instance: &mut InstanceState, context: &Context<'_>) {
        self.0.instance(instance, context);
        self.1.instance(instance, context);
    }

    fn drained(&mut self, instances: &mut Instances, counts: bool, context: &Context<'_>) {
        self.0.drained(instances, counts, context);
        self.1.drained(instances, counts, context);
    }

    fn clear(&mut self) {
        self.0.clear();
        self.1.clear();
    }
}

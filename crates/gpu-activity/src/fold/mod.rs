//! Folds: they take what the join hands on, once. Each joined record says whether it belongs to the window, and each
//! fold decides what to do with it. The folds are `totals`, and the events for timelines (`join/events.rs`).

mod instances;
mod joined;

pub(crate) use self::instances::{InstanceState, Instances, NO_SLOT, REFUSED};
pub use self::instances::{Range, StreamSpan};
pub use self::joined::{Capture, Launch, OUTSIDE, UNKNOWN};
pub(crate) use self::joined::{MadeCall, OfGraph, Operation, Part};
use crate::record::Detail;

/// The caller's knowledge at the time of a drain.
#[allow(missing_debug_implementations)] // a closure has nothing to show
pub struct Context<'a> {
    /// Parent of each node of the lineage tree. A parent has a lower number than its child. Node 0 is the root and its
    /// own parent.
    pub parents: &'a [u32],
    /// Whether a row keeps one more single duration, given the number that it keeps already.
    pub keep: &'a dyn Fn(u64) -> bool,
}

/// One question, answered from all that is joined. The join knows the types of its folds, so no call is dynamic.
pub(crate) trait Fold {
    /// An operation of the program. The fold keeps what it needs of the instances around in `instances`.
    fn operation(&mut self, ran: &Operation<'_>, instances: &mut Instances, context: &Context<'_>);
    /// A call of the program: neither one that the runtime made to the driver, nor one of the profiler.
    fn call(&mut self, made: &MadeCall, context: &Context<'_>);
    /// A detail that the program caused. It belongs to no window.
    fn detail(&mut self, _: &Detail, _: Option<Launch>) {}
    /// An instance that is over and whose work has arrived; at the bound on instances, earlier.
    fn instance(&mut self, instance: &mut InstanceState, context: &Context<'_>);
    /// A drain is over, and with `ends_period` a minute of drains.
    fn drained(&mut self, instances: &mut Instances, ends_period: bool, context: &Context<'_>);
    /// A new window begins.
    fn clear(&mut self) {}
}

/// Two folds, one after the other.
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

    fn drained(&mut self, instances: &mut Instances, ends_period: bool, context: &Context<'_>) {
        self.0.drained(instances, ends_period, context);
        self.1.drained(instances, ends_period, context);
    }

    fn clear(&mut self) {
        self.0.clear();
        self.1.clear();
    }
}

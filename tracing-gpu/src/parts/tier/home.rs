//! Where a front end stores what the parts have of its spans.

use std::sync::Arc;

use tracing_core::Metadata;

use super::{Created, SpanValues};
use crate::core::record::{CallId, Inherited, Place};
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;
use crate::core::tier::home::Home;

/// Any span of a front end, with all that parts keep of it.
pub(crate) trait PartsHome: Home {
    /// Stores any new span. `None` if there is no room.
    fn keep(
        &self,
        engine: &'static Engine,
        thread: &ThreadState,
        given: Self::Given,
        place: Place,
        beside: Beside,
    ) -> Option<Self::Created>;
    /// Stores what a new span inherits.
    fn keep_inherited(thread: &ThreadState, given: Self::Given, created: &Self::Created, number: Inherited);
    /// The call of such a span, if its place has the flag for one and it has no values of its own.
    fn call_here(thread: &ThreadState, id: u64) -> CallId;
    /// What such a span inherits.
    fn inherited_here(thread: &ThreadState, id: u64) -> Inherited;
    /// Finds any span that is about to be entered.
    fn find(&self, engine: &'static Engine, thread: &'static ThreadState, id: u64) -> EnteredSpan;
    /// What any span inherits.
    fn inherited(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> Inherited;
    /// The call that follows any span, 0 for none.
    fn call(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> CallId;
    /// Lets this call follow a live span that none follows. False if that cannot be: then nothing changes.
    fn keep_call(&self, engine: &'static Engine, thread: &ThreadState, id: u64, call: CallId) -> bool;
    fn values(&self, engine: &'static Engine, id: u64) -> Option<Arc<SpanValues>>;
    /// The creating thread's data of a live span, if ranges are recorded.
    fn created(&self, engine: &'static Engine, thread: &'static ThreadState, id: u64) -> Option<&'static Created>;
    /// The parent node for children of any span.
    fn node(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> u32;
    /// The call site of a live span that the filter lets through.
    fn measured_site(&self, engine: &'static Engine, id: u64) -> Option<&'static Metadata<'static>>;
}

/// The data of a new span besides its place.
pub(crate) enum Beside {
    Nothing,
    /// A mark that its call site does not determine its name; its place does.
    Named,
    /// The call that its place announces.
    Call(CallId),
    Values(Arc<SpanValues>),
}

/// A span that is about to be entered.
pub(crate) enum EnteredSpan {
    /// It is counted here, on this thread; the call is the one that its place announces.
    Counted(Place, CallId),
    WithValues(Arc<SpanValues>),
    /// It is filtered out, and was created under this node.
    Hidden(u32),
    Nothing,
}

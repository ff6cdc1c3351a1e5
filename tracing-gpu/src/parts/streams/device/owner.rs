//! The owner that keeps a stream alive.

use std::sync::{Arc, Weak};

use gpu_activity::driver::Driver;

use super::context::{NamedContext, Owned};

/// The owner that keeps a stream alive.
pub(crate) struct StreamOwner {
    pub(crate) context: &'static NamedContext,
    pub(crate) kind: OwnerKind,
}

#[cfg_attr(not(feature = "cudarc"), allow(dead_code))] // its streams alone have owners
pub(crate) enum OwnerKind {
    /// Its last `Arc`: the stream is destroyed with it.
    Binding(Weak<dyn Owned>),
    /// A default stream: gone with its context.
    Context,
    /// A raw stream: alive by the contract of `RawStream`.
    Caller,
}

/// Keeps the stream alive while this value exists.
#[derive(Clone, Default)]
pub(crate) struct Alive(Option<Arc<dyn Owned>>);

impl Alive {
    /// Drops the hold. The caller must hold no lock.
    pub(crate) fn let_go(this: Option<Self>, driver: &Driver) {
        if let Some(Self(Some(held))) = this {
            held.let_go(driver);
        }
    }
}

impl StreamOwner {
    /// Holds the stream alive; `None` when it is gone.
    pub(crate) fn hold(&self) -> Option<Alive> {
        match &self.kind {
            OwnerKind::Binding(stream) => Some(Alive(Some(stream.upgrade()?))),
            OwnerKind::Context => Some(Alive(Some(self.context.hold()?))),
            OwnerKind::Caller => Some(Alive::default()), // by contract
        }
    }

    /// The number of holders, including the queue, of a stream that its last `Arc` destroys. `None` for other streams.
    pub(crate) fn holders(&self) -> Option<usize> {
        match &self.kind {
            OwnerKind::Binding(stream) => Some(stream.strong_count()),
            OwnerKind::Context | OwnerKind::Caller => None,
        }
    }

    /// Whether it can be held now. Takes no hold, because that could become the last one, which must not be dropped
    /// under a lock.
    pub(crate) fn lives(&self) -> bool {
        match &self.kind {
            OwnerKind::Binding(stream) => stream.strong_count() > 0,
            OwnerKind::Context => self.context.lives(),
            OwnerKind::Caller => true,
        }
    }
}

//! New spans.

use range_model::RangeStyle;
use tracing_core::Metadata;

use super::ThreadState;
use crate::core::record::{CallId, Child, Place, RangeKey, Unnamed};
use crate::core::session::catalog::ROOT;
use crate::core::span::site::{Site, site_key};
use crate::core::thread::row::Row;

/// New spans.
impl ThreadState {
    /// Path `counting`: place and row of a new span under the innermost open range, if they are cached, and the span
    /// has no values of its own.
    #[inline(always)]
    pub(crate) fn child_counting(&self, metadata: &'static Metadata<'static>) -> Option<(Place, &Row)> {
        let parent = if self.stack.is_empty() { ROOT } else { self.stack.near_top()?.place().node() };
        let place = self.children.get(parent, site_key(metadata)).filter(|place| place.is_plain())?;
        Some((place, self.rows.get_inline(place.row())?))
    }

    /// Node of the innermost open range, which is the parent of a new span without an explicit parent.
    pub(crate) fn current_node(&self) -> u32 {
        self.stack.top().map_or_else(|| self.helped_node(), |top| top.place().node())
    }

    /// The node of a range that waits for this thread, which has none open.
    #[inline]
    fn helped_node(&self) -> u32 {
        #[cfg(feature = "cuda")]
        if let Some(helper) = self.parts.helper.get() {
            return helper.present_node(&self.session.clock);
        }
        ROOT
    }

    /// A new span of this call site under a parent.
    pub(crate) fn child(&self, parent: u32, metadata: &'static Metadata<'static>) -> Child {
        let site = site_key(metadata);
        let cached = self.children.get(parent, site);
        Child::unpack(
            cached.unwrap_or_else(|| self.find_child(parent, site, || self.new_child(parent, metadata).packed(parent))),
        )
    }

    fn new_child(&self, parent: u32, metadata: &'static Metadata<'static>) -> Child {
        match self.site(metadata) {
            Site { enabled: false, .. } => Child::Hidden,
            Site { own_values: true, .. } => Child::Unnamed(Unnamed::WithValues),
            Site { is_split: true, .. } => Child::Unnamed(Unnamed::Split),
            Site { label, .. } => {
                let key = RangeKey { label, category: 0, style: RangeStyle::PushPop };
                Child::Counted(self.place(self.node(parent, key), key, metadata).under_if_any(parent))
            }
        }
    }

    /// [`child`](Self::child), for a span that was created before and has no values of its own.
    pub(crate) fn counted_child(&self, parent: u32, metadata: &'static Metadata<'static>) -> Child {
        match self.child(parent, metadata) {
            Child::Unnamed(Unnamed::Split) => Child::Counted(self.plain_child(parent, metadata)),
            child => child,
        }
    }

    /// The place of a span with the name of its call site and without values of its own.
    pub(crate) fn plain_child(&self, parent: u32, metadata: &'static Metadata<'static>) -> Place {
        let key = RangeKey { label: self.site(metadata).label, category: 0, style: RangeStyle::PushPop };
        self.place(self.node(parent, key), key, metadata).under_if_any(parent)
    }

    /// Lets spans of this call site under this parent take the fast paths from now on.
    pub(crate) fn know_plain(&self, parent: u32, metadata: &'static Metadata<'static>, place: Place) {
        self.known.lock().know_child(parent, site_key(metadata), place);
        self.children.insert(parent, site_key(metadata), place);
    }

    /// The place on this thread for a place that the thread with this state has made.
    #[inline]
    pub(crate) fn place_from(&self, index: u32, other: impl FnOnce() -> Option<&'static Self>, place: Place) -> Place {
        // The cache of children also serves here. Its key has a number for the other thread's row in place of the call
        // site; no call site has such a number.
        let row = (place.row() as u64) << 16 | u64::from(index) | 1 << 63;
        self.children.get(place.node(), row).unwrap_or_else(|| {
            self.find_child(place.node(), row, || {
                let identity = other().and_then(|other| other.rows.identity(place));
                let here = identity.map(|identity| self.place(place.node(), identity.key, identity.metadata));
                here.map_or(Place::NONE, |here| here.under_if_any(place.parent()))
            })
        })
    }

    /// The place for an entry of a span with this place and call (0 for none): below the innermost open range, unless
    /// that range's node is the same or a descendant. Counts the use of the span there.
    #[inline]
    pub(crate) fn place_of_entry(&self, place: Place, call: CallId) -> Place {
        let top = self.stack.top();
        let elsewhere = top.filter(|top| top.place().node() != place.parent());
        let entered = elsewhere.map_or(place, |top| self.place_elsewhere(place, call, top));
        if entered.node() == place.node()
            && let Some(call) = self.session.parts.calls.get(call)
            && call.enter_at_home(top.map(|top| || self.range_around(call, top).0))
        {
            self.add_call(entered);
        }
        entered
    }

    /// A place that is not cached.
    #[inline(never)]
    pub(crate) fn find_child(&self, parent: u32, site: u64, make: impl FnOnce() -> Place) -> Place {
        let known = self.known.lock().child(parent, site);
        let place = known.unwrap_or_else(|| {
            let place = make(); // may look up other places, and run a tool's code
            self.known.lock().know_child(parent, site, place);
            place
        });
        self.children.insert(parent, site, place);
        place
    }

    /// Remembers the place of the span with this registry id. Only for spans created on this thread.
    #[inline(always)]
    pub(crate) fn remember(&self, id: u64, place: Place) {
        self.remembered.insert(id, place);
    }

    /// The place of the span with this registry id, created on this thread, if it is remembered.
    #[inline(always)]
    pub(crate) fn remembered(&self, id: u64) -> Option<Place> {
        self.remembered.place(id)
    }
}

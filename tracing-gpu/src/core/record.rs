//! Types that several parts of the profiler share.

use range_model::RangeStyle;

use crate::clock::Ticks;

/// A style as a number, and back.
pub(crate) fn style_number(style: RangeStyle) -> u32 {
    u32::from(style == RangeStyle::StartEnd)
}

pub(crate) fn style_of(number: u32) -> RangeStyle {
    if number == 0 { RangeStyle::PushPop } else { RangeStyle::StartEnd }
}

/// A number that a span names for a part, and that the spans below inherit; 0 for none.
pub(crate) type Inherited = u32;

/// Number of a call that follows a span; 0 for none.
pub(crate) type CallId = u32;

/// Number of a span that serves others, or is served; 0 for none.
pub(crate) type LinkedId = u32;

/// Number of an instance in notes; 0 for none. A lifetime has one too.
pub(crate) type InstanceId = u64;

/// Where instances of a span are counted: a node of the tree, the node under which it is entered by creation, and its
/// row on the thread that made this.
///
/// Packed in one word, so that it is read and written at once: parent, node, two flags, row, from the top down. The
/// flags mean that the span has values of its own (a colour, a payload, ...) to be looked up, and that a
/// [`Call`](crate::parts::calls::session::Call) follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

/// Why the fields of a new span are examined before its name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unnamed {
    /// It may have values of its own.
    WithValues,
    /// A field that names spans by default may name it; it has no other values.
    Split,
}

/// A new span of a call site below a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Child {
    /// It is counted there.
    Counted(Place),
    /// Its name, and so its node, is known only from its fields.
    Unnamed(Unnamed),
    /// It is filtered out.
    Hidden,
}

impl Child {
    /// As a word, for caches of places.
    pub(crate) fn packed(self, parent: u32) -> Place {
        match self {
            Self::Counted(place) => place,
            Self::Unnamed(kind) => Place::new(parent, kind as u32).under(parent).with_own_values(),
            Self::Hidden => Place::NONE,
        }
    }

    /// From such a word.
    #[inline]
    pub(crate) fn unpack(place: Place) -> Self {
        match place {
            _ if place.is_none() => Self::Hidden,
            _ if !place.has_own_values() => Self::Counted(place),
            _ if place.row() == Unnamed::Split as usize => Self::Unnamed(Unnamed::Split),
            _ => Self::Unnamed(Unnamed::WithValues),
        }
    }
}

/// Bits of a node's number: room for twice the limit on nodes, because each node may have a `(more)` node below.
const NODE_BITS: u32 = 20;
const NODES: u64 = (1 << NODE_BITS) - 1;
const ROW_BITS: u32 = 22;
const FLAGGED_ROW_BITS: u32 = ROW_BITS + 2;
/// The largest number of rows of a thread; this last number stands for none.
pub(crate) const MAX_ROWS: u32 = (1 << ROW_BITS) - 1;

impl Place {
    const CALLED: u64 = 1 << ROW_BITS;
    const OWN_VALUES: u64 = 1 << (ROW_BITS + 1);
    const FLAGGED_ROW: u64 = (1 << FLAGGED_ROW_BITS) - 1;
    /// A span that is not measured: filtered out, or of another profiler.
    pub(crate) const NONE: Self = Self(u64::MAX);

    /// A node and its row, under no other node.
    #[inline]
    pub(crate) fn new(node: u32, row: u32) -> Self {
        Self(u64::from(node) << FLAGGED_ROW_BITS | u64::from(row))
    }

    /// The same, under this node.
    #[inline]
    pub(crate) fn under(self, parent: u32) -> Self {
        const BELOW: u32 = NODE_BITS + FLAGGED_ROW_BITS;
        Self(self.0 & ((1 << BELOW) - 1) | u64::from(parent) << BELOW)
    }

    /// [`under`](Self::under), unless the place is none.
    pub(crate) fn under_if_any(self, parent: u32) -> Self {
        if self.is_none() { self } else { self.under(parent) }
    }

    /// [`NONE`](Self::NONE) for a span that was created under this node. Spans created inside are also under this node.
    pub(crate) fn hidden(parent: u32) -> Self {
        Self(u64::from(parent) << FLAGGED_ROW_BITS | Self::FLAGGED_ROW)
    }

    /// The place of an unmeasured span that stands for its nearest measured ancestor: spans created inside are under
    /// that ancestor. It has no row, so nothing is counted.
    pub(crate) fn stand_in(node: u32) -> Self {
        Self::new(node, MAX_ROWS)
    }

    pub(crate) fn is_stand_in(self) -> bool {
        self.row() == MAX_ROWS as usize
    }

    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        self.0 & Self::FLAGGED_ROW == Self::FLAGGED_ROW // no row has that number
    }

    /// Whether it has a row.
    pub(crate) fn is_measured(self) -> bool {
        !self.is_none() && !self.is_stand_in()
    }

    #[inline]
    pub(crate) fn node(self) -> u32 {
        (self.0 >> FLAGGED_ROW_BITS & NODES) as u32
    }

    #[inline]
    pub(crate) fn parent(self) -> u32 {
        (self.0 >> (NODE_BITS + FLAGGED_ROW_BITS)) as u32
    }

    #[inline]
    pub(crate) fn row(self) -> usize {
        (self.0 & (Self::CALLED - 1)) as usize
    }

    /// The row of a span that no call follows; no row for any other: so the fast paths leave those alone, and look at
    /// no flag.
    #[inline]
    pub(crate) fn row_without_call(self) -> usize {
        (self.0 & (Self::OWN_VALUES - 1)) as usize
    }

    #[inline]
    pub(crate) fn has_own_values(self) -> bool {
        self.0 & Self::OWN_VALUES != 0
    }

    #[inline]
    pub(crate) fn is_called(self) -> bool {
        self.0 & Self::CALLED != 0
    }

    /// Whether the span has neither values of its own nor a call.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & (Self::OWN_VALUES | Self::CALLED) == 0
    }

    pub(crate) fn with_own_values(self) -> Self {
        Self(self.0 | Self::OWN_VALUES)
    }

    pub(crate) fn with_call(self) -> Self {
        Self(self.0 | Self::CALLED)
    }

    /// The place without flags.
    pub(crate) fn plain(self) -> Self {
        Self(self.0 & !(Self::OWN_VALUES | Self::CALLED))
    }

    /// The place with the flags of another one.
    pub(crate) fn flagged_as(self, other: Self) -> Self {
        Self(self.0 | other.0 & (Self::OWN_VALUES | Self::CALLED))
    }
}

/// The identity of a range's row: an interned domain and name, a category (0 for none) and a style.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RangeKey {
    pub(crate) label: u32,
    pub(crate) category: u32,
    pub(crate) style: RangeStyle,
}

/// The identity of a call's row on a thread: its node and its label; and the crate of its call site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallIdentity<'a> {
    pub(crate) node: u32,
    pub(crate) label: u32,
    pub(crate) source: &'a str,
}

/// The numbers of a range while ranges are recorded. 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeNumbers {
    pub(crate) span: u64,
    pub(crate) call: u64,
    /// Number of the call in which this one runs.
    pub(crate) parent: u64,
    /// Whether the span was created with fields. The recorder knows them by the span's number.
    pub(crate) has_fields: bool,
}

/// An instance that has ended, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) place: Place,
    pub(crate) entered: Ticks,
    pub(crate) duration: u64,
    /// Time of ranges directly above it on the same thread: a two's-complement number, at most `duration` except for
    /// the time between two readings of the clock.
    pub(crate) nested: u64,
}

impl Ended {
    /// An instance that ends at `now`, as if nothing was nested in it.
    pub(crate) fn at(now: Ticks, place: Place, entered: Ticks) -> Self {
        Self { place, entered, duration: now.saturating_sub(entered), nested: 0 }
    }

    pub(crate) fn end(&self) -> Ticks {
        self.entered.saturating_add(self.duration)
    }

    /// Whether its thread waited in it for most of the time, and not in a range above it.
    pub(crate) fn is_mainly_off(&self, cpu: OnCpu) -> bool {
        cpu.off >= self.duration / 5 * 4 && self.nested <= self.duration / 2
    }
}

/// What is known of the processor time of a range, in ticks; the rest of its duration is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnCpu {
    /// Time in which the thread surely ran, and surely did not run.
    pub(crate) on: u64,
    pub(crate) off: u64,
}

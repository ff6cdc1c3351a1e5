//! The words the parts of the profiler speak to each other in.

use range_report::RangeStyle;
use range_report::stats::Distribution;

use crate::clock::Ticks;

/// Number of a named stream; 0 for none.
pub(crate) type StreamId = u32;

/// A row of stream times: its stream, node and range.
pub(crate) type StreamRow = (StreamId, u32, RangeKey, StreamTime);

/// Times on a stream, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamTime {
    pub(crate) times: Distribution,
    /// Instances that read no more than two events with nothing between them.
    pub(crate) empty: u64,
    /// What those instances read together: the time of nothing.
    pub(crate) empty_ns: u128,
}

/// Number of an instance in what is noted of it; 0 for none. A lifetime has one too.
pub(crate) type InstanceId = u64;

/// Where instances of a span are counted: a node of the lineage tree and, on the thread that made this, its row.
///
/// Packed in one word, so that it is read and written in one go: node in the upper half, row in the lower 31 bits, and
/// in between one bit that says that the span has values of its own (a colour, a payload, ...) to be looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    const OWN_VALUES: u64 = 1 << 31;
    /// A span that is not measured: filtered out, or of another profiler.
    pub(crate) const NONE: Self = Self(u64::MAX);

    #[inline(always)]
    pub(crate) fn new(node: u32, row: u32) -> Self {
        Self(u64::from(node) << 32 | u64::from(row))
    }

    /// [`NONE`](Self::NONE), of a span that was created under this node: what is created inside is under that too.
    pub(crate) fn hidden(parent: u32) -> Self {
        Self(u64::from(parent) << 32 | Self::NONE.0 & u64::from(u32::MAX))
    }

    /// The place of a span that is not measured and stands for its nearest measured ancestor: spans created inside are
    /// under that. It has no row, so nothing is counted.
    pub(crate) fn stand_in(node: u32) -> Self {
        Self::new(node, (Self::OWN_VALUES - 1) as u32)
    }

    /// The place of a new span under this node that has values of its own: its name, and so its node, is known only when
    /// it is created. `is_sampled`: it has none, and they are only looked at.
    pub(crate) fn unnamed(parent: u32, is_sampled: bool) -> Self {
        Self::new(parent, u32::from(is_sampled)).with_own_values()
    }

    /// Whether this is an [`unnamed`](Self::unnamed) place of a span that is only looked at.
    pub(crate) fn is_sampled(self) -> bool {
        self == Self::unnamed(self.node(), true)
    }

    #[inline(always)]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn is_none(self) -> bool {
        self.0 as u32 == u32::MAX // no row has that number
    }

    #[inline(always)]
    pub(crate) fn node(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline(always)]
    pub(crate) fn row(self) -> usize {
        (self.0 & (Self::OWN_VALUES - 1)) as usize
    }

    #[inline(always)]
    pub(crate) fn has_own_values(self) -> bool {
        self.0 & Self::OWN_VALUES != 0
    }

    pub(crate) fn with_own_values(self) -> Self {
        Self(self.0 | Self::OWN_VALUES)
    }
}

/// What makes two ranges the same row: an interned domain and name, a category (0 for none) and how they are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RangeKey {
    pub(crate) label: u32,
    pub(crate) category: u32,
    pub(crate) style: RangeStyle,
}

/// An instance that has ended, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) place: Place,
    pub(crate) entered: Ticks,
    pub(crate) duration: u64,
    /// Time that ranges directly above it took on the same thread: a two's-complement number, at most `duration` but
    /// for the time between two readings of the clock.
    pub(crate) nested: u64,
}

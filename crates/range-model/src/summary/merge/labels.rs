//! The identity of the rows of merged tables.

use crate::RangeStyle;

/// The range of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(not(feature = "_literals"), non_exhaustive)]
pub struct RangeLabel {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// Push/pop or start/end.
    pub style: RangeStyle,
}

/// The calls of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(not(feature = "_literals"), non_exhaustive)]
pub struct CallLabel {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the span.
    pub name: String,
}

/// The range and stream of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(not(feature = "_literals"), non_exhaustive)]
pub struct StreamLabel {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// The stream without its device, because each process of a run may have its own device: `#1`, `default`. The work
    /// of one process on that stream of several devices is one row.
    pub stream: String,
}

/// The node of the phase tree of a row. The path to it consists of the nearest earlier rows of each smaller depth.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(not(feature = "_literals"), non_exhaustive)]
pub struct PhaseLabel {
    /// Nodes above it; 0 for a root.
    pub depth: usize,
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
}

/// A part of the GPUs' work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum WorkPart {
    /// All operations.
    All,
    /// Operations launched outside of any range.
    Outside,
    /// Operations without a known launch.
    Unmatched,
}

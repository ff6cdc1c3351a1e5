//! What a row of a merged table is of.

use crate::RangeStyle;

/// Which range a row is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RangeLabel {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// Push/pop or start/end.
    pub style: RangeStyle,
}

/// Which calls a row is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CallLabel {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the span.
    pub name: String,
}

/// Which range on which stream a row is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StreamLabel {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// The stream without its device, since each process of a run may have a device of its own: `#1`, `default`. What
    /// one process did on that stream of several devices is one row.
    pub stream: String,
}

/// Which node of the phase tree a row is of. The path to it is the rows before it that are less deep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct PhaseLabel {
    /// Nodes above it; 0 for a root.
    pub depth: usize,
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
}

/// Which part of the work of the GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum WorkPart {
    /// All operations.
    All,
    /// Operations launched outside of any range.
    Outside,
    /// Operations whose launch is not known.
    Unmatched,
}

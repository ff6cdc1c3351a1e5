//! What a gate judges.

use range_model::summary::{DeviceIdle, IdleCause};

/// What is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Figure {
    /// Durations of a range.
    #[default]
    Range,
    /// Latencies of calls that wait: from the creation of the span to its end.
    Latency,
    /// Durations of the polls of such calls.
    Poll,
    /// Time in which a GPU ran anything.
    GpuBusy,
    /// Time in which a GPU was idle for this cause, between its first operation and its last.
    GpuIdle(IdleCause),
}

impl Figure {
    /// What the growth in a [`Reason`](super::Reason) is of.
    pub(crate) const fn each(self) -> &'static str {
        match self {
            Self::Latency => " a call",
            Self::Range | Self::Poll => " each",
            Self::GpuBusy | Self::GpuIdle(_) => "",
        }
    }
}

/// The name of a device in a comparison.
pub(crate) fn device_name(device: &DeviceIdle) -> String {
    format!("GPU {}", device.device)
}

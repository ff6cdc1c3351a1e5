//! Why the devices were idle: the page's data besides the idle times on its timeline.

use serde::Serialize;

use super::tables::MOST_ROWS;
use super::texts::{LONGEST, presentable};
use range_model::names::label_or_none;
use range_model::summary::{GpuIdle, IdleCause, IdleCauses};

/// The name of a cause, as in the report `idle`.
pub(super) fn words(cause: IdleCause) -> String {
    format!("idle: {}", cause.name())
}

/// Nanoseconds by cause, in the order of [`Shown::causes`].
type Causes = [u64; IdleCause::ALL.len()];

#[derive(Debug, Serialize)]
pub(super) struct Shown {
    causes: [String; IdleCause::ALL.len()],
    devices: Vec<Device>,
    /// Names of ranges as on the timeline, the most idle time first, with all idle time of each.
    spans: Vec<(String, Causes)>,
}

#[derive(Debug, Serialize)]
struct Device {
    label: String,
    wall_ns: u64,
    busy_ns: u64,
    causes: Causes,
    /// The idle time that is on the timeline.
    drawn_ns: u64,
}

/// `drawn` returns the idle time of a device that is on the timeline.
pub(super) fn shown(idle: &GpuIdle, drawn: impl Fn(u32) -> u64) -> Shown {
    let devices = idle.devices.iter().map(|device| Device {
        label: format!("GPU {}", device.device),
        wall_ns: device.wall_ns,
        busy_ns: device.busy_ns,
        causes: in_order(&device.causes),
        drawn_ns: drawn(device.device),
    });
    let spans = idle.spans.iter().take(MOST_ROWS).filter_map(|span| {
        let name = label_or_none(span.domain.as_deref(), span.name.as_deref()?);
        Some((presentable(&name, LONGEST).into_owned(), in_order(&span.causes)))
    });
    Shown { causes: IdleCause::ALL.map(words), devices: devices.collect(), spans: spans.collect() }
}

fn in_order(causes: &IdleCauses) -> Causes {
    IdleCause::ALL.map(|cause| causes.of(cause))
}

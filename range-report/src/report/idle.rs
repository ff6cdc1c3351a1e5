//! Why the devices were idle: one table of devices and causes, and one of the spans that launched what ended it.

use super::cuda::Made;
use super::envelope::printed;
use super::options::RenderOptions;
use super::table::{Cell, Column, Table};
use crate::Summary;
use crate::summary::{GpuIdle, IdleCause, IdleCauses};
use crate::text::names;

/// `Idle`: both tables.
pub(crate) fn idle(summary: &Summary, options: &RenderOptions) -> String {
    let mut text = printed(DEVICES, devices(summary), options);
    if summary.idle.is_some() {
        text.push_str(&printed(SPANS, table(summary, options), options));
    }
    text
}

const DEVICES: [&str; 2] = [" ** GPU Idle Time by Cause (idle):", "GPU Idle Time Statistics (by cause):"];
const SPANS: [&str; 2] = [" ** GPU Idle Time by Range (idle):", "GPU Idle Time Statistics (by range):"];
pub(crate) const ABOUT: &str = "Time between two operations of a device, by the range that was open in the thread \
                                that launched the second.";
const NOT_RECORDED: &str = "Idle time was not recorded: ask for the report `idle` before the run.";

/// Of each device, what its time was made of.
fn devices(summary: &Summary) -> Made {
    let idle = summary.idle.as_ref().ok_or(NOT_RECORDED)?;
    let mut table = Table::new([
        Column::text("Device"),
        Column::name("Time"),
        Column::of("Total Time (ns)"),
        Column::of("Share (%)"),
    ]);
    for device in &idle.devices {
        let whole = device.wall_ns.into();
        let mut row = |what: &str, part: u64| {
            let number = Cell::text(device.device.to_string());
            table.push(vec![number, Cell::text(what), Cell::Whole(part), Cell::Share { part, whole }]);
        };
        row("busy", device.busy_ns);
        if device.copy_ns > 0 {
            row("  copies and sets", device.copy_ns);
            row("  copies beside kernels", device.overlap_ns);
        }
        for (cause, ns) in largest_first(&device.causes) {
            row(&format!("idle: {}", cause.name()), ns);
        }
    }
    Ok(table)
}

/// Of each range, the idle time that its launches ended.
pub(crate) fn table(summary: &Summary, options: &RenderOptions) -> Made {
    let idle = summary.idle.as_ref().ok_or(NOT_RECORDED)?;
    let mut table = Table::new([
        Column::name("Range"),
        Column::of("Idle (ns)").summed(),
        Column::of("Idle (%)").share_of(1),
        Column::of("Gaps").summed(),
        Column::of("Longest (ns)"),
        Column::of("Longest At (ns)"),
        Column::text("Causes"),
    ]);
    let whole = total(idle).into();
    for row in &idle.spans {
        let part = row.causes.total_ns();
        let label = row.name.as_deref().map(|name| names::label(row.domain.as_deref(), name));
        let label = match label {
            None => Cell::Outside,
            Some(label) if options.raw_names => Cell::text(label.unwrap_or_else(|| "None".to_owned())),
            Some(label) => Cell::text(names::escaped(&label.unwrap_or_else(|| "None".to_owned()))),
        };
        table.push(vec![
            label,
            Cell::Whole(part),
            Cell::Share { part, whole },
            Cell::Whole(row.gaps),
            Cell::Whole(row.longest_ns),
            Cell::Whole(row.longest_at_ns),
            Cell::text(causes(&row.causes)),
        ]);
    }
    Ok(Table { absent: Some("No device was idle between two operations."), ..table })
}

/// Idle time of all devices.
fn total(idle: &GpuIdle) -> u64 {
    idle.devices.iter().map(|device| device.causes.total_ns()).sum()
}

/// Causes that took any time.
fn largest_first(causes: &IdleCauses) -> Vec<(IdleCause, u64)> {
    let mut all: Vec<_> = IdleCause::ALL.iter().map(|&cause| (cause, causes.of(cause))).collect();
    all.retain(|(_, ns)| *ns > 0);
    all.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    all
}

/// The two largest causes: `launching 81 %, host code 12 %`.
fn causes(causes: &IdleCauses) -> String {
    let whole = causes.total_ns();
    let percent = |ns: u64| (u128::from(ns) * 100 + u128::from(whole) / 2) / u128::from(whole.max(1));
    let parts = largest_first(causes).into_iter().map(|(cause, ns)| (cause, percent(ns)));
    let parts: Vec<String> = parts
        .take(2)
        .filter(|(_, percent)| *percent > 0)
        .map(|(cause, percent)| format!("{} {percent} %", cause.name()))
        .collect();
    parts.join(", ")
}

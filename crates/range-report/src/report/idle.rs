//! Why the devices were idle: a table of devices and causes, and a table of the spans whose launches ended idle times.

use super::cuda::Made;
use super::envelope::{section, styled};
use super::fitted::{Keep, dropping, fitted, section_of};
use super::options::RenderOptions;
use super::table::{Cell, Column, Table};
use range_model::Summary;
use range_model::names::joined;
use range_model::stats::{Lean, order};
use range_model::summary::{GpuIdle, IdleCause, IdleCauses};

/// `Idle`: both tables.
pub(crate) fn idle(summary: &Summary, options: &RenderOptions) -> String {
    let Some(idle) = &summary.idle else { return section(styled(DEVICES, options), NOT_RECORDED) };
    // All rows: each device has a few.
    let all_rows = RenderOptions { rows: usize::MAX, ..*options };
    let devices = fitted(&devices(idle), Keep::Start, &dropping(&[]), &all_rows);
    let dropped = &["Longest at", "Gaps", "Share", "Causes", "Longest"];
    section(styled(DEVICES, options), &devices) + &section_of(SPANS, table(summary, options), dropped, options)
}

const DEVICES: [&str; 2] = [" ** GPU Idle Time by Cause (idle):", "GPU Idle Time Statistics (by cause):"];
const SPANS: [&str; 2] = [" ** GPU Idle Time by Range (idle):", "GPU Idle Time Statistics (by range):"];
pub(crate) const ABOUT: &str = "Time between two operations of a device, by the range that was open in the thread \
                                that launched the second.";
const NOT_RECORDED: &str = "Idle time was not recorded: ask for the report `idle` before the run.\n";

/// For each device, the parts of its time.
fn devices(idle: &GpuIdle) -> Table {
    let mut table = Table::new([Column::name("Device"), Column::of("Time (ns)"), Column::of("Share (%)")]);
    for device in &idle.devices {
        let whole = device.wall_ns.into();
        let mut row = |what: &str, part: u64| {
            table.push(vec![Cell::text(what), Cell::Whole(part), Cell::Share { part, whole }]);
        };
        row(&format!("GPU {}", device.device), device.wall_ns);
        row("  busy", device.busy_ns);
        if device.copy_ns > 0 {
            row("    copies and sets", device.copy_ns);
            row("    copies beside kernels", device.overlap_ns);
        }
        for (cause, ns) in largest_first(&device.causes) {
            row(&format!("  idle: {}", cause.name()), ns);
        }
    }
    table
}

/// For each range, the idle time that its launches ended.
pub(crate) fn table(summary: &Summary, options: &RenderOptions) -> Made {
    let idle = summary.idle.as_ref().ok_or(NOT_RECORDED)?;
    let mut table = Table::new([
        Column::name("Range"),
        Column::of("Idle (ns)").summed(),
        Column::of("Idle (%)").page("Share").share_of(1),
        Column::of("Gaps").summed(),
        Column::of("Longest (ns)"),
        Column::of("Longest At (ns)"),
        Column::text("Causes"),
    ]);
    let whole = total(idle).into();
    for row in &idle.spans {
        let part = row.causes.total_ns();
        let label = row.name.as_deref().map(|name| options.wording().label(row.domain.as_deref(), name));
        table.push(vec![
            Cell::text(label.unwrap_or_else(|| "(no range)".to_owned())),
            Cell::Whole(part),
            Cell::Share { part, whole },
            Cell::Whole(row.gaps),
            Cell::Whole(row.longest_ns),
            Cell::Whole(row.longest_at_ns),
            Cell::text(causes(&row.causes)),
        ]);
    }
    Ok(Table { absent: Some("No device was idle between two operations.\n"), ..table })
}

/// Idle time of all devices.
fn total(idle: &GpuIdle) -> u64 {
    idle.devices.iter().fold(0, |sum, device| sum.saturating_add(device.causes.total_ns()))
}

/// The causes with any time.
fn largest_first(causes: &IdleCauses) -> Vec<(IdleCause, u64)> {
    let mut all: Vec<_> = IdleCause::ALL.iter().map(|&cause| (cause, causes.of(cause))).in_vec();
    all.retain(|(_, ns)| *ns > 0);
    order::by_most(&mut all, |(_, ns)| *ns);
    all
}

/// The two largest causes: `launching 81 %, host code 12 %`.
fn causes(causes: &IdleCauses) -> String {
    let whole = causes.total_ns();
    let percent = |ns: u64| (u128::from(ns) * 100 + u128::from(whole) / 2) / u128::from(whole.max(1));
    let parts = largest_first(causes).into_iter().map(|(cause, ns)| (cause, percent(ns)));
    let parts = parts.take(2).filter(|(_, percent)| *percent > 0);
    joined(parts.map(|(cause, percent)| format!("{} {percent} %", cause.name())), ", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use range_model::summary::{DeviceIdle, SpanIdle};

    fn causes_of(times: &[(IdleCause, u64)]) -> IdleCauses {
        let mut causes = IdleCauses::default();
        times.iter().for_each(|&(cause, ns)| causes.add(cause, ns));
        causes
    }

    #[test]
    fn devices_and_ranges_with_their_causes() {
        let mut device = DeviceIdle::default();
        (device.wall_ns, device.busy_ns, device.copy_ns, device.overlap_ns) = (1_000_000, 190_000, 20_000, 5_000);
        device.causes = causes_of(&[(IdleCause::Launching, 700_000), (IdleCause::NoWork, 110_000)]);
        let row = |name: Option<&str>, times: &[(IdleCause, u64)]| {
            let mut row = SpanIdle::default();
            (row.name, row.gaps, row.longest_ns, row.longest_at_ns) = (name.map(str::to_owned), 417, 60_000, 12_345);
            row.causes = causes_of(times);
            row
        };
        let spans = vec![
            row(
                Some("step"),
                &[(IdleCause::Launching, 600_000), (IdleCause::Copying, 99_000), (IdleCause::Host, 1_000)],
            ),
            row(None, &[(IdleCause::NoWork, 110_000)]),
        ];
        let idle = GpuIdle { devices: vec![device], spans, ..GpuIdle::default() };
        let summary = Summary { idle: Some(idle), ..Summary::default() };
        let expected = "
 ** GPU Idle Time by Cause (idle):

 Device                         Time   Share
 -------------------------  --------  ------
 GPU 0                      1.000 ms  100.0%
   busy                     190.0 us   19.0%
     copies and sets        20.00 us    2.0%
     copies beside kernels  5.000 us    0.5%
   idle: launching          700.0 us   70.0%
   idle: no work            110.0 us   11.0%


 ** GPU Idle Time by Range (idle):

 Range           Idle  Share  Gaps   Longest  Longest at  Causes
 ----------  --------  -----  ----  --------  ----------  ----------------------------
 step        700.0 us  86.4%   417  60.00 us    12.35 us  launching 86 %, copying 14 %
 (no range)  110.0 us  13.6%   417  60.00 us    12.35 us  no work 100 %

";
        for width in [100, 200] {
            assert_eq!(super::idle(&summary, &RenderOptions::default().width(width)), expected);
        }
        let narrow = super::idle(&summary, &RenderOptions::default().width(80));
        let expected = "
 Range           Idle  Share  Gaps   Longest  Causes
 ----------  --------  -----  ----  --------  ----------------------------
 step        700.0 us  86.4%   417  60.00 us  launching 86 %, copying 14 %
 (no range)  110.0 us  13.6%   417  60.00 us  no work 100 %
 Columns left out: Longest at.

";
        assert!(narrow.ends_with(expected), "{narrow}");
        let rest = super::idle(&summary, &RenderOptions::default().rows(0));
        assert!(rest.contains("\n (2 more)  810.0 us  100.0%   834\n"), "{rest}");
        assert!(super::idle(&Summary::default(), &RenderOptions::default()).contains(NOT_RECORDED));
    }
}

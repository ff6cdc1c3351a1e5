//! Every device has its own streams, events and floor.

use tracing::info_span;
use tracing_gpu::summary::StreamLosses;
use tracing_gpu::with_stream;

use super::device::{Device, check, profiler, us};

pub(crate) fn run() {
    let count = Device::count();
    assert!(count > 1, "this wants two devices or more, there are {count}");
    let devices: Vec<Device> = (0..count).map(Device::open_number).collect();
    let streams: Vec<_> = devices.iter().map(|device| device.context.new_stream().expect("a stream")).collect();
    for (device, stream) in devices.iter().zip(&streams) {
        device.spin(stream, us(10));
        device.context.synchronize().expect("the device");
    }
    let profiler = profiler();
    // Interleaved on one thread, while another device than the timed one is current.
    for _ in 0..20 {
        for (number, (device, stream)) in devices.iter().zip(&streams).enumerate() {
            let other = &devices[(number + 1) % count];
            with_stream(stream, || {
                info_span!("each").in_scope(|| {
                    device.spin(stream, us(100 * (number as u64 + 1)));
                    other.context.bind_to_thread().expect("the other device");
                });
            });
        }
    }
    let summary = profiler.summary();
    for number in 0..count {
        let label = format!("GPU {number} #1");
        let row = summary.stream_ranges.iter().find(|row| row.stream == label);
        let row = row.unwrap_or_else(|| panic!("no row for {label}: {:#?}", summary.stream_ranges));
        let (median, length) = (row.times.median_ns.expect("a median") / 1e3, 100.0 * (number as f64 + 1.0));
        let holds = row.times.instances == 20 && median >= length && median <= length * 1.03 + 15.0;
        check(&format!("{label}: 20 instances of some {length} us, {median:.1} us"), holds);
    }
    check("a note a device", summary.notes.len() == count);
    check("nothing is lost", summary.losses.streams == StreamLosses::default());
}

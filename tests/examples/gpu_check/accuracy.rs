//! Kernels of known length, behind queued work and on an idle stream, alternately in our spans and between events
//! recorded by hand.

use std::collections::BTreeMap;
use std::path::Path;

use cudarc::driver::{CudaStream, sys};
use tracing::info_span;
use tracing_gpu::with_stream;

use super::device::{Device, check, profiler, row, us};

/// Number of instances of each length.
const INSTANCES: usize = 40;

/// Event pairs that a program records around the same work itself.
struct ByHand([[sys::CUevent; 2]; INSTANCES]);

#[allow(unsafe_code)]
impl ByHand {
    fn new() -> Self {
        let mut events = [[std::ptr::null_mut(); 2]; INSTANCES];
        for event in events.as_flattened_mut() {
            // SAFETY: writes one handle.
            unsafe { sys::cuEventCreate(event, 0) }.result().expect("an event");
        }
        Self(events)
    }

    fn around(&self, instance: usize, stream: &CudaStream, work: impl FnOnce()) {
        let [start, end] = self.0[instance];
        // SAFETY: live handles of one context.
        let record = |event| unsafe { sys::cuEventRecord(event, stream.cu_stream()) }.result().expect("a record");
        record(start);
        work();
        record(end);
    }

    /// The median in nanoseconds, once the stream is idle.
    fn median(&self) -> f64 {
        let mut all = self.0.map(|[start, end]| {
            let mut ms = 0f32;
            // SAFETY: both were recorded and have finished; writes one number.
            unsafe { sys::cuEventElapsedTime_v2(&raw mut ms, start, end) }.result().expect("a reading");
            f64::from(ms) * 1e6
        });
        all.sort_by(f64::total_cmp);
        f64::midpoint(all[INSTANCES / 2 - 1], all[INSTANCES / 2])
    }
}

pub(crate) fn run(summary_path: Option<&Path>) {
    let device = Device::open();
    let stream = device.context.new_stream().expect("a stream");
    device.spin(&stream, us(10)); // the first launch loads the module
    stream.synchronize().expect("the device");
    let other = device.context.new_stream().expect("a stream");
    // After a wait the first launch takes the host some microseconds longer, so its work arrives later after the start
    // event. A busy program launches all the time; so does this one, into another stream, while this one is idle.
    let wait = || {
        stream.synchronize().expect("the device");
        for _ in 0..30 {
            device.spin(&other, us(1));
            other.synchronize().expect("the device");
        }
    };
    let hand = ByHand::new();
    let mut by_hand = Vec::new();
    let profiler = profiler();
    with_stream(&stream, || {
        // The first timed entry on a context measures the floor and takes its time.
        info_span!("first").in_scope(|| ());
        for (queued, idle, length) in [
            ("queued 50 us", "idle 50 us", 50),
            ("queued 500 us", "idle 500 us", 500),
            ("queued 5 ms", "idle 5 ms", 5_000),
        ] {
            device.spin(&stream, us(3_000)); // everything below is enqueued while this runs
            for instance in 0..INSTANCES {
                hand.around(instance, &stream, || device.spin(&stream, us(length)));
                match queued {
                    "queued 50 us" => info_span!("queued 50 us").in_scope(|| device.spin(&stream, us(length))),
                    "queued 500 us" => info_span!("queued 500 us").in_scope(|| device.spin(&stream, us(length))),
                    _ => info_span!("queued 5 ms").in_scope(|| device.spin(&stream, us(length))),
                };
            }
            stream.synchronize().expect("the device");
            by_hand.push((queued, hand.median()));
            wait();
            for instance in 0..INSTANCES {
                hand.around(instance, &stream, || device.spin(&stream, us(length)));
                wait();
                match idle {
                    "idle 50 us" => info_span!("idle 50 us").in_scope(|| device.spin(&stream, us(length))),
                    "idle 500 us" => info_span!("idle 500 us").in_scope(|| device.spin(&stream, us(length))),
                    _ => info_span!("idle 5 ms").in_scope(|| device.spin(&stream, us(length))),
                };
                wait();
            }
            by_hand.push((idle, hand.median()));
        }
        info_span!("nothing").in_scope(|| ());
    });
    let summary = profiler.summary();
    if let Some(path) = summary_path {
        let by_hand: BTreeMap<_, _> = by_hand.iter().copied().collect();
        let both = serde_json::json!({ "summary": summary, "by_hand": by_hand });
        std::fs::write(path, both.to_string()).expect("the file");
    }
    for row in &summary.stream_ranges {
        let (median, min) = (row.times.median_ns.unwrap_or(0.0), row.times.min_ns);
        println!(
            "{:>14}  n {:>3}  median {median:>12.1}  min {min:>9}  max {:>9}  empty {}",
            row.name, row.times.instances, row.times.max_ns, row.empty
        );
    }
    for (name, by_hand) in by_hand {
        let ours = row(&summary, name).times.median_ns.expect("a median");
        let what = format!("{name}: {ours:.0} ns, by hand {by_hand:.0} ns ({:+.0} ns)", ours - by_hand);
        // On an idle stream both read the host's pace.
        if name.starts_with("queued") {
            check(&what, (ours - by_hand).abs() <= 150.0);
        } else {
            println!("       {what}");
        }
    }
}

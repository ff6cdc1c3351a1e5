//! Kernels of known length, behind queued work and on an idle stream.

use std::path::Path;

use tracing::info_span;
use tracing_gpu::with_stream;

use super::device::{Device, profiler, us};

/// Instances a length.
const INSTANCES: usize = 40;

pub(crate) fn run(summary_path: Option<&Path>) {
    let device = Device::open();
    let stream = device.context.new_stream().expect("a stream");
    device.spin(&stream, us(10)); // the first launch loads the module
    stream.synchronize().expect("the device");
    let other = device.context.new_stream().expect("a stream");
    // After a wait the first launch takes a host some microseconds more, by which any work would arrive later after the start event. A program that
    // is at work launches all the time: so does this one, into another stream, while this one is idle.
    let wait = || {
        stream.synchronize().expect("the device");
        for _ in 0..3 {
            device.spin(&other, us(1));
            other.synchronize().expect("the device");
        }
    };
    let profiler = profiler();
    with_stream(&stream, || {
        // The first timed entry on a context measures the floor and takes its time.
        info_span!("first").in_scope(|| ());
        for (queued, idle, length) in [
            ("queued 50 us", "idle 50 us", 50),
            ("queued 500 us", "idle 500 us", 500),
            ("queued 5 ms", "idle 5 ms", 5_000),
        ] {
            device.spin(&stream, us(3_000)); // all of the following is enqueued while this runs
            for _ in 0..INSTANCES {
                match queued {
                    "queued 50 us" => info_span!("queued 50 us").in_scope(|| device.spin(&stream, us(length))),
                    "queued 500 us" => info_span!("queued 500 us").in_scope(|| device.spin(&stream, us(length))),
                    _ => info_span!("queued 5 ms").in_scope(|| device.spin(&stream, us(length))),
                };
            }
            stream.synchronize().expect("the device");
            for _ in 0..INSTANCES {
                match idle {
                    "idle 50 us" => info_span!("idle 50 us").in_scope(|| device.spin(&stream, us(length))),
                    "idle 500 us" => info_span!("idle 500 us").in_scope(|| device.spin(&stream, us(length))),
                    _ => info_span!("idle 5 ms").in_scope(|| device.spin(&stream, us(length))),
                };
                wait();
            }
        }
        info_span!("nothing").in_scope(|| ());
    });
    let summary = profiler.summary();
    if let Some(path) = summary_path {
        std::fs::write(path, serde_json::to_string_pretty(&summary).expect("json")).expect("the summary's file");
    }
    for row in &summary.stream_ranges {
        let (median, min) = (row.times.median_ns.unwrap_or(0.0), row.times.min_ns);
        println!(
            "{:>14}  n {:>3}  median {median:>12.1}  min {min:>9}  max {:>9}  empty {}",
            row.name, row.times.instances, row.times.max_ns, row.empty
        );
    }
}

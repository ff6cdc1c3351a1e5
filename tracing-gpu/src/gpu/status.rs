//! What the report says of the GPU.

use std::sync::atomic::Ordering::Relaxed;

use super::driver::Driver;
use super::events::{self, LOSSES};
use super::streams::{self, NamedStream, StreamId};
use crate::summary::StreamLosses;

/// What could not be timed so far.
pub(crate) fn losses() -> StreamLosses {
    StreamLosses {
        pending: events::pending(),
        captured: LOSSES.captured.load(Relaxed),
        refused: LOSSES.refused.load(Relaxed),
        dropped: LOSSES.dropped.load(Relaxed),
        unreadable: LOSSES.unreadable.load(Relaxed),
    }
}

/// How a stream is called in tables, and the floor of its device in nanoseconds.
pub(crate) fn stream_facts(id: StreamId) -> (String, u64) {
    let Some(stream) = streams::get(id) else { return ("-".to_owned(), 0) };
    (stream_label(stream), stream.context.facts.get().map_or(0, |facts| facts.floor_ns))
}

/// Its device, and its number among the named streams there, or which default stream it is.
fn stream_label(stream: &'static NamedStream) -> String {
    let device = stream.context.facts.get().map_or_else(|| "GPU ?".to_owned(), |facts| format!("GPU {}", facts.device));
    match stream.handle {
        0 | 1 => format!("{device} default"),
        2 => format!("{device} per-thread"),
        _ => format!("{device} #{}", number_on_device(stream)),
    }
}

fn number_on_device(stream: &NamedStream) -> usize {
    let same_device = |other: &&'static NamedStream| {
        let device = |of: &NamedStream| of.context.facts.get().map(|facts| facts.device);
        other.handle > 2 && device(other) == device(stream)
    };
    streams::all().filter(same_device).take_while(|other| other.id <= stream.id).count()
}

/// Lines for the footer: the devices, or why nothing was timed. None where no stream was named.
pub(crate) fn notes() -> Vec<String> {
    if streams::all().next().is_none() {
        return Vec::new();
    }
    let driver = match Driver::get() {
        Ok(driver) => driver,
        Err(missing) => return vec![format!("GPU timing is off: {missing}.")],
    };
    let mut lines: Vec<String> = Vec::new();
    let version = driver.version().map_or_else(|_| "unknown".to_owned(), |v| format!("{}.{}", v / 1000, v % 1000 / 10));
    for facts in streams::all().filter_map(|stream| stream.context.facts.get()) {
        let floor = facts.floor_ns as f64 / 1e3;
        let line = format!(
            "Stream time is from CUDA events on GPU {}, {}, driver for CUDA {version}: between two markers in the stream, idle included. With \
             nothing enqueued between them they may read up to {floor:.2} us.",
            facts.device, facts.device_name
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    match LOSSES.last_error.load(Relaxed) {
        0 => {}
        code if lines.is_empty() => lines.push(format!("GPU timing is off: the driver answered CUDA error {code}.")),
        code => lines.push(format!("The CUDA driver's last refusal of a timing call was error {code}.")),
    }
    lines
}

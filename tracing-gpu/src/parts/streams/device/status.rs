//! The lines of the report about streams.

use std::sync::atomic::Ordering::Relaxed;

use gpu_activity::driver::Driver;
use gpu_activity::forks;
use range_model::stats::Lean;
use range_model::{Note, StreamLosses};

use super::named::{self, NamedStream};
use super::reading;
use super::totals::StreamTotals;

/// Times that are missing in the profiler's window so far.
pub(crate) fn losses(totals: &StreamTotals) -> StreamLosses {
    let losses = &totals.losses;
    let mut all = StreamLosses::default();
    all.pending = reading::pending(totals);
    all.captured = losses.captured.load(Relaxed);
    all.refused = losses.refused.load(Relaxed);
    all.dropped = losses.dropped.load(Relaxed);
    all.unreadable = losses.unreadable.load(Relaxed);
    all
}

/// For each stream, by number: its name in tables, and the floor of its context in nanoseconds (0 if unknown). The name
/// consists of the device, and of the stream's number on that device or the kind of default stream.
pub(crate) fn stream_facts() -> Vec<(String, u64)> {
    let mut numbers = Vec::new(); // the last number on each device
    let facts = |stream: &'static NamedStream| {
        let device = stream.owner.context.facts.get().map(|facts| facts.device);
        let shown = device.map_or_else(|| "GPU ?".to_owned(), |device| format!("GPU {device}"));
        let label = match stream.handle {
            0 | 1 => format!("{shown} default"),
            2 => format!("{shown} per-thread"),
            _ => {
                let place = numbers.iter().position(|(known, _)| *known == device).unwrap_or(numbers.len());
                numbers.resize(numbers.len().max(place + 1), (device, 0_u32));
                numbers[place].1 += 1;
                format!("{shown} #{}", numbers[place].1)
            }
        };
        (label, stream.owner.context.floor_ns())
    };
    // Number 0 stands for no stream.
    std::iter::once(("-".to_owned(), 0)).chain(named::all().map(facts)).in_vec()
}

/// The devices, or the reason why nothing was timed. Empty if no stream was named.
pub(crate) fn notes(totals: &StreamTotals) -> Vec<Note> {
    if named::all().next().is_none() {
        return Vec::new();
    }
    if forks::is_child() {
        return vec![Note::StreamTimesForked];
    }
    let driver = match Driver::get() {
        Ok(driver) => driver,
        Err(missing) => return vec![Note::StreamTimesWithoutDriver { reason: missing.to_string() }],
    };
    let (mut notes, version) = (Vec::new(), driver.version().ok());
    for facts in named::all().filter_map(|stream| stream.owner.context.facts.get()) {
        let note = Note::StreamTimes {
            device: facts.device,
            name: facts.device_name.clone(),
            driver: version,
            floor_ns: facts.floor.ok(),
            error: facts.floor.err().map_or(0, |error| error.0),
        };
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    match totals.losses.last_error.load(Relaxed) {
        0 => {}
        error if notes.is_empty() => notes.push(Note::StreamTimesOff { error }),
        error => notes.push(Note::StreamTimesRefused { error }),
    }
    notes
}

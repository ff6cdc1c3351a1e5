//! How a timeline is drawn, whatever the format: tracks with slices, moments, counters and arrows.

use range_model::timeline::Value;

/// A row of the viewer: a thread of the process, or anything else that is shown like a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Track {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
}

/// The beginning of a slice, where an arrow may begin or end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) track: Track,
    pub(crate) time: u64,
    /// What [`Draw::slice_of`] has said of the slice.
    pub(crate) slice: u64,
}

/// A format, as far as it was written.
pub(crate) trait Draw {
    /// An event that is being written.
    type Event: Describe;

    /// Whether arrows lead from poll to poll of a call.
    const POLLS: bool;

    /// A complete event: a slice of a track.
    fn slice(&mut self, track: Track, name: &str, start: u64, end: u64) -> &mut Self::Event;

    /// Any other event, by its phase in Chrome's format.
    fn event(&mut self, phase: &'static str, track: Track, name: &str) -> &mut Self::Event;

    /// An arrow from a slice to another, with a number of its own among those of its name.
    fn arrow(&mut self, name: &'static str, number: u64, from: At, to: At);

    /// What finds the last slice of a track again.
    fn slice_of(&self, track: Track) -> u64;

    /// The name or the labels of a track or a process.
    fn metadata(&mut self, track: Track, what: &str, name: &str);

    /// The position of a process among processes, or of a thread among threads.
    fn order(&mut self, track: Track, what: &str, index: u32);
}

/// The parts of an event, by their keys in Chrome's format. It is complete after [`end`](Self::end).
pub(crate) trait Describe {
    fn time(&mut self, key: &'static str, ns: u64) -> &mut Self;
    fn text(&mut self, key: &'static str, value: &str) -> &mut Self;
    /// Two texts as one: the form of a list of categories.
    fn list(&mut self, key: &'static str, first: &str, second: &str) -> &mut Self;
    /// From here on, keys are arguments.
    fn args(&mut self) -> &mut Self;
    /// Begins an argument that has members.
    fn open(&mut self, key: &'static str) -> &mut Self;
    fn close(&mut self) -> &mut Self;
    /// A member with a key and a value that the program chose.
    fn member(&mut self, key: &str, value: Value<'_>) -> &mut Self;
    /// A value that the program chose.
    fn payload(&mut self, key: &'static str, value: Value<'_>) -> &mut Self;
    fn integer(&mut self, key: &'static str, value: u64) -> &mut Self;
    fn signed_integer(&mut self, key: &'static str, value: i64) -> &mut Self;
    /// A number of a counter.
    fn count(&mut self, key: &'static str, value: u64) -> &mut Self;
    fn float(&mut self, key: &'static str, value: f64) -> &mut Self;
    fn boolean(&mut self, key: &'static str, value: bool) -> &mut Self;
    fn triple(&mut self, key: &'static str, values: [i32; 3]) -> &mut Self;
    /// A number as a hexadecimal string.
    fn hex(&mut self, key: &'static str, value: u64, digits: u32) -> &mut Self;
    /// The present position, for [`since`](Self::since).
    fn place(&self) -> usize;
    /// A copy of what was written from this position on, if it can be written [again](Self::again) in other events.
    fn since(&self, place: usize) -> Option<Written>;
    /// Writes what was copied from the same position in another event.
    fn again(&mut self, written: &Written);
    fn end(&mut self);
}

/// A part of an event as text, for events that share this part.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) in_args: bool,
}

//! Trace events as text: one event per line, without an allocation for each.

use std::io::Write as _;

use super::text::{HEX, integer, is_plain, microseconds, string};
use crate::timeline::Value;

/// A row of the viewer: a thread of the process, or anything else that is shown like a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) pid: u32,
    pub(super) tid: u32,
}

/// Integers up to here are exact in every reader; JavaScript's numbers end there.
const EXACT: u64 = 1 << 53;
/// The lines that have not been written yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    begun: bool,
    /// The text before the name of the last slice; `track` is its track. The next slice is likely on the same track.
    beginning: Vec<u8>,
    track: Track,
}

impl Lines {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Writes the end of the file. Readers also accept a file without it, as a killed process leaves one.
    pub(super) fn finish(&mut self) {
        self.bytes.extend_from_slice(if self.begun { b"\n]\n" } else { b"[]\n" });
    }

    /// Begins an event, and first writes the comma that ends the line above.
    pub(super) fn event(&mut self, phase: &'static str, track: Track, name: &str) -> Event<'_> {
        self.begin(phase, track);
        string(&mut self.bytes, &[name]);
        Event { bytes: &mut self.bytes, in_args: false, comma: true }
    }

    /// Writes everything before the name.
    fn begin(&mut self, phase: &'static str, track: Track) {
        self.bytes.extend_from_slice(if self.begun { b",\n{\"ph\":\"" } else { b"[\n{\"ph\":\"" });
        self.begun = true;
        self.bytes.extend_from_slice(phase.as_bytes());
        self.bytes.extend_from_slice(b"\",\"pid\":");
        integer(&mut self.bytes, u64::from(track.pid));
        self.bytes.extend_from_slice(b",\"tid\":");
        integer(&mut self.bytes, u64::from(track.tid));
        self.bytes.extend_from_slice(b",\"name\":");
    }

    /// A complete event: a slice of a track.
    pub(super) fn slice(&mut self, track: Track, name: &str, start: u64, end: u64) -> Event<'_> {
        if self.track == track && !self.beginning.is_empty() {
            self.bytes.extend_from_slice(&self.beginning);
        } else {
            let (from, is_first) = (self.bytes.len(), !self.begun);
            self.begin("X", track);
            self.beginning.clear();
            if !is_first {
                self.beginning.extend_from_slice(&self.bytes[from..]); // starts with the comma that ends the line above
                self.track = track;
            }
        }
        string(&mut self.bytes, &[name]);
        let mut event = Event { bytes: &mut self.bytes, in_args: false, comma: true };
        event.time("ts", start).time("dur", end.saturating_sub(start));
        event
    }

    /// Writes the name or the labels of a track or a process.
    pub(super) fn metadata(&mut self, track: Track, what: &str, name: &str) {
        let key = if what == "process_labels" { "labels" } else { "name" };
        self.event("M", track, what).args().text(key, name).end();
    }

    /// Writes the position of a process among processes, or of a thread among threads.
    pub(super) fn order(&mut self, track: Track, what: &str, index: u32) {
        self.event("M", track, what).args().integer("sort_index", u64::from(index)).end();
    }
}

/// An event that is being written. It is complete after [`Event::end`].
#[must_use]
pub(super) struct Event<'a> {
    bytes: &'a mut Vec<u8>,
    in_args: bool,
    comma: bool,
}

impl Event<'_> {
    /// Writes a time in microseconds, as the format wants it, with three decimals: no nanosecond is lost.
    pub(super) fn time(&mut self, key: &'static str, ns: u64) -> &mut Self {
        self.key(key);
        microseconds(self.bytes, ns);
        self
    }

    /// The present position, for [`since`](Self::since).
    pub(super) fn place(&self) -> usize {
        self.bytes.len()
    }

    /// A copy of the text from this position on, to be written [again](Self::again) in other events.
    pub(super) fn since(&self, place: usize) -> Written {
        Written { bytes: self.bytes.get(place..).unwrap_or_default().into(), in_args: self.in_args }
    }

    /// Writes a text that was copied from the same position in another event.
    pub(super) fn again(&mut self, written: &Written) {
        self.bytes.extend_from_slice(&written.bytes);
        (self.in_args, self.comma) = (written.in_args, true);
    }

    /// From here on, keys are arguments.
    pub(super) fn args(&mut self) -> &mut Self {
        if !self.in_args {
            self.open("args");
            self.in_args = true;
        }
        self
    }

    pub(super) fn text(&mut self, key: &'static str, value: &str) -> &mut Self {
        self.key(key);
        string(self.bytes, &[value]);
        self
    }

    /// A member with a key and a value that the program chose.
    pub(super) fn member(&mut self, key: &str, value: Value<'_>) -> &mut Self {
        self.comma();
        string(self.bytes, &[key]);
        self.bytes.push(b':');
        self.value(value)
    }

    /// A value that the program chose.
    pub(super) fn payload(&mut self, key: &'static str, value: Value<'_>) -> &mut Self {
        self.key(key);
        self.value(value)
    }

    fn value(&mut self, value: Value<'_>) -> &mut Self {
        match value {
            Value::Integer(number) => self.signed(number < 0, number.unsigned_abs()),
            Value::Unsigned(number) => self.signed(false, number),
            Value::Float(number) => self.number(number),
            Value::Bool(answer) => self.answer(answer),
            Value::Text(text) => {
                string(self.bytes, &[text]);
                self
            }
        }
    }

    /// Several texts as one, with commas between them: the form of a list of categories.
    pub(super) fn list(&mut self, key: &'static str, first: &str, second: &str) -> &mut Self {
        self.key(key);
        string(self.bytes, &[first, ",", second]);
        self
    }

    /// A number. Beyond 2^53, which not every reader can hold, it is a string of its digits.
    pub(super) fn integer(&mut self, key: &'static str, value: u64) -> &mut Self {
        self.key(key);
        self.signed(false, value)
    }

    pub(super) fn signed_integer(&mut self, key: &'static str, value: i64) -> &mut Self {
        self.key(key);
        self.signed(value < 0, value.unsigned_abs())
    }

    fn signed(&mut self, negative: bool, value: u64) -> &mut Self {
        let quoted = value > EXACT;
        self.bytes.extend(quoted.then_some(b'"'));
        self.bytes.extend(negative.then_some(b'-'));
        integer(self.bytes, value);
        self.bytes.extend(quoted.then_some(b'"'));
        self
    }

    /// A number for counters, which accept no strings. Readers hold it exactly up to 2^53.
    pub(super) fn count(&mut self, key: &'static str, value: u64) -> &mut Self {
        self.key(key);
        integer(self.bytes, value);
        self
    }

    /// A number. Infinity and NaN are strings, because JSON has no such numbers.
    pub(super) fn float(&mut self, key: &'static str, value: f64) -> &mut Self {
        self.key(key);
        self.number(value)
    }

    fn number(&mut self, value: f64) -> &mut Self {
        let quoted = !value.is_finite();
        self.bytes.extend(quoted.then_some(b'"'));
        let _never_fails = write!(self.bytes, "{value:?}"); // writing to a vector cannot fail
        self.bytes.extend(quoted.then_some(b'"'));
        self
    }

    pub(super) fn boolean(&mut self, key: &'static str, value: bool) -> &mut Self {
        self.key(key);
        self.answer(value)
    }

    fn answer(&mut self, value: bool) -> &mut Self {
        self.bytes.extend_from_slice(if value { b"true" } else { b"false" });
        self
    }

    pub(super) fn triple(&mut self, key: &'static str, values: [i32; 3]) -> &mut Self {
        self.key(key);
        for (place, value) in values.into_iter().enumerate() {
            self.bytes.push(if place == 0 { b'[' } else { b',' });
            self.signed(value < 0, u64::from(value.unsigned_abs()));
        }
        self.bytes.push(b']');
        self
    }

    /// A number as a hexadecimal string, which is the format's form of an id.
    pub(super) fn hex(&mut self, key: &'static str, value: u64, digits: u32) -> &mut Self {
        self.key(key);
        self.bytes.extend_from_slice(b"\"0x");
        let digits = digits.max((64 - value.leading_zeros()).div_ceil(4)).clamp(1, 16);
        for place in (0..digits).rev() {
            self.bytes.push(HEX[(value >> (4 * place)) as usize & 15]);
        }
        self.bytes.push(b'"');
        self
    }

    pub(super) fn open(&mut self, key: &'static str) -> &mut Self {
        self.key(key);
        self.bytes.push(b'{');
        self.comma = false;
        self
    }

    pub(super) fn close(&mut self) -> &mut Self {
        self.bytes.push(b'}');
        self.comma = true;
        self
    }

    pub(super) fn end(&mut self) {
        if self.in_args {
            self.close();
        }
        self.close();
    }

    /// A key of ours, which needs no escaping.
    fn key(&mut self, key: &'static str) {
        debug_assert!(is_plain(key.as_bytes()), "{key}");
        self.comma();
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(b"\":");
    }

    fn comma(&mut self) {
        if self.comma {
            self.bytes.push(b',');
        }
        self.comma = true;
    }
}

/// A part of an event as text, for events that share this part.
#[derive(Debug, Default)]
pub(super) struct Written {
    bytes: Box<[u8]>,
    in_args: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(write: impl FnOnce(&mut Event<'_>)) -> Value {
        let mut lines = Lines::default();
        let mut event = lines.event("X", Track::default(), "");
        write(event.args());
        event.end();
        lines.finish();
        let read: Value = serde_json::from_slice(lines.bytes()).unwrap();
        read[0]["args"].clone()
    }

    #[test]
    fn slices_of_many_tracks_begin_with_their_own() {
        let tracks = [(1, 1), (1, 1), (1, 2), (3, 2), (3, 2), (1, 1), (0, 0), (0, 0)];
        let mut lines = Lines::default();
        for (pid, tid) in tracks {
            lines.slice(Track { pid, tid }, "a", 1_002, 5_000_000).end();
        }
        lines.finish();
        let read: Value = serde_json::from_slice(lines.bytes()).unwrap();
        let of = |event: &Value| (event["pid"].as_u64().unwrap() as u32, event["tid"].as_u64().unwrap() as u32);
        assert_eq!(read.as_array().unwrap().iter().map(of).collect::<Vec<_>>(), tracks);
        assert_eq!((&read[7]["ph"], &read[7]["ts"], &read[7]["dur"]), (&json!("X"), &json!(1.002), &json!(4998.998)));
    }

    #[test]
    fn numbers_keep_every_digit() {
        for value in (0..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1]).chain([u64::MAX, 99, 100, 101, 12_345]) {
            let expected = if value > EXACT { json!(value.to_string()) } else { json!(value) };
            assert_eq!(
                of(|event| {
                    event.integer("n", value);
                })["n"],
                expected
            );
            assert_eq!(
                of(|event| {
                    event.count("n", value);
                })["n"],
                json!(value)
            );
        }
        assert_eq!(
            of(|event| {
                event.signed_integer("n", -(1 << 53));
            })["n"],
            json!(-(1i64 << 53))
        );
        assert_eq!(
            of(|event| {
                event.signed_integer("n", i64::MIN);
            })["n"],
            json!(i64::MIN.to_string())
        );
        for (value, expected) in [(1.0, json!(1.0)), (1e300, json!(1e300)), (f64::NAN, json!("NaN"))] {
            assert_eq!(
                of(|event| {
                    event.float("n", value);
                })["n"],
                expected
            );
        }
        assert_eq!(
            of(|event| {
                event.triple("n", [1, -2, i32::MIN]);
            })["n"],
            json!([1, -2, i32::MIN])
        );
        let hex = of(|event| {
            event.hex("a", 0, 0).hex("b", 0xff88, 8).hex("c", u64::MAX, 0);
        });
        assert_eq!(hex, json!({"a": "0x0", "b": "0x0000ff88", "c": "0xffffffffffffffff"}));
    }

    #[test]
    fn times_keep_every_nanosecond() {
        for (ns, text) in [(0, "0.000"), (7, "0.007"), (1_010, "1.010"), (u64::MAX, "18446744073709551.615")] {
            let mut lines = Lines::default();
            lines.slice(Track::default(), "", ns, ns).end();
            let line = String::from_utf8(lines.bytes().to_vec()).unwrap();
            assert!(line.contains(&format!("\"ts\":{text},\"dur\":0.000")), "{line}");
        }
    }

    #[test]
    fn any_text_comes_through() {
        let all: String =
            (0..0x250u32).chain(0xd700..0xf900).chain(0x1_f600..0x1_f610).filter_map(char::from_u32).collect();
        for text in ["", "a", "\"", "\\", "a\"b\\c\n\r\t\0\u{7f}\u{2028}", "日本語 😀", &all] {
            let read = of(|event| {
                event.member(text, super::Value::Text(text)).list("list", text, text);
            });
            assert_eq!((read[text].as_str(), read["list"].as_str()), (Some(text), Some(&*format!("{text},{text}"))));
            let mut lines = Lines::default();
            lines.slice(Track::default(), text, 0, 0).end();
            assert_eq!(
                lines.bytes().iter().filter(|byte| **byte < 0x20).count(),
                1,
                "one line feed, after the bracket"
            );
        }
    }
}

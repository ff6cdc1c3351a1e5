//! Trace events as text: one event per line, without an allocation for each.

use std::io::Write as _;

use super::draw::{At, Describe, Draw, Track, Written};
use super::text::{HEX, integer, is_plain, microseconds, string};
use range_model::timeline::Value;

/// Integers up to here are exact in every reader; JavaScript's numbers end there.
const EXACT: u64 = 1 << 53;

/// The lines that have not been written yet.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The lines, and the event at their end.
    event: Event,
    begun: bool,
    /// The text before the name of the last slice; `track` is its track. The next slice is likely on the same track.
    beginning: Vec<u8>,
    track: Track,
}

impl Lines {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.event.bytes
    }

    pub(super) fn clear(&mut self) {
        self.event.bytes.clear();
    }

    /// Writes the end of the file. Readers also accept a file without it, as a killed process leaves one.
    pub(super) fn finish(&mut self) {
        self.event.bytes.extend_from_slice(if self.begun { b"\n]\n" } else { b"[]\n" });
    }

    /// Writes everything before the name.
    fn begin(&mut self, phase: &'static str, track: Track) {
        self.event.bytes.extend_from_slice(if self.begun { b",\n{\"ph\":\"" } else { b"[\n{\"ph\":\"" });
        self.begun = true;
        self.event.bytes.extend_from_slice(phase.as_bytes());
        self.event.bytes.extend_from_slice(b"\",\"pid\":");
        integer(&mut self.event.bytes, u64::from(track.pid));
        self.event.bytes.extend_from_slice(b",\"tid\":");
        integer(&mut self.event.bytes, u64::from(track.tid));
        self.event.bytes.extend_from_slice(b",\"name\":");
    }
}

impl Draw for Lines {
    type Event = Event;

    /// A file of text would grow by half.
    const POLLS: bool = false;

    /// Begins an event, and first writes the comma that ends the line above.
    fn event(&mut self, phase: &'static str, track: Track, name: &str) -> &mut Event {
        self.begin(phase, track);
        string(&mut self.event.bytes, &[name]);
        (self.event.in_args, self.event.comma) = (false, true);
        &mut self.event
    }

    /// A complete event: a slice of a track.
    fn slice(&mut self, track: Track, name: &str, start: u64, end: u64) -> &mut Event {
        if self.track == track && !self.beginning.is_empty() {
            self.event.bytes.extend_from_slice(&self.beginning);
        } else {
            let (from, is_first) = (self.event.bytes.len(), !self.begun);
            self.begin("X", track);
            self.beginning.clear();
            if !is_first {
                // It starts with the comma that ends the line above.
                self.beginning.extend_from_slice(&self.event.bytes[from..]);
                self.track = track;
            }
        }
        string(&mut self.event.bytes, &[name]);
        (self.event.in_args, self.event.comma) = (false, true);
        let event = &mut self.event;
        event.time("ts", start).time("dur", end.saturating_sub(start));
        event
    }

    fn arrow(&mut self, name: &'static str, number: u64, from: At, to: At) {
        let event = self.event("s", from.track, name);
        event.time("ts", from.time).text("cat", name).hex("id", number, 0).end();
        let event = self.event("f", to.track, name);
        event.time("ts", to.time).text("cat", name).hex("id", number, 0).text("bp", "e").end();
    }

    fn slice_of(&self, _: Track) -> u64 {
        0
    }

    /// Writes the name or the labels of a track or a process.
    fn metadata(&mut self, track: Track, what: &str, name: &str) {
        let key = if what == "process_labels" { "labels" } else { "name" };
        self.event("M", track, what).args().text(key, name).end();
    }

    /// Writes the position of a process among processes, or of a thread among threads.
    fn order(&mut self, track: Track, what: &str, index: u32) {
        self.event("M", track, what).args().integer("sort_index", u64::from(index)).end();
    }
}

/// An event that is being written. It is complete after [`Event::end`].
#[derive(Debug, Default)]
pub(super) struct Event {
    bytes: Vec<u8>,
    in_args: bool,
    comma: bool,
}

impl Event {
    fn value(&mut self, value: Value<'_>) -> &mut Self {
        match value {
            Value::Integer(number) => self.signed(number < 0, number.unsigned_abs()),
            Value::Unsigned(number) => self.signed(false, number),
            Value::Float(number) => self.number(number),
            Value::Bool(answer) => self.answer(answer),
            Value::Text(text) => {
                string(&mut self.bytes, &[text]);
                self
            }
        }
    }

    fn signed(&mut self, negative: bool, value: u64) -> &mut Self {
        let quoted = value > EXACT;
        self.bytes.extend(quoted.then_some(b'"'));
        self.bytes.extend(negative.then_some(b'-'));
        integer(&mut self.bytes, value);
        self.bytes.extend(quoted.then_some(b'"'));
        self
    }

    fn number(&mut self, value: f64) -> &mut Self {
        let quoted = !value.is_finite();
        self.bytes.extend(quoted.then_some(b'"'));
        let _never_fails = write!(self.bytes, "{value:?}"); // writing to a vector cannot fail
        self.bytes.extend(quoted.then_some(b'"'));
        self
    }

    fn answer(&mut self, value: bool) -> &mut Self {
        self.bytes.extend_from_slice(if value { b"true" } else { b"false" });
        self
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

impl Describe for Event {
    /// Writes a time in microseconds, as the format wants it, with three decimals: no nanosecond is lost.
    fn time(&mut self, key: &'static str, ns: u64) -> &mut Self {
        self.key(key);
        microseconds(&mut self.bytes, ns);
        self
    }

    /// The present position, for [`since`](Self::since).
    fn place(&self) -> usize {
        self.bytes.len()
    }

    /// A copy of the text from this position on, to be written [again](Self::again) in other events.
    fn since(&self, place: usize) -> Option<Written> {
        let bytes = self.bytes.get(place..).unwrap_or_default().into();
        Some(Written { bytes, in_args: self.in_args })
    }

    /// Writes a text that was copied from the same position in another event.
    fn again(&mut self, written: &Written) {
        self.bytes.extend_from_slice(&written.bytes);
        (self.in_args, self.comma) = (written.in_args, true);
    }

    /// From here on, keys are arguments.
    fn args(&mut self) -> &mut Self {
        if !self.in_args {
            self.open("args");
            self.in_args = true;
        }
        self
    }

    fn text(&mut self, key: &'static str, value: &str) -> &mut Self {
        self.key(key);
        string(&mut self.bytes, &[value]);
        self
    }

    /// A member with a key and a value that the program chose.
    fn member(&mut self, key: &str, value: Value<'_>) -> &mut Self {
        self.comma();
        string(&mut self.bytes, &[key]);
        self.bytes.push(b':');
        self.value(value)
    }

    /// A value that the program chose.
    fn payload(&mut self, key: &'static str, value: Value<'_>) -> &mut Self {
        self.key(key);
        self.value(value)
    }

    /// Several texts as one, with commas between them: the form of a list of categories.
    fn list(&mut self, key: &'static str, first: &str, second: &str) -> &mut Self {
        self.key(key);
        string(&mut self.bytes, &[first, ",", second]);
        self
    }

    /// A number. Beyond 2^53, which not every reader can hold, it is a string of its digits.
    fn integer(&mut self, key: &'static str, value: u64) -> &mut Self {
        self.key(key);
        self.signed(false, value)
    }

    fn signed_integer(&mut self, key: &'static str, value: i64) -> &mut Self {
        self.key(key);
        self.signed(value < 0, value.unsigned_abs())
    }

    /// A number for counters, which accept no strings. Readers hold it exactly up to 2^53.
    fn count(&mut self, key: &'static str, value: u64) -> &mut Self {
        self.key(key);
        integer(&mut self.bytes, value);
        self
    }

    /// A number. Infinity and NaN are strings, because JSON has no such numbers.
    fn float(&mut self, key: &'static str, value: f64) -> &mut Self {
        self.key(key);
        self.number(value)
    }

    fn boolean(&mut self, key: &'static str, value: bool) -> &mut Self {
        self.key(key);
        self.answer(value)
    }

    fn triple(&mut self, key: &'static str, values: [i32; 3]) -> &mut Self {
        self.key(key);
        for (place, value) in values.into_iter().enumerate() {
            self.bytes.push(if place == 0 { b'[' } else { b',' });
            self.signed(value < 0, u64::from(value.unsigned_abs()));
        }
        self.bytes.push(b']');
        self
    }

    /// A number as a hexadecimal string, which is the format's form of an id.
    fn hex(&mut self, key: &'static str, value: u64, digits: u32) -> &mut Self {
        self.key(key);
        self.bytes.extend_from_slice(b"\"0x");
        let digits = digits.max((64 - value.leading_zeros()).div_ceil(4)).clamp(1, 16);
        for place in (0..digits).rev() {
            self.bytes.push(HEX[(value >> (4 * place)) as usize & 15]);
        }
        self.bytes.push(b'"');
        self
    }

    fn open(&mut self, key: &'static str) -> &mut Self {
        self.key(key);
        self.bytes.push(b'{');
        self.comma = false;
        self
    }

    fn close(&mut self) -> &mut Self {
        self.bytes.push(b'}');
        self.comma = true;
        self
    }

    fn end(&mut self) {
        if self.in_args {
            self.close();
        }
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn of(write: impl FnOnce(&mut Event)) -> Value {
        let mut lines = Lines::default();
        let event = lines.event("X", Track::default(), "");
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

//! `NVTX_EVENTS` and `ThreadNames`: ranges, marks, domains, categories, threads.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io;

use crate::summary::RangeStyle;
use crate::timeline::{Mark, Range, Value};

use super::Ids;
use super::file::{File, Strings};
use super::keys::Keyed;
use super::rows::{Plain, Rich, Row};
use super::stamps::Stamps;

const THREAD: &str = "INSERT INTO ThreadNames(nameId,globalTid)VALUES(?,?)";
const RENAME: &str = "UPDATE ThreadNames SET nameId=? WHERE globalTid=?";

/// `ENUM_NSYS_EVENT_TYPE`.
const CATEGORY: i64 = 33;
const MARK: i64 = 34;
const PUSH_POP: i64 = 59;
const START_END: i64 = 60;
const DOMAIN: i64 = 75;

/// The number of the first category that has a name; smaller ones are left to programs that number their own.
const FIRST_CATEGORY: i64 = 256;

const LEVELS: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

#[derive(Debug, Default)]
pub(super) struct Events {
    /// The ranges of each thread that ended last.
    stamps: Keyed<u32, Stamps>,
    domains: Keyed<Box<str>, i64>,
    categories: Keyed<Box<str>, i64>,
    /// Domains and categories that have a row.
    named: HashSet<(i64, i64)>,
    threads: Keyed<i64, i64>,
    lifetimes: i64,
}

/// Where and when a row that names something is needed for the first time.
#[derive(Clone, Copy)]
struct Place {
    thread: i64,
    at: i64,
    domain: i64,
}

impl Events {
    /// The last name counts: numbers of threads are given out again.
    pub(super) fn thread(&mut self, file: &mut File, thread: i64, name: i64) -> io::Result<()> {
        match self.threads.insert(thread, name) {
            None => file.run(THREAD, (name, thread)),
            Some(before) if before != name => file.run(RENAME, (name, thread)),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn range(
        &mut self,
        file: &mut File,
        ids: Ids,
        strings: &mut Strings,
        range: &Range<'_>,
    ) -> io::Result<()> {
        let text = strings.id(file, range.name)?;
        let end = range.end.max(range.start);
        let (start, end) = match (range.style, self.stamps.entry(range.thread).or_default()) {
            (RangeStyle::PushPop, stamps) => stamps.of(range.start, end, range.depth),
            (RangeStyle::StartEnd, stamps) if range.end_thread.is_none() => stamps.of_lifetime(range.start, end),
            (RangeStyle::StartEnd, _) => (range.start, end),
        };
        let (start, end) = (signed(start), signed(end));
        let thread = ids.thread(range.thread);
        let place = self.place(file, range.domain, thread, start)?;
        let plain = Plain { start, end, thread, text, domain: place.domain };
        let bare =
            range.category.is_none() && range.color.is_none() && range.payload.is_none() && range.fields.is_empty();
        if bare && range.style == RangeStyle::PushPop {
            return file.add(Row::Plain(plain));
        }
        let (kind, number) = match range.style {
            RangeStyle::PushPop => (PUSH_POP, None),
            RangeStyle::StartEnd => {
                self.lifetimes += 1;
                (START_END, Some(self.lifetimes))
            }
        };
        let category = match range.category {
            Some(name) => Some(self.category(file, place, name)?),
            None => None,
        };
        let end_thread = range.end_thread.filter(|&end| end != range.thread).map(|end| ids.thread(end));
        let (mut unsigned, mut integer, mut float, mut truth, mut words) = (None, None, None, None, None);
        match range.payload {
            Some(Value::Unsigned(value)) => unsigned = Some(*value as i64), // as Nsight Systems shows them
            Some(Value::Integer(value)) => integer = Some(*value),
            Some(Value::Float(value)) => float = Some(*value),
            Some(Value::Bool(value)) => truth = Some(*value),
            Some(value @ Value::Text(_)) => words = Some(value),
            None => {}
        }
        let (json, color) = (json(words, range.fields), range.color);
        let rich = Rich { plain, kind, number, category, color, end_thread, unsigned, integer, float, truth, json };
        file.add(Row::Rich(Box::new(rich)))
    }

    pub(super) fn mark(&mut self, file: &mut File, ids: Ids, mark: &Mark<'_>) -> io::Result<()> {
        let (thread, at, level) = (ids.thread(mark.thread), signed(mark.at), i64::from(mark.level));
        let place = self.place(file, mark.domain, thread, at)?;
        if let Some(name) = usize::from(mark.level).checked_sub(1).and_then(|level| LEVELS.get(level)) {
            self.name_category(file, place, level, name)?;
        }
        text(file, place, MARK, Some(level), mark.text)
    }

    /// The domain's number: 0 for the default one, which has no row.
    fn place(&mut self, file: &mut File, domain: Option<&str>, thread: i64, at: i64) -> io::Result<Place> {
        let Some(name) = domain else { return Ok(Place { thread, at, domain: 0 }) };
        if let Some(&domain) = self.domains.get(name) {
            return Ok(Place { thread, at, domain });
        }
        let domain = self.domains.len() as i64 + 1;
        let place = Place { thread, at, domain };
        text(file, place, DOMAIN, None, name)?;
        self.domains.insert(name.into(), domain);
        Ok(place)
    }

    fn category(&mut self, file: &mut File, place: Place, name: &str) -> io::Result<i64> {
        if let Some(number) = name.parse::<u32>().ok().filter(|number| number.to_string() == name) {
            return Ok(number.into());
        }
        let next = FIRST_CATEGORY + self.categories.len() as i64;
        let number = match self.categories.get(name) {
            Some(&number) => number,
            None => *self.categories.entry(name.into()).or_insert(next),
        };
        self.name_category(file, place, number, name)?;
        Ok(number)
    }

    fn name_category(&mut self, file: &mut File, place: Place, number: i64, name: &str) -> io::Result<()> {
        if !self.named.insert((place.domain, number)) {
            return Ok(());
        }
        text(file, place, CATEGORY, Some(number), name)
    }
}

fn text(file: &mut File, place: Place, kind: i64, category: Option<i64>, text: &str) -> io::Result<()> {
    let Place { thread, at: start, domain } = place;
    file.add(Row::Text { start, kind, category, text: text.into(), thread, domain })
}

/// SQLite's integers are signed; times beyond 292 years are not expected.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What NVTX has no column for: the fields of the span, and a payload that is a text.
fn json(payload: Option<&Value>, fields: &[(String, Value)]) -> Option<String> {
    let payload = payload.map(|value| ("nvtx.payload", value));
    let mut all = payload.into_iter().chain(fields.iter().map(|(name, value)| (name.as_str(), value))).peekable();
    all.peek()?;
    let mut json = String::new();
    for (name, value) in all {
        json.push(if json.is_empty() { '{' } else { ',' });
        quote(&mut json, name);
        json.push(':');
        let _ = match value {
            Value::Integer(value) => write!(json, "{value}"),
            Value::Unsigned(value) => write!(json, "{value}"),
            Value::Float(value) if value.is_finite() => write!(json, "{value:?}"),
            Value::Float(value) => write!(json, "\"{value}\""),
            Value::Bool(value) => write!(json, "{value}"),
            Value::Text(text) => {
                quote(&mut json, text);
                Ok(())
            }
        };
    }
    json.push('}');
    Some(json)
}

fn quote(json: &mut String, text: &str) {
    json.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => json.extend(['\\', letter]),
            '\0'..='\u{1f}' => drop(write!(json, "\\u{:04x}", u32::from(letter))),
            _ => json.push(letter),
        }
    }
    json.push('"');
}

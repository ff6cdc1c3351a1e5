//! `NVTX_EVENTS`, `TRACING_GPU_CALLS` and `ThreadNames`: ranges, calls, marks, domains, categories, threads.

use std::{io, ops};

use range_model::summary::RangeStyle;
use range_model::timeline::{Call, Ending, Mark, Range, Value};

use super::file::File;
use super::json;
use super::rows::{CATEGORY, MARK, PUSH_POP, Row, START_END};
use super::stamps::Stamps;
use rusqlite::params;
use rustc_hash::FxHashMap;

const THREAD: &str = "INSERT INTO ThreadNames(nameId,globalTid)VALUES(?,?)";
const RENAME: &str = "UPDATE ThreadNames SET nameId=? WHERE globalTid=?";

const CALL: &str = "INSERT INTO TRACING_GPU_CALLS(callId,spanId,parentId,start,end,textId,domainId,globalTid,ending,jsonText)VALUES(?,?,?,?,?,?,?,?,?,?)";

const DOMAIN: i64 = 75;

/// The number of the first category that has a name; smaller ones are left to programs that number their own.
const FIRST_CATEGORY: i64 = 256;

const LEVELS: [&str; 5] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE"];

#[derive(Debug, Default)]
pub(super) struct Events {
    /// The latest ended ranges of each thread.
    stamps: FxHashMap<u32, Stamps>,
    domains: FxHashMap<Box<str>, i64>,
    categories: FxHashMap<Box<str>, i64>,
    /// Domains and categories that have a row.
    named: FxHashMap<(i64, i64), ()>,
    threads: FxHashMap<i64, i64>,
    lifetimes: i64,
    /// The latest few combinations of a domain and a category, which most ranges have. Both have their rows.
    pairs: Vec<Pair>,
}

/// The names of a domain and a category, and their numbers.
#[derive(Debug)]
struct Pair {
    domain: Option<Box<str>>,
    category: Option<Box<str>>,
    numbers: (i64, Option<i64>),
}

/// The number of remembered combinations.
const PAIRS: usize = 8;

/// Thread, time and domain of the item that first needs a row with a name.
#[derive(Clone, Copy)]
struct Place {
    thread: i64,
    at: i64,
    domain: i64,
}

impl Events {
    /// Writes the name of a thread. The last name counts, because the system reuses numbers of threads.
    pub(super) fn thread(&mut self, file: &mut File, thread: u32, name: &str) -> io::Result<()> {
        let (name, thread) = (file.string(name)?, file.ids.thread(thread));
        match self.threads.insert(thread, name) {
            None => file.run(THREAD, (name, thread)),
            Some(before) if before != name => file.run(RENAME, (name, thread)),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn range(&mut self, file: &mut File, range: &Range<'_>) -> io::Result<()> {
        let text = file.string(range.name)?;
        let end = range.end.max(range.start);
        let (start, end) = match (range.style, self.stamps.entry(range.thread).or_default()) {
            (RangeStyle::PushPop, stamps) => stamps.of(range.start, end, range.depth),
            (RangeStyle::StartEnd, stamps) if range.end_thread.is_none() => stamps.of_lifetime(range.start, end),
            _ => (range.start, end),
        };
        let (start, end) = (signed(start), signed(end));
        let thread = file.ids.thread(range.thread);
        let (domain, category) = self.pair(file, range, thread, start)?;
        let (kind, number) = match range.style {
            RangeStyle::StartEnd => {
                self.lifetimes += 1;
                (START_END, Some(self.lifetimes))
            }
            _ => (PUSH_POP, None),
        };
        let end_thread = range.end_thread.filter(|&end| end != range.thread).map(|end| file.ids.thread(end));
        // The columns in which Nsight Systems shows these payloads.
        let (unsigned, integer, truth, double, words) = match range.payload {
            Some(Value::Unsigned(value)) => (Some(value as i64), None, None, None, None),
            Some(Value::Integer(value)) => (None, Some(value), None, None, None),
            Some(Value::Bool(value)) => (None, None, Some(value.into()), None, None),
            Some(Value::Float(value)) => (None, None, None, Some(value), None),
            words => (None, None, None, None, words),
        };
        let of_call = |number: Option<i64>| number.filter(|_| range.call != 0);
        let [span, call, parent] =
            [Some(signed(range.span)), Some(signed(range.call)), known(range.parent)].map(of_call);
        let (json, color) = (json::write(file.json(), words, range.fields), range.color.map(i64::from));
        let [start, kind, thread, domain, end, text] = [start, kind, thread, domain, end, text].map(Some);
        let whole = [
            start, kind, thread, domain, end, text, span, call, parent, number, category, color, end_thread, unsigned,
            integer, truth,
        ];
        file.add(Row { whole, double, text: None, json })
    }

    pub(super) fn call(&mut self, file: &mut File, call: &Call<'_>) -> io::Result<()> {
        let (text, thread) = (file.string(call.name)?, file.ids.thread(call.thread));
        let (start, end) = (signed(call.start), signed(call.end.max(call.start)));
        let domain = self.place(file, call.domain, thread, start)?.domain;
        let ending = match call.ending {
            Ending::Closed => "closed",
            Ending::Cancelled => "cancelled",
            Ending::Cut => "cut",
            _ => "unknown",
        };
        let mut json = Vec::new();
        let json = json::write(&mut json, None, call.fields).map(|_| String::from_utf8_lossy(&json));
        let numbers = (signed(call.call), known(call.span), known(call.parent));
        file.run(CALL, params![numbers.0, numbers.1, numbers.2, start, end, text, domain, thread, ending, json])
    }

    pub(super) fn mark(&mut self, file: &mut File, mark: &Mark<'_>) -> io::Result<()> {
        let (thread, at, level) = (file.ids.thread(mark.thread), signed(mark.at), i64::from(mark.level));
        let place = self.place(file, mark.domain, thread, at)?;
        if let Some(name) = usize::from(mark.level).checked_sub(1).and_then(|level| LEVELS.get(level)) {
            self.name_category(file, place, level, name)?;
        }
        let json = json::write(file.json(), None, mark.fields);
        add_text(file, place, MARK, Some(level), mark.text, json)
    }

    /// The numbers of the domain and the category of a range.
    fn pair(&mut self, file: &mut File, range: &Range<'_>, thread: i64, at: i64) -> io::Result<(i64, Option<i64>)> {
        let is_of = |pair: &&Pair| pair.category.as_deref() == range.category && pair.domain.as_deref() == range.domain;
        if let Some(pair) = self.pairs.iter().find(is_of) {
            return Ok(pair.numbers);
        }
        let place = self.place(file, range.domain, thread, at)?;
        let category = match range.category {
            Some(name) => Some(self.category(file, place, name)?),
            None => None,
        };
        let (numbers, boxed) = ((place.domain, category), |name: Option<&str>| name.map(Box::from));
        if self.pairs.len() == PAIRS {
            self.pairs.remove(0);
        }
        self.pairs.push(Pair { domain: boxed(range.domain), category: boxed(range.category), numbers });
        Ok(numbers)
    }

    /// The domain's number: 0 for the default one, which has no row.
    fn place(&mut self, file: &mut File, domain: Option<&str>, thread: i64, at: i64) -> io::Result<Place> {
        let place = |domain| Place { thread, at, domain };
        let Some(name) = domain else { return Ok(place(0)) };
        if let Some(&domain) = self.domains.get(name) {
            return Ok(place(domain));
        }
        let place = place(self.domains.len() as i64 + 1);
        add_text(file, place, DOMAIN, None, name, None)?;
        self.domains.insert(name.into(), place.domain);
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
        if self.named.insert((place.domain, number), ()).is_some() {
            return Ok(());
        }
        add_text(file, place, CATEGORY, Some(number), name, None)
    }
}

/// Adds a mark, or the name of a domain or category.
fn add_text(
    file: &mut File,
    place: Place,
    kind: i64,
    category: Option<i64>,
    text: &str,
    json: Option<ops::Range<usize>>,
) -> io::Result<()> {
    let [start, kind, thread, domain] = [place.at, kind, place.thread, place.domain].map(Some);
    let none = None;
    let whole =
        [start, kind, thread, domain, none, none, none, none, none, none, category, none, none, none, none, none];
    file.add(Row { whole, double: None, text: Some(text.into()), json })
}

/// A number of a span or a call, if it is known.
pub(super) fn known(number: u64) -> Option<i64> {
    (number != 0).then(|| signed(number))
}

/// SQLite's integers are signed; times beyond 292 years are not expected.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

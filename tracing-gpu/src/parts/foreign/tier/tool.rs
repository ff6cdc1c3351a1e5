//! The front end for NVTX ranges of other code in the process: a C++ library, NCCL, Python.
//!
//! A table of the thread leads from a range's text to its place and row, without a lock or an allocation.
//! [`push_foreign`](ThreadState::push_foreign) does the rest. Ranges of our own spans do not count here: they are sent
//! while the thread's gate is closed.

use std::fmt;

use nvtx_rs::tool::{Call, Event, Extended, FieldValue, Kept, Tool};
use range_model::RangeStyle;
use range_model::timeline::Value;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::tails;
use crate::core::record::RangeKey;
use crate::core::session::Session;
use crate::core::session::catalog::CategoryName;
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;
use crate::parts::foreign::session::FOREIGN;
use crate::parts::foreign::session::ranges::Started;
use crate::parts::timeline::recorder::value_of;
use crate::parts::timeline::thread::tape::Record;
use crate::parts::values::span::fields::Fields;
use crate::parts::values::span::values::{Category, Changing, Lifetime};
use crate::parts::values::tier as own_values;

/// Receives the NVTX calls of a process and measures their ranges: see
/// [`Profiler::nvtx_tool`](crate::Profiler::nvtx_tool).
///
/// It may be copied, sent and shared between threads. Once its profiler has finished it does nothing.
#[derive(Clone, Copy)]
pub struct NvtxTool {
    engine: &'static Engine,
}

impl fmt::Debug for NvtxTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NvtxTool")
    }
}

impl Tool for NvtxTool {
    fn call(&self, call: &Call<'_>) {
        match *call {
            Call::Push { domain, ref event, .. } => self.push(domain, event),
            Call::Pop { domain, extended, .. } => self.pop(domain, extended),
            ref other => self.other_call(other),
        }
    }
}

impl NvtxTool {
    pub(crate) fn new(engine: &'static Engine) -> Self {
        engine.session.parts.foreign.receive();
        Self::of(engine)
    }

    #[inline]
    pub(crate) fn of(engine: &'static Engine) -> Self {
        Self { engine }
    }

    #[inline]
    fn push(self, domain: Option<&'static str>, event: &Event<'_>) {
        let Some(thread) = self.engine.thread() else { return self.count_unfollowed(domain) };
        let Some(range) = find(thread, domain, event) else { return };
        let start = thread.push_foreign(range.key(RangeStyle::PushPop));
        if let Some(start) = start.filter(|_| is_taken(thread.session, domain, event))
            && let Some((values, fields)) = values_of(thread.session, event, range.has_tail)
        {
            thread.record_values(start, &values, &fields);
        }
    }

    #[cold]
    #[inline(never)]
    fn count_unfollowed(self, domain: Option<&str>) {
        self.engine.count_unfollowed(|| self.engine.session.is_foreign_enabled(domain));
    }

    #[inline]
    fn pop(self, domain: Option<&'static str>, extended: Extended<'_>) {
        let Some(thread) = self.engine.thread() else { return };
        let Some(domain) = domain_of(thread, domain) else { return };
        if !extended.is_empty() && thread.session.records_values() {
            let fields = add_extended(thread.session, Fields::default(), extended);
            thread.record_values_at_pop(domain, &fields);
        }
        if !thread.pop_foreign(domain) {
            thread.session.count_stray_pop();
        }
    }

    #[inline(never)]
    fn other_call(self, call: &Call<'_>) {
        let session = &self.engine.session;
        match *call {
            Call::Mark { domain, ref event } if session.records_values() => self.mark(domain, event),
            Call::Start { domain, ref event, id } => self.start(domain, event, id),
            Call::End { id, extended, .. } => self.end(id, extended),
            // Without a thread, the call comes from us or from a thread that is being torn down.
            Call::NameCategory { domain, id, name } if self.engine.thread().is_some() => {
                session.parts.foreign.ranges.name_category(
                    session.foreign_domain(domain),
                    id,
                    &nvtx_rs::text::sanitize(name),
                );
            }
            Call::NameThread { id, name } if self.engine.thread().is_some() => {
                self.engine.name_thread(id, &nvtx_rs::text::sanitize(name));
            }
            _ => {}
        }
    }

    fn mark(self, domain: Option<&'static str>, event: &Event<'_>) {
        let Some(thread) = self.engine.thread() else { return };
        let at = thread.session.clock.now();
        let Some(number) = domain_of(thread, domain) else { return };
        let (values, mut fields) = values_of(thread.session, event, false).unwrap_or_default();
        if let Some(payload) = values.payload {
            fields.push("payload", value_of(payload));
        }
        if event.category != 0 {
            match thread.session.parts.foreign.ranges.category(number, event.category) {
                CategoryName::Text(name) => fields.push("category", Value::Text(&name)),
                CategoryName::Number(number) => fields.push("category", Value::Unsigned(number.into())),
            }
        }
        let text = nvtx_rs::text::sanitize(event.message.unwrap_or_default()).into();
        let domain = thread.session.with_names(|names| names.domain_name(number));
        thread.record_with_fields(Record::Mark { at, domain, level: MARK_LEVEL, text }, &fields);
    }

    fn start(self, domain: Option<&'static str>, event: &Event<'_>, id: u64) {
        let Some(thread) = self.engine.thread() else { return self.count_unfollowed(domain) };
        let session = thread.session;
        let started = find(thread, domain, event).map(|range| {
            let key = range.key(RangeStyle::StartEnd);
            let values = if session.records_values() { values_of(session, event, range.has_tail) } else { None };
            let (changing, fields) = values.unwrap_or_default();
            let start = session.clock.now();
            let instance = thread.begin_lifetime(key.label, start);
            let numbers = thread.number_alone();
            let (state, id_of_thread) = (thread.index, thread.thread_id());
            let lifetime = Lifetime { start, range: None, state, thread: id_of_thread, instance, numbers };
            Started { key, lifetime, changing, fields }
        });
        if let Some(Started { key, lifetime, changing, fields }) = session.parts.foreign.ranges.start(id, started) {
            own_values::end_lifetime(self.engine, None, (key, None), lifetime, &changing, &fields);
        }
    }

    fn end(self, id: u64, extended: Extended<'_>) {
        let thread = self.engine.thread();
        if thread.is_none() && !self.engine.session.is_running() {
            return;
        }
        match self.engine.session.parts.foreign.ranges.end(id) {
            Some(Some(Started { key, lifetime, changing, fields })) => {
                let session = &self.engine.session;
                let is_shown = session.records_values();
                let fields = if is_shown { add_extended(session, fields, extended) } else { fields };
                own_values::end_lifetime(self.engine, thread, (key, None), lifetime, &changing, &fields);
            }
            // Without a thread, it may be a range of our own.
            None if thread.is_some() => self.engine.session.count_stray_pop(),
            None | Some(None) => {}
        }
    }
}

/// The level at which timelines show marks: information.
const MARK_LEVEL: u8 = 3;

/// Facts about a range, by its text.
#[derive(Clone, Copy)]
struct Known {
    label: u32,
    category: u32,
    /// Whether its label is the text without a tail.
    has_tail: bool,
}

impl Known {
    fn key(self, style: RangeStyle) -> RangeKey {
        RangeKey { label: self.label, category: self.category, style }
    }
}

/// The number of texts that one thread caches, first and at most, and the largest length of each in bytes.
const FIRST_TEXTS: usize = 32;
const TEXTS: usize = 512;
const TEXT_BYTES: usize = 256;

/// The cache of a thread. It needs no lock.
#[derive(Default)]
struct KnownRanges {
    /// The session to which the cache belongs.
    session: u64,
    /// `ForeignRanges::category_names` at the time of caching.
    category_names: u32,
    /// Numbers of domains by the address of their name; `None` if the filter rejects the domain.
    domains: FxHashMap<Option<*const str>, Option<u32>>,
    /// The domain that was used last.
    last_domain: Option<(Option<*const str>, Option<u32>)>,
    texts: Vec<Option<KnownText>>,
}

struct KnownText {
    text: Box<str>,
    domain: u32,
    category: u32,
    known: Known,
}

thread_local! {
    static KNOWN_RANGES: Kept<KnownRanges> = const {
        Kept::new(KnownRanges {
            session: 0,
            category_names: 0,
            domains: FxHashMap::with_hasher(FxBuildHasher),
            last_domain: None,
            texts: Vec::new(),
        })
    };
}

/// Runs `with` with this thread's cache for the session of this state, or with `None` while the thread is being torn
/// down.
#[inline]
fn with_known<T>(thread: &ThreadState, with: impl Fn(Option<&mut KnownRanges>) -> T) -> T {
    let found = KNOWN_RANGES.try_with(|met| {
        let mut met = met.try_borrow_mut().ok()?;
        let names = thread.session.parts.foreign.ranges.category_names();
        if (met.session, met.category_names) != (thread.session.id, names) {
            met.begin(thread.session.id, names);
        }
        Some(with(Some(&mut met)))
    });
    found.ok().flatten().unwrap_or_else(|| with(None))
}

/// The number of a domain; `None` if the filter rejects its ranges.
#[inline]
fn domain_of(thread: &ThreadState, domain: Option<&'static str>) -> Option<u32> {
    if domain.is_none() && thread.session.filter().is_none() {
        return Some(FOREIGN);
    }
    with_known(thread, |met| match met {
        Some(met) => met.domain(thread, domain),
        None => look_up_domain(thread, domain),
    })
}

/// The facts about a range; `None` if the filter rejects it.
#[inline]
fn find(thread: &ThreadState, domain: Option<&'static str>, event: &Event<'_>) -> Option<Known> {
    let text = event.message.unwrap_or_default();
    with_known(thread, |met| match met {
        Some(met) => {
            let domain = met.domain(thread, domain)?;
            Some(met.range(thread, domain, event.category, text))
        }
        None => Some(look_up(thread, look_up_domain(thread, domain)?, event.category, text)),
    })
}

impl KnownRanges {
    #[cold]
    fn begin(&mut self, session: u64, category_names: u32) {
        let domains = FxHashMap::default();
        *self = Self { session, category_names, domains, last_domain: None, texts: Vec::new() };
        self.texts.resize_with(FIRST_TEXTS, || None);
    }

    #[inline]
    fn domain(&mut self, thread: &ThreadState, domain: Option<&'static str>) -> Option<u32> {
        // Names of domains do not move, so the address identifies a domain.
        match self.last_domain {
            Some((last, number)) if last == domain.map(std::ptr::from_ref) => number,
            _ => self.other_domain(thread, domain),
        }
    }

    #[inline(never)]
    fn other_domain(&mut self, thread: &ThreadState, domain: Option<&'static str>) -> Option<u32> {
        let address = domain.map(std::ptr::from_ref);
        let number = *self.domains.entry(address).or_insert_with(|| look_up_domain(thread, domain));
        self.last_domain = Some((address, number));
        number
    }

    #[inline]
    fn range(&mut self, thread: &ThreadState, domain: u32, category: u32, text: &str) -> Known {
        let at = self.slot_of(text, domain, category);
        let other = at ^ 1; // each text has two possible slots
        for met in [at, other].iter().filter_map(|at| self.texts.get(*at)?.as_ref()) {
            if *met.text == *text && (met.domain, met.category) == (domain, category) {
                return met.known;
            }
        }
        self.new_range(thread, domain, category, text)
    }

    #[inline]
    fn slot_of(&self, text: &str, domain: u32, category: u32) -> usize {
        place_of(text, domain, category) & self.texts.len().wrapping_sub(1)
    }

    #[inline(never)]
    fn new_range(&mut self, thread: &ThreadState, domain: u32, category: u32, text: &str) -> Known {
        let known = look_up(thread, domain, category, text);
        if !known.has_tail && text.len() <= TEXT_BYTES {
            let mut at = self.slot_of(text, domain, category);
            let full = [at, at ^ 1].iter().all(|at| matches!(self.texts.get(*at), Some(Some(_))));
            if full && self.texts.len() < TEXTS {
                // A larger cache, with nothing in it.
                let larger = 4 * self.texts.len();
                self.texts.clear();
                self.texts.resize_with(larger, || None);
                at = self.slot_of(text, domain, category);
            }
            // The present entry moves to the other slot, whose entry is dropped.
            let before = self.texts.get_mut(at).and_then(Option::take);
            if let Some(other) = self.texts.get_mut(at ^ 1).filter(|_| before.is_some()) {
                *other = before;
            }
            if let Some(place) = self.texts.get_mut(at) {
                *place = Some(KnownText { text: text.into(), domain, category, known });
            }
        }
        known
    }
}

/// The slot of a text where there are [`TEXTS`], from its length, beginning, middle and end; not all of it is read.
#[inline]
fn place_of(text: &str, domain: u32, category: u32) -> usize {
    let bytes = text.as_bytes();
    let parts = if let (Some(begin), Some(end)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let middle = bytes.get(bytes.len() / 2 - 4..).and_then(|rest| rest.first_chunk());
        [*begin, middle.copied().unwrap_or_default(), *end].map(u64::from_le_bytes)
    } else if let (Some(begin), Some(end)) = (bytes.first_chunk(), bytes.last_chunk()) {
        [*begin, *end, [0; 4]].map(u32::from_le_bytes).map(u64::from)
    } else {
        [bytes.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)), 0, 0]
    };
    let of = u64::from(domain) << 32 | u64::from(category);
    let mix = |hash: u64, part: u64| (hash.rotate_left(5) ^ part).wrapping_mul(0x517c_c1b7_2722_0a95);
    let hash = parts.into_iter().fold(mix(bytes.len() as u64, of), mix);
    (hash >> (u64::BITS - TEXTS.trailing_zeros())) as usize
}

#[inline(never)]
fn look_up_domain(thread: &ThreadState, domain: Option<&str>) -> Option<u32> {
    thread.session.is_foreign_enabled(domain).then(|| thread.session.foreign_domain(domain))
}

#[inline(never)]
fn look_up(thread: &ThreadState, domain: u32, category: u32, text: &str) -> Known {
    let (session, lookup) = (thread.session, &thread.lookup());
    let cut = if session.parts.foreign.ranges.whole_names { None } else { tails::cut(text) };
    let name = cut.as_ref().map_or(text, |cut| &*cut.name);
    let mut known = thread.known();
    let label = known.run_time_label(lookup, domain, name).unwrap_or_else(|| session.other_label(domain));
    let category = match category {
        0 => 0,
        number => match session.parts.foreign.ranges.category(domain, number) {
            CategoryName::Text(name) => known.category(lookup, Category::Text(&name)),
            CategoryName::Number(number) => known.category(lookup, Category::Number(number)),
        },
    };
    Known { label, category, has_tail: cut.is_some() }
}

/// Whether the values of a range are recorded: for a timeline; and where ranges are recorded for the GPU's reports, the
/// values of NCCL, which tell the communicators of its calls.
fn is_taken(session: &Session, domain: Option<&str>, event: &Event<'_>) -> bool {
    let is_nccl = || !event.extended.is_empty() && domain == Some("NCCL");
    session.records_values() || session.records_ranges() && is_nccl()
}

/// The values of a range that a timeline shows besides its name; `None` if there are none.
fn values_of(session: &Session, event: &Event<'_>, has_tail: bool) -> Option<(Changing, Fields)> {
    let cut = event.message.filter(|_| has_tail).and_then(tails::cut);
    if cut.is_none() && event.color.is_none() && event.payload.is_none() && event.extended.is_empty() {
        return None;
    }
    let values = cut.map_or_else(Vec::new, |cut| cut.values);
    let fields = values.into_iter().map(|(key, value)| (session.parts.foreign.ranges.field_name(key), value)).collect();
    let changing = Changing { color: event.color, payload: event.payload, ..Changing::default() };
    Some((changing, add_extended(session, fields, event.extended)))
}

/// Adds the data of the payload extension.
fn add_extended(session: &Session, mut fields: Fields, extended: Extended<'_>) -> Fields {
    for field in extended.fields() {
        let name = session.parts.foreign.ranges.field_name(&field.name);
        match field.value {
            FieldValue::Signed(value) => fields.push(name, Value::Integer(value)),
            FieldValue::Unsigned(value) => fields.push(name, Value::Unsigned(value)),
            FieldValue::Float(value) => fields.push(name, Value::Float(value)),
            other => fields.push(name, Value::Text(&other.to_string())),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Output, Profiler};

    /// A tool behind ours that gives all ranges the number 0 causes this.
    #[test]
    fn a_started_range_whose_number_another_gets_is_counted_as_lost() {
        let profiler = Profiler::builder().nvtx(false).output(Output::None).build().expect("a profiler");
        let tool = NvtxTool::of(profiler.engine());
        (0..3).for_each(|_| tool.start(None, &Event::default(), 0));
        tool.end(0, Extended::default());
        let summary = profiler.summary();
        let measured: u64 = summary.ranges.iter().map(|row| row.times.instances).sum();
        assert_eq!((measured, summary.losses.spans_dropped, summary.losses.open), (1, 2, Vec::new()));
    }

    #[test]
    fn pops_of_ranges_that_found_no_room_close_no_other_range() {
        const MOST_OPEN: u64 = 1 << 16;
        let profiler = Profiler::builder().nvtx(false).output(Output::None).build().expect("a profiler");
        let tool = NvtxTool::of(profiler.engine());
        let push = |domain, message| {
            let mut event = Event::default();
            event.message = Some(message);
            tool.push(domain, &event);
        };
        let pop = |domain| tool.pop(domain, Extended::default());
        let counted = || {
            let summary = profiler.summary();
            let ended = summary.ranges.iter().filter(|row| row.times.instances > 0);
            let mut ended: Vec<_> = ended.map(|row| (row.label().to_string(), row.times.instances)).collect();
            ended.sort();
            (ended, summary.losses.spans_dropped, summary.losses.stray_exits)
        };
        let rows = |rows: &[(&str, u64)]| -> Vec<(String, u64)> {
            rows.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let (first, other) = (Some("first"), Some("other"));
        push(first, "below");
        push(other, "below");
        (2..MOST_OPEN).for_each(|_| push(None, "filler"));
        for domain in [None, first, other] {
            push(domain, "lost");
            push(domain, "lost too");
            pop(domain);
        }
        assert_eq!(counted(), (Vec::new(), 6, 0));

        // There is room again, and in `other` only the earlier ranges are open.
        pop(other);
        pop(other);
        push(other, "short");
        push(first, "lost above the lost");
        pop(first);
        pop(other);
        let ended = [("other:below", 1), ("other:short", 1)];
        assert_eq!(counted(), (rows(&ended), 7, 0));

        (0..2).for_each(|_| pop(first));
        (0..MOST_OPEN - 1).for_each(|_| pop(None));
        let ended = [("filler", MOST_OPEN - 2), ("first:below", 1), ("other:below", 1), ("other:short", 1)];
        assert_eq!(counted(), (rows(&ended), 7, 0));
        pop(None);
        assert_eq!(counted(), (rows(&ended), 7, 1), "no range is open");
    }
}

//! Fields of spans by span number: kept from the creation of a span on, for its ranges and its call.
//!
//! No record shows that a plain span has closed, so the most recently used fields are kept, within a limit. There are
//! two halves: when the younger one is full, it becomes the older one, and the contents of the former older one are
//! forgotten. Fields of spans without a written range stay, in up to half of the younger half, because most of these
//! spans are open.

use std::collections::VecDeque;
use std::sync::Arc;

use range_model::stats::Keyed;
use range_model::timeline::Value;

use crate::clock::Ticks;
use crate::core::record::RangeNumbers;
use crate::core::session::Session;
use crate::parts::timeline::thread::raw_fields;
use crate::parts::timeline::thread::tape::FieldsRecord;
use crate::parts::values::span::fields::Fields;

/// The names of a call site's fields, if they are shown.
type Names = Arc<[Option<&'static str>]>;

/// The number of field lists whose memory is kept, and how much of each, in bytes.
const SPARE: usize = 64;
const SPARE_BYTES: usize = 512;
/// Approximate memory of an entry without its fields.
const ENTRY: usize = 128;

/// The data of a span.
#[derive(Default)]
struct SpanRecord {
    /// Whether its creation is known; otherwise only later records are.
    is_whole: bool,
    /// Whether a range or a call of it was written.
    was_read: bool,
    fields: Fields,
    /// Fields that were recorded later, with their times, in order.
    later: VecDeque<(Ticks, Fields)>,
    /// The memory of those: there may be many.
    later_bytes: usize,
}

impl SpanRecord {
    fn bytes(&self) -> usize {
        ENTRY + self.fields.bytes() + self.later_bytes
    }
}

#[derive(Default)]
pub(crate) struct SpanFields {
    young: Keyed<u64, SpanRecord>,
    old: Keyed<u64, SpanRecord>,
    /// Present and largest memory of `young`.
    bytes: usize,
    most: usize,
    sites: Keyed<u64, Names>,
    spare: Vec<Fields>,
    /// Memory for reading a text.
    text: Vec<u8>,
    /// Number of ranges and calls without their fields, not yet told.
    pub(crate) lost: u64,
}

impl SpanFields {
    /// A store within this number of bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { most: bytes / 2, ..Self::default() }
    }

    /// Adds recorded fields of a span; they may have been added already.
    pub(crate) fn add(&mut self, record: &FieldsRecord<'_>, session: &Session) {
        let mut kept = self.take(record.span).unwrap_or_default();
        if record.at.is_none() && kept.is_whole {
            return self.keep(record.span, kept);
        }
        let names = self.names(record.site, session);
        let mut fields = self.spare.pop().unwrap_or_default();
        raw_fields::read(record.words, &names, &mut self.text, &mut fields);
        match record.at {
            None => (kept.is_whole, kept.fields) = (true, std::mem::take(&mut fields)),
            Some(at) => {
                kept.later_bytes += ENTRY + fields.bytes();
                let place = kept.later.partition_point(|(other, _)| *other <= at);
                kept.later.insert(place, (at, std::mem::take(&mut fields)));
            }
        }
        self.keep_spare(fields);
        self.keep(record.span, kept);
    }

    fn names(&mut self, site: u64, session: &Session) -> Names {
        let shown = || {
            let metadata = session.with_names(|names| names.with_fields().get(&site).copied());
            metadata.map_or_else(Box::default, |metadata| session.fields.shown(metadata)).into()
        };
        self.sites.row_or(site, shown).clone()
    }

    pub(crate) fn is_known(&self, span: u64) -> bool {
        self.young.get(&span).or_else(|| self.old.get(&span)).is_some_and(|kept| kept.is_whole)
    }

    /// Passes the fields of a span, as they were at the time `then`, to `read`, if they are known.
    fn with<T>(&mut self, span: u64, then: Ticks, read: impl FnOnce(&Fields) -> T) -> Option<T> {
        if !self.young.contains_key(&span) {
            let kept = self.old.remove(&span)?;
            self.keep(span, kept);
        }
        let kept = match self.young.get_mut(&span) {
            Some(kept) => kept,
            None => self.old.get_mut(&span)?, // the younger half has just become the older one
        };
        if !kept.is_whole {
            return None;
        }
        let until = kept.later.partition_point(|(at, _)| *at <= then);
        for (_, fields) in kept.later.drain(..until) {
            kept.later_bytes = kept.later_bytes.saturating_sub(ENTRY + fields.bytes());
            kept.fields.update(fields);
        }
        kept.was_read = true;
        Some(read(&kept.fields))
    }

    /// Writes a range or a call that ended at the time `then`, with the fields of its span before `others`.
    pub(crate) fn write(
        &mut self,
        numbers: RangeNumbers,
        end: Ticks,
        others: &[(&'static str, Value<'_>)],
        mut write: impl FnMut(&[(&'static str, Value<'_>)]),
    ) {
        if !numbers.has_fields {
            return write(others);
        }
        let with_own =
            self.with(numbers.span, end, |own| write(&own.iter().chain(others.iter().copied()).collect::<Vec<_>>()));
        if with_own.is_none() {
            write(others);
            self.lost += 1;
        }
    }

    fn take(&mut self, span: u64) -> Option<SpanRecord> {
        if let Some(kept) = self.young.remove(&span) {
            self.bytes = self.bytes.saturating_sub(kept.bytes());
            return Some(kept);
        }
        self.old.remove(&span)
    }

    fn keep(&mut self, span: u64, kept: SpanRecord) {
        self.bytes += kept.bytes();
        self.young.insert(span, kept);
        if self.bytes > self.most {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.bytes = 0;
        let oldest = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
        for (span, kept) in oldest {
            let bytes = self.bytes + kept.bytes();
            if !kept.was_read && bytes <= self.most / 2 {
                self.bytes = bytes;
                self.young.insert(span, kept);
            } else {
                self.lost += u64::from(!kept.later.is_empty());
                self.keep_spare(kept.fields);
            }
        }
    }

    fn keep_spare(&mut self, mut fields: Fields) {
        if self.spare.len() < SPARE {
            fields.clear(SPARE_BYTES);
            self.spare.push(fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(span: u64, at: Option<Ticks>, words: &[u64]) -> FieldsRecord<'_> {
        FieldsRecord { span, site: 0, at, words }
    }

    #[test]
    fn what_was_used_last_is_kept_within_the_bound() {
        let session = Session::new_inert();
        let mut fields = SpanFields::new(200 * ENTRY);
        for span in 0..1_000 {
            fields.add(&record(span, None, &[]), &session);
            assert!(fields.with(0, 0, |_| ()).is_some(), "{span}: it is used all the time");
        }
        assert!((100..=201).contains(&(fields.young.len() + fields.old.len())));
        assert!(fields.with(999, 0, |_| ()).is_some() && fields.with(500, 0, |_| ()).is_none());
        fields.write(RangeNumbers { span: 500, has_fields: true, ..RangeNumbers::default() }, 0, &[], |_| ());
        assert_eq!(fields.lost, 1);
    }

    #[test]
    fn fields_of_an_open_span_stay_while_others_come_and_go() {
        let session = Session::new_inert();
        let mut fields = SpanFields::new(200 * ENTRY);
        let add = |fields: &mut SpanFields, span| fields.add(&record(span, None, &[]), &session);
        add(&mut fields, 0);
        for span in 1..1_000 {
            add(&mut fields, span);
            assert!(fields.with(span, 0, |_| ()).is_some());
        }
        assert!(fields.with(0, 0, |_| ()).is_some());
        // Spans without a range leave room for others.
        for span in 1_000..3_000 {
            add(&mut fields, 2 * span);
            add(&mut fields, 2 * span + 1);
            assert!(span < 1_010 || fields.with(2 * (span - 10), 0, |_| ()).is_some());
        }
        assert!(fields.young.len() + fields.old.len() <= 201);
    }

    /// For example, in a loop in a span that lasts as long as the program.
    #[test]
    fn a_span_may_have_any_number_of_values_recorded() {
        const VALUES: u64 = 200_000;
        let session = Session::new_inert();
        let mut fields = SpanFields::new(1 << 30);
        fields.sites.row_or(0, || Arc::from([Some("a")]));
        fields.add(&record(7, None, &[1, 0]), &session);
        let began = std::time::Instant::now();
        (1..=VALUES).for_each(|value| fields.add(&record(7, Some(value), &[1, value]), &session));
        assert!((1..VALUES).all(|then| fields.with(7, then, |_| ()).is_some()));
        assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
        let all = fields.with(7, VALUES, |all| format!("{:?}", all.iter().collect::<Vec<_>>()));
        assert_eq!(all, Some(format!(r#"[("a", Unsigned({VALUES}))]"#)));
        assert_eq!(fields.young[&7].later_bytes, 0);
    }

    #[test]
    fn what_is_recorded_later_is_there_from_then_on() {
        let session = Session::new_inert();
        let mut fields = SpanFields::new(1 << 20);
        fields.sites.row_or(0, || Arc::from([Some("a"), Some("b")]));
        // Unsigned numbers for the fields 0 and 1. Records of other threads may arrive first.
        fields.add(&record(7, Some(30), &[1 | 1 << 8, 5]), &session);
        fields.add(&record(7, Some(20), &[1 | 1 << 8, 4]), &session);
        fields.add(&record(7, None, &[1, 3]), &session);
        let shown =
            |fields: &mut SpanFields, then| fields.with(7, then, |all| format!("{:?}", all.iter().collect::<Vec<_>>()));
        let first = r#"[("a", Unsigned(3))]"#.to_owned();
        assert_eq!([shown(&mut fields, 10), shown(&mut fields, 19)], [Some(first.clone()), Some(first)]);
        assert_eq!(shown(&mut fields, 29), Some(r#"[("a", Unsigned(3)), ("b", Unsigned(4))]"#.to_owned()));
        assert_eq!(shown(&mut fields, 30), Some(r#"[("a", Unsigned(3)), ("b", Unsigned(5))]"#.to_owned()));
    }
}

//! Ranges that other code makes.

use super::ThreadState;
use crate::clock::Ticks;
use crate::record::{Place, RangeKey};
use crate::span::fields::Fields;
use crate::span::values::Changing;
use crate::thread::stack::NO_SPAN;

/// Ranges that other code makes. They are on the stack in place of a span, have the general path alone, and are neither
/// shown to a tool nor timed on streams.
impl ThreadState {
    /// Opens a range with this label and category, which may take the place of a span in caches as `site`.
    #[inline]
    pub(crate) fn push_foreign(&self, key: RangeKey) -> Option<Ticks> {
        // Neither the address of a call site nor what stands for a place, see `place_from`.
        let site = 1 << 62 | u64::from(key.category) << 32 | u64::from(key.label);
        let parent = self.current_node();
        let place = self.children.get(parent, site).unwrap_or_else(|| {
            self.find_child(parent, site, || self.place(self.node(parent, key), key, None).under_if_any(parent))
        });
        let Some(row) = self.rows.get_inline(place.row()).filter(|_| !place.is_none()) else {
            self.session.drop_span();
            return None;
        };
        row.add_call(|| self.session.clock.now());
        let start = self.now();
        let numbers = self.numbers.as_ref().map(|numbers| (numbers, self.number_alone()));
        if self.stack.push(NO_SPAN, place, start).is_none() {
            self.session.drop_span();
            return None;
        }
        numbers.inspect(|(numbers, own)| numbers.set(self.stack.depth() - 1, *own));
        Some(start)
    }

    /// Records values that the uppermost range of that domain of other code gets at its end, if a timeline is written.
    pub(crate) fn record_values_at_pop(&self, domain: u32, fields: &Fields) {
        let open =
            |range: usize| self.stack.frame(range).filter(|range| self.is_foreign(domain, range.span(), range.place()));
        if let Some(range) = (0..self.stack.depth()).rev().find_map(open) {
            self.record_values(range.start(), &Changing::default(), fields);
        }
    }

    /// Whether an open range is one of that domain of other code.
    #[inline]
    fn is_foreign(&self, domain: u32, span: u64, place: Place) -> bool {
        span == NO_SPAN && self.identity(place).is_some_and(|identity| identity.domain == domain)
    }

    /// Closes the uppermost range of that domain of other code. False where none is open.
    #[inline]
    pub(crate) fn pop_foreign(&self, domain: u32) -> bool {
        let now = self.now();
        let is_of_domain = |span, place| self.is_foreign(domain, span, place);
        if !self.stack.top().is_some_and(|top| is_of_domain(top.span(), top.place())) {
            return self.stack.open().rev().any(|(span, place)| is_of_domain(span, place))
                && self.leave_below(is_of_domain, &|_| None);
        }
        if let Some(ended) = self.stack.pop(now) {
            match self.rows.get_inline(ended.place.row()) {
                Some(row) if self.statistics && row.add_near(ended.duration, ended.nested) => {}
                _ => self.add(ended),
            }
            self.record_ended(ended, now, self.stack.depth());
        }
        self.launches.end_gone(&self.around(), now);
        true
    }
}

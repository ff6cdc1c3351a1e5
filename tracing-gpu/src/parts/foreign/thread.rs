//! Ranges of other code.

use std::sync::atomic::Ordering::Relaxed;

use crate::clock::Ticks;
use crate::core::record::{Place, RangeKey};
use crate::core::thread::stack::NO_SPAN;
use crate::core::thread::state::ThreadState;
use crate::parts::values::span::fields::Fields;
use crate::parts::values::span::values::Changing;

/// Foreign ranges. They have no span on the stack, use only the general path, and are neither shown to a tool nor timed
/// on streams.
///
/// A range without room is *untracked*, and so are further ones of its domain until it has ended. So the innermost
/// ranges of a domain are the untracked ones, and their number in each domain tells which range the next pop ends.
impl ThreadState {
    /// Opens a range with this label and category. Caches use `site` in place of a span's call site.
    #[inline]
    pub(crate) fn push_foreign(&self, key: RangeKey) -> Option<Ticks> {
        if self.flags.has_untracked.load(Relaxed) { self.push_beside_untracked(key) } else { self.push_tracked(key) }
    }

    #[inline] // it has two callers, and would be called: measured, 2 ns more for a push and its pop
    fn push_tracked(&self, key: RangeKey) -> Option<Ticks> {
        // Differs from the address of a call site and from stand-ins for places, see `place_from`.
        let site = 1 << 62 | u64::from(key.category) << 32 | u64::from(key.label);
        let parent = self.current_node();
        let place = self.children.get(parent, site).unwrap_or_else(|| {
            self.find_child(parent, site, || self.place(self.node(parent, key), key, None).under_if_any(parent))
        });
        let Some(row) = self.rows.get_inline(place.row()).filter(|_| !place.is_none()) else {
            return self.open_untracked(key);
        };
        row.add_call(|| self.session.clock.now());
        let start = if self.session.parts.on_cpu_of_others { self.start() } else { self.now() };
        let numbers = self.parts.numbers.as_ref().map(|numbers| (numbers, self.number_alone()));
        if self.stack.push(NO_SPAN, place, start).is_none() {
            row.change_calls(-1); // it is no call of this row
            return self.open_untracked(key);
        }
        numbers.inspect(|(numbers, own)| numbers.set(self.stack.depth() - 1, *own));
        Some(start)
    }

    /// Records values that arrive with the pop of the uppermost foreign range of that domain, if a timeline is written.
    pub(crate) fn record_values_at_pop(&self, domain: u32, fields: &Fields) {
        if self.flags.has_untracked.load(Relaxed) && self.is_untracked(domain) {
            return;
        }
        let open =
            |range: usize| self.stack.frame(range).filter(|range| self.is_foreign(domain, range.span(), range.place()));
        if let Some(range) = (0..self.stack.depth()).rev().find_map(open) {
            self.record_values(range.start(), &Changing::default(), fields);
        }
    }

    /// Whether an open range is a foreign one of that domain.
    #[inline]
    fn is_foreign(&self, domain: u32, span: u64, place: Place) -> bool {
        span == NO_SPAN && self.identity(place).is_some_and(|identity| identity.domain == domain)
    }

    /// Closes the uppermost foreign range of that domain. False if none is open.
    #[inline]
    pub(crate) fn pop_foreign(&self, domain: u32) -> bool {
        if self.flags.has_untracked.load(Relaxed) {
            self.pop_beside_untracked(domain)
        } else {
            self.pop_tracked(domain)
        }
    }

    #[inline] // as above
    fn pop_tracked(&self, domain: u32) -> bool {
        let now = self.now();
        let is_of_domain = |span, place| self.is_foreign(domain, span, place);
        if !self.stack.top().is_some_and(|top| is_of_domain(top.span(), top.place())) {
            return self.stack.open().rev().any(|(span, place)| is_of_domain(span, place))
                && self.leave_below(is_of_domain, &|_| None);
        }
        if let Some(ended) = self.stack.pop(now) {
            let end = match self.rows.get_inline(ended.place.row()) {
                Some(row)
                    if self.statistics
                        && !self.looks_again()
                        && row.add_near(ended.duration, ended.nested, self.thresholds.long) =>
                {
                    now
                }
                _ => self.end(ended),
            };
            self.record_ended(ended, end, self.stack.depth());
            self.parts.launches.end_gone(&self.around(), end);
        }
        true
    }
}

/// Untracked ranges. The fast paths read one flag, and leave everything else to these functions.
impl ThreadState {
    #[cold]
    #[inline(never)]
    fn push_beside_untracked(&self, key: RangeKey) -> Option<Ticks> {
        let is_above = self.is_untracked(self.session.domain_of_label(key.label));
        if is_above { self.open_untracked(key) } else { self.push_tracked(key) }
    }

    #[cold]
    #[inline(never)]
    fn pop_beside_untracked(&self, domain: u32) -> bool {
        self.close_untracked(domain) || self.pop_tracked(domain)
    }

    /// Counts a lost range.
    #[cold]
    #[inline(never)]
    fn open_untracked(&self, key: RangeKey) -> Option<Ticks> {
        self.session.drop_span();
        let domain = self.session.domain_of_label(key.label);
        *self.known.lock().parts.untracked.row(domain) += 1;
        self.flags.has_untracked.store(true, Relaxed);
        None
    }

    /// Whether the innermost range of this domain is untracked.
    #[cold]
    fn is_untracked(&self, domain: u32) -> bool {
        self.known.lock().parts.untracked.contains_key(&domain)
    }

    /// Closes the innermost range of this domain if it is untracked; otherwise returns false and changes nothing.
    fn close_untracked(&self, domain: u32) -> bool {
        let untracked = &mut self.known.lock().parts.untracked;
        let Some(open) = untracked.get_mut(&domain) else { return false };
        *open -= 1;
        if *open == 0 {
            untracked.remove(&domain);
            self.flags.has_untracked.store(!untracked.is_empty(), Relaxed);
        }
        true
    }
}

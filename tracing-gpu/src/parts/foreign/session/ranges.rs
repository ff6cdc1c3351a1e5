//! Names of other code's ranges, and its open start/end ranges.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Release};

use parking_lot::Mutex;
use range_model::stats::{Keyed, Named};

use crate::core::record::RangeKey;
use crate::core::session::catalog::CategoryName;
use crate::parts::values::span::fields::Fields;
use crate::parts::values::span::values::{Changing, Lifetime};

/// The largest number of categories with a name.
const MOST_CATEGORIES: usize = 1 << 16;
/// The largest number of field names, which are kept for good; further ones share a name.
const MOST_FIELD_NAMES: usize = 4_096;
/// The largest number of start/end ranges open at once.
const MOST_STARTED: usize = 1 << 16;
/// Start/end ranges are spread over this many locks.
const SHARDS: usize = 64;
/// A start/end range that has begun.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) key: RangeKey,
    pub(crate) lifetime: Lifetime,
    pub(crate) changing: Changing,
    pub(crate) fields: Fields,
}

#[derive(Debug)]
pub(crate) struct ForeignRanges {
    /// Whether ranges keep the unique numbers at the end of their names.
    pub(crate) whole_names: bool,
    /// Increases when a category gets a name.
    names: AtomicU32,
    categories: Mutex<Named<(u32, u32), Arc<str>>>,
    /// Not a static: a forked child has its own session, but might find its parent's lock taken for ever.
    field_names: Mutex<Keyed<&'static str, &'static str>>,
    /// `None` for ranges that the filter rejects.
    started: [Mutex<Keyed<u64, Option<Started>>>; SHARDS],
}

impl ForeignRanges {
    pub(crate) fn new(whole_names: bool) -> Self {
        Self {
            whole_names,
            names: AtomicU32::new(0),
            categories: Mutex::default(),
            field_names: Mutex::default(),
            started: std::array::from_fn(|_| Mutex::default()),
        }
    }

    /// How often categories got names. When it changes, cached categories must be looked up again.
    #[inline]
    pub(crate) fn category_names(&self) -> u32 {
        self.names.load(Acquire) // pairs with `name_category`
    }

    pub(crate) fn name_category(&self, domain: u32, number: u32, name: &str) {
        let mut categories = self.categories.lock();
        let is_known = categories.get(&(domain, number)).map(|known| **known == *name);
        if is_known != Some(true) && (is_known.is_some() || categories.len() < MOST_CATEGORIES) {
            categories.insert((domain, number), Arc::from(name));
            self.names.fetch_add(1, Release);
        }
    }

    /// The category of this number, with its name if it has one.
    pub(crate) fn category(&self, domain: u32, number: u32) -> CategoryName {
        let name = self.categories.lock().get(&(domain, number)).cloned();
        name.map_or(CategoryName::Number(number), CategoryName::Text)
    }

    /// The interned name of a field, from a name made at run time.
    pub(crate) fn field_name(&self, name: &str) -> &'static str {
        let mut names = self.field_names.lock();
        match names.get(name) {
            Some(known) => known,
            None if names.len() < MOST_FIELD_NAMES => {
                let name: &'static str = Box::leak(name.into());
                names.insert(name, name);
                name
            }
            None => "(other)",
        }
    }

    fn shard(&self, id: u64) -> &Mutex<Keyed<u64, Option<Started>>> {
        // Fibonacci hashing, because the numbers may be addresses or consecutive.
        &self.started[(id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % SHARDS]
    }

    /// Keeps a start/end range until it ends; `None` is one that is not measured. Returns a lost range: an open one
    /// with the same number, or this one if too many are open.
    pub(crate) fn start(&self, id: u64, range: Option<Started>) -> Option<Started> {
        let mut started = self.shard(id).lock();
        if started.len() >= MOST_STARTED / SHARDS {
            return range;
        }
        let lost = started.remove(&id).flatten();
        started.insert(id, range);
        lost
    }

    /// Removes the range of this number, if there is one; the inner `None` means that it is not measured.
    pub(crate) fn end(&self, id: u64) -> Option<Option<Started>> {
        self.shard(id).lock().remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn started_ranges_find_room_whatever_the_step_of_their_numbers() {
        for step in [1, 16, 64, 4_096] {
            let foreign = ForeignRanges::new(false);
            (1..=50_000).for_each(|number| _ = foreign.start(number * step, None));
            let kept = (1..=50_000).filter(|number| foreign.end(number * step).is_some()).count();
            assert_eq!(kept, 50_000, "steps of {step}");
        }
    }
}

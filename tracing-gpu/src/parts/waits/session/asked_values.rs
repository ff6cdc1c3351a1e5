//! Of which calls the values of fields are read: of those whose names were seen to wait for each other. The name alone
//! does not tell then who made others wait, but a value may.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use parking_lot::Mutex;
use range_model::stats::{Keyed, Lean, order};

/// Labels, and values whose text is wanted: each at the place of its number, so that some may not be kept.
const PLACES: usize = 64;
/// Texts that are kept, and moments.
const TEXTS: usize = 1_024;
const COSTLY: u32 = 2;

#[derive(Debug)]
pub(crate) struct AskedValues {
    are_asked: AtomicBool,
    /// Labels plus one; 0 for none.
    labels: [AtomicU32; PLACES],
    /// Reads that took too long. A thread may have been stopped meanwhile.
    costly: AtomicU32,
    /// Codes of values that were seen to make others wait, but whose text is not known.
    wanted: [AtomicU32; PLACES],
    /// When calls with a value that made others wait ended last, by who waited, the code of the value and the window.
    moments: Mutex<Keyed<[u32; 3], u64>>,
    /// Fields with their values, as `uri=/big`, by code.
    texts: Mutex<Keyed<u32, Box<str>>>,
}

impl AskedValues {
    pub(crate) fn new() -> Self {
        let none = || [const { AtomicU32::new(0) }; PLACES];
        Self {
            are_asked: AtomicBool::new(false),
            labels: none(),
            costly: AtomicU32::new(0),
            wanted: none(),
            moments: Mutex::default(),
            texts: Mutex::default(),
        }
    }

    /// Calls of this name waited for each other.
    pub(crate) fn ask(&self, label: u32) {
        let place = &self.labels[label as usize % PLACES];
        if place.load(Relaxed) == 0 {
            place.store(label + 1, Relaxed);
            self.are_asked.store(true, Relaxed);
        }
    }

    /// The values of a call of this name took too long to read, or to read them failed. After some such reads the name
    /// is asked for no more.
    pub(crate) fn was_costly(&self, label: u32) {
        if self.costly.fetch_add(1, Relaxed) >= COSTLY {
            self.labels[label as usize % PLACES].store(u32::MAX, Relaxed);
        }
    }

    /// Whether values of any calls are asked for. All that other calls pay.
    #[inline]
    pub(crate) fn are_asked(&self) -> bool {
        self.are_asked.load(Relaxed)
    }

    pub(crate) fn is_asked(&self, label: u32) -> bool {
        self.labels[label as usize % PLACES].load(Relaxed) == label + 1
    }

    /// Whether this moment is later than all of these: several waits that one end ends prove no more than one.
    pub(crate) fn is_new_moment(&self, of: [u32; 3], at: u64) -> bool {
        let mut moments = self.moments.lock();
        if moments.len() >= TEXTS && moments.get(&of).is_none() {
            moments.clear();
        }
        let last = moments.row(of);
        let is_new = at > *last;
        *last = at.max(*last);
        is_new
    }

    /// The value with this code has made others wait so many times. Its text is kept when it comes again.
    pub(crate) fn want(&self, code: u32, waits: u64) {
        if waits > 1 && waits.is_power_of_two() && !self.texts.lock().contains_key(&code) {
            self.wanted[code as usize % PLACES].store(code, Relaxed);
        }
    }

    /// A call has this value; `text` makes its text.
    #[inline]
    pub(crate) fn saw(&self, code: u32, text: impl FnOnce() -> String) {
        let wanted = &self.wanted[code as usize % PLACES];
        if wanted.load(Relaxed) == code {
            wanted.store(0, Relaxed);
            let mut texts = self.texts.lock();
            if texts.len() < TEXTS {
                texts.insert(code, text().into_boxed_str());
            }
        }
    }

    /// The fields and values with these codes, as `method=POST uri=/big`; without those that are not known.
    pub(crate) fn texts(&self, codes: impl Iterator<Item = u32>) -> String {
        let texts = self.texts.lock();
        let mut known: Vec<&str> = codes.filter_map(|code| texts.get(&code).map(|text| &**text)).in_vec();
        order::by(&mut known, Ord::cmp);
        known.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_value_is_kept_once_it_is_wanted_and_comes_again() {
        let values = AskedValues::new();
        let see = |code| values.saw(code, || format!("uri={code}"));
        values.want(7, 1);
        see(7);
        assert_eq!(values.texts([7].into_iter()), "", "one wait proves nothing");
        values.want(7, 2);
        see(8);
        assert_eq!(values.texts([7, 8].into_iter()), "");
        see(7);
        assert_eq!(values.texts([8, 7].into_iter()), "uri=7");
    }

    #[test]
    fn only_values_of_asked_names_are_read() {
        let values = AskedValues::new();
        assert!(!values.are_asked() && !values.is_asked(3));
        values.ask(3);
        values.ask(3 + PLACES as u32);
        assert!(values.are_asked() && values.is_asked(3));
        (0..COSTLY).for_each(|_| values.was_costly(3));
        assert!(values.is_asked(3), "it may have been stopped");
        values.was_costly(3);
        values.ask(3);
        assert!(!values.is_asked(3));
        assert!(!values.is_asked(4) && !values.is_asked(3 + PLACES as u32), "the first of a place stays");
    }
}

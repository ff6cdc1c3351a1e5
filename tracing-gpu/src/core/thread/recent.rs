//! A small cache of names.

use std::hash::BuildHasher as _;

use rustc_hash::FxBuildHasher;

/// The most recently used run-time names, by their text. The maps behind this cache have a collision-resistant hash,
/// which costs more than the rest of a lookup. Here a collision only causes a lookup in those maps.
#[derive(Debug, Default)]
pub(crate) struct Recent(Vec<Option<(u64, Box<str>, u32)>>);

/// Number of cached names, and the largest length of each in bytes.
const RECENT: usize = 32;
const RECENT_BYTES: usize = 256;

impl Recent {
    fn place(domain: u64, name: &str) -> usize {
        FxBuildHasher.hash_one((domain, name)) as usize % RECENT
    }

    pub(crate) fn get(&self, domain: u64, name: &str) -> Option<u32> {
        let (known_domain, known, number) = self.0.get(Self::place(domain, name))?.as_ref()?;
        (*known_domain == domain && **known == *name).then_some(*number)
    }

    pub(crate) fn insert(&mut self, domain: u64, name: &str, number: u32) {
        if name.len() > RECENT_BYTES {
            return;
        }
        self.0.resize_with(RECENT, || None);
        if let Some(entry) = self.0.get_mut(Self::place(domain, name)) {
            *entry = Some((domain, name.into(), number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_meet_in_one_place_are_told_apart() {
        let mut recent = Recent::default();
        let names: Vec<String> = (0..200).map(|number| format!("layer {number}")).collect();
        for _ in 0..2 {
            for (number, name) in names.iter().enumerate() {
                assert!(recent.get(1, name).is_none_or(|known| known == number as u32), "{name}");
                recent.insert(1, name, number as u32);
                assert_eq!((recent.get(1, name), recent.get(2, name)), (Some(number as u32), None));
            }
        }
        assert_eq!(recent.0.len(), RECENT);
        recent.insert(1, &"x".repeat(RECENT_BYTES + 1), 7);
        assert_eq!(recent.get(1, &"x".repeat(RECENT_BYTES + 1)), None, "not what is long");
    }
}

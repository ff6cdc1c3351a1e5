//! Maps by short keys that the program itself chose: names, numbers of threads. Looked up for every range, so their hash is a few multiplications; against keys
//! that are made to collide it is no defence, and there is none to defend from.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(super) type Keyed<K, V> = HashMap<K, V, BuildHasherDefault<Mixed>>;

/// Eight bytes at a time, each multiplied into what came before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mixed(u64);

/// Odd, with bits everywhere: the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Mixed {
    #[inline]
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0.rotate_left(23) ^ word) * u128::from(FACTOR);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for Mixed {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.mix(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher, BuildHasherDefault};

    use super::Mixed;

    /// The map takes the bucket from the lower bits and a tag from the upper seven.
    #[test]
    fn names_and_numbers_are_spread() {
        let hash = BuildHasherDefault::<Mixed>::default();
        let names = (0..4096).map(|number| hash.hash_one(format!("layer {number}").as_str()));
        let numbers = (0..4096_u32).map(|number| hash.hash_one(number * 64));
        for hashes in [names.collect::<Vec<u64>>(), numbers.collect()] {
            let lower: HashSet<u64> = hashes.iter().map(|hash| hash % 4096).collect();
            let upper: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            assert!(lower.len() > 2_400 && upper.len() == 128, "{} {}", lower.len(), upper.len()); // 2,589 by chance
        }
    }
}

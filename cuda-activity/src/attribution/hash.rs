//! Hashing of ids that counters gave out, and that nobody chooses so that they collide.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map by a key of a few numbers.
pub(super) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Multiplied>>;
/// A set of correlation ids.
pub(super) type Correlations = HashSet<u32, BuildHasherDefault<Multiplied>>;

/// 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// One multiplication a number, and its better bits where the table looks first. Sequential ids are spread out: side by side they would fill whole stretches of a
/// table, in which those that come later look for room for long.
#[derive(Clone, Copy, Default)]
pub(super) struct Multiplied(u64);

impl Hasher for Multiplied {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }
    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(FACTOR);
    }
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}

//! Hashing of ids that counters gave out, and that nobody chooses so that they collide.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map by a key of a few numbers.
pub(super) type Map<K, V> = HashMap<K, V, BuildHasherDefault<Multiplied>>;
/// A map by correlation id.
pub(super) type ByCorrelation<V> = HashMap<u32, V, BuildHasherDefault<InPlace>>;
/// A set of correlation ids.
pub(super) type Correlations = HashSet<u32, BuildHasherDefault<InPlace>>;

/// 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// One multiplication a number.
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

/// Near ids to near places, since launches are noted, and their operations come, nearly in sequence; what the table compares first, the upper bits, is
/// multiplied. The shift keeps ids at large strides apart.
#[derive(Clone, Copy, Default)]
pub(super) struct InPlace(u64);

impl Hasher for InPlace {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 << 8) ^ u64::from(byte);
        }
    }
    fn write_u32(&mut self, id: u32) {
        let upper = u64::from(id).wrapping_mul(FACTOR) & !(u64::MAX >> 7);
        self.0 = upper | u64::from(id ^ (id >> 10));
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

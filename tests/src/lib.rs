//! Cross-crate tests.

use std::time::{Duration, Instant};

pub mod csv;
#[cfg(feature = "cupti")]
pub mod cupti;
#[cfg(doctest)]
mod docs;
#[cfg(feature = "foreign")]
pub mod foreign;
pub mod installed;
pub mod json_schema;
pub mod launcher;
#[cfg(feature = "nsight")]
pub mod nsight;
pub mod recorder;
pub mod usage;

/// The result, and the time taken: the first of three attempts below the bound, or the last. A busy machine makes
/// nothing quicker.
pub fn in_time<T>(bound: Duration, mut run: impl FnMut() -> T) -> (T, Duration) {
    let mut timed = || {
        let began = Instant::now();
        (run(), began.elapsed())
    };
    for _ in 0..2 {
        let (result, took) = timed();
        if took < bound {
            return (result, took);
        }
    }
    timed()
}

/// A value with some fields set: for types that cannot be written as literals outside of their crate.
pub fn with<T>(mut value: T, set: impl FnOnce(&mut T)) -> T {
    set(&mut value);
    value
}

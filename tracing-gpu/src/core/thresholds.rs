//! Times that decide what a thread does at each range, in ticks: each is converted once.

use std::time::Duration;

use crate::clock::Clock;

/// Only ranges that take at least so long have a processor time: a reading takes 0.3 to 0.9 us.
pub(crate) const LONG: Duration = Duration::from_micros(50);
/// Waits of at least this length are looked at: who ended them?
pub(crate) const LONG_WAIT: Duration = Duration::from_micros(800);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    pub(crate) long: u64,
    pub(crate) long_wait: u64,
}

impl Thresholds {
    pub(crate) fn of(clock: &Clock) -> Self {
        Self { long: clock.ticks(LONG), long_wait: clock.ticks(LONG_WAIT) }
    }
}

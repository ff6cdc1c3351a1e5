//! Which buffers of records are being read, and how a flush waits for them.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long a flush waits for the first buffer, which CUPTI's thread may be about to hand over: if perhaps no buffer is
/// complete (`MAY_COME`), and if all of them are due (`IS_DUE`).
pub(super) const MAY_COME: Duration = Duration::from_millis(10);
pub(super) const IS_DUE: Duration = Duration::from_millis(100);

/// How long a flush waits for the next buffer if none is known to be due, and for all buffers together.
const NEXT: Duration = Duration::from_millis(2);
const ALL: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 2 });

/// Which buffers are being read.
#[derive(Default)]
pub(super) struct Delivery {
    state: Mutex<Reading>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Reading {
    begun: u64,
    running: u64,
}

impl Delivery {
    /// Marks a buffer as being read, until the returned value is dropped.
    pub(super) fn begin(&self) -> impl Drop + '_ {
        let mut state = self.state.lock();
        state.begun += 1;
        state.running += 1;
        self.changed.notify_all();
        End(self)
    }

    pub(super) fn begun(&self) -> u64 {
        self.state.lock().begun
    }

    /// Waits until no buffer is being read and no further one is likely. None is likely if no buffer is out, or if the
    /// `first` since `before` or the next one takes too long. A buffer that `is_due` gets as much time as the first.
    pub(super) fn settle(&self, before: u64, first: Duration, out: impl Fn() -> usize, is_due: impl Fn() -> bool) {
        let began = Instant::now();
        let mut state = self.state.lock();
        while began.elapsed() < ALL {
            if state.running > 0 {
                self.changed.wait_until(&mut state, began + ALL);
                continue;
            }
            if out() == 0 {
                return;
            }
            let begun = state.begun;
            let patience = if begun == before || is_due() { first } else { NEXT };
            let waited = self.changed.wait_for(&mut state, patience);
            if waited.timed_out() && state.begun == begun && state.running == 0 {
                return;
            }
        }
    }
}

struct End<'a>(&'a Delivery);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_flush_does_not_wait_for_what_never_comes() {
        let delivery = Delivery::default();
        let began = Instant::now();
        delivery.settle(delivery.begun(), ALL, || 0, || true);
        delivery.settle(delivery.begun(), MAY_COME, || 1, || true);
        assert!(began.elapsed() >= MAY_COME && began.elapsed() < ALL);
    }

    #[test]
    fn a_flush_waits_for_what_is_being_read_and_what_follows() {
        let delivery = Delivery::default();
        let read = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..3 {
                    let reading = delivery.begin();
                    std::thread::sleep(Duration::from_millis(20));
                    read.fetch_add(1, Ordering::SeqCst);
                    drop(reading);
                    std::thread::sleep(5 * NEXT);
                }
            });
            delivery.settle(0, ALL, || 3 - read.load(Ordering::SeqCst), || true);
            assert_eq!((read.load(Ordering::SeqCst), delivery.begun()), (3, 3));
        });
    }
}

//! Resources that a thread or the process has used, by the operating system's counts.

use std::ops::{AddAssign, Sub};
use std::time::Duration;

/// Resources since the start of the thread or the process, or between two readings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Page faults without disk access.
    pub faults: i64,
    /// How often it gave up the processor.
    pub waits: i64,
    /// How often it was preempted.
    pub preemptions: i64,
    /// Processor time of its own code.
    pub user: Duration,
    /// Processor time of the kernel for it.
    pub system: Duration,
}

impl Usage {
    /// Usage of the calling thread.
    #[must_use]
    pub fn of_thread() -> Self {
        Self::of(libc::RUSAGE_THREAD)
    }

    /// Usage of all threads.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of(libc::RUSAGE_SELF)
    }

    fn of(whose: libc::c_int) -> Self {
        #[allow(unsafe_code)]
        // SAFETY: a struct of numbers, which may be 0, and which the call fills.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(whose, &raw mut usage);
            usage
        };
        let time = |time: libc::timeval| Duration::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64);
        Self {
            faults: usage.ru_minflt,
            waits: usage.ru_nvcsw,
            preemptions: usage.ru_nivcsw,
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
        }
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            faults: self.faults - before.faults,
            waits: self.waits - before.waits,
            preemptions: self.preemptions - before.preemptions,
            user: self.user.saturating_sub(before.user), // the sum is exact, but the parts are estimates
            system: self.system.saturating_sub(before.system),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.faults += more.faults;
        self.waits += more.waits;
        self.preemptions += more.preemptions;
        self.user += more.user;
        self.system += more.system;
    }
}

//! Numbers of processes and threads.

/// How Nsight Systems writes processes and threads: hardware, virtual machine, process and thread in one number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    pub(super) process: i64,
}

/// The virtual machine that Nsight Systems itself gives to all.
pub(super) const MACHINE: i64 = 1 << 48;

impl Ids {
    pub(super) fn of(process: u32) -> Self {
        Self { process: MACHINE | (i64::from(process) & 0xFF_FFFF) << 24 }
    }

    pub(super) fn thread(self, thread: u32) -> i64 {
        self.process | (i64::from(thread) & 0xFF_FFFF)
    }
}

//! Types of GPU work that timelines and CUPTI's records share.

use crate::summary::MemoryKind;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It runs a kernel.
    Kernel(Kernel),
    /// It copies memory, or sets it ([`MemoryKind::Set`]).
    Memory(Memory),
}

impl Default for Work {
    fn default() -> Self {
        Self::Kernel(Kernel::default())
    }
}

/// A kernel's execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Number of its name; see `gpu_activity::cupti`.
    pub name: u32,
    /// Blocks in x, y and z.
    pub grid: [i32; 3],
    /// Threads of a block in x, y and z.
    pub block: [i32; 3],
    /// Registers a thread.
    pub registers: u16,
    /// Bytes of shared memory that the kernel declares.
    pub static_shared: i32,
    /// Bytes of shared memory that the launch asks for.
    pub dynamic_shared: i32,
}

/// A copy or a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Source and destination kinds of a copy, or a set.
    pub kind: MemoryKind,
    /// How many bytes.
    pub bytes: u64,
    /// CUPTI's memory kinds: 1 pageable, 2 pinned, 3 device, 4 array, 5 managed, 6 and 7 static. A set has only a
    /// `destination`.
    pub source: u8,
    /// As `source`.
    pub destination: u8,
    /// The value of a set.
    pub value: u32,
}

impl Memory {
    /// Whether it is a copy between a device and memory that the system may move, so that the driver copies twice.
    ///
    /// ```
    /// use range_report::summary::MemoryKind;
    /// use range_report::timeline::Memory;
    ///
    /// let copy = Memory { kind: MemoryKind::HtoD, bytes: 1, source: 1, destination: 3, value: 0 };
    /// assert!(copy.is_pageable() && !Memory { source: 2, ..copy }.is_pageable());
    /// ```
    #[must_use]
    pub const fn is_pageable(&self) -> bool {
        const PAGEABLE: u8 = 1;
        match self.kind {
            MemoryKind::HtoD | MemoryKind::HtoA => self.source == PAGEABLE,
            MemoryKind::DtoH | MemoryKind::AtoH => self.destination == PAGEABLE,
            _ => false,
        }
    }
}

/// Which API a call belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    /// The driver API, `cu...`.
    #[default]
    Driver,
    /// The runtime API, `cuda...`.
    Runtime,
}

//! Types of GPU work that timelines and CUPTI's records share.

use std::fmt;
use std::str::FromStr;

use crate::UnknownName;
use crate::summary::MemoryKind;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It runs a kernel.
    Kernel(Kernel),
    /// It copies memory, or sets it ([`MemoryKind::Set`]).
    Memory(Memory),
    /// It is a whole CUDA graph of this number that was replayed: the kernels, copies and sets in it have no times of
    /// their own.
    Graph(u32),
}

/// The name that files give to a whole graph of this number: `CUDA graph 7`.
///
/// ```
/// assert_eq!(range_model::timeline::graph_name(7), "CUDA graph 7");
/// ```
#[must_use]
pub fn graph_name(number: u32) -> String {
    format!("CUDA graph {number}")
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
    /// use range_model::summary::MemoryKind;
    /// use range_model::timeline::Memory;
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

/// Which calls of the CUDA API are recorded, if a report or a page needs any.
///
/// ```
/// use range_model::timeline::ApiCalls;
///
/// assert_eq!("all".parse(), Ok(ApiCalls::All));
/// assert_eq!(ApiCalls::default().to_string(), "auto");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApiCalls {
    /// All calls, if a report lists them: `nvprof`, `torch` or `api`. Otherwise all except those that only query or set
    /// something in well under a microsecond, as `cudaGetDevice` and `cuCtxGetCurrent` do. A framework may make twenty
    /// of these for each launch.
    #[default]
    Auto,
    /// All calls, for timelines without such a report, too.
    All,
}

impl fmt::Display for ApiCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Auto => "auto",
            Self::All => "all",
        })
    }
}

impl FromStr for ApiCalls {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        match word {
            "auto" => Ok(Self::Auto),
            "all" => Ok(Self::All),
            _ => Err(UnknownName::new("choice of API calls", word, "auto or all")),
        }
    }
}

/// Which calls of the runtime and the driver are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApiRecords {
    /// None. Only the entries of calls that put work on a GPU are noted.
    #[default]
    None,
    /// All except those that only query or set something, as `cudaGetDevice` does. A library before CUDA 12.5 records
    /// all.
    Weighty,
    /// All.
    All,
}

/// How much of a CUDA graph is recorded when it is replayed.
///
/// ```
/// use range_model::timeline::Graphs;
///
/// assert_eq!("nodes".parse(), Ok(Graphs::Nodes));
/// assert_eq!(Graphs::default().to_string(), "whole");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Graphs {
    /// Each replay as one operation, with the number of kernels, copies and sets that each span captured. A replay of
    /// 200 empty kernels takes 1 % longer.
    #[default]
    Whole,
    /// Each kernel, copy and set of a replay, with its time and the span that captured it. A replay of 200 empty
    /// kernels takes up to twice as long.
    Nodes,
    /// Each replay as one operation, and nothing about its nodes: captures cost nothing.
    Off,
}

impl fmt::Display for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Whole => "whole",
            Self::Nodes => "nodes",
            Self::Off => "off",
        })
    }
}

impl FromStr for Graphs {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<Self, UnknownName> {
        match word {
            "whole" => Ok(Self::Whole),
            "nodes" => Ok(Self::Nodes),
            "off" => Ok(Self::Off),
            _ => Err(UnknownName::new("level of graphs", word, "whole, nodes or off")),
        }
    }
}

//! Decodes CUPTI's records from bytes to the types of [`record`](crate::record).
//!
//! The offsets are the same from CUDA 11.8 on; fields that an older library does not have read as 0. A kernel's record
//! holds the address of its name; [`number`] replaces it by a number in the buffer. The rest of the record can then be
//! decoded later.

use super::strides::{Kind, Strides};
use crate::record::{
    Api, ApiCall, Detail, EventRecord, GpuOp, Kernel, Memory, MemoryOperation, NewStream, Overhead, OverheadKind,
    StreamKind, Wait, WaitKind, Work,
};
use range_model::MemoryKind;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// An operation. For a kernel, the name is separate and not filled in.
    Op {
        /// The operation; the name of a kernel is 0.
        op: GpuOp,
        /// A kernel's name: its address, or the number that replaced it.
        name: u64,
    },
    /// A call of the driver or the runtime.
    Call(ApiCall),
    /// A detail.
    Detail(Detail),
    /// A kind that is not read.
    Other,
}

/// The next item of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A record.
    Record(Record),
    /// A record of unknown length at this place; [`Records::go_on_at`] continues after it.
    Unknown(usize),
    /// The record at this place is longer than the remaining bytes.
    Cut(usize),
    /// There are no more records.
    End,
}

/// A buffer's records, in their order.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    strides: &'a Strides,
    at: usize,
}

impl<'a> Records<'a> {
    /// `bytes` begins with a record and ends with the last one.
    #[must_use]
    #[inline]
    pub fn new(bytes: &'a [u8], strides: &'a Strides) -> Self {
        Self { bytes, strides, at: 0 }
    }

    /// Where the next record begins.
    #[must_use]
    pub fn place(&self) -> usize {
        self.at
    }

    /// The next record. After [`Step::Unknown`] and [`Step::Cut`] it is the same again.
    #[inline]
    pub fn step(&mut self) -> Step {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Step::End;
        }
        let Some(kind) = Fields(rest).u32(0) else { return Step::Cut(self.at) };
        let Some(stride) = self.strides.of(kind) else { return Step::Unknown(self.at) };
        let Some(record) = rest.get(..stride) else { return Step::Cut(self.at) };
        self.at += stride;
        let known = Kind::of(kind).filter(|kind| self.strides.readable(*kind));
        Step::Record(known.map_or(Record::Other, |kind| read(kind, Fields(record))))
    }

    /// Continues with the record at `place`.
    #[inline]
    pub fn go_on_at(&mut self, place: usize) {
        self.at = place;
    }
}

/// Offset of the name in a kernel's record.
const NAME: usize = 104;

/// Replaces the addresses of kernels' names by numbers, from the record at `place` on. Stops at a record of unknown
/// length and returns its place.
#[doc(hidden)]
pub fn number(
    bytes: &mut [u8],
    mut place: usize,
    strides: &Strides,
    mut number_of: impl FnMut(u64) -> u32,
) -> Option<usize> {
    let is_named = strides.readable(Kind::Kernel);
    loop {
        let kind = Fields(bytes.get(place..)?).u32(0)?;
        let Some(stride) = strides.of(kind) else { return Some(place) };
        let record = bytes.get_mut(place..place + stride)?;
        place += stride;
        if is_named
            && Kind::of(kind) == Some(Kind::Kernel)
            && let Some(name) = record.get_mut(NAME..NAME + size_of::<u64>())
        {
            let address = Fields(name).long(0);
            name.copy_from_slice(&u64::from(number_of(address)).to_le_bytes());
        }
    }
}

/// The fields of one record. Fields past its end, which an older library does not write, read as 0.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N)?.try_into().ok()
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    fn byte(&self, at: usize) -> u8 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn half(&self, at: usize) -> u16 {
        self.bytes(at).map_or(0, u16::from_le_bytes)
    }

    fn word(&self, at: usize) -> u32 {
        self.u32(at).unwrap_or(0)
    }

    fn signed(&self, at: usize) -> i32 {
        self.bytes(at).map_or(0, i32::from_le_bytes)
    }

    fn long(&self, at: usize) -> u64 {
        self.bytes(at).map_or(0, u64::from_le_bytes)
    }

    /// A number, or `None` for `u32::MAX`, which is CUPTI's mark of absence.
    fn number(&self, at: usize) -> Option<u32> {
        self.u32(at).filter(|number| *number != u32::MAX)
    }

    fn signed_triple(&self, at: usize) -> [i32; 3] {
        [self.signed(at), self.signed(at + 4), self.signed(at + 8)]
    }

    /// Decodes the fields that both kinds of copies, and sets, share.
    fn memory(&self, correlation: usize, graph_node: usize, memory: Memory) -> Record {
        let op = GpuOp {
            start: self.long(16),
            end: self.long(24),
            correlation: self.word(correlation),
            device: self.word(32),
            context: self.word(36),
            stream: self.word(40),
            graph_node: self.long(graph_node),
            work: Work::Memory(memory),
        };
        Record::Op { op, name: 0 }
    }

    fn copy(&self, kind: MemoryKind) -> Memory {
        Memory { kind, bytes: self.long(8), source: self.byte(5), destination: self.byte(6), value: 0 }
    }
}

fn read(kind: Kind, fields: Fields<'_>) -> Record {
    match kind {
        Kind::Kernel => kernel(fields),
        Kind::Memcpy => fields.memory(44, 64, fields.copy(copy_kind(fields.byte(4)))),
        Kind::MemcpyPeer => fields.memory(60, 72, fields.copy(MemoryKind::PtoP)),
        Kind::Memset => {
            // CUPTI's kinds of memory are small numbers; a larger number is an unknown kind.
            let destination = u8::try_from(fields.half(50)).unwrap_or(0);
            let set =
                Memory { kind: MemoryKind::Set, bytes: fields.long(8), source: 0, destination, value: fields.word(4) };
            fields.memory(44, 64, set)
        }
        Kind::Driver => call(Api::Driver, fields),
        Kind::Runtime => call(Api::Runtime, fields),
        Kind::Synchronization => Record::Detail(Detail::Wait(wait(fields))),
        Kind::Event => Record::Detail(Detail::Event(event(fields))),
        Kind::MemoryOperation => Record::Detail(Detail::Memory(memory_operation(fields))),
        Kind::Stream => Record::Detail(Detail::Stream(stream(fields))),
        Kind::Overhead => Record::Detail(Detail::Overhead(overhead(fields))),
        Kind::Graph => graph(fields),
    }
}

fn graph(fields: Fields<'_>) -> Record {
    let op = GpuOp {
        start: fields.long(8),
        end: fields.long(16),
        correlation: fields.word(4),
        device: fields.word(24),
        context: fields.word(32),
        stream: fields.word(36),
        graph_node: 0,
        work: Work::Graph(fields.word(28)),
    };
    Record::Op { op, name: 0 }
}

fn kernel(fields: Fields<'_>) -> Record {
    let kernel = Kernel {
        name: 0,
        grid: fields.signed_triple(52),
        block: fields.signed_triple(64),
        registers: fields.half(6),
        static_shared: fields.signed(76),
        dynamic_shared: fields.signed(80),
    };
    let op = GpuOp {
        start: fields.long(16),
        end: fields.long(24),
        correlation: fields.word(92),
        device: fields.word(40),
        context: fields.word(44),
        stream: fields.word(48),
        graph_node: fields.long(144),
        work: Work::Kernel(kernel),
    };
    Record::Op { op, name: fields.long(NAME) }
}

fn call(api: Api, fields: Fields<'_>) -> Record {
    Record::Call(ApiCall {
        api,
        function: fields.word(4),
        start: fields.long(8),
        end: fields.long(16),
        thread: fields.word(28),
        correlation: fields.word(32),
        result: fields.word(36),
    })
}

fn wait(fields: Fields<'_>) -> Wait {
    let kind = match fields.word(4) {
        1 => WaitKind::Event,
        2 => WaitKind::StreamForEvent,
        3 => WaitKind::Stream,
        4 => WaitKind::Context,
        _ => WaitKind::Unknown,
    };
    Wait {
        kind,
        start: fields.long(8),
        end: fields.long(16),
        correlation: fields.word(24),
        context: fields.word(28),
        stream: fields.number(32),
        event: fields.number(36),
        record: fields.long(40),
    }
}

fn event(fields: Fields<'_>) -> EventRecord {
    EventRecord {
        at: fields.long(40),
        correlation: fields.word(4),
        context: fields.word(8),
        stream: fields.word(12),
        event: fields.word(16),
        record: fields.long(48),
        graph_node: fields.long(56),
    }
}

fn memory_operation(fields: Fields<'_>) -> MemoryOperation {
    const RELEASE: u32 = 2;
    MemoryOperation {
        at: fields.long(32),
        address: fields.long(16),
        bytes: fields.long(24),
        correlation: fields.word(12),
        device: fields.word(52),
        context: fields.word(56),
        stream: fields.number(60).filter(|_| fields.word(72) != 0),
        is_release: fields.word(4) == RELEASE,
        kind: u8::try_from(fields.word(8)).unwrap_or(0),
    }
}

fn stream(fields: Fields<'_>) -> NewStream {
    let kind = match fields.word(16) {
        1 => StreamKind::Blocking,
        2 => StreamKind::NonBlocking,
        3 => StreamKind::Default,
        _ => StreamKind::Unknown,
    };
    NewStream {
        correlation: fields.word(20),
        context: fields.word(4),
        stream: fields.word(8),
        priority: fields.signed(12),
        kind,
    }
}

fn overhead(fields: Fields<'_>) -> Overhead {
    let kind = match fields.word(4) {
        1 => OverheadKind::Compiler,
        0x1_0000 => OverheadKind::Flush,
        0x2_0000 => OverheadKind::Instrumentation,
        0x3_0000 => OverheadKind::Resources,
        0x4_0000 => OverheadKind::ModuleLoading,
        0x5_0000 => OverheadKind::FunctionLoading,
        0x6_0000 => OverheadKind::QueueFull,
        0x7_0000 => OverheadKind::BufferRequest,
        _ => OverheadKind::Other,
    };
    Overhead { kind, start: fields.long(24), end: fields.long(32), correlation: fields.word(40) }
}

/// CUPTI's kinds of copies.
fn copy_kind(number: u8) -> MemoryKind {
    match number {
        1 => MemoryKind::HtoD,
        2 => MemoryKind::DtoH,
        3 => MemoryKind::HtoA,
        4 => MemoryKind::AtoH,
        5 => MemoryKind::AtoA,
        6 => MemoryKind::AtoD,
        7 => MemoryKind::DtoA,
        8 => MemoryKind::DtoD,
        9 => MemoryKind::HtoH,
        10 => MemoryKind::PtoP,
        _ => MemoryKind::Unknown,
    }
}

#[cfg(test)]
#[path = "decode/tests.rs"]
mod tests;

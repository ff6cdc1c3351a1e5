//! Records of CUPTI, from bytes to the words of [`record`](crate::record).
//!
//! The offsets are the same from CUDA 11.8 on; what a record of an older library does not have reads as 0. Names of
//! kernels are addresses, and once they were `number`ed numbers, in the records themselves: the rest of a record can
//! wait.

use super::strides::{Kind, Strides};
use crate::record::{
    Api, ApiCall, Detail, EventRecord, GpuOp, Kernel, Memory, MemoryOperation, NewStream, Overhead, OverheadKind,
    StreamKind, Wait, WaitKind, Work,
};
use range_report::MemoryKind;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// An operation, and for a kernel the address of its name, or its number; in the operation it is not filled in.
    Op {
        /// The operation; the name of a kernel is 0.
        op: GpuOp,
        /// Address of the name of a kernel, or what was put there instead.
        name: u64,
    },
    /// A call of the driver or the runtime.
    Call(ApiCall),
    /// A detail.
    Detail(Detail),
    /// A kind that is not read.
    Other,
}

/// What comes next in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A record.
    Record(Record),
    /// A record at this place whose length is not known; [`Records::go_on_at`] gets beyond it.
    Unknown(usize),
    /// Fewer bytes are left than the record at this place has.
    Cut(usize),
    /// There is none left.
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

    /// The next record. The same again after [`Step::Unknown`] and [`Step::Cut`].
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

    /// Has the record at `place` come next.
    #[inline]
    pub fn go_on_at(&mut self, place: usize) {
        self.at = place;
    }
}

/// Where a kernel's record has its name.
const NAME: usize = 104;

/// Puts numbers in place of the addresses of kernels' names, from the record at `place` on. Returns the place of a
/// record whose length is not known, where that ends it.
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

/// One record. Fields past its end, which a library of that age does not write, read as 0.
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

    /// A number for which CUPTI has `u32::MAX` where there is none.
    fn number(&self, at: usize) -> Option<u32> {
        self.u32(at).filter(|number| *number != u32::MAX)
    }

    fn signed_triple(&self, at: usize) -> [i32; 3] {
        [self.signed(at), self.signed(at + 4), self.signed(at + 8)]
    }

    /// What copies of both kinds and sets have at the same places.
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
            // CUPTI's kinds of memory are small numbers; one that is not would be none that is known.
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
    }
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

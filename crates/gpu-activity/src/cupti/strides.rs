//! Lengths of a library's records by kind, measured with the library itself.
//!
//! A record grows at its end from one CUDA to the next, and the library's version number is ambiguous. So the library
//! walks over a page on which every word is the number of the kind.

use crate::record::Details;

/// Kinds of records that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memcpy = 1,
    Memset = 2,
    Driver = 4,
    Runtime = 5,
    Kernel = 10,
    Overhead = 17,
    MemcpyPeer = 22,
    Event = 36,
    Stream = 37,
    Synchronization = 38,
    MemoryOperation = 49,
    Graph = 51,
}

impl Kind {
    pub(crate) const ALL: [Self; 12] = [
        Self::Graph,
        Self::Kernel,
        Self::Memcpy,
        Self::MemcpyPeer,
        Self::Memset,
        Self::Runtime,
        Self::Driver,
        Self::Synchronization,
        Self::Event,
        Self::MemoryOperation,
        Self::Stream,
        Self::Overhead,
    ];

    pub(crate) fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }

    /// The details for which records of this kind are needed; none if the kind is no detail.
    pub(crate) const fn details(self) -> Details {
        match self {
            Self::Synchronization => Details::WAITS.and(Details::EVENT_WAITS),
            Self::Event => Details::EVENTS.and(Details::EVENT_TIMES),
            Self::MemoryOperation => Details::MEMORY,
            Self::Stream => Details::STREAMS,
            Self::Overhead => Details::OVERHEADS,
            _ => Details::NONE,
        }
    }

    /// Whether it is recorded when these details are asked for; always for a kind that is no detail.
    pub(crate) const fn is_asked(self, details: Details) -> bool {
        self.details().is_empty() || details.has(self.details())
    }

    /// The length of the shortest record with all fields that the reader needs.
    pub(crate) const fn minimum(self) -> usize {
        match self {
            Self::Kernel => 112,
            Self::Memcpy | Self::Memset => 48,
            Self::MemcpyPeer => 64,
            Self::Driver | Self::Runtime | Self::Synchronization | Self::Overhead | Self::Graph => 40,
            Self::Event | Self::Stream => 24,
            Self::MemoryOperation => 80,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernels",
            Self::Memcpy => "copies",
            Self::MemcpyPeer => "copies between devices",
            Self::Memset => "sets",
            Self::Driver => "driver calls",
            Self::Runtime => "runtime calls",
            Self::Synchronization => "synchronisations",
            Self::Event => "event records",
            Self::MemoryOperation => "allocations of memory",
            Self::Stream => "creations of streams",
            Self::Overhead => "overheads",
            Self::Graph => "whole graphs",
        }
    }
}

/// Kinds that are measured, including kinds that are only skipped.
const KINDS: usize = 64;

/// A page with the alignment of records.
#[repr(align(8))]
pub(crate) struct Page(pub(crate) [u8; Self::BYTES]);

impl Page {
    const BYTES: usize = 4096;

    /// A page on which each eight-byte word is this number.
    pub(crate) fn of(kind: u32) -> Self {
        let mut page = Self([0; Self::BYTES]);
        for word in page.0.chunks_exact_mut(8) {
            word.copy_from_slice(&u64::from(kind).to_le_bytes());
        }
        page
    }
}

/// Bytes of a record by kind; 0 for a kind that the library does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strides([u16; KINDS]);

impl Strides {
    /// Asks `next` for all kinds. `next` gets a buffer and the place of a record, or `None` before the first. It
    /// returns the place of the next record, or CUPTI's code.
    pub(crate) fn measure(mut next: impl FnMut(&mut [u8], Option<usize>) -> Result<usize, i32>) -> Self {
        let mut strides = Self([0; KINDS]);
        for (kind, stride) in (0..).zip(&mut strides.0).skip(1) {
            let mut page = Page::of(kind);
            let Ok(first) = next(&mut page.0, None) else { continue };
            let Ok(second) = next(&mut page.0, Some(first)) else { continue };
            let bytes = second.wrapping_sub(first);
            if (8..=Page::BYTES / 2).contains(&bytes) && bytes % 8 == 0 {
                *stride = u16::try_from(bytes).unwrap_or(0);
            }
        }
        strides
    }

    /// Bytes of a record of this kind, if known.
    #[must_use]
    pub fn of(&self, kind: u32) -> Option<usize> {
        let bytes = *self.0.get(usize::try_from(kind).ok()?)?;
        (bytes != 0).then_some(usize::from(bytes))
    }

    /// Whether records of this kind have all that the reader needs.
    pub(crate) fn readable(&self, kind: Kind) -> bool {
        self.of(kind as u32).is_some_and(|bytes| bytes >= kind.minimum())
    }

    /// The strides of a made-up library, for tests. Kinds beyond the last are ignored.
    #[doc(hidden)]
    #[must_use]
    pub fn from_table(table: &[(u32, u16)]) -> Self {
        let mut strides = Self([0; KINDS]);
        for (kind, bytes) in table {
            if let Some(stride) = strides.0.get_mut(*kind as usize) {
                *stride = *bytes;
            }
        }
        strides
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library in which a record of kind `k` has `16 * k` bytes, and kinds from 40 on are unknown.
    fn walk(buffer: &mut [u8], before: Option<usize>) -> Result<usize, i32> {
        let kind = u32::from_le_bytes(buffer[..4].try_into().unwrap());
        assert!(buffer.chunks(8).all(|word| word == u64::from(kind).to_le_bytes()));
        if kind >= 40 { Err(21) } else { Ok(before.map_or(0, |place| place + 16 * kind as usize)) }
    }

    #[test]
    fn strides_are_what_the_library_steps() {
        let strides = Strides::measure(walk);
        assert_eq!((strides.of(1), strides.of(39), strides.of(40), strides.of(63)), (Some(16), Some(624), None, None));
        assert_eq!((strides.of(0), strides.of(64), strides.of(u32::MAX)), (None, None, None));
    }

    #[test]
    fn a_step_that_cannot_be_a_record_is_none() {
        for step in [0, 4, 12, 4096, 1 << 40] {
            let strides = Strides::measure(|_, before| Ok(before.map_or(0, |place| place + step)));
            assert_eq!(strides.of(10), None, "{step}");
        }
        assert_eq!(Strides::measure(|_, before| before.map_or(Ok(64), |_| Ok(0))).of(10), None, "backwards");
    }

    #[test]
    fn a_record_shorter_than_what_is_read_is_refused() {
        for kind in Kind::ALL {
            let minimum = u16::try_from(kind.minimum()).unwrap();
            assert!(Strides::from_table(&[(kind as u32, minimum)]).readable(kind));
            assert!(!Strides::from_table(&[(kind as u32, minimum - 8)]).readable(kind));
            assert_eq!(Kind::of(kind as u32), Some(kind));
        }
        assert_eq!(Kind::of(3), None);
    }
}

//! The timeline in Perfetto's own format: the file that ui.perfetto.dev reads fastest, and the smallest.
//!
//! A trace is a list of packets. Ours are in blocks: each is a packet of compressed packets, and stands on its own. It
//! says its tracks, and the texts that its events name by number; times count from the event before. So a file that is
//! cut anywhere reads up to its last whole block.
//!
//! It shows what [`Chrome`](super::Chrome) shows, drawn by the same code, and arrows from poll to poll of a call.
//!
//! | shown | as |
//! |---|---|
//! | a slice of a track | a begin and an end, in a sequence of packets of the track's own |
//! | a call, a range of style start/end | the events of Chrome's format for it (`legacy_event`) |
//! | an arrow | a number of a flow in both slices; if one of them is in a block before, the events of Chrome's format |
//! | the run, the host, the rank and the time of the start | metadata |
//! | the summary | a text of a sequence without events, at the end: viewers do not show it |

#[cfg(any(feature = "import", feature = "join"))]
pub(crate) mod blocks;
#[cfg(feature = "join")]
pub(super) mod joined;
mod packets;
pub(crate) mod schema;
mod sequence;
mod strings;
#[cfg(test)]
mod tests;

use range_report::SummaryExt as _;
use std::fmt;
use std::io::{self, Seek, SeekFrom, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::chrome::drawing::Drawing;
use packets::{OF_TRACE, Packets};
use range_model::summary::{Process, Summary};
use range_model::timeline::{Item, Sink};
use schema::{CLEARED, InternedData, InternedString, TracePacket};
use sequence::put;

/// About the bytes of a whole block, before it is compressed.
const BLOCK: usize = 128 * 1024;
/// The name of the text that is the summary.
pub(crate) const SUMMARY: &str = "summary";

/// Writes a timeline in Perfetto's own format.
pub struct Perfetto<W> {
    out: W,
    /// Moves `out` back. `None` if `out` cannot go back, as a pipe: then each write ends a block.
    back: Option<fn(&mut W, u64) -> io::Result<()>>,
    rotation: Option<Rotation<W>>,
    packets: Packets,
    drawing: Drawing,
    encoder: ZlibEncoder<Vec<u8>>,
    /// The packets of a block before and after they are compressed.
    plain: Vec<u8>,
    block: Vec<u8>,
    /// Whether the block has more than what was written of it.
    is_changed: bool,
    /// The bytes of the unfinished block that were written, which the next write overwrites.
    unfinished: u64,
    /// The bytes of the file before it.
    written: u64,
}

/// Opens the file of a number.
type Next<W> = Box<dyn FnMut(u64) -> io::Result<W> + Send>;

/// The next files, each once the one before has a number of bytes.
struct Rotation<W> {
    bytes: u64,
    next: Next<W>,
    number: u64,
}

impl<W> fmt::Debug for Perfetto<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Perfetto").field("written", &self.written).finish_non_exhaustive()
    }
}

impl<W: Write + Seek> Perfetto<W> {
    /// A timeline in one file.
    #[must_use]
    pub fn new(mut out: W) -> Self {
        let back = |out: &mut W, bytes: u64| out.seek(SeekFrom::Current(-(bytes as i64))).map(drop);
        Self {
            back: out.stream_position().is_ok().then_some(back as fn(&mut W, u64) -> io::Result<()>),
            out,
            rotation: None,
            packets: Packets::default(),
            drawing: Drawing::default(),
            encoder: ZlibEncoder::new(Vec::new(), Compression::fast()),
            plain: Vec::new(),
            block: Vec::new(),
            is_changed: false,
            unfinished: 0,
            written: 0,
        }
    }

    /// A timeline in several files, each readable by itself. `next` opens the file of a number, from 1. A file ends
    /// with the block with which it has `bytes`.
    ///
    /// # Errors
    ///
    /// Those of `next` for the first file.
    pub fn rotating(bytes: u64, mut next: impl FnMut(u64) -> io::Result<W> + Send + 'static) -> io::Result<Self> {
        let first = next(1)?;
        Ok(Self { rotation: Some(Rotation { bytes, next: Box::new(next), number: 1 }), ..Self::new(first) })
    }
}

impl<W: Write> Perfetto<W> {
    /// Writes the block. Unless it is whole, the next write overwrites it.
    fn write(&mut self, is_whole: bool) -> io::Result<()> {
        self.is_changed = false;
        if !self.packets.is_empty() {
            self.plain.clear();
            self.packets.write(self.written == 0, &mut self.plain);
            self.write_block()?;
        }
        if is_whole || self.back.is_none() {
            self.end_block()?;
        }
        Ok(())
    }

    /// Writes the packets in `plain` as a block, in one system call.
    fn write_block(&mut self) -> io::Result<()> {
        self.encoder.write_all(&self.plain)?;
        let compressed = self.encoder.reset(std::mem::take(&mut self.block))?;
        let packet = TracePacket { compressed_packets: Some(compressed), ..TracePacket::default() };
        let mut out = std::mem::take(&mut self.plain);
        out.clear();
        put(&packet, &mut out);
        let length = out.len() as u64;
        // If the block became shorter, packets of nothing overwrite the rest.
        let mut rest = self.unfinished.saturating_sub(length);
        if rest % 2 == 1 {
            out.extend([0x0a, 0x80, 0]);
            rest = rest.saturating_sub(3);
        }
        (0..rest.div_ceil(2)).for_each(|_| out.extend([0x0a, 0]));
        if let Some(back) = self.back.filter(|_| self.unfinished > 0) {
            back(&mut self.out, self.unfinished)?;
        }
        self.out.write_all(&out)?;
        self.unfinished = out.len() as u64;
        self.plain = out;
        self.block = packet.compressed_packets.unwrap_or_default();
        self.block.clear();
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.written += std::mem::take(&mut self.unfinished);
        self.packets.next_block();
        if let Some(rotation) = self.rotation.as_mut().filter(|rotation| self.written >= rotation.bytes) {
            self.out.flush()?;
            rotation.number += 1;
            self.out = (rotation.next)(rotation.number)?;
            self.written = 0;
        }
        Ok(())
    }

    /// Writes the summary as a block of its own.
    fn summary(&mut self, summary: &Summary) -> io::Result<()> {
        let mut json = Vec::new();
        summary.write_json(&mut json)?;
        let text = |text: String| vec![InternedString { iid: Some(1), text: Some(text) }];
        let interned_data = InternedData {
            debug_annotation_names: text(SUMMARY.to_owned()),
            debug_annotation_string_values: text(String::from_utf8_lossy(&json).into_owned()),
            ..InternedData::default()
        };
        self.plain.clear();
        if self.written == 0 {
            self.packets.write(true, &mut self.plain); // a file with nothing else
        }
        put(
            &TracePacket {
                trusted_packet_sequence_id: Some(OF_TRACE),
                interned_data: Some(interned_data),
                sequence_flags: Some(CLEARED),
                ..TracePacket::default()
            },
            &mut self.plain,
        );
        self.write_block()?;
        self.written += std::mem::take(&mut self.unfinished);
        Ok(())
    }
}

impl<W: Write + Send> Sink for Perfetto<W> {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        self.drawing = Drawing::begin(&mut self.packets, process);
        self.write(false)
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        self.drawing.item(&mut self.packets, item);
        self.is_changed = true;
        if self.packets.bytes() >= BLOCK || self.packets.is_full() { self.write(true) } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.is_changed {
            self.write(false)?;
        }
        self.out.flush()
    }

    fn end(&mut self, summary: &Summary, lost: u64) -> io::Result<()> {
        self.drawing.end(&mut self.packets, lost);
        self.write(true)?;
        self.summary(summary)?;
        self.out.flush()
    }
}

//! Reads the blocks of a file.

use std::io::{self, BufRead, ErrorKind, Read as _};

use flate2::read::ZlibDecoder;
use prost::Message as _;

use super::schema::{PACKET, TracePacket};

/// What the first byte of a trace is: the key of a packet.
pub(crate) const FIRST: u8 = (PACKET << 3 | 2) as u8;
/// A block may have this many bytes, and so many when it is not compressed.
const MOST: u64 = 1 << 30;

/// The whole blocks of a file, from its beginning.
#[derive(Debug)]
pub(crate) struct Blocks<R> {
    from: R,
    at: u64,
    block: Vec<u8>,
    /// The place of what could not be read: the file was cut there.
    pub(crate) cut: Option<u64>,
}

impl<R: BufRead> Blocks<R> {
    pub(crate) fn new(from: R) -> Self {
        Self { from, at: 0, block: Vec::new(), cut: None }
    }

    /// The packets of the next block, in their form in a file. None at the end, and where the file was cut.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.cut.is_some() {
            return Ok(None);
        }
        let (mut head, mut bytes, mut shift) = (Vec::new(), 0_u64, 0);
        // The key, and the length: seven bits a byte, the last one below 128.
        loop {
            let mut byte = [0];
            match self.from.read_exact(&mut byte) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    self.cut = (!head.is_empty()).then_some(self.at);
                    return Ok(None);
                }
                read => read?,
            }
            head.push(byte[0]);
            match head.len() {
                1 if byte[0] != FIRST => return self.is_cut(),
                1 => continue,
                _ => bytes |= u64::from(byte[0] & 127) << shift,
            }
            shift += 7;
            if byte[0] < 128 {
                break;
            }
            if shift > 35 {
                return self.is_cut();
            }
        }
        self.block.clear();
        if bytes > MOST || self.from.by_ref().take(bytes).read_to_end(&mut self.block)? as u64 != bytes {
            return self.is_cut();
        }
        let Some(packets) = unpacked(&self.block) else { return self.is_cut() };
        self.at += head.len() as u64 + bytes;
        Ok(Some(packets))
    }

    fn is_cut(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.cut = Some(self.at);
        Ok(None)
    }
}

/// The packets in a block. `None` if it is damaged.
fn unpacked(block: &[u8]) -> Option<Vec<u8>> {
    let packet = TracePacket::decode(block).ok()?;
    let mut bytes = Vec::new();
    if let Some(compressed) = packet.compressed_packets {
        ZlibDecoder::new(&*compressed).take(MOST).read_to_end(&mut bytes).ok()?;
    }
    Some(bytes)
}

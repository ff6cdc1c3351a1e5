//! A gzip file that is whole after each write, although more text follows.
//!
//! It has one member, because chrome://tracing reads only the first. Each write ends with the end of the member, and
//! the next write overwrites that end. So a killed program leaves a file that every reader accepts.

use std::io::{self, Seek, SeekFrom, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

/// RFC 1952: the two bytes that mark gzip, DEFLATE, no flags, no time, the fastest level, an unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// RFC 1951: an empty last block with fixed codes.
const LAST_BLOCK: [u8; 2] = [3, 0];
/// Bytes of the member's end: the last block, and the checksum and length of the text.
const END: usize = LAST_BLOCK.len() + 8;

/// Compresses the text that is written to it.
#[derive(Debug)]
pub(super) struct Gzip<W: Write> {
    out: W,
    /// Moves `out` back by a number of bytes. `None` if `out` cannot go back, as a pipe: then the end is written once.
    back: Option<fn(&mut W, usize) -> io::Result<()>>,
    /// The encoder, with compressed bytes that are not written yet.
    encoder: DeflateEncoder<Vec<u8>>,
    read: Crc,
}

impl<W: Write + Seek> Gzip<W> {
    /// Uses the fastest level: a timeline repeats itself so much that other levels gain little.
    pub(super) fn new(mut out: W) -> Self {
        let back = |out: &mut W, bytes: usize| out.seek(SeekFrom::Current(-(bytes as i64))).map(drop);
        Self {
            back: out.stream_position().is_ok().then_some(back as fn(&mut W, usize) -> io::Result<()>),
            encoder: DeflateEncoder::new(HEADER.to_vec(), Compression::fast()),
            out,
            read: Crc::new(),
        }
    }
}

impl<W: Write> Gzip<W> {
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.read.update(bytes);
        self.encoder.write_all(bytes)?;
        self.encoder.flush()?; // up to the end of a byte
        self.write(self.back.is_some())?;
        self.back.map_or(Ok(()), |back| back(&mut self.out, END))
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the file.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.write(true)?;
        self.out.flush()
    }

    /// Writes the compressed bytes and the end in one system call, so that no reader sees a file without an end.
    fn write(&mut self, with_end: bool) -> io::Result<()> {
        let compressed = self.encoder.get_mut();
        if with_end {
            compressed.extend(LAST_BLOCK);
            compressed.extend(self.read.sum().to_le_bytes());
            compressed.extend(self.read.amount().to_le_bytes());
        }
        let written = self.out.write_all(compressed);
        compressed.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read as _};

    use super::*;

    /// The text for a strict reader: it accepts one member with the right checksum and length, and nothing behind it.
    fn text(file: &[u8]) -> io::Result<Vec<u8>> {
        let (mut text, mut decoder) = (Vec::new(), flate2::bufread::GzDecoder::new(file));
        decoder.read_to_end(&mut text)?;
        match decoder.into_inner() {
            [] => Ok(text),
            rest => Err(io::Error::other(format!("{} bytes behind the end", rest.len()))),
        }
    }

    /// Text that does not repeat itself: its compressed form is longer than the encoder's buffers.
    fn line(number: u64) -> Vec<u8> {
        let words = (0..number * 7 % 3_000).map(|word| (word + number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
        words.map(|word| format!("{word:x},")).collect::<String>().into_bytes()
    }

    #[test]
    fn the_file_is_whole_after_each_write() {
        let (mut file, mut written) = (Cursor::new(Vec::new()), Vec::new());
        let mut gzip = Gzip::new(&mut file);
        for number in 0..200 {
            let line = line(number);
            gzip.write_all(&line).unwrap();
            written.extend(line);
            assert_eq!(text(gzip.out.get_ref()).unwrap(), written, "after write {number}");
        }
        gzip.finish().unwrap();
        assert_eq!(text(file.get_ref()).unwrap(), written);
    }

    #[test]
    fn a_file_without_text_is_whole() {
        let mut file = Cursor::new(Vec::new());
        Gzip::new(&mut file).finish().unwrap();
        assert_eq!(text(file.get_ref()).unwrap(), b"");
    }

    #[test]
    fn in_a_pipe_the_end_comes_at_the_end() {
        struct Pipe(Vec<u8>);
        impl Write for Pipe {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        impl Seek for Pipe {
            fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
                Err(io::ErrorKind::NotSeekable.into())
            }
        }
        let mut gzip = Gzip::new(Pipe(Vec::new()));
        for number in 0..20 {
            gzip.write_all(&line(number)).unwrap();
        }
        assert!(text(&gzip.out.0).is_err(), "more may follow");
        gzip.finish().unwrap();
        assert_eq!(text(&gzip.out.0).unwrap(), (0..20).flat_map(line).collect::<Vec<_>>());
    }
}

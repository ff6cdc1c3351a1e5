//! Where the text goes: as it is, or through gzip.

use std::io::{self, Write};
use std::path::Path;

#[cfg(feature = "gzip")]
use flate2::{Compression, write::GzEncoder};

/// Whether what is written under this name is to be compressed: by its extension, `.gz`.
///
/// # Errors
///
/// It is, and this was built without the feature that can.
pub(crate) fn is_compressed(path: &Path) -> Result<bool, &'static str> {
    let is = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    if is && cfg!(not(feature = "gzip")) {
        return Err("a file name that ends in .gz needs the feature `gzip` of tracing-gpu");
    }
    Ok(is)
}

/// A writer, compressed or not.
#[derive(Debug)]
pub(super) enum Destination<W: Write> {
    Plain(W),
    #[cfg(feature = "gzip")]
    Gzip(GzEncoder<W>),
}

impl<W: Write> Destination<W> {
    /// The fastest level: a timeline repeats itself so much that the others gain little.
    #[cfg(feature = "gzip")]
    pub(super) fn gzip(out: W) -> Self {
        Self::Gzip(GzEncoder::new(out, Compression::fast()))
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.write_all(bytes),
            #[cfg(feature = "gzip")]
            Self::Gzip(out) => out.write_all(bytes),
        }
    }

    /// What was written can be read from now on: compressed data up to here is whole (a sync flush).
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            #[cfg(feature = "gzip")]
            Self::Gzip(out) => out.flush(),
        }
    }

    /// Nothing more comes.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            #[cfg(feature = "gzip")]
            Self::Gzip(out) => {
                out.try_finish()?;
                out.get_mut().flush()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::super::Chrome;
    #[cfg(feature = "gzip")]
    use super::super::tests::RANGE;
    use super::super::tests::{events, file, process, some};
    use super::*;
    #[cfg(feature = "gzip")]
    use crate::summary::Summary;
    #[cfg(feature = "gzip")]
    use crate::timeline::Item;
    use crate::timeline::Sink;

    #[test]
    fn the_extension_decides() {
        for plain in ["run.json", "gz", "run.gz.json", "", "/tmp/run", "run.gz/trace"] {
            assert_eq!(is_compressed(Path::new(plain)), Ok(false), "{plain}");
        }
        for compressed in ["run.json.gz", "RUN.GZ", "/tmp/%h.json.gz"] {
            let answer = is_compressed(Path::new(compressed));
            if cfg!(feature = "gzip") {
                assert_eq!(answer, Ok(true));
            } else {
                assert!(answer.unwrap_err().contains("`gzip`"));
            }
        }
    }

    #[test]
    fn a_file_that_is_cut_off_is_read_up_to_there() {
        let whole = file(&some(), 3);
        let text = std::str::from_utf8(&whole).unwrap();
        let all = events(&whole);
        for cut in 0..whole.len() {
            let kept = &whole[..cut];
            let mut read = 0;
            for (number, line) in kept.split(|byte| *byte == b'\n').enumerate() {
                let line = line.strip_suffix(b",").unwrap_or(line);
                match (number, serde_json::from_slice::<Json>(line)) {
                    (0, _) => assert!(line.is_empty() || line == b"["),
                    (_, Ok(event)) => {
                        assert_eq!(event, all[read]);
                        read += 1;
                    }
                    // Only what is behind the last line feed is not whole.
                    (number, Err(_)) => assert_eq!(number, kept.iter().filter(|byte| **byte == b'\n').count()),
                }
            }
            // As chrome://tracing mends it, where the cut is between two events.
            if text.is_char_boundary(cut) && text[..cut].ends_with("}") && read == text[..cut].lines().count() - 1 {
                assert_eq!(serde_json::from_str::<Vec<Json>>(&format!("{}]", &text[..cut])).unwrap(), all[..read]);
            }
        }
    }

    #[test]
    fn a_flush_leaves_whole_lines() {
        let mut out = Vec::new();
        for upto in 0..some().len() {
            out.clear();
            let mut sink = Chrome::new(&mut out);
            sink.begin(&process()).unwrap();
            for item in &some()[..upto] {
                sink.item(item).unwrap();
            }
            sink.flush().unwrap();
            drop(sink);
            out.push(b']');
            assert!(serde_json::from_slice::<Vec<Json>>(&out).is_ok(), "{}", String::from_utf8_lossy(&out));
        }
    }

    #[cfg(feature = "gzip")]
    #[test]
    fn a_compressed_file_is_read_up_to_its_last_flush() {
        use std::io::Read;
        let mut out = Vec::new();
        let mut sink = Chrome::gzip(&mut out);
        sink.begin(&process()).unwrap();
        for item in &some() {
            sink.item(item).unwrap();
        }
        sink.end(&Summary::default(), 3).unwrap();
        drop(sink);
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&*out).read_to_end(&mut text).unwrap();
        assert_eq!(text, file(&some(), 3));

        // Killed at any later moment: a reader gets what was flushed, perhaps more, and then an error.
        let (mut flushed, mut whole) = (Vec::new(), Vec::new());
        for (out, goes_on) in [(&mut flushed, false), (&mut whole, true)] {
            let mut sink = Chrome::gzip(out);
            sink.begin(&process()).unwrap();
            some().iter().for_each(|item| sink.item(item).unwrap());
            sink.flush().unwrap();
            if goes_on {
                (0..100).for_each(|at| {
                    sink.item(&Item::Range(crate::timeline::Range { start: at, end: at, ..RANGE })).unwrap()
                });
                sink.end(&Summary::default(), 0).unwrap();
            } else {
                std::mem::forget(sink); // or it would write its end
            }
        }
        let text = file(&some(), 0);
        let expected = &text[..text.len() - "\n]\n".len()];
        for cut in flushed.len()..whole.len() {
            let (mut decoder, mut read, mut byte) = (flate2::read::GzDecoder::new(&whole[..cut]), Vec::new(), [0]);
            while let Ok(1) = decoder.read(&mut byte) {
                read.push(byte[0]);
            }
            assert!(read.starts_with(expected), "{cut}: {}", String::from_utf8_lossy(&read));
        }
    }
}

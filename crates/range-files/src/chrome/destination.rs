//! The destination of the text: a writer, perhaps behind gzip.

#[cfg(feature = "gzip")]
use std::io::Seek;
use std::io::{self, Write};
use std::path::Path;

#[cfg(feature = "gzip")]
use super::gzip::Gzip;

/// Whether a file of this name is compressed, because the name ends in `.gz`.
///
/// # Errors
///
/// The name ends in `.gz`, but this crate was built without the feature `gzip`.
pub fn is_compressed(path: &Path) -> Result<bool, &'static str> {
    let is = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    if is && cfg!(not(feature = "gzip")) {
        return Err("a file name that ends in .gz needs the feature `perfetto` of tracing-gpu");
    }
    Ok(is)
}

/// A writer, compressed or not.
#[derive(Debug)]
pub(super) enum Destination<W: Write> {
    Plain(W),
    #[cfg(feature = "gzip")]
    Gzip(Box<Gzip<W>>),
}

#[cfg(feature = "gzip")]
impl<W: Write + Seek> Destination<W> {
    pub(super) fn gzip(out: W) -> Self {
        Self::Gzip(Box::new(Gzip::new(out)))
    }
}

impl<W: Write> Destination<W> {
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.write_all(bytes),
            #[cfg(feature = "gzip")]
            Self::Gzip(out) => out.write_all(bytes),
        }
    }

    /// Flushes the text, so that it can be read from now on.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            #[cfg(feature = "gzip")]
            Self::Gzip(out) => out.flush(),
        }
    }

    /// Ends the text.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            #[cfg(feature = "gzip")]
            Self::Gzip(out) => out.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value as Json;

    use super::super::Chrome;
    use super::super::tests::{events, file, process, some};
    use super::*;
    #[cfg(feature = "gzip")]
    use range_model::summary::Summary;
    use range_model::timeline::Sink;

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
                assert!(answer.unwrap_err().contains("`perfetto`"));
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
                    // Only the text behind the last line feed is incomplete.
                    (number, Err(_)) => assert_eq!(number, kept.iter().filter(|byte| **byte == b'\n').count()),
                }
            }
            // chrome://tracing repairs a file in this way if the cut is between two events.
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
    fn a_compressed_file_is_whole_after_each_flush() {
        use std::io::{Cursor, Read};
        let text = |file: &[u8]| {
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(file).read_to_end(&mut text).map(|_| text)
        };
        let mut out = Cursor::new(Vec::new());
        let mut sink = Chrome::gzip(&mut out);
        sink.begin(&process()).unwrap();
        some().iter().for_each(|item| sink.item(item).unwrap());
        sink.flush().unwrap();
        std::mem::forget(sink); // killed here
        let whole = file(&some(), 0);
        assert_eq!(text(out.get_ref()).unwrap(), whole[..whole.len() - "\n]\n".len()]);

        let mut out = Cursor::new(Vec::new());
        let mut sink = Chrome::gzip(&mut out);
        sink.begin(&process()).unwrap();
        some().iter().for_each(|item| sink.item(item).unwrap());
        sink.end(&Summary::default(), 3).unwrap();
        drop(sink);
        assert_eq!(text(out.get_ref()).unwrap(), file(&some(), 3));
    }
}

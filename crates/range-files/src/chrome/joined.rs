//! Traces of several processes as one: line by line, as they were written.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read as _, Seek as _};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::{Value as Json, json};

use super::CHUNK;
use super::destination::{Destination, is_compressed};
use super::device::APART;
use super::text::microseconds;
use crate::part::{Part, unreadable};

/// What stands before the time of an event. Within texts, quotation marks have backslashes before them; and what the
/// program named comes later.
const TIME: &[u8] = b",\"ts\":";
/// What stands before its number, behind its time.
const ID: &[u8] = b",\"id\":\"0x";
/// The key by which the first process of a file tells of itself.
const STARTED: &str = "started_unix_ns";

/// Lines of a file, plain or compressed.
struct Lines {
    from: Box<dyn BufRead>,
    line: Vec<u8>,
}

impl Lines {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut start = Vec::new();
        (&mut file).take(2).read_to_end(&mut start)?;
        file.rewind()?;
        let from: Box<dyn BufRead> = match start.as_slice() {
            [0x1f] | [0x1f, 0x8b] => Box::new(BufReader::new(MultiGzDecoder::new(BufReader::new(file)))),
            [b'[', ..] | [] => Box::new(BufReader::new(file)),
            _ => return Err(io::Error::new(ErrorKind::InvalidData, "it is no trace")),
        };
        Ok(Self { from, line: Vec::new() })
    }

    /// The next event. None at the end, which may be within an event where the process was killed.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            self.line.clear();
            match self.from.read_until(b'\n', &mut self.line) {
                Err(error) if error.kind() != ErrorKind::UnexpectedEof => return Err(error),
                _ if self.line.is_empty() => return Ok(None),
                _ => {}
            }
            let is_last = self.line.pop_if(|byte| *byte == b'\n').is_none();
            self.line.pop_if(|byte| *byte == b',');
            let is_event = self.line.starts_with(b"{");
            if is_event && (!is_last || serde_json::from_slice::<Json>(&self.line).is_ok()) {
                break;
            }
        }
        Ok(Some(&self.line))
    }
}

/// Who wrote a trace, and when that process began. None if the file ends before it says so.
pub(crate) fn began(path: &Path) -> io::Result<Option<(u32, u64)>> {
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.next()? {
        let event: Json = serde_json::from_slice(line)?;
        if let Some(started) = event["args"].get(STARTED) {
            let started = started.as_u64().or_else(|| started.as_str()?.parse().ok()).unwrap_or(0);
            return Ok(Some((event["pid"].as_u64().unwrap_or(0) as u32, started)));
        }
    }
    Ok(None)
}

/// Writes all events of all traces.
pub(crate) fn join(parts: &[Part<'_>], to: &Path) -> io::Result<()> {
    let file = File::create_new(to)?;
    let mut out = match is_compressed(to).map_err(io::Error::other)? {
        true => Destination::gzip(file),
        false => Destination::Plain(file),
    };
    let (mut text, mut before): (Vec<u8>, &[u8]) = (Vec::with_capacity(2 * CHUNK), b"[\n");
    for part in parts {
        let read = |error: io::Error| unreadable(part.path, &error);
        let (mut lines, mut program) = (Lines::open(part.path).map_err(read)?, String::new());
        while let Some(line) = lines.next().map_err(read)? {
            text.extend_from_slice(std::mem::replace(&mut before, b",\n"));
            if line.starts_with(b"{\"ph\":\"M\"") {
                let event = metadata(serde_json::from_slice(line)?, part, &mut program);
                serde_json::to_writer(&mut text, &event)?;
            } else if event(line, part, &mut text).is_none() {
                return Err(unreadable(part.path, &format!("`{}` is no event", String::from_utf8_lossy(line))));
            }
            if text.len() >= CHUNK {
                out.write_all(&text)?;
                text.clear();
            }
        }
    }
    text.extend_from_slice(b"\n]\n");
    out.write_all(&text)?;
    out.finish()
}

/// What is said of a process, a device or a track. `program` is the name of the process, once it is known.
fn metadata(mut event: Json, part: &Part<'_>, program: &mut String) -> Json {
    let is_device = event["pid"].as_u64().is_some_and(|pid| pid >= APART.into());
    let (what, args) = (event["name"].as_str().unwrap_or_default().to_owned(), &mut event["args"]);
    match (&*what, args["name"].as_str(), args["sort_index"].as_u64()) {
        ("process_name", Some(name), _) if is_device => args["name"] = json!(part.device(name, program)),
        ("process_name", Some(name), _) => name.clone_into(program),
        ("process_sort_index", _, Some(index)) => args["sort_index"] = json!(part.position(index as u32)),
        // The times of the file count from there.
        ("process_labels", ..) if args.get(STARTED).is_some() => {
            args[STARTED] = json!(part.origin_unix_ns.to_string());
        }
        _ => {}
    }
    event
}

/// Writes an event, by the common clock, and with a number that no other process has. None if it is not as we write it.
fn event(line: &[u8], part: &Part<'_>, text: &mut Vec<u8>) -> Option<()> {
    let (before, rest) = behind(line, TIME)?;
    let (time, rest) = rest.split_at(rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.'))?);
    let (whole, decimals) = std::str::from_utf8(time).ok()?.split_once('.')?;
    let ns = whole.parse::<u64>().ok()?.saturating_mul(1000).saturating_add(decimals.parse().ok()?);
    text.extend_from_slice(before);
    microseconds(text, ns.saturating_add(part.later_ns));
    let phase = line.get(b"{\"ph\":\"".len())?;
    if !matches!(phase, b'b' | b'e' | b's' | b'f') {
        text.extend_from_slice(rest);
        return Some(());
    }
    let (before, rest) = behind(rest, ID)?;
    let (number, rest) = rest.split_at(rest.iter().position(|byte| *byte == b'"')?);
    let number = std::str::from_utf8(number).ok()?;
    text.extend_from_slice(before.strip_suffix(ID)?);
    text.extend_from_slice(&match phase {
        b'b' | b'e' => format!(",\"id2\":{{\"local\":\"0x{number}\"}}").into_bytes(),
        // No process has 2^40 of them.
        _ => format!(",\"id\":\"0x{:x}{number:0>10}\"", part.place + 1).into_bytes(),
    });
    text.extend_from_slice(rest.get(1..)?);
    Some(())
}

/// A line up to the end of a text in it, and the rest.
fn behind<'a>(line: &'a [u8], text: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let at = line.windows(text.len()).position(|place| place == text)?;
    Some(line.split_at(at + text.len()))
}

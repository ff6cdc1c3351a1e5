//! Timelines of several processes as one: block by block, with times of the common clock, and with sequences that no
//! other process has. Tracks and flows have the number of their process already.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use prost::Message as _;

use super::blocks::{Blocks, FIRST};
use super::schema::{BOOTTIME, ChromeMetadata, PassedPacket, TracePacket};
use super::sequence::put;
use crate::chrome::device::APART;
use crate::part::{Part, unreadable};

#[derive(Clone, PartialEq, prost::Message)]
struct Packets {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<PassedPacket>,
}

/// The key by which a process tells when it began.
const STARTED: &str = "started_unix_ns";

/// Who wrote a timeline, and when that process began. None if there is no block yet.
pub(crate) fn began(path: &Path) -> io::Result<Option<(u32, u64)>> {
    let mut start = BufReader::new(File::open(path)?);
    if io::BufRead::fill_buf(&mut start)?.first().is_some_and(|first| *first != FIRST) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no timeline of Perfetto's format"));
    }
    let Some(block) = Blocks::new(start).next()? else { return Ok(None) };
    let said = Packets::decode(&*block)?.packets.into_iter().filter_map(|packet| packet.chrome_events);
    let said: Vec<ChromeMetadata> = said.flat_map(|said| said.metadata).collect();
    let number = |key: &str| said.iter().find(|said| said.name.as_deref() == Some(key))?.int_value;
    Ok(number("pid").map(|pid| (pid as u32, number(STARTED).unwrap_or(0).cast_unsigned())))
}

/// Writes all blocks of all timelines.
pub(crate) fn join(parts: &[Part<'_>], to: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create_new(to)?);
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let (mut plain, mut sequences) = (Vec::new(), 0);
    for part in parts {
        let read = |error: io::Error| unreadable(part.path, &error);
        let mut blocks = Blocks::new(BufReader::new(File::open(part.path).map_err(read)?));
        let (mut own_sequences, mut program) = (0, String::new());
        while let Some(block) = blocks.next().map_err(read)? {
            plain.clear();
            for mut packet in Packets::decode(&*block).map_err(|error| read(error.into()))?.packets {
                if let Some(sequence) = &mut packet.trusted_packet_sequence_id {
                    own_sequences = own_sequences.max(*sequence);
                    *sequence += sequences;
                }
                adjust(&mut packet, part, &mut program);
                put(&packet, &mut plain);
            }
            encoder.write_all(&plain)?;
            let compressed_packets = Some(encoder.reset(Vec::new())?);
            plain.clear();
            put(&TracePacket { compressed_packets, ..TracePacket::default() }, &mut plain);
            out.write_all(&plain)?;
        }
        sequences += own_sequences;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?.flush()
}

/// Puts a packet on the common clock, and its process among the others. `program` is the name of the process, once it
/// is known.
fn adjust(packet: &mut PassedPacket, part: &Part<'_>, program: &mut String) {
    if packet.timestamp_clock_id == Some(BOOTTIME) {
        packet.timestamp = packet.timestamp.map(|time| time.saturating_add(part.later_ns));
    }
    for clock in packet.clock_snapshot.iter_mut().flat_map(|snapshot| &mut snapshot.clocks) {
        clock.timestamp = clock.timestamp.map(|time| time.saturating_add(part.later_ns));
    }
    for said in packet.chrome_events.iter_mut().flat_map(|said| &mut said.metadata) {
        if said.name.as_deref() == Some(STARTED) {
            said.int_value = Some(part.origin_unix_ns.cast_signed()); // the times of the file count from there
        }
    }
    let Some(process) = packet.track_descriptor.as_mut().and_then(|track| track.process.as_mut()) else { return };
    let position = part.position(process.legacy_sort_index.unwrap_or(0).cast_unsigned());
    process.legacy_sort_index = Some(position.cast_signed());
    match &mut process.process_name {
        Some(name) if process.pid >= Some(APART as i32) => *name = part.device(name, program),
        Some(name) => name.clone_into(program),
        None => {}
    }
}

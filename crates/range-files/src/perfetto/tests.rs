//! Decodes files strictly.

use crate::tests::with;
use std::io::{Cursor, Read as _};

use prost::Message as _;

use super::schema::{INSTANT, SLICE_BEGIN, SLICE_END, TracePacket};
use super::*;
use range_model::timeline::{Mark, Range};

#[derive(Clone, PartialEq, prost::Message)]
struct Packets {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<TracePacket>,
}

/// The packets of each block.
fn blocks(file: &[u8]) -> Vec<Vec<TracePacket>> {
    let unpacked = |packet: TracePacket| {
        let (mut bytes, compressed) = (Vec::new(), packet.compressed_packets?);
        flate2::read::ZlibDecoder::new(&*compressed).read_to_end(&mut bytes).unwrap();
        Some(Packets::decode(&*bytes).unwrap().packets)
    };
    Packets::decode(file).unwrap().packets.into_iter().filter_map(unpacked).collect()
}

fn count(blocks: &[Vec<TracePacket>], kind: i32) -> usize {
    let events = blocks.iter().flatten().filter_map(|packet| packet.track_event.as_ref());
    events.filter(|event| event.kind == Some(kind)).count()
}

fn range(start: u64) -> Item<'static> {
    Item::Range(Range { thread: 7, start, end: start + 5, name: "step", ..Range::default() })
}

/// A flush makes what was written readable, and the next one writes the same block anew: also one that became shorter.
#[test]
fn an_unfinished_block_is_overwritten() {
    for more in 0..9 {
        let mut file = Perfetto::new(Cursor::new(Vec::new()));
        file.begin(&with(Process::default(), |it| {
            it.pid = 42;
        }))
        .unwrap();
        for step in 0..30 {
            file.item(&range(10 * step)).unwrap();
            file.flush().unwrap();
            assert_eq!(count(&blocks(file.out.get_ref()), SLICE_BEGIN), step as usize + 1);
            // As if the block had been longer.
            file.out.write_all(&[0xff; 100][..more]).unwrap();
            file.unfinished += more as u64;
        }
        file.end(&Summary::default(), 0).unwrap();
        let found = blocks(file.out.get_ref());
        assert_eq!(found.len(), 2);
        assert_eq!((count(&found, SLICE_BEGIN), count(&found, SLICE_END)), (30, 30), "{more}");
    }
}

/// Texts are forgotten between blocks, so that a program with ever new ones takes no more memory.
#[test]
fn texts_do_not_pile_up() {
    let mut file = Perfetto::new(Cursor::new(Vec::new()));
    file.begin(&with(Process::default(), |it| {
        it.pid = 42;
    }))
    .unwrap();
    for number in 0..50_000 {
        let text = format!("mark {number}");
        file.item(&Item::Mark(Mark { thread: 7, at: number, text: &text, level: 3, ..Mark::default() })).unwrap();
        assert!(file.packets.bytes() < 2 * BLOCK);
    }
    file.end(&Summary::default(), 0).unwrap();
    let found = blocks(file.out.get_ref());
    assert_eq!(count(&found, INSTANT), 50_000);
    // Each block says what it uses.
    for block in &found {
        let mut said = std::collections::BTreeSet::new();
        for packet in block {
            let data = packet.interned_data.clone().unwrap_or_default();
            said.extend(data.event_names.into_iter().filter_map(|name| name.iid));
            let event = packet.track_event.as_ref();
            assert!(event.and_then(|event| event.name_iid).is_none_or(|name| said.contains(&name)));
        }
    }
    assert!(!file.packets.is_full());
}

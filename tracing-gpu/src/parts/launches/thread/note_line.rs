//! The form of a note in a thread's log: a line of four words.
//!
//! The two most frequent notes, the begin of an instance and the first call in it, share a line if their numbers are
//! small enough, because each line is copied once more, and read by another processor.

use crate::clock::Ticks;
use crate::page::Line;
use gpu_activity::record::{Instance, InstanceId, Note};
use range_model::RangeStyle;

#[cfg(test)]
#[path = "note_line/tests.rs"]
mod tests;

/// The kind of a line, in the lowest bits of its last word, and flags beside it.
const BEGAN: u64 = 1;
const ENDED: u64 = 2;
const LEFT: u64 = 3;
const CALLED: u64 = 4;
const OWN: u64 = 6;
const FIRST: u64 = 8;
const KINDS: u64 = 16;
const START_END: u64 = 1 << 8;
const GRAPH: u64 = 1 << 4;
const ENQUEUES: u64 = 1 << 5;

/// Offset of the span's call number in that word.
const CALL_SHIFT: u32 = 8;
/// Bits of an instance's number in the line of a first call; another 16 bits are in that word. Bits of a label, in two
/// parts.
const ID_BITS: u32 = 48;
const LABEL_BITS: u32 = 24;
const LABEL_SHIFT: u32 = 8;

/// An instance of a range on the stack that begins with the first call in it.
#[derive(Clone, Copy)]
pub(crate) struct FirstCall {
    pub(crate) id: InstanceId,
    pub(crate) parent: InstanceId,
    pub(crate) label: u32,
    pub(crate) start: Ticks,
    pub(crate) correlation: u32,
    pub(crate) node: u32,
    pub(crate) graph: bool,
    pub(crate) enqueues: bool,
}

impl FirstCall {
    /// One line for both notes; `None` where a number is too large.
    #[inline]
    pub(crate) fn line(&self) -> Option<Line> {
        let is_small = (self.id | self.parent) >> ID_BITS == 0 && self.label >> LABEL_BITS == 0;
        let label = u64::from(self.label);
        let rest = (label >> 16) << LABEL_SHIFT | bit(self.graph, GRAPH) | bit(self.enqueues, ENQUEUES) | FIRST;
        let numbers = u64::from(self.correlation) << 32 | u64::from(self.node);
        is_small.then_some([numbers, self.start, self.id << 16 | label & 0xffff, self.parent << 16 | rest])
    }
}

#[inline]
fn bit(is_set: bool, bit: u64) -> u64 {
    if is_set { bit } else { 0 }
}

#[inline]
pub(crate) fn line_of(note: &Note) -> Line {
    match *note {
        Note::Called { correlation, node, instance, graph, at, call, enqueues } => {
            let numbers = u64::from(correlation) << 32 | u64::from(node);
            [numbers, instance, at, call << CALL_SHIFT | CALLED | bit(graph, GRAPH) | bit(enqueues, ENQUEUES)]
        }
        Note::Began(Instance { id, parent, label, style, start }) => {
            [id, parent, start, u64::from(label) << 32 | bit(style == RangeStyle::StartEnd, START_END) | BEGAN]
        }
        Note::Ended { instance, end } => [instance, end, 0, ENDED],
        Note::Left { instance } => [instance, 0, 0, LEFT],
        Note::Own { correlation } => [u64::from(correlation), 0, 0, OWN],
    }
}

/// The note of a line, and the second one if the line has two.
pub(crate) fn notes_of(&[first, second, third, bits]: &Line) -> (Note, Option<Note>) {
    let (graph, enqueues) = (bits & GRAPH != 0, bits & ENQUEUES != 0);
    let (correlation, node) = ((first >> 32) as u32, first as u32);
    let note = match bits % KINDS {
        CALLED => {
            let call = bits >> CALL_SHIFT;
            Note::Called { correlation, node, instance: second, graph, at: third, call, enqueues }
        }
        BEGAN => {
            let style = if bits & START_END == 0 { RangeStyle::PushPop } else { RangeStyle::StartEnd };
            Note::Began(Instance { id: first, parent: second, label: (bits >> 32) as u32, style, start: third })
        }
        FIRST => {
            let label = third as u16 as u32 | (bits as u16 as u32) >> LABEL_SHIFT << 16;
            let (id, parent, style) = (third >> 16, bits >> 16, RangeStyle::PushPop);
            let began = Note::Began(Instance { id, parent, label, style, start: second });
            return (began, Some(Note::Called { correlation, node, instance: id, graph, at: 0, call: 0, enqueues }));
        }
        ENDED => Note::Ended { instance: first, end: second },
        LEFT => Note::Left { instance: first },
        _ => Note::Own { correlation: first as u32 },
    };
    (note, None)
}

//! The records beside the rows of a row file: written by the process, and read after it has ended.

#[cfg(all(target_os = "linux", feature = "command"))]
pub(crate) mod reading;

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use range_model::Process;
use range_model::stats::histogram::BUCKETS;

use crate::core::budget::SampleMemory;
use crate::core::record::{CallIdentity, RangeKey, style_number};
use crate::core::samples::EMPTY;
use crate::core::session::catalog::{CategoryName, ROOT};
use crate::core::session::{Names, Session};
use crate::parts::row_file::file::{RowFile, Words, counters};
use crate::process::undisturbed;

/// The kinds of records.
const PROCESS: u64 = 1;
const ROWS: u64 = 2;
const NODE: u64 = 3;
const ROW: u64 = 4;
const OPEN: u64 = 5;
const THREAD: u64 = 6;
const CHUNK: u64 = 7;
const PAGE: u64 = 8;
const CALL_ROW: u64 = 9;
/// The kinds of categories.
const NUMBER: u64 = 1;
const TEXT: u64 = 2;

impl Session {
    /// Logs the process that owns the rows, and its clock.
    pub(crate) fn log_process(&self, process: &Process) {
        let Some(file) = &self.parts.row_file else { return };
        let mut record = Words::default();
        record
            .number(self.clock.is_counter().into())
            .number(self.clock.origin())
            .number(self.clock.origin_monotonic_ns());
        record.number(process.pid.into()).number(process.rank.map_or(0, |rank| u64::from(rank) + 1));
        record.number(process.started_unix_ns).text(&process.command).text(&process.host).text(&process.run_id);
        file.log(PROCESS, &record);
    }

    /// Logs the place of a thread's open ranges in the file.
    pub(crate) fn log_open(&self, thread: u32, offset: u64) {
        let Some(file) = &self.parts.row_file else { return };
        let mut record = Words::default();
        record.number(thread.into()).number(offset);
        file.log(OPEN, &record);
    }

    /// Logs the system's number and the name of a thread.
    pub(crate) fn log_thread(&self, thread: u32, id: u32, name: &str) {
        let Some(file) = &self.parts.row_file else { return };
        let mut record = Words::default();
        record.number(thread.into()).number(id.into()).text(name);
        file.log(THREAD, &record);
    }

    /// Logs the place of a thread's rows in the file, from this row on.
    pub(crate) fn log_rows(&self, thread: u32, first: usize, offset: u64) {
        let Some(file) = &self.parts.row_file else { return };
        let mut record = Words::default();
        record.number(thread.into()).number(first as u64).number(offset);
        file.log(ROWS, &record);
    }

    /// Logs the identity of a new row, and the nodes above it.
    pub(crate) fn log_row(&self, thread: u32, row: u32, node: u32, key: RangeKey) {
        let Some(file) = &self.parts.row_file else { return };
        let names = self.names.lock();
        file.log_nodes(node, &names);
        let mut record = Words::default();
        record.number(thread.into()).number(row.into()).number(node.into()).number(style_number(key.style).into());
        names.write_label(key.label, &mut record);
        match names.catalog.category_of(key.category) {
            None => record.number(0),
            Some(CategoryName::Number(number)) => record.number(NUMBER).number((*number).into()),
            Some(CategoryName::Text(text)) => record.number(TEXT).text(text),
        };
        file.log(ROW, &record);
    }

    /// Logs the identity of a new row of calls at this address, and the nodes above it.
    pub(crate) fn log_call_row(&self, address: usize, identity: CallIdentity<'_>) {
        let Some((file, offset)) = self.parts.row_file.as_ref().and_then(|file| Some((file, file.offset_of(address)?)))
        else {
            return;
        };
        let names = self.names.lock();
        file.log_nodes(identity.node, &names);
        let mut record = Words::default();
        record.number(offset).number(identity.node.into()).text(identity.source);
        names.write_label(identity.label, &mut record);
        file.log(CALL_ROW, &record);
    }
}

impl RowFile {
    /// Logs a node and its ancestors, each only once.
    fn log_nodes(&self, node: u32, names: &Names) {
        let nodes = names.catalog.nodes();
        let above = std::iter::successors(Some(node), |node| Some(nodes.get(*node as usize)?.parent));
        let mut above: Vec<u32> = above.take_while(|node| *node != ROOT).collect();
        above.reverse(); // a parent comes before its children
        for number in above {
            self.log_once(NODE, number, || {
                let mut record = Words::default();
                if let Some(node) = nodes.get(number as usize) {
                    record.number(number.into()).number(node.parent.into()).number(style_number(node.style).into());
                    names.write_label(node.label, &mut record);
                }
                record
            });
        }
    }
}

/// Durations are stored outside of the rows.
impl SampleMemory for RowFile {
    fn chunk(&self, owner: usize, number: usize, length: usize) -> Option<&'static [AtomicU64]> {
        undisturbed(|| {
            let (owner, offset, words) = self.take_words(owner, length)?;
            words.iter().for_each(|word| word.store(EMPTY, Relaxed));
            self.log_samples(CHUNK, owner, number, offset, length);
            Some(words)
        })
    }

    fn page(&self, owner: usize, octave: usize) -> Option<&'static [AtomicU32; BUCKETS]> {
        undisturbed(|| {
            let (owner, offset, words) = self.take_words(owner, BUCKETS / 2)?;
            self.log_samples(PAGE, owner, octave, offset, BUCKETS / 2);
            counters(words).try_into().ok()
        })
    }
}

impl RowFile {
    fn log_samples(&self, kind: u64, owner: u64, number: usize, offset: u64, length: usize) {
        let mut record = Words::default();
        record.number(owner).number(number as u64).number(offset).number(length as u64);
        self.log(kind, &record);
    }
}

impl Names {
    fn write_label(&self, label: u32, record: &mut Words) {
        let Some(label) = self.catalog.label_of(label) else { return };
        let domain = self.domain_name(label.domain);
        record.number(domain.is_some().into()).text(domain.unwrap_or_default()).text(&label.name);
    }
}

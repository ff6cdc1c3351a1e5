//! The records beside the rows of a row file: written by the process, and read after it has ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use range_report::stats::histogram::BUCKETS;
use range_report::stats::order;
use range_report::{Process, RangeStyle};

use super::catalog::{CategoryName, Limits, ROOT};
use super::{Names, Session};
use crate::budget::SampleMemory;
use crate::clock::Ticks;
use crate::process::undisturbed;
use crate::record::{CallIdentity, RangeKey, RowImage};
use crate::row_file::{Lost, Record, RowFile, RowFileReader, Words, counters};
use crate::samples::{EMPTY, start_of};

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
        let Some(file) = &self.row_file else { return };
        let mut record = Words::default();
        record.number(self.clock.is_tsc().into()).number(self.clock.origin()).number(self.clock.origin_monotonic_ns());
        record.number(process.pid.into()).number(process.rank.map_or(0, |rank| u64::from(rank) + 1));
        record.number(process.started_unix_ns).text(&process.command).text(&process.host).text(&process.run_id);
        file.log(PROCESS, &record);
    }

    /// Logs the place of a thread's open ranges in the file.
    pub(crate) fn log_open(&self, thread: u32, offset: u64) {
        let Some(file) = &self.row_file else { return };
        let mut record = Words::default();
        record.number(thread.into()).number(offset);
        file.log(OPEN, &record);
    }

    /// Logs the system's number and the name of a thread.
    pub(crate) fn log_thread(&self, thread: u32, id: u32, name: &str) {
        let Some(file) = &self.row_file else { return };
        let mut record = Words::default();
        record.number(thread.into()).number(id.into()).text(name);
        file.log(THREAD, &record);
    }

    /// Logs the place of a thread's rows in the file, from this row on.
    pub(crate) fn log_rows(&self, thread: u32, first: usize, offset: u64) {
        let Some(file) = &self.row_file else { return };
        let mut record = Words::default();
        record.number(thread.into()).number(first as u64).number(offset);
        file.log(ROWS, &record);
    }

    /// Logs the identity of a new row, and the nodes above it.
    pub(crate) fn log_row(&self, thread: u32, row: u32, node: u32, key: RangeKey) {
        let Some(file) = &self.row_file else { return };
        let names = self.names.lock();
        file.log_nodes(node, &names);
        let mut record = Words::default();
        record.number(thread.into()).number(row.into()).number(node.into()).number(style_number(key.style));
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
        let Some((file, offset)) = self.row_file.as_ref().and_then(|file| Some((file, file.offset_of(address)?)))
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
                    record.number(number.into()).number(node.parent.into()).number(style_number(node.style));
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

fn style_number(style: RangeStyle) -> u64 {
    u64::from(style == RangeStyle::StartEnd)
}

fn style_of(number: u64) -> RangeStyle {
    if number == 0 { RangeStyle::PushPop } else { RangeStyle::StartEnd }
}

impl Names {
    fn write_label(&self, label: u32, record: &mut Words) {
        let Some(label) = self.catalog.label_of(label) else { return };
        let domain = self.domain_name(label.domain);
        record.number(domain.is_some().into()).text(domain.unwrap_or_default()).text(&label.name);
    }

    fn read_label(&mut self, record: &mut Record<'_>) -> u32 {
        let has_domain = record.number() != 0;
        let domain = Some(record.text()).filter(|_| has_domain);
        let domain = self.foreign_domain(domain.as_deref());
        self.catalog.label(domain, &record.text())
    }
}

/// The contents of a row file besides the rows.
#[derive(Debug)]
pub(crate) struct RowLog {
    file: RowFileReader,
    pub(crate) process: Process,
    pub(crate) is_tsc: bool,
    pub(crate) origin: Ticks,
    pub(crate) origin_ns: u64,
    /// Names, with numbers of this process.
    pub(crate) names: Names,
    /// Nodes of this process by nodes of the ended process.
    nodes: HashMap<u32, u32>,
    /// Offsets of blocks by thread and first row.
    blocks: HashMap<(u32, usize), u64>,
    /// Thread, number, node and key of each row.
    rows: Vec<(u32, u32, u32, RangeKey)>,
    /// Offset, node, label and crate of each row of calls.
    call_rows: Vec<(u64, u32, u32, String)>,
    /// Offset of the open ranges, by thread.
    open: BTreeMap<u32, u64>,
    /// The system's number and name of each thread; of the last one that had its rows.
    threads: HashMap<u32, (u32, String)>,
    /// Chunks by the offset of their owner: number, offset and length.
    chunks: HashMap<u64, Vec<(usize, u64, usize)>>,
    pages: HashMap<u64, Vec<(usize, u64, usize)>>,
}

impl RowLog {
    pub(crate) fn read(path: &Path, limits: Limits) -> io::Result<Self> {
        let file = RowFileReader::open(path)?;
        let mut log = Self::new(limits);
        file.records().for_each(|record| log.read_record(record));
        log.file = file;
        if log.process.pid == 0 { Err(io::ErrorKind::InvalidData.into()) } else { Ok(log) }
    }

    /// One without records.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            process: Process::default(),
            is_tsc: false,
            origin: 0,
            origin_ns: 0,
            names: Names::new(limits),
            nodes: HashMap::from([(ROOT, ROOT)]),
            blocks: HashMap::new(),
            rows: Vec::new(),
            call_rows: Vec::new(),
            open: BTreeMap::new(),
            threads: HashMap::new(),
            chunks: HashMap::new(),
            pages: HashMap::new(),
            file: RowFileReader::default(),
        }
    }

    pub(crate) fn read_record(&mut self, mut record: Record<'_>) {
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        match record.kind {
            PROCESS => {
                self.is_tsc = record.number() != 0;
                (self.origin, self.origin_ns) = (record.number(), record.number());
                self.process.pid = small(record.number());
                self.process.rank = record.number().checked_sub(1).map(small);
                self.process.started_unix_ns = record.number();
                (self.process.command, self.process.host) = (record.text(), record.text());
                self.process.run_id = record.text();
            }
            ROWS => {
                let (thread, first) = (small(record.number()), record.number());
                self.blocks.insert((thread, usize::try_from(first).unwrap_or(usize::MAX)), record.number());
            }
            OPEN => {
                let thread = small(record.number());
                self.open.insert(thread, record.number());
            }
            THREAD => {
                let thread = small(record.number());
                self.threads.insert(thread, (small(record.number()), record.text()));
            }
            CHUNK | PAGE => {
                let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
                let all = if record.kind == CHUNK { &mut self.chunks } else { &mut self.pages };
                let of_owner = all.entry(record.number()).or_default();
                of_owner.push((whole(record.number()), record.number(), whole(record.number())));
            }
            NODE => {
                let (then, parent) = (small(record.number()), small(record.number()));
                let style = style_of(record.number());
                let label = self.names.read_label(&mut record);
                let parent = self.node(parent);
                let now = self.names.catalog.child(parent, RangeKey { label, category: 0, style });
                self.nodes.insert(then, now);
            }
            ROW => {
                let (thread, row) = (small(record.number()), small(record.number()));
                let (node, style) = (small(record.number()), style_of(record.number()));
                let label = self.names.read_label(&mut record);
                let category = match record.number() {
                    NUMBER => self.names.catalog.category(CategoryName::Number(small(record.number()))),
                    TEXT => self.names.catalog.category(CategoryName::Text(record.text().into())),
                    _ => 0,
                };
                let node = self.node(node);
                self.rows.push((thread, row, node, RangeKey { label, category, style }));
            }
            CALL_ROW => {
                let (offset, node, source) = (record.number(), small(record.number()), record.text());
                let label = self.names.read_label(&mut record);
                self.call_rows.push((offset, self.node(node), label, source));
            }
            _ => {}
        }
    }

    /// Rows of ranges with their threads, nodes and keys, grouped by thread. `size` is the number of words of a row,
    /// `first` the number of rows in the first block of a thread, and `samples` the offset in a row, in bytes, that
    /// owns its durations.
    pub(crate) fn rows(&self, size: usize, first: usize, samples: usize) -> Vec<(u32, u32, RangeKey, RowImage<'_>)> {
        let image = |&(thread, row, node, key): &(u32, u32, u32, RangeKey)| {
            let row = row as usize;
            // Each later block has as many rows as all blocks before it.
            let start = if row < first { 0 } else { first << (row / first).ilog2() };
            let in_block = ((row - start) * size * 8) as u64;
            let offset = self.blocks.get(&(thread, start))?.checked_add(in_block)?;
            Some((thread, node, key, self.image(offset, size, samples)?))
        };
        let mut rows: Vec<_> = self.rows.iter().filter_map(image).collect();
        order::by_key(&mut rows, |(thread, ..)| *thread);
        rows
    }

    /// Rows of calls, with the same parameters.
    pub(crate) fn call_rows(
        &self,
        size: usize,
        samples: usize,
    ) -> impl Iterator<Item = (CallIdentity<'_>, RowImage<'_>)> {
        self.call_rows.iter().filter_map(move |&(offset, node, label, ref source)| {
            Some((CallIdentity { node, label, source }, self.image(offset, size, samples)?))
        })
    }

    fn image(&self, offset: u64, size: usize, samples: usize) -> Option<RowImage<'_>> {
        let owner = offset.checked_add(samples as u64)?;
        let all = |of: &HashMap<u64, Vec<(usize, u64, usize)>>| of.get(&owner).cloned().unwrap_or_default();
        let at = |(number, offset, length): (usize, u64, usize)| Some((number, self.file.at(offset, length)?));
        let chunks = all(&self.chunks).into_iter().filter_map(at);
        Some(RowImage {
            words: self.file.at(offset, size)?,
            chunks: chunks.map(|(number, words)| (start_of(number), words)).collect(),
            pages: all(&self.pages).into_iter().filter_map(at).collect(),
        })
    }

    /// The words of each thread's open ranges, with the thread's name.
    pub(crate) fn open(&self, words: usize) -> impl Iterator<Item = (&str, &[u64])> {
        self.open.iter().filter_map(move |(thread, offset)| {
            let name = self.threads.get(thread).map_or("", |(_, name)| name);
            Some((name, self.file.at(*offset, words)?))
        })
    }

    /// Number, the system's number, and place of the open ranges of each thread.
    pub(crate) fn places_of_open(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        self.open.iter().filter_map(|(thread, offset)| Some((*thread, self.threads.get(thread)?.0, *offset)))
    }

    /// The number of losses of this kind.
    pub(crate) fn lost(&self, what: Lost) -> u64 {
        self.file.lost(what)
    }

    /// The node of this process for a node of the ended process.
    pub(crate) fn node(&self, then: u32) -> u32 {
        self.nodes.get(&then).copied().unwrap_or(ROOT)
    }

    /// Whether rows are missing from the file.
    pub(crate) fn is_incomplete(&self) -> bool {
        let threads: HashSet<u32> = self.rows.iter().map(|(thread, ..)| *thread).collect();
        self.file.lost(Lost::Rows) > 0 || threads.iter().any(|thread| !self.blocks.contains_key(&(*thread, 0)))
    }
}

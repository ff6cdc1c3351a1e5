//! Reads the records after the process has ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::path::Path;

use range_model::Process;
use range_model::stats::order;

use super::{CALL_ROW, CHUNK, NODE, NUMBER, OPEN, PAGE, PROCESS, ROW, ROWS, TEXT, THREAD};
use crate::clock::Ticks;
use crate::core::record::{CallIdentity, RangeKey, style_of};
use crate::core::samples::start_of;
use crate::core::session::Names;
use crate::core::session::catalog::{CategoryName, Limits, ROOT};
use crate::parts::row_file::file::{Lost, Record, RowFileReader};
use crate::parts::row_file::image::RowImage;

impl Names {
    fn read_label(&mut self, record: &mut Record<'_>) -> u32 {
        let has_domain = record.number() != 0;
        let domain = Some(record.text()).filter(|_| has_domain);
        let domain = self.parts.foreign_domains.number(domain.as_deref());
        self.catalog.label(domain, &record.text())
    }
}

/// The contents of a row file besides the rows.
#[derive(Debug)]
pub(crate) struct RowLog {
    file: RowFileReader,
    pub(crate) process: Process,
    pub(crate) is_counter: bool,
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
            is_counter: false,
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
                self.is_counter = record.number() != 0;
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
                let style = style_of(small(record.number()));
                let label = self.names.read_label(&mut record);
                let parent = self.node(parent);
                let now = self.names.catalog.child(parent, RangeKey { label, category: 0, style });
                self.nodes.insert(then, now);
            }
            ROW => {
                let (thread, row) = (small(record.number()), small(record.number()));
                let (node, style) = (small(record.number()), style_of(small(record.number())));
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

    /// The system's error for which rows are missing.
    pub(crate) fn error(&self) -> Option<i32> {
        self.file.error().filter(|_| self.file.lost(Lost::Rows) > 0)
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

//! What is logged beside the rows that a file keeps, and read of it when the process has ended.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use range_report::{Process, RangeStyle};

use super::catalog::{CategoryName, Limits, ROOT};
use super::{Names, Session};
use crate::clock::Ticks;
use crate::record::RangeKey;
use crate::row_file::{Record, RowFileReader, Words};

/// The kinds of records.
const PROCESS: u64 = 1;
const ROWS: u64 = 2;
const NODE: u64 = 3;
const ROW: u64 = 4;
/// Kinds of categories.
const NUMBER: u64 = 1;
const TEXT: u64 = 2;

impl Session {
    /// Logs whose rows these are, and its clock.
    pub(crate) fn log_process(&self, process: &Process) {
        let Some(file) = &self.row_file else { return };
        let mut record = Words::default();
        record.number(self.clock.is_tsc().into()).number(self.clock.origin()).number(self.clock.origin_monotonic_ns());
        record.number(process.pid.into()).number(process.rank.map_or(0, |rank| u64::from(rank) + 1));
        record.number(process.started_unix_ns).text(&process.command).text(&process.host).text(&process.run_id);
        file.log(PROCESS, &record);
    }

    /// Logs where rows of a thread are in the file, from this one on.
    pub(crate) fn log_rows(&self, thread: u32, first: usize, offset: u64) {
        let Some(file) = &self.row_file else { return };
        let mut record = Words::default();
        record.number(thread.into()).number(first as u64).number(offset);
        file.log(ROWS, &record);
    }

    /// Logs what a new row is of, and the nodes above it.
    pub(crate) fn log_row(&self, thread: u32, row: u32, node: u32, key: RangeKey) {
        let Some(file) = &self.row_file else { return };
        let names = self.names.lock();
        let nodes = names.catalog.nodes();
        let above = std::iter::successors(Some(node), |node| Some(nodes.get(*node as usize)?.parent));
        let mut above: Vec<u32> = above.take_while(|node| *node != ROOT).collect();
        above.reverse(); // a parent comes before its children
        for number in above {
            file.log_once(NODE, number, || {
                let mut record = Words::default();
                if let Some(node) = nodes.get(number as usize) {
                    record.number(number.into()).number(node.parent.into()).number(style_number(node.style));
                    names.write_label(node.label, &mut record);
                }
                record
            });
        }
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

/// A row that was kept.
pub(crate) struct KeptRow<'a> {
    pub(crate) thread: u32,
    pub(crate) node: u32,
    pub(crate) key: RangeKey,
    pub(crate) words: &'a [u64],
}

/// What a file of rows has, beside the rows.
pub(crate) struct RowLog {
    file: RowFileReader,
    pub(crate) process: Process,
    pub(crate) is_tsc: bool,
    pub(crate) origin: Ticks,
    pub(crate) origin_ns: u64,
    /// Their numbers are of this process.
    pub(crate) names: Names,
    /// By the numbers of then, the numbers of now.
    nodes: HashMap<u32, u32>,
    /// By thread, and the first row.
    blocks: HashMap<(u32, usize), u64>,
    rows: Vec<(u32, u32, u32, RangeKey)>,
}

impl RowLog {
    pub(crate) fn read(path: &Path, limits: Limits) -> io::Result<Self> {
        let file = RowFileReader::open(path)?;
        let mut log = Self {
            process: Process::default(),
            is_tsc: false,
            origin: 0,
            origin_ns: 0,
            names: Names::new(limits),
            nodes: HashMap::from([(ROOT, ROOT)]),
            blocks: HashMap::new(),
            rows: Vec::new(),
            file,
        };
        let file = std::mem::take(&mut log.file);
        file.records().for_each(|record| log.read_record(record));
        log.file = file;
        if log.process.pid == 0 { Err(io::ErrorKind::InvalidData.into()) } else { Ok(log) }
    }

    fn read_record(&mut self, mut record: Record<'_>) {
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
            NODE => {
                let (then, parent) = (small(record.number()), small(record.number()));
                let style = style_of(record.number());
                let label = self.names.read_label(&mut record);
                let parent = self.nodes.get(&parent).copied().unwrap_or(ROOT);
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
                let node = self.nodes.get(&node).copied().unwrap_or(ROOT);
                self.rows.push((thread, row, node, RangeKey { label, category, style }));
            }
            _ => {}
        }
    }

    /// The rows, those of a thread one after another. `size` is that of a row in words, and `first` how many are in the
    /// first block of a thread.
    pub(crate) fn rows(&self, size: usize, first: usize) -> Vec<KeptRow<'_>> {
        let mut rows: Vec<KeptRow<'_>> = self
            .rows
            .iter()
            .filter_map(|&(thread, row, node, key)| {
                let row = row as usize;
                // Each block but the first has as many rows as all before it.
                let start = if row < first { 0 } else { first << (row / first).ilog2() };
                let offset = self.blocks.get(&(thread, start))? + ((row - start) * size * 8) as u64;
                Some(KeptRow { thread, node, key, words: self.file.at(offset, size)? })
            })
            .collect();
        rows.sort_by_key(|row| row.thread);
        rows
    }

    /// Whether there were rows that are not in the file.
    pub(crate) fn is_incomplete(&self) -> bool {
        let threads: HashSet<u32> = self.rows.iter().map(|(thread, ..)| *thread).collect();
        self.file.outside() > 0 || threads.iter().any(|thread| !self.blocks.contains_key(&(*thread, 0)))
    }
}

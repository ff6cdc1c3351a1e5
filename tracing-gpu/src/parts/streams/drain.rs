//! Times on named streams, by CUDA events.

use std::time::Duration;

use range_model::stats::{Keyed, Lean, Named, order};
use range_model::{Losses, StreamStats, Summary, TreeNode};

use crate::clock::Rate;
use crate::core::drain::cursor::Reader;
use crate::core::drain::names::{Shown, label_shown, label_text};
use crate::core::drain::part::{Nodes, Part, Run};
use crate::core::drain::times::times;
use crate::core::drain::tree::count;
use crate::core::session::joined::Joined;
use crate::core::session::{Names, Session};
use crate::parts::streams::device::{self as stream, StreamRow, StreamTime};

pub(crate) struct Streams {
    session: &'static Session,
    rows: Vec<StreamRow>,
    /// Nanoseconds by node.
    totals: Keyed<u32, u128>,
}

impl Streams {
    /// Waits until the GPU has reached the events on named streams, at most for `patience`. The measured threads
    /// continue. Times that a window does not wait for are in the next one.
    pub(crate) fn new(session: &'static Session, patience: Option<Duration>) -> Self {
        stream::read_all(patience);
        Self { session, rows: Vec::new(), totals: Keyed::default() }
    }
}

impl Part for Streams {
    fn read(&mut self, reader: &mut Reader<'_>) {
        let rows = self.session.parts.streams.rows(&|key| reader.first_time(key));
        self.rows = reader.streams(rows);
    }

    fn join(&mut self, joined: &Joined) {
        for (_, node, key, _) in &mut self.rows {
            (key.label, *node) = (joined.label(key.label), joined.node(*node));
        }
    }

    fn fold(&mut self, to: &dyn Fn(&mut u32)) {
        self.rows.iter_mut().for_each(|(_, node, ..)| to(node));
    }

    fn count(&mut self, _: &mut Nodes, _: &Names) {
        // A row whose instances all enqueued nothing has no GPU time, whatever its markers read.
        for (_, node, _, row) in self.rows.iter().filter(|(.., row)| row.empty < row.times.count) {
            *self.totals.row(*node) += row.times.total.saturating_sub(row.empty_ns);
        }
    }

    fn has(&self, node: u32) -> bool {
        self.totals.contains_key(&node)
    }

    fn show(&self, id: u32, node: &mut TreeNode, _: &Nodes, _: Rate) {
        let below = node.children.iter().filter_map(|child| child.stream_total_ns);
        let below = below.reduce(|sum, child| sum.saturating_add(child));
        let own = self.totals.get(&id).map(|total| u64::try_from(*total).unwrap_or(u64::MAX));
        node.stream_total_ns = own.or(below);
        node.stream_self_ns = own.map(|own| own.saturating_sub(below.unwrap_or(0))).or(below.map(|_| 0));
    }

    fn lose(&self, losses: &mut Losses) {
        losses.streams = stream::losses(&self.session.parts.streams);
    }

    fn finish(&mut self, run: &Run<'_>, _: &mut Reader<'_>, summary: &mut Summary) {
        summary.stream_ranges = stats(&self.rows, run.names, run.asked);
        let without_median = summary.stream_ranges.iter().filter(|row| row.times.median_ns.is_none());
        summary.losses.rows_without_median += count(without_median);
        summary.notes.extend(stream::notes(&self.session.parts.streams));
    }
}

/// Rows of stream time: one per name and stream.
#[inline(never)]
fn stats(rows: &[StreamRow], names: &Names, asked: &[f64]) -> Vec<StreamStats> {
    let mut merged: Named<Shown, (u32, StreamTime)> = Named::default();
    for (stream, _, range, row) in rows {
        let shown = (label_shown(names, range.label), *stream);
        let (_, all) = merged.row_or(shown, || (range.label, StreamTime::default()));
        all.times.merge(&row.times);
        all.empty += row.empty;
    }
    let facts = if merged.is_empty() { Vec::new() } else { stream::stream_facts() };
    let mut stats: Vec<StreamStats> = merged
        .into_iter()
        .filter_map(|((_, stream), (label, row))| {
            let (domain, name) = label_text(names, label)?;
            let (stream, floor_ns) = facts.get(stream as usize).cloned().unwrap_or_default();
            let mut stats = StreamStats::new(name, stream, times(&row.times, Rate::IDENTITY, asked));
            stats.domain = domain;
            stats.empty = row.empty;
            stats.floor_ns = floor_ns;
            Some(stats)
        })
        .in_vec();
    order::by_most(&mut stats, |row| row.times.total_ns); // stable: equal totals stay in the order of names
    stats
}

//! The rules of the profiler, each for both tiers, in a process of its own: the calls that reach a tool, and the
//! summary.

#[path = "semantics/batches.rs"]
mod batches;
#[path = "semantics/entries.rs"]
mod entries;
#[path = "semantics/fields.rs"]
mod fields;
#[path = "semantics/foreign.rs"]
mod foreign;
#[path = "semantics/lineage.rs"]
mod lineage;
#[path = "semantics/many.rs"]
mod many;
#[path = "semantics/messages.rs"]
mod messages;
mod scenario;
#[path = "semantics/threads.rs"]
mod threads;
#[path = "semantics/windows.rs"]
mod windows;

use scenario::{
    BOTH, LAYER, SUBSCRIBER, TemporaryFile, assert_whole, command, instances, notes, outcome, outcome_recorded,
    recorded, rows, tree, untold,
};
use std::collections::BTreeMap;
use tests::recorder::Call;
use tracing_gpu::summary::{CallStats, Losses, OpenRange, RangeStyle, TreeNode};
use tracing_gpu::{Note, Summary, SummaryExt as _};

const CATEGORY_COUNT_FROM: u32 = 256;

fn row<'a>(summary: &'a Summary, label: &str) -> &'a tracing_gpu::summary::Times {
    let row = summary.ranges.iter().find(|row| row.label() == label && row.style == RangeStyle::PushPop);
    &row.unwrap_or_else(|| panic!("no row {label} in {:?}", summary.ranges)).times
}

/// The cancelled calls of a row. Where a thread is stopped between the last poll and the drop, their number is unknown:
/// it is as expected then.
fn known_cancelled(row: &CallStats, expected: u64) -> u64 {
    row.cancelled.unwrap_or(expected)
}

fn categories(summary: &Summary) -> BTreeMap<&str, u64> {
    summary.categories.iter().map(|row| (row.category.as_str(), row.times.instances)).collect()
}

fn open(label: &str, thread: &str) -> OpenRange {
    let (label, thread) = (label.to_owned(), thread.to_owned());
    OpenRange::new(label, thread)
}

/// Open lifetimes of one name that this thread began.
fn lifetimes(label: &str, thread: &str, count: u64) -> OpenRange {
    let mut it = open(label, thread);
    it.style = RangeStyle::StartEnd;
    it.count = count;
    it
}

/// The events that begin something, with their category, colour and payload.
fn carried(calls: &[Call]) -> Vec<String> {
    let begins = |call: &&Call| call.is_event() && call.kind != "pop" && call.kind != "end";
    let describe = |call: &Call| {
        let mut text = call.to_string();
        if call.category != 0 {
            text += &format!(" category={}", call.category);
        }
        if let Some(color) = call.color {
            text += &format!(" color={color:08X}");
        }
        if let Some(payload) = &call.payload {
            text += &format!(" payload={payload}");
        }
        text
    };
    calls.iter().filter(begins).map(describe).collect()
}

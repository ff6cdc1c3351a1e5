//! The data of the page, with the names that `page/data.js` uses.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use super::comparison::{self, Compared, compared};
use super::hot::{HotLists, hot_lists};
use super::idle;
use super::items::{Bar, Items, Launch, Part, Track, launch_of};
use super::late::{LateWait, late_waits};
use super::lay_out::lay_out;
use super::processes::LeftOut;
use super::spreads::{Spreads, spreads};
use super::tables::{Column, Table, tables};
use super::texts::{LONGEST_COMMAND, identity, presentable, title};
use super::tree::{Node, nodes};
use super::waits::{Blamed, Pattern, WaitPart, blamed, nobody, patterns, slowest};
use range_model::names::{collective, escaped};
use range_model::summary::{Summary, TreeNode};
use range_model::timeline::Link;
use range_report::page::Phases;
use range_report::page::{Explained, appended_figures, explained, notes};
use range_report::{Comparison, FindingKinds};
use range_report::{RenderOptions, Report};

/// All data of a page. Skipped fields are written as columns; see [`super::columns`].
#[derive(Debug, Serialize)]
pub(super) struct Shown<'a> {
    title: String,
    /// Whether there is a run to show, and not only a comparison.
    is_run: bool,
    /// Labels and values that identify the run.
    identity: Vec<(&'static str, String)>,
    command: String,
    run_id: String,
    /// Creation of the profiler, in milliseconds since 1970 in UTC; 0 if unknown.
    started_ms: u64,
    elapsed_ns: u64,
    /// Names of the processes, if they are several.
    processes: Vec<String>,
    /// Names of devices.
    devices: Vec<String>,
    /// Names of threads by their numbers.
    threads: BTreeMap<u32, String>,
    groups: Vec<Group>,
    /// The colours of ranges, 0xRRGGBB.
    colors: Vec<u32>,
    #[serde(serialize_with = "each")]
    texts: Vec<Arc<str>>,
    tree: Vec<Node>,
    /// Columns of the tree after those that the page lays out itself.
    tree_appended: Vec<Column>,
    /// Sentences of the tree: what 100 % is, the verdict, and the legend of marks.
    tree_said: Vec<String>,
    hot: HotLists,
    tables: Vec<Table<'a>>,
    comparison: Option<Compared<'a>>,
    gpu: Option<Gpu>,
    idle: Option<idle::Shown>,
    left_out: LeftOut,
    /// Number of links of batches, and of parts of waits.
    linked: usize,
    waited: usize,
    /// Kernels of NCCL that wait for late ranks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    late: Vec<LateWait>,
    /// Where items are missing on this page.
    spreads: Spreads<'a>,
    /// What many waits showed.
    patterns: Vec<Pattern>,
    blamed: Vec<Blamed>,
    /// Why nobody is to blame, where that is proved.
    nobody: Option<&'static str>,
    /// Of names of calls, what the slowest hundredth is made of.
    slowest: Vec<(String, String)>,
    pub(super) notes: Vec<String>,
    #[serde(skip)]
    pub(super) bars: Vec<Bar>,
    /// For each bar, 1 plus the index of its colour, or 0.
    #[serde(skip)]
    pub(super) bar_colors: Vec<u32>,
    #[serde(skip)]
    pub(super) launches: Vec<Launch>,
    #[serde(skip)]
    pub(super) links: Vec<Link>,
    #[serde(skip)]
    pub(super) waits: Vec<WaitPart>,
    /// Number of bars on each row.
    #[serde(skip)]
    pub(super) rows: Vec<u32>,
}

fn each<S: serde::Serializer>(texts: &[Arc<str>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(texts.iter().map(|text| &**text))
}

/// The calls of spans, a thread or a stream.
#[derive(Debug, Serialize)]
struct Group {
    label: String,
    /// `calls`, `thread`, `stream` or `device`.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<u32>,
    /// Device, context and stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<[u32; 3]>,
    /// If they are several: which process it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<u32>,
    tracks: Vec<Shape>,
}

#[derive(Debug, Serialize)]
struct Shape {
    part: Part,
    /// Level and number of bars of each row.
    rows: Vec<(u32, u32)>,
}

/// The GPU's work in total.
#[derive(Debug, Serialize)]
struct Gpu {
    busy_ns: u64,
    sum_ns: u64,
    operations: u64,
}

/// The data of a comparison without a run.
pub(super) fn compared_alone<'a>(comparison: &'a Comparison, nothing: &'a Summary) -> Shown<'a> {
    let title = comparison::title(comparison);
    Shown {
        title,
        is_run: false,
        identity: Vec::new(),
        comparison: Some(compared(comparison)),
        ..shown(Items::default(), nothing, 0, None, FindingKinds::default())
    }
}

pub(super) fn shown<'a>(
    items: Items,
    summary: &'a Summary,
    lost: u64,
    comparison: Option<&'a Comparison>,
    without: FindingKinds,
) -> Shown<'a> {
    let mut items = items;
    items.finish();
    let Items { texts, tracks, mut bars, launches, marks, mut links, mut waits, threads, devices, joined, .. } = items;
    let is_asked = !links.is_empty() || !waits.all.is_empty();
    let shown: HashSet<u64> = if is_asked { bars.iter().map(|bar| bar.call).collect() } else { HashSet::new() };
    links.retain(|link| shown.contains(&link.batch) && shown.contains(&link.served));
    waits.all.retain(|wait| shown.contains(&wait.call));
    bars.extend(marks);
    let in_order = renumber(&tracks, &mut bars, |process| joined.main_of(process).unwrap_or(summary.process.pid));
    let track_of = |number: u32| in_order.get(number as usize).map(|(_, track)| *track);
    color_calls(&mut bars, |track| track_of(track) == Some(Track::Calls));
    let laid = lay_out(bars, in_order.len(), |number| track_of(number) == Some(Track::Calls));
    let (colors, bar_colors) = colors(&laid.bars);
    let drawn_idle = |device| {
        let on_it = |bar: &&Bar| track_of(bar.track) == Some(Track::Idle { device });
        laid.bars.iter().filter(on_it).map(|bar| bar.end - bar.start).sum()
    };
    let idle = summary.idle.as_ref().map(|idle| idle::shown(idle, drawn_idle));
    let launches = in_order_of(&laid.bars, &launches);
    let texts_left_out = texts.left_out;
    let texts = texts.into_list();
    let late = late_waits(summary.lateness.as_ref(), &joined, &laid.bars, |bar| {
        let name = texts.get(bar.name as usize).filter(|_| bar.launch > 0)?;
        collective(name).and(in_order.get(bar.track as usize)).map(|(process, _)| *process)
    });
    let left_out = LeftOut {
        lost,
        came: items.came,
        short: items.left_out,
        shortest_ns: items.shortest,
        marks: items.marks_left_out,
        links: items.links_left_out,
        waits: waits.left_out,
        deep: laid.left_out,
        texts: texts_left_out,
        nodes: 0,
    }
    .with(&joined.left_out);
    let is_whole = left_out.lost + left_out.short + left_out.deep == 0;
    let phases = Phases::of(summary);
    let Explained { whole, sentences } = explained(summary, &phases, without);
    let appended = appended_figures(all_nodes(&summary.tree));
    let (tree, nodes_left_out) = nodes(summary, &phases, &appended);
    let rows: Vec<u32> = laid.rows.iter().flatten().map(|(_, length)| *length).collect();
    Shown {
        title: title(&summary.process),
        is_run: true,
        identity: joined.identity().unwrap_or_else(|| identity(&summary.process)),
        command: presentable(&summary.process.command, LONGEST_COMMAND).into_owned(),
        run_id: presentable(&summary.process.run_id, LONGEST_COMMAND).into_owned(),
        started_ms: summary.process.started_unix_ns / 1_000_000,
        elapsed_ns: summary.elapsed_ns.max(joined.until),
        groups: groups(&in_order, laid.rows, &threads, &devices, joined.is_any()),
        processes: joined.labels(),
        devices: devices
            .into_iter()
            .map(
                |(number, name)| {
                    if name.is_empty() { format!("GPU {number}") } else { format!("GPU {number}: {name}") }
                },
            )
            .collect(),
        threads,
        colors,
        texts,
        tree,
        tree_appended: appended.into_iter().map(|(_, column)| Column::from(column)).collect(),
        tree_said: whole.into_iter().chain(sentences).collect(),
        hot: hot_lists(summary, &phases),
        tables: tables(summary),
        comparison: comparison.map(compared),
        gpu: summary.gpu.as_ref().map(|gpu| Gpu {
            busy_ns: gpu.total.busy_ns,
            sum_ns: gpu.total.sum_ns,
            operations: gpu.total.operations,
        }),
        idle,
        left_out: LeftOut { nodes: nodes_left_out, ..left_out },
        linked: links.len(),
        waited: waits.all.len(),
        late,
        spreads: if is_whole { Spreads::new() } else { spreads(summary) },
        patterns: patterns(summary),
        blamed: blamed(summary),
        nobody: nobody(summary, &phases),
        slowest: slowest(summary),
        notes: all_notes(summary),
        links,
        waits: waits.all,
        bars: laid.bars,
        bar_colors,
        launches,
        rows,
    }
}

/// Numbers tracks for the page: the calls of all processes, their threads, their streams; the main thread of a process
/// comes first. A device's idle time comes below its streams.
fn renumber(tracks: &HashMap<(u32, Track), u32>, bars: &mut [Bar], main_of: impl Fn(u32) -> u32) -> Vec<(u32, Track)> {
    let mut in_order: Vec<((u32, Track), u32)> = tracks.iter().map(|(track, number)| (*track, *number)).collect();
    in_order.sort_unstable_by_key(|&((process, track), _)| {
        let (kind, is_other, device) = match track {
            Track::Calls => (0, false, 0),
            Track::Thread { thread, .. } => (1, thread != main_of(process), 0),
            Track::Stream { device, .. } | Track::Idle { device } => (2, false, device),
        };
        (kind, process, is_other, device, track)
    });
    let mut new = vec![0_u32; in_order.len()];
    for (position, (_, number)) in in_order.iter().enumerate() {
        if let (Some(new), Ok(position)) = (new.get_mut(*number as usize), u32::try_from(position)) {
            *new = position;
        }
    }
    for bar in bars {
        bar.track = new.get(bar.track as usize).copied().unwrap_or_default();
    }
    in_order.into_iter().map(|(track, _)| track).collect()
}

fn groups(
    tracks: &[(u32, Track)],
    rows: Vec<Vec<(u32, u32)>>,
    threads: &BTreeMap<u32, String>,
    devices: &BTreeMap<u32, String>,
    has_processes: bool,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut current = None;
    for (&(process, track), rows) in tracks.iter().zip(rows) {
        if rows.is_empty() {
            continue; // everything on it was left out
        }
        let (label, kind, [thread, gpu], part) = match track {
            Track::Calls => ("Calls".to_owned(), "calls", [None, None], Part::Calls),
            Track::Thread { thread, part } => {
                let name = threads.get(&thread).filter(|name| !name.is_empty());
                let label = name.map_or_else(|| format!("thread {thread}"), |name| format!("{name} ({thread})"));
                (label, "thread", [Some([thread, 0, 0]), None], part)
            }
            Track::Stream { device, context, stream, part } => {
                let of_process = tracks.iter().filter(|(other, _)| *other == process).map(|(_, track)| track);
                let label = stream_label((device, context, stream), of_process, devices.len());
                (label, "stream", [None, Some([device, context, stream])], part)
            }
            Track::Idle { device } => {
                (format!("GPU {device} idle"), "device", [None, Some([device, 0, 0])], Part::Idle)
            }
        };
        let of = Some((process, kind, thread, gpu));
        let shape = Shape { part, rows };
        match groups.last_mut() {
            Some(group) if current == of => group.tracks.push(shape),
            _ => {
                let (thread, process) = (thread.map(|[thread, ..]| thread), has_processes.then_some(process));
                groups.push(Group { label, kind, thread, gpu, process, tracks: vec![shape] });
            }
        }
        current = of;
    }
    groups
}

/// The name of a stream, with its device and context if there are several.
fn stream_label<'a>(
    (device, context, stream): (u32, u32, u32),
    tracks: impl Iterator<Item = &'a Track> + Clone,
    devices: usize,
) -> String {
    let other = |of: &dyn Fn(u32, u32) -> bool| {
        tracks.clone().any(|track| matches!(*track, Track::Stream { device: d, context: c, .. } if of(d, c)))
    };
    let mut label = String::new();
    if devices > 1 || other(&|d, _| d != device) {
        label += &format!("GPU {device} ");
    }
    if other(&|d, c| d == device && c != context) {
        label += &format!("context {context} ");
    }
    label + &format!("stream {stream}")
}

/// All nodes of a tree, in no particular order.
fn all_nodes(tree: &[TreeNode]) -> impl Iterator<Item = &TreeNode> {
    let mut left: Vec<&TreeNode> = tree.iter().collect();
    std::iter::from_fn(move || {
        let node = left.pop()?;
        left.extend(&node.children);
        Some(node)
    })
}

/// Gives each call the colour that the program gave to its ranges.
fn color_calls(bars: &mut [Bar], is_of_calls: impl Fn(u32) -> bool) {
    let colored = bars.iter().filter(|bar| bar.color != 0 && bar.call != 0);
    let colors: HashMap<u64, u32> = colored.map(|bar| (bar.call, bar.color)).collect();
    for bar in bars.iter_mut().filter(|bar| bar.color == 0 && bar.call != 0 && is_of_calls(bar.track)) {
        bar.color = colors.get(&bar.call).copied().unwrap_or(0);
    }
}

fn colors(bars: &[Bar]) -> (Vec<u32>, Vec<u32>) {
    let mut known: HashMap<u32, u32> = HashMap::new();
    let mut list = Vec::new();
    let of_bars = bars.iter().map(|bar| match bar.color.checked_sub(1) {
        None => 0,
        Some(color) => *known.entry(color).or_insert_with(|| {
            list.push(color);
            u32::try_from(list.len()).unwrap_or(0)
        }),
    });
    let of_bars = of_bars.collect();
    (list, of_bars)
}

fn in_order_of(bars: &[Bar], launches: &[Launch]) -> Vec<Launch> {
    bars.iter().filter_map(|bar| launch_of(bar, launches).copied()).collect()
}

/// The notes below the reports, as if all reports had been printed.
fn all_notes(summary: &Summary) -> Vec<String> {
    let mut reports = vec![Report::Ranges, Report::Tree, Report::Categories];
    if summary.gpu.is_some() {
        reports.extend([Report::Kernels, Report::MemTime, Report::GpuProjection, Report::RangeKernels, Report::Api]);
    }
    let advice = summary.advice.iter().map(|sentence| escaped(sentence).into_owned()); // a page has no verdict
    advice.chain(notes(summary, &reports, &RenderOptions::default())).collect()
}

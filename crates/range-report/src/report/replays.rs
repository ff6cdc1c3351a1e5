//! What replays of CUDA graphs consist of, by the spans that captured it, and those that were recorded as a whole.

use rustc_hash::FxHashMap;

use crate::analysis::{Phases, either};
use range_model::stats::{Lean, order};
use range_model::{CapturedWork, GpuActivity, GraphWork};

const CAPTURED_MEANS: &str = "a row in brackets counts the graph nodes that a span of this name captured; the nearest \
                              row above without brackets replays them; times are sums";
const WITHOUT_TIMES: &str = "; replays recorded as a whole have no times of nodes";
const WITHOUT_WHOLE: &str = "; what was recorded as a whole is left out where other replays have times";
pub(super) const OUTSIDE: &str = "(outside any range)";
/// Stands for replays that were recorded as a whole, among kernels and copies.
pub const WHOLE: &str = "[CUDA graph replays]";

/// The phases that replay graphs, the longest replays first; `None` stands for work outside of any range.
pub fn replayed<'a>(
    phases: &'a Phases<'a>,
    gpu: Option<&'a GpuActivity>,
) -> impl Iterator<Item = (Option<usize>, &'a GraphWork)> {
    let nodes = phases.all().iter().map(|phase| phase.node.gpu.as_ref().map(|work| &work.graphs));
    let within = nodes.enumerate().map(|(index, graphs)| (Some(index), graphs));
    let outside = std::iter::once((None, gpu.map(|gpu| &gpu.outside_graphs)));
    let mut all: Vec<(Option<usize>, &GraphWork)> =
        within.chain(outside).filter_map(|(index, graphs)| Some((index, graphs?))).in_vec();
    all.retain(|(_, graphs)| !graphs.is_empty());
    order::by_most(&mut all, |(_, graphs)| time(graphs));
    all.into_iter()
}

/// What was captured in one span and runs in another: a row below the one that replays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Captured {
    /// 0 right below the span that replays.
    pub depth: usize,
    /// The span's name in brackets.
    pub name: String,
    /// Number of nodes that ran, those of spans inside it among them.
    pub nodes: u64,
    /// Sum of their durations, in nanoseconds; `None` if no duration is known.
    pub sum_ns: Option<u64>,
    /// Its part without spans inside it.
    pub own_ns: Option<u64>,
}

/// What replays of one span consist of, parents before their children, the largest first: so many rows, and below each
/// that holds more, one for the rest.
pub fn captured(graphs: &GraphWork, most: usize) -> Vec<Captured> {
    let mut all: Vec<Captured> = Vec::new();
    let mut places: FxHashMap<(Option<usize>, bool, &str), usize> = FxHashMap::default();
    let mut inside: Vec<Vec<usize>> = Vec::new();
    let mut roots = Vec::new();
    let add = |sum: &mut Option<u64>, ns: Option<u64>| *sum = either(*sum, ns, u64::saturating_add);
    let are_timed = are_timed(graphs);
    for part in by_size(graphs) {
        let counted = [part.kernels, part.copies, part.sets, part.others].into_iter().fold(0, u64::saturating_add);
        let nodes = if are_timed { part.timed } else { counted };
        if nodes == 0 {
            continue;
        }
        let ns = are_timed.then_some(part.sum_ns);
        let is_path = !matches!(&*part.captured_in, "" | CapturedWork::NOT_SEEN);
        let names = if is_path { part.captured_in.split(" > ").in_vec() } else { vec![label(part)] };
        let mut at = None;
        for (depth, name) in names.into_iter().enumerate() {
            let place = *places.entry((at, is_path, name)).or_insert_with(|| {
                let name = if is_path { format!("[{name}]") } else { name.to_owned() };
                all.push(Captured { depth, name, ..Captured::default() });
                inside.push(Vec::new());
                at.and_then(|parent: usize| inside.get_mut(parent)).unwrap_or(&mut roots).push(all.len() - 1);
                all.len() - 1
            });
            let row = &mut all[place];
            row.nodes = row.nodes.saturating_add(nodes);
            add(&mut row.sum_ns, ns);
            at = Some(place);
        }
        if let Some(row) = at.and_then(|place| all.get_mut(place)) {
            add(&mut row.own_ns, ns);
        }
    }
    // No row is larger than the one that holds it, which comes first among equals.
    let size = |&place: &usize| std::cmp::Reverse((all[place].sum_ns, all[place].nodes));
    let mut largest: Vec<usize> = (0..all.len()).in_vec();
    order::by_key(&mut largest, size);
    inside.iter_mut().chain([&mut roots]).for_each(|places| order::by_key(places, size));
    let mut has_row = vec![false; all.len()];
    largest.iter().take(most).for_each(|&place| has_row[place] = true);
    let mut rows = Vec::new();
    let mut stack = Vec::new();
    // What is pushed first comes last.
    let push = |places: &[usize], depth: usize, stack: &mut Vec<Row>| {
        let hidden = || places.iter().filter(|place| !has_row[**place]).map(|&place| &all[place]);
        let more = if hidden().count() < places.len() { " more" } else { "" };
        let name = format!("({}{more} captured)", hidden().count());
        let mut rest = Captured { depth, name, ..Captured::default() };
        for row in hidden() {
            rest.nodes = rest.nodes.saturating_add(row.nodes);
            add(&mut rest.sum_ns, row.sum_ns);
        }
        rest.own_ns = rest.sum_ns;
        stack.extend((rest.nodes > 0).then_some(Row::Rest(rest)));
        stack.extend(places.iter().rev().filter(|place| has_row[**place]).map(|&place| Row::At(place)));
    };
    push(&roots, 0, &mut stack);
    while let Some(row) = stack.pop() {
        match row {
            Row::Rest(rest) => rows.push(rest),
            Row::At(place) => {
                rows.push(all[place].clone());
                push(&inside[place], all[place].depth + 1, &mut stack);
            }
        }
    }
    rows
}

enum Row {
    At(usize),
    Rest(Captured),
}

/// Whether any replay was recorded by its nodes. Others count nothing then, because they have no times.
fn are_timed(graphs: &GraphWork) -> bool {
    graphs.captured.iter().any(|part| part.timed > 0)
}

/// The explanation of such rows.
pub(crate) fn captured_means<'a>(replayed: impl Iterator<Item = &'a GraphWork>) -> String {
    let [mut without_times, mut without_whole] = [""; 2];
    for graphs in replayed.filter(|graphs| graphs.whole > 0) {
        if are_timed(graphs) {
            without_whole = WITHOUT_WHOLE;
        } else {
            without_times = WITHOUT_TIMES;
        }
    }
    [CAPTURED_MEANS, without_times, without_whole].concat()
}

/// The number of replays that were recorded as a whole, and the sum of their durations, in nanoseconds, if there are
/// any.
#[must_use]
pub fn recorded_whole(phases: &Phases, gpu: Option<&GpuActivity>) -> Option<[u64; 2]> {
    let add = |[count, ns]: [u64; 2], (_, graphs): (_, &GraphWork)| {
        [count.saturating_add(graphs.whole), ns.saturating_add(graphs.whole_ns)]
    };
    Some(replayed(phases, gpu).fold([0, 0], add)).filter(|[count, _]| *count > 0)
}

/// A phase of the name whose phases launched more than half of that time.
pub(crate) fn whole_launched_in(phases: &Phases, ns: u64) -> Option<usize> {
    let mut by_name: FxHashMap<_, u64> = FxHashMap::default();
    replayed(phases, None).find_map(|(index, graphs)| {
        let node = phases.all().get(index?)?.node;
        let sum = by_name.entry((&node.domain, &node.name)).or_default();
        *sum = sum.saturating_add(graphs.whole_ns);
        index.filter(|_| *sum > ns / 2)
    })
}

/// Time of replays: of whole ones, and of the nodes of others.
pub(super) fn time(graphs: &GraphWork) -> u64 {
    graphs.captured.iter().fold(graphs.whole_ns, |sum, part| sum.saturating_add(part.sum_ns))
}

/// The largest parts first: by time, then by their number of kernels.
pub(super) fn by_size(graphs: &GraphWork) -> Vec<&CapturedWork> {
    let mut parts: Vec<&CapturedWork> = graphs.captured.iter().in_vec();
    let rest = |part: &CapturedWork| part.copies.saturating_add(part.sets).saturating_add(part.others);
    let size = |part: &CapturedWork| (part.sum_ns, part.kernels, rest(part));
    order::by(&mut parts, |a, b| size(b).cmp(&size(a)));
    parts
}

pub(super) fn label(part: &CapturedWork) -> &str {
    if part.captured_in.is_empty() { "(in no span of its own)" } else { &part.captured_in }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(captured_in: &str, kernels: u64, copies: u64, sum_ns: u64) -> CapturedWork {
        let timed = if sum_ns > 0 { kernels + copies } else { 0 };
        CapturedWork { kernels, copies, timed, sum_ns, ..CapturedWork::new(captured_in) }
    }

    #[test]
    fn what_was_captured_in_a_span_stands_below_what_holds_it() {
        let row =
            |depth, name: &str, nodes, sum_ns, own_ns| Captured { depth, name: name.into(), nodes, sum_ns, own_ns };
        let work = |parts| GraphWork { replays: 1, captured: parts, ..GraphWork::default() };
        let timed = work(vec![
            part("decoder", 3, 0, 95),
            part("encoder > attention", 9, 2, 90),
            part("encoder", 1, 0, 10),
            part(CapturedWork::NOT_SEEN, 5, 0, 50),
            part("encoder > norm", 2, 0, 8),
            part("encoder > norm > scale", 1, 0, 1),
            part("", 7, 0, 0),
        ]);
        let all = [
            row(0, "[encoder]", 15, Some(109), Some(10)),
            row(1, "[attention]", 11, Some(90), Some(90)),
            row(1, "[norm]", 3, Some(9), Some(8)),
            row(2, "[scale]", 1, Some(1), Some(1)),
            row(0, "[decoder]", 3, Some(95), Some(95)),
            row(0, "(captured before measuring began)", 5, Some(50), Some(50)),
        ];
        assert_eq!(captured(&timed, 6), all);
        let rest =
            [row(1, "(1 more captured)", 3, Some(9), Some(9)), row(0, "(1 more captured)", 5, Some(50), Some(50))];
        let expected = [&all[0], &all[1], &rest[0], &all[4], &rest[1]];
        assert_eq!(captured(&timed, 3).iter().collect::<Vec<_>>(), expected);
        assert_eq!(captured(&timed, 0), [row(0, "(3 captured)", 23, Some(254), Some(254))]);
        let whole = work(vec![part("a", 3, 4, 0), part("", 1, 0, 0), part("b", 0, 0, 0)]);
        let expected = [row(0, "[a]", 7, None, None), row(0, "(in no span of its own)", 1, None, None)];
        assert_eq!(captured(&whole, 6), expected);
        let spaced = work(vec![part("(in no span of its own)", 1, 0, 5), part("", 1, 0, 5)]);
        assert_eq!(captured(&spaced, 6).len(), 2, "a name is not taken for the label");
        assert_eq!(captured(&GraphWork::default(), 6), []);
    }

    #[test]
    fn a_line_says_what_the_rows_count() {
        let works = [(0, 5), (1, 0), (1, 5)].map(|(whole, ns)| GraphWork {
            whole,
            captured: vec![part("a", 1, 0, ns)],
            ..GraphWork::default()
        });
        let both = [WITHOUT_TIMES, WITHOUT_WHOLE].concat();
        let means = |works: &[GraphWork]| captured_means(works.iter()).split_off(CAPTURED_MEANS.len());
        assert_eq!(
            [&works[..1], &works[1..2], &works[2..], &works].map(means),
            ["", WITHOUT_TIMES, WITHOUT_WHOLE, &both]
        );
    }
}

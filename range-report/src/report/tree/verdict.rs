//! The lines below the tree: the answer in words, and what the marks mean.

use std::cmp::Reverse;
use std::collections::HashSet;

#[cfg(feature = "html")]
use super::shape::Marked;
use super::shape::{Culprit, Entry, Shape, Way, is_blocked};
use crate::report::options::RenderOptions;
use crate::stats::order;
use crate::text::names;
use crate::text::number::{human_inline, integer, percent};
use crate::text::width::{blanks, shorten, width_of, wrapped};
use crate::{RangeStats, RangeStyle, Summary, TreeNode};

/// Phases named in a line.
const SLOWEST: usize = 3;
/// Widest name there.
const MAX_NAME: usize = 40;
/// If a name has less room than this, its ancestor is not printed.
const LEAST_PLACE: usize = 18;
/// A thread that is busy for this part of the wall time has next to none for another task.
const BUSY_PERCENT: u128 = 80;
/// Time outside of spans is worth a word from this part of the wall time on: 10 %.
const OUTSIDE_PART: u128 = 10;
/// What the `*` behind a share means.
const BESIDE: &str = "these phases together took longer than their parent: they ran on other threads, after it, or in \
                      each other";
/// What the `^` behind a self time means.
const BLOCKED: &str = "most of this Self is a wait for children that ran on other threads or were awaited: the order \
                       above leaves it out";
/// The same of a page.
#[cfg(feature = "html")]
const BLOCKED_ON_PAGE: &str = "most of this Self is a wait for children that ran on other threads or were awaited";
/// What is done about calls that took more than half of their row.
const ONE_CALL: &str = "Avg/Call and the order above are of the others; reset() after a warm-up leaves such calls out";
/// The same under the command.
const ONE_CALL_OF_COMMAND: &str = "Avg/Call and the order above are of the others";
/// The same of a page, which orders phases by all of their time.
#[cfg(feature = "html")]
const ONE_CALL_ON_PAGE: &str = "Avg/Call is of the others; reset() after a warm-up leaves such calls out";
/// What the `+` behind calls means. Spans from before the window, and instances that an exit below them split, have it
/// too.
const AWAITS: &str = "one instance per poll: Awaited is the time between polls";
const KEPT: &str = "entered several times: these spans are not futures, or have not ended";

/// Where the time goes, on the CPU and on the GPU.
pub(super) fn verdict(summary: &Summary, shape: &Shape, entries: &[Entry], options: &RenderOptions) -> String {
    let awaited = awaited(shape, options);
    let slowest = shape.slowest(SLOWEST);
    let mut own = line(" >> most time of its own: ", shape, &slowest, shape.ranked(), options);
    own += &hidden(shape, entries, &slowest, options);
    own += &one_call_each(shape, options);
    if let Some(sentence) = whole_beside_wall(summary, shape, options).filter(|_| awaited.len() + own.len() > 0) {
        own += &wrapped("   ", &sentence, options.columns());
    }
    // What keeps the threads busy may be what is awaited.
    let mut out = match busy_threads(summary).filter(|_| !awaited.is_empty()) {
        Some(sentence) => own + &awaited + &wrapped("   ", &sentence, options.columns()),
        None => awaited + &own,
    };
    out += &loops(shape, options);
    let busiest = match entries.iter().any(|entry| entry.margin().contains('G')) {
        true => " G  most busy time of its own: ",
        false => " GPU: most busy time of its own: ",
    };
    for (way, what) in [(Way::Busy, busiest), (Way::Stream, " GPU: most stream time of its own: ")] {
        let Some(own) = shape.gpu_whole(way) else { continue };
        // Of all that the GPU did, with what it did for no span.
        let gpu = summary.gpu.as_ref().filter(|_| way == Way::Busy);
        let all = gpu.map_or(0, |gpu| u128::from(gpu.total.busy_ns));
        let whole = if all > 0 { all } else { own };
        out += &line(what, shape, &shape.slowest_on_gpu(way, SLOWEST), whole, options);
    }
    out
}

/// What waited longest, where more time was waited than run: the way to each, and its share of all that was waited. A
/// line each, aligned below the first.
fn awaited(shape: &Shape, options: &RenderOptions) -> String {
    const WHAT: &str = " ~~ most time awaited: ";
    let room = options.columns().saturating_sub(width_of(WHAT));
    one_each(WHAT, &most_awaited(shape, room, options))
}

fn most_awaited(shape: &Shape, room: usize, options: &RenderOptions) -> Vec<String> {
    let mut lines = Vec::new();
    for Culprit { index, ns, perhaps } in shape.most_awaited(SLOWEST) {
        let figures = format!(" {} ({})", human_inline(ns), share(ns, shape.awaited_ranked()));
        let behind = width_of(&figures) + usize::from(perhaps.is_some()); // a comma
        let room_of_way = room.saturating_sub(behind).max(LEAST_PLACE);
        let mut line = way(shape, index, room_of_way, options) + &figures;
        if let Some(other) = perhaps {
            let name = shorten(&label(shape.node(other), options.raw_names), LEAST_PLACE, LEAST_PLACE / 2);
            let aside = format!("perhaps for `{name}`");
            match width_of(&line) + 2 + width_of(&aside) <= room {
                true => line += &format!(", {aside}"),
                false => lines.push(std::mem::replace(&mut line, format!("  {aside}")) + ","),
            }
        }
        lines.push(line);
    }
    lines
}

/// Loops that live as long as the run: they wait for work.
fn loops(shape: &Shape, options: &RenderOptions) -> String {
    const WHAT: &str = " ~~ as long as the run: ";
    let loops = shape.loops();
    let named = loops.iter().take(SLOWEST).map(|node| {
        let life = node.total_ns.saturating_add(node.awaited_ns.unwrap_or(0));
        let (each, calls) = (life.checked_div(node.calls).unwrap_or(0), integer(node.calls, options.thousands));
        let figures = format!(" {} ({calls} call{})", human_inline(each), if node.calls == 1 { "" } else { "s" });
        let room = room_before(&figures, WHAT, options);
        shorten(&label(node, options.raw_names), room, room / 2) + &figures
    });
    let more = loops.len().saturating_sub(SLOWEST);
    let more = (more > 0).then(|| format!("and {} more", integer(more as u64, options.thousands)));
    listed(WHAT, named.chain(more), options)
}

/// The names from the root down to a phase, as many as fit, the last ones.
fn way(shape: &Shape, index: usize, room: usize, options: &RenderOptions) -> String {
    const MORE: &str = "… > ";
    let name = |index| label(shape.node(index), options.raw_names);
    let mut text = name(index);
    let mut at = shape.parent(index);
    while let Some(ancestor) = at {
        let longer = format!("{} > {text}", name(ancestor));
        at = shape.parent(ancestor);
        let more = if at.is_some() { width_of(MORE) } else { 0 };
        if width_of(&longer) + more > room {
            let room = room.saturating_sub(width_of(MORE));
            return MORE.to_owned() + &shorten(&text, room, room / 2);
        }
        text = longer;
    }
    shorten(&text, room, room / 2)
}

/// That threads were busy for nearly all of the time, of at least half of those that poll futures.
fn busy_threads(summary: &Summary) -> Option<String> {
    let wall = u128::from(summary.elapsed_ns);
    let polling: Vec<u64> = summary.threads.iter().filter_map(|thread| thread.in_polls_ns).collect();
    let is_busy = |&&ns: &&u64| wall > 0 && u128::from(ns) * 100 >= wall * BUSY_PERCENT;
    let busy: Vec<u64> = polling.iter().filter(is_busy).copied().collect();
    let who = match (busy.len(), polling.len()) {
        (0, _) => return None,
        (1, 1) => "the thread that polls futures was".to_owned(),
        (1, 2) => "1 of 2 threads that poll futures was".to_owned(),
        (some, all) if some == all => format!("all {all} threads that poll futures were"),
        (some, all) if some * 2 >= all => format!("{some} of {all} threads that poll futures were"),
        _ => return None,
    };
    let mean = busy.iter().map(|&ns| u128::from(ns)).sum::<u128>() / busy.len() as u128;
    let share = share(u64::try_from(mean).unwrap_or(u64::MAX), wall);
    Some(format!("{who} busy for {share} of the time: some of this may be waiting for a free thread"))
}

/// Which phases one call took more than half of: the longest such calls, a line each.
fn one_call_each(shape: &Shape, options: &RenderOptions) -> String {
    let all = shape.dominated();
    let mut sentences: Vec<String> = all.iter().take(SLOWEST).map(|node| one_call(node, options)).collect();
    if let Some(last) = sentences.last_mut() {
        if all.len() > SLOWEST {
            *last += &format!("; and {} phases more", integer((all.len() - SLOWEST) as u64, options.thousands));
        }
        sentences.push(options.worded(ONE_CALL, ONE_CALL_OF_COMMAND).to_owned());
    }
    let line = |(number, sentence): (usize, String)| {
        wrapped(if number == 0 { " ! " } else { "   " }, &sentence, options.columns())
    };
    sentences.into_iter().enumerate().map(line).collect()
}

fn one_call(node: &TreeNode, options: &RenderOptions) -> String {
    let others = human_inline(mean_of_the_others(node).unwrap_or(0));
    let name = shorten(&label(node, options.raw_names), MAX_NAME, MAX_NAME / 2);
    format!("`{name}`: one call {}, the others {others} each", human_inline(node.max_ns))
}

/// The average of a row without its longest call.
pub(super) fn mean_of_the_others(node: &TreeNode) -> Option<u64> {
    node.total_ns.saturating_sub(node.max_ns).checked_div(node.calls.saturating_sub(1))
}

/// What all shares are of; nothing where it is not known how long all of it took.
fn whole_beside_wall(summary: &Summary, shape: &Shape, options: &RenderOptions) -> Option<String> {
    let human = |ns: u128| human_inline(u64::try_from(ns).unwrap_or(u64::MAX));
    let (whole, wall) = (human(shape.ranked()), human_inline(summary.elapsed_ns));
    let mut apart = String::new();
    for (ns, what) in [(shape.apart(), "single calls"), (shape.blocked(), "waiting for children")] {
        if ns > 0 {
            apart += &format!("{} {} of {what}", if apart.is_empty() { " without" } else { " and" }, human(ns));
        }
    }
    let spans = options.worded("spans", "ranges");
    let outside = outside(summary, shape, options).unwrap_or_default();
    (summary.elapsed_ns > 0)
        .then(|| format!("100% is {whole} in {spans}{apart}, on all threads, in {wall} of wall time{outside}"))
}

/// Which share of the wall time was in no span, where it matters. It is a bound where several threads or calls may have
/// been in spans at once.
fn outside(summary: &Summary, shape: &Shape, options: &RenderOptions) -> Option<String> {
    let wall = u128::from(summary.elapsed_ns);
    let ns = summary.outside_ns.filter(|&ns| u128::from(ns) * OUTSIDE_PART >= wall)?;
    let is_exact = summary.threads.len() == 1
        && shape.awaited_whole().is_none()
        && summary.ranges.iter().all(|range| range.style == RangeStyle::PushPop);
    let (least, span) = (if is_exact { "" } else { "at least " }, options.worded("span", "range"));
    Some(format!(", {least}{} of which is in no {span}", share(ns, wall)))
}

/// What the marks behind figures mean, of those that are there.
pub(super) fn marks(summary: &Summary, shape: &Shape, entries: &[Entry], options: &RenderOptions) -> String {
    let mut out = String::new();
    if entries.iter().any(Entry::is_polled) {
        let polled = || entries.iter().filter(|entry| entry.is_polled());
        if polled().any(|entry| entry.figures.awaited_ns.is_some()) {
            out += &wrapped(" + ", AWAITS, options.columns());
        }
        if polled().any(|entry| entry.figures.awaited_ns.is_none()) {
            out += &wrapped(" & ", KEPT, options.columns());
        }
        let shown = entries.iter().filter(|entry| entry.folded == 0);
        out += &lifetimes(summary, shown.map(|entry| shape.node(entry.index)), options);
    }
    if entries.iter().any(|entry| entry.folded == 0 && is_blocked(shape.node(entry.index))) {
        out += &wrapped(" ^ ", BLOCKED, options.columns());
    }
    if entries.iter().any(|entry| entry.beside) {
        out += &wrapped(" * ", &beside(summary), options.columns());
    }
    out
}

fn beside(summary: &Summary) -> String {
    // An instance counts when it ends, those inside of it before.
    let open = summary.losses.open.iter().any(|range| range.style == RangeStyle::PushPop && !range.cut);
    format!("{BESIDE}{}", if open { "; or their parent is still open" } else { "" })
}

/// What stands beside and below the tree, for a page: which shows all nodes, has lines of any length, and says by
/// itself what is slowest.
#[cfg(feature = "html")]
pub(super) fn explained(summary: &Summary, shape: &Shape) -> Explained {
    let marked: Vec<Marked> = shape.nodes().map(|(_, marked)| marked).collect();
    let mut marks = Vec::new();
    if marked.iter().any(|node| node.polled) {
        let nodes = shape.nodes().map(|(node, ..)| node);
        let longest = lifetimes(summary, nodes, &RenderOptions::default().width(1_000));
        let polled = || shape.nodes().filter(|(node, ..)| is_polled(node));
        let awaits = polled().any(|(node, ..)| node.awaited_ns.is_some()).then(|| format!("+ {AWAITS}"));
        let kept = polled().any(|(node, ..)| node.awaited_ns.is_none()).then(|| format!("& {KEPT}"));
        marks.extend(awaits.into_iter().chain(kept).chain([longest.trim().to_owned()]));
    }
    let wide = RenderOptions::default().width(1_000);
    let waits = most_awaited(shape, wide.columns(), &wide).join(", ");
    if !waits.is_empty() {
        marks.insert(0, format!("~~ most time awaited: {waits}"));
        marks.splice(1..1, busy_threads(summary));
    }
    marks.push(loops(shape, &wide).trim().to_owned());
    let each = one_call_each(shape, &wide).replace(ONE_CALL, ONE_CALL_ON_PAGE);
    marks.extend(each.lines().map(|line| line.trim().to_owned()));
    if marked.iter().any(|node| node.blocked) {
        marks.push(format!("^ {BLOCKED_ON_PAGE}"));
    }
    if marked.iter().any(|node| node.beside) {
        marks.push(format!("* {}", beside(summary)));
    }
    marks.retain(|sentence| !sentence.is_empty());
    let whole = whole_beside_wall(summary, shape, &wide).filter(|_| shape.whole() > 0);
    Explained { whole, marked, marks }
}

fn is_polled(node: &TreeNode) -> bool {
    node.instances > node.calls
}

/// `what` and these phases; nothing where there is none.
fn line(what: &str, shape: &Shape, phases: &[(usize, u64)], whole: u128, options: &RenderOptions) -> String {
    let parts = phases.iter().map(|&(index, own_ns)| {
        let figures = format!(" {} ({})", human_inline(own_ns), share(own_ns, whole));
        name(shape, index, phases, room_before(&figures, what, options), options) + &figures
    });
    listed(what, parts, options)
}

/// What a name has on a line between `what` and its figures, which a comma may follow.
fn room_before(figures: &str, what: &str, options: &RenderOptions) -> usize {
    options.columns().saturating_sub(width_of(what) + width_of(figures) + 1).min(MAX_NAME)
}

/// All of these behind `what`; those that do not fit on its line stand below the first.
fn listed(what: &str, parts: impl Iterator<Item = String>, options: &RenderOptions) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let part = if parts.peek().is_some() { part + "," } else { part };
        match lines.last_mut() {
            Some(line) if width_of(what) + width_of(line) + 1 + width_of(&part) <= options.columns() => {
                *line += &format!(" {part}");
            }
            _ => lines.push(part),
        }
    }
    one_each(what, &lines)
}

/// A line each: `what` begins the first, the others are aligned below it. Nothing where there is none.
fn one_each(what: &str, lines: &[String]) -> String {
    let lead = std::iter::once(what.to_owned()).chain(std::iter::repeat(blanks("", width_of(what))));
    lead.zip(lines).map(|(lead, line)| lead + line + "\n").collect()
}

/// The name of a phase. Where others are called the same, that of its parent is before it; or the nearest that tells it
/// from those beside it in the line.
fn name(shape: &Shape, index: usize, phases: &[(usize, u64)], room: usize, options: &RenderOptions) -> String {
    let label_of = |index| label(shape.node(index), options.raw_names);
    let place = if room < LEAST_PLACE || !shape.repeats(index) { None } else { place(shape, index, phases) };
    let place = place.map_or_else(String::new, |(ancestor, is_parent)| {
        let between = if is_parent { " > " } else { " > … > " };
        shorten(&label_of(ancestor), room / 3, room / 6) + between
    });
    let room = room.saturating_sub(width_of(&place));
    place + &shorten(&label_of(index), room, room / 2)
}

/// An ancestor, and whether it is the parent.
fn place(shape: &Shape, index: usize, phases: &[(usize, u64)]) -> Option<(usize, bool)> {
    let parent = shape.parent(index)?;
    let mut others: Vec<usize> = phases.iter().map(|&(other, _)| other).collect();
    others.retain(|&other| other != index && shape.same_name(index, other));
    let mut at = Some(parent);
    while let Some(ancestor) = at {
        others = others.into_iter().filter_map(|other| shape.parent(other)).collect();
        if others.iter().all(|&other| !shape.same_name(ancestor, other)) {
            return Some((ancestor, ancestor == parent));
        }
        at = shape.parent(ancestor);
    }
    Some((parent, true))
}

/// That more time is in folded lines than in the slowest phase, as where each span has a name of its own.
fn hidden(shape: &Shape, entries: &[Entry], slowest: &[(usize, u64)], options: &RenderOptions) -> String {
    let folded = entries.iter().filter(|entry| entry.folded > 0 && entry.is_small);
    let (mut own_ns, mut phases) = (0_u64, 0);
    for entry in folded {
        own_ns = own_ns.saturating_add(entry.figures.self_ns);
        phases += entry.hidden;
    }
    if own_ns <= slowest.first().map_or(0, |(_, most)| *most) {
        return String::new();
    }
    let (lead, but) = if slowest.is_empty() { (" >>", "") } else { ("   ", "but ") };
    let sentence = format!(
        "{but}{} is in {} phases under 0.1 % each: to sum them, give them one name and put what differs into \
         nvtx.payload, or give them one nvtx.category",
        share(own_ns, shape.whole()),
        integer(phases as u64, options.thousands)
    );
    wrapped(lead, &sentence, options.columns())
}

/// How long the spans of these took, awaiting included, whose rows have more instances than calls, or none, where that
/// was recorded: the longest.
fn lifetimes<'a>(summary: &Summary, nodes: impl Iterator<Item = &'a TreeNode>, options: &RenderOptions) -> String {
    const WHAT: &str = "    longest lifetimes: ";
    let polled: HashSet<(&str, Option<&str>)> = nodes
        .filter(|node| is_polled(node) || node.instances == 0)
        .map(|node| (node.name.as_str(), node.domain.as_deref()))
        .collect();
    let mut rows: Vec<(&RangeStats, u64)> = summary
        .ranges
        .iter()
        .filter(|range| range.style == RangeStyle::StartEnd)
        .filter(|range| polled.contains(&(range.name.as_str(), range.domain.as_deref())))
        .filter_map(|range| Some((range, range.times.total_ns.checked_div(range.times.instances)?)))
        .collect();
    order::by_key(&mut rows, |(_, mean)| Reverse(*mean));
    let rows = rows.iter().take(SLOWEST).map(|(range, mean)| {
        let name = names::label(range.domain.as_deref(), &range.name).unwrap_or_else(|| "None".to_owned());
        let name = if options.raw_names { name } else { names::escaped(&name).into_owned() };
        let figures =
            format!(" {} (mean of {})", human_inline(*mean), integer(range.times.instances, options.thousands));
        let room = room_before(&figures, WHAT, options);
        shorten(&name, room, room / 2) + &figures
    });
    listed(WHAT, rows, options)
}

/// What the marks of a tree are and mean, for a page.
#[cfg(feature = "html")]
pub(crate) struct Explained {
    /// What 100 % is, beside the wall time where that is known.
    pub(crate) whole: Option<String>,
    /// By node, in the order of printing.
    pub(crate) marked: Vec<Marked>,
    /// What the marks that are there mean, a sentence each.
    pub(crate) marks: Vec<String>,
}

pub(super) fn share(part: u64, base: u128) -> String {
    percent(part, base).map_or_else(|| "-".to_owned(), |text| text + "%")
}

pub(super) fn label(node: &TreeNode, raw: bool) -> String {
    let label = names::label(node.domain.as_deref(), &node.name).unwrap_or_else(|| "None".to_owned());
    if raw { label } else { names::escaped(&label).into_owned() }
}

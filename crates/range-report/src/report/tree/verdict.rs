//! The lines below the tree: the answer in words, and the legend of the marks.

use std::cmp::Reverse;

use super::shape::Entry;
#[cfg(feature = "page")]
use crate::FindingKinds;
use crate::analysis::{Evidence, Finding, FindingKind, Phases, awaited_for, lived};
use crate::report::options::RenderOptions;
#[cfg(feature = "page")]
use crate::report::replays;
use crate::text::number::{human_inline, integer, share};
use crate::text::width::{blanks, shorten, width_of, wrapped};
use range_model::stats::{Lean, Named, order};
use range_model::{RangeStats, RangeStyle, Summary, TreeNode};

/// Number of phases named in a line.
const SLOWEST: usize = 3;
/// Largest width of a name there.
const MAX_NAME: usize = 40;
/// If a name has less room than this, its ancestor is not printed.
const LEAST_PLACE: usize = 18;
/// The legend of the `*` behind a share.
const BESIDE: &str = "these phases together took longer than their parent: they ran on other threads, after it, or in \
                      each other";
/// The legend of the `^` behind a self time.
const BLOCKED: &str = "most of this Self is a wait for children that ran on other threads or were awaited";
/// The addition for reports with a ranking of phases.
const LEFT_OUT: &str = ": the order above leaves it out";
/// The figures that exclude a first call of more than half of its row: in reports with a ranking of phases, and on a
/// page, which ranks phases by all of their time.
const OF_OTHERS: &str = "Avg/Call and the order above are of later calls";
#[cfg(feature = "page")]
const OF_OTHERS_ON_PAGE: &str = "Avg/Call is of later calls";
/// The legend of the `+` behind calls. Spans from before the window, and instances that an exit below them split, also
/// have it.
const AWAITS: &str = "one instance per poll: Awaited is the time between polls";
const KEPT: &str = "entered several times: no futures, not ended, or counted in another row";

/// Where the time goes, on the CPU and on the GPU.
pub(super) fn verdict(
    summary: &Summary,
    findings: &[Finding],
    phases: &Phases,
    entries: &[Entry],
    options: &RenderOptions,
) -> String {
    let findings = &Findings { all: findings, phases, options };
    let columns = options.columns();
    let mut awaited = findings.awaited();
    let waits = findings.sentences(FindingKind::WaitsFor) + &findings.sentences(FindingKind::WaitsAfter);
    let mut own = findings.line(" >> ", FindingKind::MostOwnTime);
    own += &findings.small_phases(own.is_empty());
    // Who made calls wait explains what was awaited.
    if awaited.is_empty() {
        own += &waits
    } else {
        awaited += &waits
    }
    own += &findings.sentences(FindingKind::OffCpu);
    own += &findings.long_calls(OF_OTHERS);
    if let Some(sentence) = findings.whole_beside_wall(summary).filter(|_| awaited.len() + own.len() > 0) {
        own += &wrapped("   ", &sentence, columns);
    }
    // Busy threads may be the cause of the waiting.
    let mut out = match findings.of(FindingKind::BusyThreads).first() {
        Some(busy) => own + &awaited + &wrapped("   ", &busy.sentence, columns),
        None => awaited + &own,
    };
    out += &findings.loops();
    let is_marked = entries.iter().any(|entry| entry.margin().contains('G'));
    out += &findings.line(if is_marked { " G  " } else { " GPU: " }, FindingKind::MostBusyTime);
    out + &findings.line(" GPU: ", FindingKind::MostStreamTime)
}

/// The findings of a tree, and the form in which they are printed.
#[derive(Clone, Copy)]
struct Findings<'a> {
    all: &'a [Finding],
    phases: &'a Phases<'a>,
    options: &'a RenderOptions,
}

impl<'a> Findings<'a> {
    fn of(self, kind: FindingKind) -> Vec<&'a Finding> {
        self.all.iter().filter(|finding| finding.kind() == kind).in_vec()
    }

    /// The longest waits: the path to each, and its share of all waiting. Each has a line, below the first.
    fn awaited(self) -> String {
        let what = " ~~ ".to_owned() + FindingKind::MostAwaited.lead();
        one_each(&what, &self.most_awaited(self.options.columns().saturating_sub(width_of(&what))))
    }

    fn most_awaited(self, room: usize) -> Vec<String> {
        let wording = self.options.wording();
        let mut lines = Vec::new();
        for finding in self.of(FindingKind::MostAwaited) {
            let (Evidence::MostAwaited { perhaps_for, for_gpu_work }, Some(index)) = (finding.evidence, finding.node)
            else {
                continue;
            };
            let aside = awaited_for(self.phases, perhaps_for, for_gpu_work, wording);
            let figures = figures(finding);
            let behind = width_of(&figures) + usize::from(aside.is_some()); // a comma
            let room_of_path = room.saturating_sub(behind).max(LEAST_PLACE);
            let mut line = self.phases.path(index, room_of_path, wording) + &figures;
            if let Some(aside) = aside {
                match width_of(&line) + 2 + width_of(&aside) <= room {
                    true => line += &format!(", {aside}"),
                    false => lines.push(std::mem::replace(&mut line, format!("  {aside}")) + ","),
                }
            }
            lines.push(line);
        }
        lines
    }

    /// Loops that live as long as the run, waiting for work.
    fn loops(self) -> String {
        let what = " ~~ ".to_owned() + FindingKind::LongLoop.lead();
        let wording = self.options.wording();
        let loops = self.of(FindingKind::LongLoop);
        let mut parts = Vec::new();
        for finding in loops.iter().take(SLOWEST) {
            let (Evidence::LongLoop { calls, life_ns, awaited_self_ns }, Some(index)) =
                (finding.evidence, finding.node)
            else {
                continue;
            };
            let figures = lived(calls, [life_ns, awaited_self_ns], wording);
            let room = room_before(&figures, &what, self.options);
            parts.push(shorten(&self.phases.label(index, wording), room, room / 2) + &figures);
        }
        let more = loops.len().saturating_sub(SLOWEST);
        if more > 0 {
            parts.push(format!("and {} more", wording.count(more as u64)));
        }
        listed(&what, parts, self.options)
    }

    /// Phases with a single call of more than half of their time: the longest such calls, a line each. `of_others`
    /// names the figures without that call.
    fn long_calls(self, of_others: &str) -> String {
        let all = self.of(FindingKind::OneLongCall);
        let mut sentences: Vec<String> = all.iter().take(SLOWEST).map(|finding| finding.sentence.clone()).in_vec();
        if let Some(last) = sentences.last_mut().filter(|_| all.len() > SLOWEST) {
            *last += &format!("; and {} phases more", self.options.wording().count((all.len() - SLOWEST) as u64));
        }
        let is_warm_up =
            |finding: &&&Finding| matches!(finding.evidence, Evidence::OneLongCall { is_warm_up: true, .. });
        if let Some(first) = all.iter().find(is_warm_up) {
            sentences.push(of_others.to_owned() + &advice(first, "; "));
        }
        let mut out = String::new();
        for sentence in sentences {
            out += &wrapped(if out.is_empty() { " ! " } else { "   " }, &sentence, self.options.columns());
        }
        out
    }

    /// The sentences of a kind that names its phases itself, a line each.
    fn sentences(self, kind: FindingKind) -> String {
        self.of(kind).iter().map(|finding| wrapped("   ", &finding.sentence, self.options.columns())).collect()
    }

    /// A line if folded lines have more time than the slowest phase.
    fn small_phases(self, is_first: bool) -> String {
        let (lead, but) = if is_first { (" >>", "") } else { ("   ", "but ") };
        let mut out = String::new();
        for finding in self.of(FindingKind::ManySmallPhases) {
            let sentence = format!("{but}{}{}", finding.sentence, advice(finding, ": "));
            out += &wrapped(lead, &sentence, self.options.columns());
        }
        out
    }

    /// The base of all shares; `None` if the length of the run is not known.
    fn whole_beside_wall(self, summary: &Summary) -> Option<String> {
        let human = |ns: u128| human_inline(u64::try_from(ns).unwrap_or(u64::MAX));
        let (whole, wall) = (human(self.phases.ranked()), human_inline(summary.elapsed_ns));
        let mut apart = String::new();
        for (ns, what) in [(self.phases.apart(), "first calls"), (self.phases.blocked(), "waiting for children")] {
            if ns > 0 {
                apart += &format!("{} {} of {what}", if apart.is_empty() { " without" } else { " and" }, human(ns));
            }
        }
        let (spans, span) = (self.options.wording().of("spans", "ranges"), self.options.wording().of("span", "range"));
        let mut outside = String::new();
        for finding in self.of(FindingKind::OutsideRanges) {
            let least =
                if matches!(finding.evidence, Evidence::OutsideRanges { exact: true }) { "" } else { "at least " };
            let share = share(finding.at_stake_ns, summary.elapsed_ns.into());
            outside += &format!(", {least}{share} of which is in no {span}");
        }
        (summary.elapsed_ns > 0)
            .then(|| format!("100% is {whole} in {spans}{apart}, on all threads, in {wall} of wall time{outside}"))
    }

    /// The phases of one kind behind a mark; empty if there are none.
    fn line(self, mark: &str, kind: FindingKind) -> String {
        let what = mark.to_owned() + kind.lead().trim_start_matches("GPU: ");
        let findings = self.of(kind);
        let named: Vec<usize> = findings.iter().filter_map(|finding| finding.node).in_vec();
        let mut parts = Vec::new();
        for finding in findings {
            let Some(index) = finding.node else { continue };
            let figures = figures(finding);
            parts.push(self.name(index, &named, room_before(&figures, &what, self.options)) + &figures);
        }
        listed(&what, parts, self.options)
    }

    /// The name of a phase. If another phase has the same name, the parent's name precedes it, or that of the nearest
    /// ancestor that distinguishes it from other phases in the line.
    fn name(self, index: usize, named: &[usize], room: usize) -> String {
        let label = |index| self.phases.label(index, self.options.wording());
        let place =
            if room < LEAST_PLACE || !self.phases.repeats(index) { None } else { place(self.phases, index, named) };
        let place = place.map_or_else(String::new, |(ancestor, is_parent)| {
            let between = if is_parent { " > " } else { " > … > " };
            shorten(&label(ancestor), room / 3, room / 6) + between
        });
        let room = room.saturating_sub(width_of(&place));
        place + &shorten(&label(index), room, room / 2)
    }
}

/// The advice of a finding, behind `before`.
fn advice(finding: &Finding, before: &str) -> String {
    finding.advice.as_ref().map_or_else(String::new, |advice| format!("{before}{advice}"))
}

/// ` 2.001 s (28.4%)`
fn figures(finding: &Finding) -> String {
    let share = share(finding.at_stake_ns, finding.of_ns.unwrap_or(0).into());
    format!(" {} ({share})", human_inline(finding.at_stake_ns))
}

/// The legends of the marks that occur.
pub(super) fn marks(summary: &Summary, phases: &Phases, entries: &[Entry], options: &RenderOptions) -> String {
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
        let nodes: Vec<&TreeNode> = shown.map(|entry| phases.all()[entry.index].node).in_vec();
        out += &lifetimes(summary, &nodes, options);
    }
    if entries.iter().any(|entry| entry.folded == 0 && phases.all()[entry.index].is_blocked()) {
        out += &wrapped(" ^ ", &(BLOCKED.to_owned() + LEFT_OUT), options.columns());
    }
    if entries.iter().any(|entry| entry.beside) {
        out += &wrapped(" * ", &beside(summary), options.columns());
    }
    out
}

fn beside(summary: &Summary) -> String {
    // An instance counts when it ends; instances inside it have counted before.
    let open = summary.losses.open.iter().any(|range| range.style == RangeStyle::PushPop && !range.cut);
    format!("{BESIDE}{}", if open { "; or their parent is still open" } else { "" })
}

/// The explanation of the tree's figures for a page. The page shows all phases, has lines of any length, and lists the
/// slowest phases itself.
#[cfg(feature = "page")]
#[derive(Debug)]
pub struct Explained {
    /// The base of 100 %, with the wall time if that is known.
    pub whole: Option<String>,
    /// The findings and the legends of occurring marks, a sentence each.
    pub sentences: Vec<String>,
}

/// What the page says about the figures of its tree, without findings of these kinds.
#[cfg(feature = "page")]
#[must_use]
pub fn explained(summary: &Summary, phases: &Phases, without: FindingKinds) -> Explained {
    let wide = &RenderOptions::default().width(1_000).without(without);
    let all = &wide.kept(crate::analysis::in_phases(summary, phases, wide.wording()))[..];
    let findings = &Findings { all, phases, options: wide };
    let waits = range_model::names::joined(findings.most_awaited(wide.columns()), ", ");
    let mut sentences = Vec::new();
    if !waits.is_empty() {
        sentences.push(format!("~~ {}{waits}", FindingKind::MostAwaited.lead()));
    }
    for kind in [FindingKind::WaitsFor, FindingKind::WaitsAfter, FindingKind::OffCpu, FindingKind::BusyThreads] {
        sentences.extend(findings.of(kind).iter().map(|finding| finding.sentence.clone()));
    }
    let phase = || phases.all().iter();
    if phase().any(|phase| phase.is_polled()) {
        let polled = || phase().filter(|phase| phase.is_polled());
        let longest = lifetimes(summary, &phase().map(|phase| phase.node).in_vec(), wide);
        sentences.extend(polled().any(|phase| phase.node.awaited_ns.is_some()).then(|| format!("+ {AWAITS}")));
        sentences.extend(polled().any(|phase| phase.node.awaited_ns.is_none()).then(|| format!("& {KEPT}")));
        sentences.push(longest.trim().to_owned());
    }
    sentences.push(findings.loops().trim().to_owned());
    sentences.extend(findings.long_calls(OF_OTHERS_ON_PAGE).lines().map(|line| line.trim().to_owned()));
    sentences.extend(phase().any(|phase| phase.is_blocked()).then(|| format!("^ {BLOCKED}")));
    sentences.extend(phase().any(|phase| phase.beside).then(|| format!("* {}", beside(summary))));
    let replayed = || replays::replayed(phases, summary.gpu.as_ref()).map(|(_, graphs)| graphs);
    if replayed().any(|graphs| !graphs.captured.is_empty()) {
        sentences.push(format!("[] {}", replays::captured_means(replayed())));
    }
    sentences.retain(|sentence| !sentence.is_empty());
    let whole = findings.whole_beside_wall(summary).filter(|_| phases.whole() > 0);
    Explained { whole, sentences }
}

/// The room for a name on a line between `what` and its figures, which a comma may follow.
fn room_before(figures: &str, what: &str, options: &RenderOptions) -> usize {
    options.columns().saturating_sub(width_of(what) + width_of(figures) + 1).min(MAX_NAME)
}

/// All of these behind `what`; those that do not fit on its line stand below the first.
fn listed(what: &str, parts: Vec<String>, options: &RenderOptions) -> String {
    let mut lines: Vec<String> = Vec::new();
    let last = parts.len().saturating_sub(1);
    for (at, part) in parts.into_iter().enumerate() {
        let part = if at < last { part + "," } else { part };
        match lines.last_mut() {
            Some(line) if width_of(what) + width_of(line) + 1 + width_of(&part) <= options.columns() => {
                *line += &format!(" {part}");
            }
            _ => lines.push(part),
        }
    }
    one_each(what, &lines)
}

/// A line each: `what` begins the first, and the others are aligned below it. Empty without lines.
fn one_each(what: &str, lines: &[String]) -> String {
    let mut out = String::new();
    for line in lines {
        out += if out.is_empty() { what.to_owned() } else { blanks("", width_of(what)) }.as_str();
        out += line;
        out.push('\n');
    }
    out
}

/// An ancestor that distinguishes a phase from others in a line, and whether it is the parent.
fn place(phases: &Phases, index: usize, named: &[usize]) -> Option<(usize, bool)> {
    let above = |index: usize| phases.all()[index].parent;
    let parent = above(index)?;
    let mut others = named.to_vec();
    others.retain(|&other| other != index && phases.same_name(index, other));
    let mut at = Some(parent);
    while let Some(ancestor) = at {
        others = others.into_iter().filter_map(above).in_vec();
        if others.iter().all(|&other| !phases.same_name(ancestor, other)) {
            return Some((ancestor, ancestor == parent));
        }
        at = above(ancestor);
    }
    Some((parent, true))
}

/// The longest latencies, including waiting, of spans in rows with more instances than calls, or without instances, as
/// far as they were recorded.
fn lifetimes(summary: &Summary, nodes: &[&TreeNode], options: &RenderOptions) -> String {
    const WHAT: &str = "    longest lifetimes: ";
    let mut polled: Named<(Option<&str>, &str), ()> = Named::default();
    for node in nodes.iter().filter(|node| node.instances > node.calls || node.instances == 0) {
        polled.row((node.domain.as_deref(), &node.name));
    }
    let mut rows: Vec<(&RangeStats, u64)> = summary
        .ranges
        .iter()
        .filter(|range| range.style == RangeStyle::StartEnd)
        .filter(|range| polled.contains_key(&(range.domain.as_deref(), range.name.as_str())))
        .filter_map(|range| Some((range, range.times.total_ns.checked_div(range.times.instances)?)))
        .in_vec();
    order::by_key(&mut rows, |(_, mean)| Reverse(*mean));
    let rows = rows.iter().take(SLOWEST).map(|(range, mean)| {
        let name = options.wording().label(range.domain.as_deref(), &range.name);
        let figures =
            format!(" {} (mean of {})", human_inline(*mean), integer(range.times.instances, options.thousands));
        let room = room_before(&figures, WHAT, options);
        shorten(&name, room, room / 2) + &figures
    });
    listed(WHAT, rows.in_vec(), options)
}

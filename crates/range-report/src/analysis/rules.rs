//! The findings in the phases of a run: one rule for each kind.

use std::cmp::Reverse;

use super::finding::{Evidence, Finding};
use super::phase::Way;
use super::phase::{Phase, Wait};
use super::phases::Phases;
use super::waits::{self, Culprit, LongCalls};
use crate::text::number::{human_inline, share};
use crate::text::width::shorten;
use crate::text::wording::Wording;
use range_model::names::escaped;
use range_model::stats::{Lean, Named, order};
use range_model::summary::{CallStats, OffCpuStats, WaitStats};
use range_model::{RangeStyle, Summary, TreeNode};

/// The number of phases that a rule names when it compares phases.
const NAMED: usize = 3;
/// Columns of a path to a phase (`LONGEST_PATH`) and of names in sentences.
const LONGEST_PATH: usize = 100;
const LONGEST_NAME: usize = 40;
const LONGEST_ASIDE: usize = 18;
/// A thread that is busy for this part of the wall time has next to no time for another task.
const BUSY_PERCENT: u128 = 80;
/// Time outside of spans is reported if it is at least this part of the wall time: 10 %.
const OUTSIDE_PART: u128 = 10;
/// A range off the CPU is reported if its own time is at least this part of the run (10 %), if it was off the CPU for
/// at least this percentage of that, and with at least so many samples: then the error is below a quarter.
const OFF_CPU_ROW_PART: u128 = 10;
const OFF_CPU_PERCENT: u128 = 30;
const OFF_CPU_SAMPLES: u64 = 20;
/// A span that made others wait is reported if it is owed at least this part of all followed waits (10 %), in at least
/// so many waits, and for at least so long. At most so many spans are named.
const WAITS_PART: u128 = 10;
const WAITS_LEAST: u64 = 3;
const WAITS_LEAST_NS: u64 = 10_000_000;
const WAITS_NAMED: usize = 3;
/// A 99th percentile without waits is told if it is less than this part of that with them.
const P99_PART: f64 = 0.9;
/// A system call with at least this percentage of a range's time off the CPU stands for all of it.
const ALL_PERCENT: u128 = 95;

/// A run, and the wording of sentences about it.
#[derive(Clone, Copy)]
struct Run<'a> {
    summary: &'a Summary,
    phases: &'a Phases<'a>,
    wording: Wording,
}

/// The rules, in the order in which the report prints their findings. To add a rule, write it, and add it here.
const RULES: [fn(Run<'_>) -> Vec<Finding>; 11] = [
    most_awaited,
    waits_for,
    waits_after,
    busy_threads,
    most_own_time,
    off_cpu,
    many_small_phases,
    one_long_call,
    outside_ranges,
    long_loops,
    on_gpu,
];

/// The findings of all rules, grouped by rule, the most costly of each first.
pub(crate) fn in_phases(summary: &Summary, phases: &Phases, wording: Wording) -> Vec<Finding> {
    let run = Run { summary, phases, wording };
    RULES.iter().flat_map(|rule| rule(run)).in_vec()
}

impl Run<'_> {
    /// The phases with this label.
    fn with_label(self, label: &str) -> impl Iterator<Item = usize> {
        let all = self.phases.all();
        let is_its = move |phase: &Phase<'_>| {
            range_model::names::label(phase.node.domain.as_deref(), &phase.node.name).as_deref() == Some(label)
        };
        (0..all.len()).filter(move |&index| is_its(&all[index]))
    }

    /// Whether some phase with this label is inside of one with the other.
    fn is_inside(self, inner: &str, outer: &str) -> bool {
        let all = self.phases.all();
        let above = |index: usize| std::iter::successors(all[index].parent, |&at| all[at].parent);
        let outer: Vec<usize> = self.with_label(outer).in_vec();
        self.with_label(inner).any(|index| above(index).any(|at| outer.contains(&at)))
    }

    /// A finding of one phase. `sentence` lacks the words with which its kind begins; they are added here.
    fn of_phase(self, index: usize, evidence: Evidence, at_stake_ns: u64, sentence: &str) -> Finding {
        let all = self.phases.all();
        let mut span: Vec<String> = std::iter::successors(Some(index), |&at| all[at].parent)
            .map(|at| range_model::names::label(all[at].node.domain.as_deref(), &all[at].node.name).unwrap_or_default())
            .in_vec();
        span.reverse();
        let sentence = evidence.kind().lead().to_owned() + sentence;
        Finding { span, node: Some(index), at_stake_ns, ..Finding::of_run(evidence, sentence) }
    }

    /// A finding of one of several phases that share `whole`.
    fn part(self, index: usize, evidence: Evidence, ns: u64, whole: u128, aside: &str) -> Finding {
        let path = self.phases.path(index, LONGEST_PATH, self.wording);
        let sentence = format!("{path} {} ({}){aside}", human_inline(ns), share(ns, whole));
        Finding { of_ns: Some(saturated(whole)), ..self.of_phase(index, evidence, ns, &sentence) }
    }
}

fn saturated(ns: u128) -> u64 {
    u64::try_from(ns).unwrap_or(u64::MAX)
}

fn most_awaited(run: Run<'_>) -> Vec<Finding> {
    let finding = |culprit: Culprit| {
        let for_gpu_work = waits_for_gpu(run.summary, run.phases.all()[culprit.index].node);
        let perhaps = culprit.perhaps.filter(|_| !for_gpu_work);
        let aside = awaited_for(run.phases, perhaps, for_gpu_work, run.wording);
        let aside = aside.map_or_else(String::new, |aside| format!(", {aside}"));
        let evidence = Evidence::MostAwaited { perhaps_for: perhaps, for_gpu_work };
        run.part(culprit.index, evidence, culprit.ns, run.phases.awaited_ranked(), &aside)
    };
    run.phases.most_awaited(NAMED).into_iter().map(finding).in_vec()
}

/// Whether at least half of what the calls of this name waited themselves was for GPU work that they had launched.
fn waits_for_gpu(summary: &Summary, node: &TreeNode) -> bool {
    let row = summary.calls.iter().find(|row| (&row.name, &row.domain) == (&node.name, &node.domain));
    row.and_then(|row| Some((row, row.states?)))
        .is_some_and(|(row, states)| states.gpu_work_ns > 0 && states.gpu_work_ns >= row.awaited_self_ns / 2)
}

/// The words for what a phase waited for, if something is known.
pub(crate) fn awaited_for(
    phases: &Phases,
    perhaps: Option<usize>,
    for_gpu_work: bool,
    wording: Wording,
) -> Option<String> {
    if for_gpu_work {
        return Some("for GPU work that it launched".to_owned());
    }
    let name = shorten(&phases.label(perhaps?, wording), LONGEST_ASIDE, LONGEST_ASIDE / 2);
    Some(format!("perhaps for `{name}`"))
}

/// How long those threads were in polls that were busy for nearly all of the time, and all that poll futures.
fn polling(summary: &Summary) -> (Vec<u64>, Vec<u64>) {
    let wall = u128::from(summary.elapsed_ns);
    let polling: Vec<u64> = summary.threads.iter().filter_map(|thread| thread.in_polls_ns).in_vec();
    let is_busy = |&&ns: &&u64| wall > 0 && u128::from(ns) * 100 >= wall * BUSY_PERCENT;
    (polling.iter().filter(is_busy).copied().in_vec(), polling)
}

/// Whether at least half of the threads that poll futures were busy for nearly all of the time: a call that is ready
/// may then wait for one of them.
pub(crate) fn are_workers_busy(summary: &Summary) -> bool {
    let (busy, polling) = polling(summary);
    !busy.is_empty() && busy.len() * 2 >= polling.len()
}

/// Threads that were busy for nearly all of the time, if they are at least half of the threads that poll futures.
fn busy_threads(run: Run<'_>) -> Vec<Finding> {
    let wall = u128::from(run.summary.elapsed_ns);
    let (busy, polling) = polling(run.summary);
    let who = match (busy.len(), polling.len()) {
        _ if run.phases.longest_wait().is_none() => return Vec::new(),
        (0, _) => return Vec::new(),
        (1, 1) => "the thread that polls futures was".to_owned(),
        (1, 2) => "1 of 2 threads that poll futures was".to_owned(),
        (some, all) if some == all => format!("all {all} threads that poll futures were"),
        (some, all) if some * 2 >= all => format!("{some} of {all} threads that poll futures were"),
        _ => return Vec::new(),
    };
    let mean = saturated(busy.iter().copied().total() / busy.len() as u128);
    let share = share(mean, wall);
    let sentence = format!("{who} busy for {share} of the time: some of this may be waiting for a free thread");
    let evidence = Evidence::BusyThreads { busy: busy.len(), polling: polling.len() };
    let of_ns = Some(run.summary.elapsed_ns);
    vec![Finding { at_stake_ns: mean, of_ns, ..Finding::of_run(evidence, sentence) }]
}

fn most_own_time(run: Run<'_>) -> Vec<Finding> {
    let finding = |(index, ns): (usize, u64)| {
        let finding = run.part(index, Evidence::MostOwnTime {}, ns, run.phases.ranked(), "");
        // A thread that waits in a lock does not work. What is known of a phase is of its children, too.
        let node = run.phases.all()[index].node;
        if !node.children.is_empty() || node.off_cpu_ns < node.self_ns / 2 || node.off_cpu_ns == 0 {
            return finding;
        }
        let off = human_inline(node.off_cpu_ns.min(node.self_ns));
        let sentence = format!("{}, {off} of it off CPU", finding.sentence);
        Finding { sentence, ..finding }
    };
    run.phases.most_own(NAMED).into_iter().map(finding).in_vec()
}

/// Phases whose waits end right after a range of another name: inferred. A loop waits for work, which explains nothing.
fn waits_after(run: Run<'_>) -> Vec<Finding> {
    let finding = |row: &WaitStats| {
        let (of_waits, by) = (row.of_waits?, row.by.as_deref()?);
        // A thread waits off the CPU.
        let waited = |node: &TreeNode| u128::from(node.awaited_self_ns.unwrap_or(node.off_cpu_ns));
        let its: Vec<&Phase> = run.with_label(&row.waiter).map(|index| &run.phases.all()[index]).in_vec();
        let whole: u128 = its.iter().map(|phase| waited(phase.node)).sum();
        let is_loop = its.iter().any(|phase| phase.wait == Wait::Loop);
        // How much longer they took is not always known.
        let ns = if row.time_ns > 0 { row.time_ns } else { row.over_ns.unwrap_or(0).saturating_mul(row.waits) };
        let is_much = u128::from(ns) * WAITS_PART >= whole && ns >= WAITS_LEAST_NS;
        let index = run.with_label(&row.waiter).largest_by(|&index| run.phases.all()[index].node.awaited_self_ns);
        let index = index.filter(|_| is_much && !is_loop)?;
        let name = |label: &str| shorten(&run.wording.label(None, label), LONGEST_NAME, LONGEST_NAME / 2);
        let time =
            |ns: Option<u64>, word: &str| ns.map_or_else(String::new, |ns| format!(" {word} {}", human_inline(ns)));
        let (over, within) = (time(row.over_ns, "over"), time(row.within_ns, "within"));
        let of_end = if row.before_ns.is_some() { "of its end" } else { "after it ended" };
        let chance = match row.by_chance.unwrap_or(0) {
            0 => "none".to_owned(),
            some => run.wording.count(some),
        };
        let who = match &row.by_value {
            Some(value) if by == row.waiter => {
                format!("`{}` with `{}` probably made other calls wait", name(by), name(value))
            }
            Some(value) => format!("`{}` with `{}` probably made {} wait", name(by), name(value), name(&row.waiter)),
            None if by == row.waiter => format!("calls of `{}` probably waited for each other", name(by)),
            None => {
                // A call does not make what is inside of it wait.
                let others = if run.is_inside(&row.waiter, by) { "other calls of " } else { "" };
                format!("{others}`{}` probably made {} wait", name(by), name(&row.waiter))
            }
        };
        let longer = if row.time_ns > 0 { human_inline(row.time_ns) + " in" } else { "in".to_owned() };
        let sentence = format!(
            "{who} {longer} {} of {} waits{over} looked at, which ended{within} {of_end}, by chance {chance}",
            run.wording.count(row.waits),
            run.wording.count(of_waits),
        );
        let by_chance = row.by_chance.unwrap_or(0);
        let evidence = Evidence::WaitsAfter { waits: row.waits, of_waits, by_chance };
        Some(Finding { of_ns: Some(saturated(whole)), ..run.of_phase(index, evidence, row.time_ns, &sentence) })
    };
    let mut findings: Vec<Finding> = run.summary.waits.iter().filter_map(finding).in_vec();
    order::by_most(&mut findings, |finding| finding.at_stake_ns);
    findings.truncate(WAITS_NAMED);
    findings
}

/// Spans that made calls of other spans wait, by what these waits owe to them.
fn waits_for(run: Run<'_>) -> Vec<Finding> {
    let told = || run.summary.waits.iter().filter(|row| row.of_waits.is_none());
    let whole: u128 = told().map(|row| row.time_ns).total();
    let mut spans: Named<(&str, Option<&str>, bool), Vec<&WaitStats>> = Named::default();
    for row in told() {
        // Calls of one name that wait for each other are a finding of their own, unless they only share workers.
        if let Some(by) = row.by.as_deref().filter(|by| *by != row.waiter || row.resource.is_none()) {
            spans.row((by, row.resource.as_deref(), by == row.waiter)).push(row);
        }
    }
    let finding = |(&(by, resource, is_own), rows): (&(&str, Option<&str>, bool), &Vec<&WaitStats>)| {
        let sum = |of: fn(&WaitStats) -> u64| rows.iter().fold(0, |sum: u64, row| sum.saturating_add(of(row)));
        let (ns, waits) = (sum(|row| row.time_ns), sum(|row| row.waits));
        let is_much = u128::from(ns) * WAITS_PART >= whole && waits >= WAITS_LEAST && ns >= WAITS_LEAST_NS;
        let most = rows.iter().rev().largest_by(|row| row.time_ns).filter(|_| is_much)?;
        let name = |label: &str| shorten(&run.wording.label(None, label), LONGEST_NAME, LONGEST_NAME / 2);
        let count = match most.waits {
            0 => "parts of waits".to_owned(), // the largest part of each is owed to another
            1 => "1 wait".to_owned(),
            many => run.wording.count(many) + " waits",
        };
        let others = match rows.len() - 1 {
            0 => String::new(),
            1 => ", 1 other".to_owned(),
            many => format!(", {} others", run.wording.count(many as u64)),
        };
        let (by_name, time) = (name(by), human_inline(ns));
        let did = match (resource, is_own) {
            // It does not make the call wait that it is inside of.
            (None, false) if run.is_inside(by, &most.waiter) => {
                format!("`{by_name}` of other calls made others wait {time}")
            }
            (None, false) => format!("`{by_name}` made others wait {time}"),
            (None, true) => format!("calls of `{by_name}` waited for each other {time}"),
            (Some(it), _) => format!("`{by_name}` held a {it} while others were ready for {time}"),
        };
        let without = p99_without(run.summary, most);
        let of_waiter = match is_own {
            true => String::new(),
            false => format!(": {} {}", name(&most.waiter), human_inline(most.time_ns)),
        };
        let value = most.by_value.as_deref().zip(most.value_time_ns.zip(most.value_waits));
        let (ns, waits, sentence) = match value {
            Some((value, (value_ns, value_waits))) => {
                let [value_time, count] = [human_inline(value_ns), run.wording.count(value_waits)];
                let did = format!("`{by_name}` with `{}` made other calls wait {value_time}", name(value));
                (value_ns, value_waits, format!("{did} in {count} waits, of {time} for each other"))
            }
            None => {
                let longest = human_inline(most.longest_ns);
                let sentence = format!("{did}{of_waiter} ({count}, up to {longest}{without}){others}");
                (ns, waits, sentence)
            }
        };
        let longest_ns = rows.iter().map(|row| row.longest_ns).largest();
        let evidence = Evidence::WaitsFor { waiters: rows.len(), waits, longest_ns };
        let its = run.with_label(by);
        let finding = match its.largest_by(|&index| run.phases.all()[index].node.total_ns) {
            Some(index) => run.of_phase(index, evidence, ns, &sentence),
            None => Finding { at_stake_ns: ns, ..Finding::of_run(evidence, sentence) },
        };
        Some((is_own && value.is_none(), Finding { of_ns: Some(saturated(whole)), ..finding }))
    };
    let mut findings: Vec<(bool, Finding)> = spans.iter().filter_map(finding).in_vec();
    // Who makes others wait explains more.
    order::by_key(&mut findings, |(is_own, finding)| (*is_own, Reverse(finding.at_stake_ns)));
    findings.truncate(WAITS_NAMED);
    findings.into_iter().map(|(_, finding)| finding).in_vec()
}

/// The 99th percentile of the calls that waited, and without these waits, if that is much less.
fn p99_without(summary: &Summary, waits: &WaitStats) -> String {
    let is_its = |row: &&CallStats| {
        range_model::names::label(row.domain.as_deref(), &row.name).as_deref() == Some(waits.waiter.as_str())
    };
    let p99 = summary.calls.iter().find(is_its).and_then(|row| row.latency.quantile(0.99));
    let less = p99.zip(waits.p99_without_ns).filter(|(p99, without)| (*without as f64) < p99.ns * P99_PART);
    less.map_or_else(String::new, |(p99, without)| {
        format!("; p99 {}, without them {}", human_inline(p99.ns as u64), human_inline(without))
    })
}

/// Ranges whose threads were off the CPU for much of their own time, and in which system call most of it.
fn off_cpu(run: Run<'_>) -> Vec<Finding> {
    let all = run.phases.all();
    let least = run.phases.whole().max(run.summary.elapsed_ns.into());
    let mut ranges: Named<(Option<&str>, &str), Vec<&OffCpuStats>> = Named::default();
    for row in &run.summary.off_cpu {
        ranges.row((row.domain.as_deref(), &row.name)).push(row);
    }
    let finding = |(&(domain, name), rows): (&(Option<&str>, &str), &Vec<&OffCpuStats>)| {
        let is_its = |&index: &usize| (all[index].node.domain.as_deref(), &*all[index].node.name) == (domain, name);
        let phases: Vec<usize> = (0..all.len()).filter(is_its).in_vec();
        let index = phases.iter().copied().largest_by(|&index| all[index].node.self_ns)?;
        let own_ns = phases.iter().fold(0, |sum: u64, &index| sum.saturating_add(all[index].node.self_ns));
        let ns = rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.time_ns)).min(own_ns);
        let samples = rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.samples));
        let most = rows.iter().largest_by(|row| row.time_ns)?;
        let in_call_ns = most.time_ns.min(ns);
        let is_much = u128::from(own_ns) * OFF_CPU_ROW_PART >= least
            && u128::from(ns) * 100 >= u128::from(own_ns) * OFF_CPU_PERCENT
            && samples >= OFF_CPU_SAMPLES;
        if !is_much || all[index].is_blocked() {
            return None;
        }
        let label = shorten(&run.phases.label(index, run.wording), LONGEST_NAME, LONGEST_NAME / 2);
        let mostly = if u128::from(in_call_ns) * 100 >= u128::from(ns) * ALL_PERCENT { "" } else { "mostly " };
        let call = shorten(&escaped(&most.call_of()), LONGEST_PATH, LONGEST_PATH / 2);
        let sentence = format!(
            "{label}: off CPU {} ({}), {mostly}in {call}, {} samples",
            human_inline(ns),
            share(ns, own_ns.into()),
            run.wording.count(samples)
        );
        let of_ns = Some(own_ns);
        Some(Finding { of_ns, ..run.of_phase(index, Evidence::OffCpu { samples, in_call_ns }, ns, &sentence) })
    };
    let mut findings: Vec<Finding> = ranges.iter().filter_map(finding).in_vec();
    order::by_most(&mut findings, |finding| finding.at_stake_ns);
    findings.truncate(NAMED);
    findings
}

/// Small phases that together took more time than the slowest phase, for example if each span has its own name.
fn many_small_phases(run: Run<'_>) -> Vec<Finding> {
    let all = run.phases.all();
    let small: Vec<u64> =
        (0..all.len()).filter(|&index| run.phases.is_small(index)).map(|index| all[index].node.self_ns).in_vec();
    let own_ns = small.iter().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
    if own_ns <= run.phases.most_own(1).first().map_or(0, |(_, most)| *most) {
        return Vec::new();
    }
    let (share, phases) = (share(own_ns, run.phases.whole()), run.wording.count(small.len() as u64));
    let sentence = format!("{share} is in {phases} phases under 0.1 % each");
    let advice =
        "to sum them, give them one name and put what differs into nvtx.payload, or give them one nvtx.category";
    vec![Finding {
        at_stake_ns: own_ns,
        of_ns: Some(saturated(run.phases.whole())),
        advice: Some(advice.to_owned()),
        ..Finding::of_run(Evidence::ManySmallPhases { phases: small.len() }, sentence)
    }]
}

fn one_long_call(run: Run<'_>) -> Vec<Finding> {
    let finding = |index: usize| {
        let phase = &run.phases.all()[index];
        let (longest_ns, others_mean_ns) = (phase.node.max_ns, phase.mean_of_the_others().unwrap_or(0));
        let [longest, others] = [longest_ns, others_mean_ns].map(human_inline);
        let name = shorten(&run.phases.label(index, run.wording), LONGEST_NAME, LONGEST_NAME / 2);
        let is_warm_up = phase.has_warm_up;
        let which = if is_warm_up { "first call".to_owned() } else { which_call(phase.node, run.wording) };
        let sentence = format!("`{name}`: {which} {longest}, the others {others} each");
        let (number, start_ns) = phase.node.longest.map(|it| (it.number, it.start_ns)).unzip();
        let number = number.flatten();
        let evidence = Evidence::OneLongCall { longest_ns, others_mean_ns, is_warm_up, number, start_ns };
        let advice = "reset() after a warm-up leaves such calls out".to_owned();
        let advice = Some(advice).filter(|_| is_warm_up && !run.wording.of_command);
        let at_stake_ns = longest_ns.saturating_sub(others_mean_ns);
        Finding { of_ns: Some(phase.node.total_ns), advice, ..run.of_phase(index, evidence, at_stake_ns, &sentence) }
    };
    run.phases.dominated().into_iter().map(finding).in_vec()
}

/// `call 51 of 100, at 60.12 ms,`
fn which_call(node: &TreeNode, wording: Wording) -> String {
    let Some(longest) = node.longest else { return "one call".to_owned() };
    let [number, of] = [longest.number.unwrap_or(0), longest.of].map(|count| wording.count(count));
    let elsewhere = if longest.of == node.instances { "" } else { " on its thread" };
    let at = human_inline(longest.start_ns);
    match longest.number {
        Some(_) => format!("call {number} of {of}{elsewhere}, at {at},"),
        None => format!("a call at {at},"),
    }
}

/// The time outside of spans. It is a bound if several threads or calls may have been in spans at once.
fn outside_ranges(run: Run<'_>) -> Vec<Finding> {
    let wall = run.summary.elapsed_ns;
    let enough = |&ns: &u64| wall > 0 && u128::from(ns) * OUTSIDE_PART >= u128::from(wall);
    let Some(ns) = run.summary.outside_ns.filter(enough) else { return Vec::new() };
    let exact = run.summary.threads.len() == 1
        && run.phases.awaited_whole().is_none()
        && run.summary.ranges.iter().all(|range| range.style == RangeStyle::PushPop);
    let (least, range) = (if exact { "" } else { "at least " }, run.wording.of("span", "range"));
    let sentence = format!("{least}{} of the wall time is in no {range}", share(ns, wall.into()));
    let evidence = Evidence::OutsideRanges { exact };
    vec![Finding { at_stake_ns: ns, of_ns: Some(wall), ..Finding::of_run(evidence, sentence) }]
}

fn long_loops(run: Run<'_>) -> Vec<Finding> {
    let finding = |index: usize| {
        let node = run.phases.all()[index].node;
        let LongCalls { count, life_ns } = waits::long_calls(node, run.summary)?;
        let awaited_self_ns = node.awaited_self_ns.unwrap_or(0).checked_div(count)?;
        let name = shorten(&run.phases.label(index, run.wording), LONGEST_NAME, LONGEST_NAME / 2);
        let sentence = name + &lived(count, [life_ns, awaited_self_ns], run.wording);
        Some(run.of_phase(index, Evidence::LongLoop { calls: count, life_ns, awaited_self_ns }, 0, &sentence))
    };
    run.phases.loops().into_iter().filter_map(finding).in_vec()
}

/// ` 2.001 s (1 call)`, and ` 2.001 s (1 call, 617.8 ms awaited)` if it waited for less than half of its life.
pub(crate) fn lived(calls: u64, [life_ns, awaited_self_ns]: [u64; 2], wording: Wording) -> String {
    let several = if calls == 1 { "" } else { "s" };
    let awaited = match awaited_self_ns < life_ns / 2 {
        true => format!(", {} awaited{}", human_inline(awaited_self_ns), if calls == 1 { "" } else { " each" }),
        false => String::new(),
    };
    format!(" {} ({} call{several}{awaited})", human_inline(life_ns), wording.count(calls))
}

/// The phases that took most GPU time. Shares of busy time are of all work of the GPU, also of work for no span.
fn on_gpu(run: Run<'_>) -> Vec<Finding> {
    let most = |way: Way, evidence: Evidence| {
        let Some(own) = run.phases.gpu_whole(way) else { return Vec::new() };
        let all = run.summary.gpu.as_ref().filter(|_| way == Way::Busy).map_or(0, |gpu| gpu.total.busy_ns);
        let whole = if all > 0 { all.into() } else { own };
        let phases = run.phases.most_on_gpu(way, NAMED).into_iter();
        phases.map(|(index, ns)| run.part(index, evidence, ns, whole, "")).in_vec()
    };
    let busy: Vec<Finding> = most(Way::Busy, Evidence::MostBusyTime {});
    busy.into_iter().chain(most(Way::Stream, Evidence::MostStreamTime {})).in_vec()
}

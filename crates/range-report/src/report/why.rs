//! Why: what a run says in a few lines, the most costly first.

use super::envelope::{section, title};
use super::options::RenderOptions;
use crate::analysis::{self, Evidence, Finding, FindingKind};
use crate::text::emphasis::Emphasis;
use crate::text::width::wrapped;
use range_model::Summary;
use range_model::stats::{Lean, order};
use range_model::summary::IdleCause;

/// Findings that are printed below the first, at most.
const MOST: usize = 4;
const NOTHING: &str = "Nothing in the records says why.\n";

/// The conclusions of a run in the words, and without the kinds, that a reader has chosen.
pub(crate) fn findings(summary: &Summary, options: &RenderOptions) -> Vec<Finding> {
    options.kept(analysis::findings(summary, options.wording()))
}

/// `Why`: how busy the GPU was and why not busier, and other findings that cost time.
pub(crate) fn why(summary: &Summary, options: &RenderOptions) -> String {
    let mut all = options.kept(analysis::on_gpu(summary, options.wording()));
    let says_use = all.first().is_some_and(|finding| finding.kind() == FindingKind::GpuUse);
    let mut more = all.split_off(usize::from(says_use));
    if more.iter().all(is_outside_of_ranges) {
        let known = |finding: &Finding| [&all, &more].into_iter().flatten().any(|it| it.sentence == finding.sentence);
        let of_time = |finding: &Finding| finding.at_stake_ns > 0 && !known(finding);
        let others = findings(summary, options).into_iter().filter(of_time).in_vec();
        more.extend(others);
        more = in_turns(more);
    }
    all.extend(more);
    let text = lines(&all, options);
    section(&title("Why", " (why)", options), if text.is_empty() { NOTHING } else { &text })
}

/// The first finding of each kind, then the second of each. Who made calls wait has its turn at once: what was awaited
/// means little without it. Where calls wait, time outside of spans comes after them: a server has nothing to do then.
fn in_turns(findings: Vec<Finding>) -> Vec<Finding> {
    use FindingKind::{MostAwaited, OutsideRanges, WaitsAfter, WaitsFor};
    let waits = findings.iter().any(|finding| matches!(finding.kind(), MostAwaited | WaitsFor | WaitsAfter));
    let turn = |(at, finding): (usize, &Finding)| match finding.kind() {
        WaitsFor | WaitsAfter => 0,
        OutsideRanges => usize::from(waits),
        _ if is_outside_of_ranges(finding) => usize::from(waits),
        kind => findings[..at].iter().filter(|above| above.kind() == kind).count(),
    };
    let turns: Vec<usize> = findings.iter().enumerate().map(turn).in_vec();
    let mut turned: Vec<(usize, Finding)> = turns.into_iter().zip(findings).in_vec();
    order::by_key(&mut turned, |(turn, _)| *turn);
    turned.into_iter().map(|(_, finding)| finding).in_vec()
}

/// Whether it is about idle time of the GPU outside of ranges.
fn is_outside_of_ranges(finding: &Finding) -> bool {
    matches!(finding.evidence, Evidence::GpuIdleFor { cause: IdleCause::NoWork, .. })
}

/// What stands above all reports of a run with work on the GPU.
pub(crate) fn first_lines(summary: &Summary, options: &RenderOptions) -> String {
    let all = options.kept(analysis::on_gpu(summary, options.wording()));
    if all.is_empty() { String::new() } else { format!("\n{}", lines(&all, options)) }
}

/// The first finding, and the others below it.
fn lines(findings: &[Finding], options: &RenderOptions) -> String {
    let line = |(at, finding): (usize, &Finding)| {
        // What was advised above needs no second time.
        let is_new = findings[..at].iter().all(|above| above.advice != finding.advice);
        let advice = finding.advice.as_ref().filter(|_| is_new);
        let advice = advice.map_or_else(String::new, |advice| format!(". To try: {advice}"));
        let text =
            wrapped(if at == 0 { "" } else { " -" }, &format!("{}{advice}", finding.sentence), options.columns());
        Emphasis::Bold.of(&text, options.color && at == 0)
    };
    findings.iter().take(1 + MOST).enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FindingKinds, SummaryExt as _};
    use range_model::summary::{DeviceIdle, GpuIdle, SpanIdle};

    /// A device that six ranges keep idle, each for one more tenth of the run.
    fn run() -> Summary {
        let mut device = DeviceIdle::default();
        (device.wall_ns, device.busy_ns) = (10_000, 400);
        let span = |tenths: u64| {
            let mut row = SpanIdle { name: Some(format!("part {tenths}")), ..SpanIdle::default() };
            let cause = if tenths == 3 { IdleCause::Host } else { IdleCause::Loading };
            row.causes.add(cause, tenths * 1_000);
            row
        };
        let mut idle = GpuIdle { devices: vec![device], ..GpuIdle::default() };
        idle.spans = (1..=6).map(span).collect();
        Summary { elapsed_ns: 10_000, outside_ns: Some(5_000), idle: Some(idle), ..Summary::default() }
    }

    #[test]
    fn four_findings_at_most_without_those_that_are_off() {
        let lines = |options: RenderOptions| {
            let text = why(&run(), &options);
            (1..=6).rev().filter(|part| text.contains(&format!("in `part {part}`"))).collect::<Vec<_>>()
        };
        let options = RenderOptions::default();
        assert_eq!(lines(options), [6, 5, 4, 3, 2], "the first line is a finding here");
        assert_eq!(lines(options.without(FindingKinds::of([FindingKind::HostPhase]))), [6, 5, 4, 2, 1]);
        assert_eq!(lines(options.without(FindingKinds::of([FindingKind::FirstCalls]))), [3]);
    }

    #[test]
    fn a_user_of_the_command_reads_of_ranges() {
        let told = |options: RenderOptions| {
            let findings = run().findings_with(&options).into_iter();
            findings.map(|finding| finding.sentence).find(|sentence| sentence.contains("wall time")).unwrap_or_default()
        };
        let options = RenderOptions::default();
        assert_eq!(told(options), "at least 50.0% of the wall time is in no span");
        assert_eq!(told(options.of_command(true)), "at least 50.0% of the wall time is in no range");
    }
}

//! Why: what a run says in a few lines, the most costly first.

use super::envelope::section;
use super::options::RenderOptions;
use crate::analysis::{self, Finding, FindingKind};
use crate::text::emphasis::Emphasis;
use crate::text::width::wrapped;
use crate::{Summary, TableStyle};

/// Findings that are printed, at most.
const MOST: usize = 4;
const NOTHING: &str = "Nothing in the records says why.\n";

/// `Why`: how busy the GPU was and why not busier, and other findings that cost time.
pub(crate) fn why(summary: &Summary, options: &RenderOptions) -> String {
    let title = match options.style {
        TableStyle::Current => " ** Why (why):",
        TableStyle::Legacy => "Why:",
    };
    let mut all = analysis::on_gpu(summary, options.wording());
    if !all.iter().any(|finding| finding.kind() == FindingKind::GpuIdleFor) {
        let of_time =
            |finding: &Finding| finding.at_stake_ns > 0 && all.iter().all(|known| known.sentence != finding.sentence);
        let more: Vec<Finding> = summary.findings().into_iter().filter(of_time).collect();
        all.extend(more);
    }
    all.truncate(MOST + 1);
    let text = lines(&all, options);
    section(title, if text.is_empty() { NOTHING } else { &text })
}

/// What stands above all reports of a run with work on the GPU.
pub(crate) fn first_lines(summary: &Summary, options: &RenderOptions) -> String {
    let all = analysis::on_gpu(summary, options.wording());
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
    findings.iter().enumerate().map(line).collect()
}

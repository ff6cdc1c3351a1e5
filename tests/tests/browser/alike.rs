//! After a click, the page uses the words of the findings: the same figures, the same phases, the same paths to them.

use range_model::timeline::{Call, Ending, Item, Range, Sink};
use range_page::HtmlSink;
use serde_json::json;
use tests::with;
use tracing_gpu::analysis::{Finding, FindingKind};
use tracing_gpu::summary::{LongestInstance, TreeNode};
use tracing_gpu::{RenderOptions, Report, Summary, SummaryExt as _};

use crate::chromium::Browser;
use crate::{NOTHING, written};

const MS: u64 = 1_000_000;

fn found(summary: &Summary, kind: FindingKind) -> Finding {
    let findings = summary.findings();
    findings.into_iter().find(|finding| finding.kind() == kind).expect("it is found")
}

/// The text in the units of the page.
fn plain(text: &str) -> String {
    text.replace(" us", " \u{b5}s").replace("%)", " %)")
}

fn leaf(name: &str, calls: u64, ns: u64) -> TreeNode {
    with(TreeNode::new(name), |it| (it.calls, it.instances, it.total_ns, it.self_ns) = (calls, calls, ns, ns))
}

fn shown(name: &str, summary: &Summary, items: &[Item<'_>]) -> Browser {
    let mut page = Vec::new();
    let mut sink = HtmlSink::new(&mut page);
    sink.begin(&summary.process).expect("memory takes it");
    items.iter().for_each(|item| sink.item(item).expect("memory takes it"));
    sink.end(summary, 0).expect("memory takes it");
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&written(name, &page));
    browser
}

#[test]
fn times_are_written_alike() {
    let edges = [1, 999, 1_000, 9_999, 99_995, 999_949, 999_951, 1_000_000, 59_999_500, 999_999_999];
    let more = (0..200).map(|power| 1.12_f64.powi(power) as u64 + power as u64);
    let times: Vec<u64> = edges.into_iter().chain(more).filter(|&ns| ns < 1 << 40).collect();
    let of_finding = |&ns: &u64| {
        let summary = with(Summary::default(), |it| it.tree = vec![leaf("a", 1, ns)]);
        let said = found(&summary, FindingKind::MostOwnTime).sentence;
        plain(said.trim_start_matches("most time of its own: a ").trim_end_matches(" (100.0%)"))
    };
    let expected: Vec<String> = times.iter().map(of_finding).collect();
    let mut browser = shown("alike-times.html", &Summary::default(), &[]);
    assert_eq!(browser.eval(&format!("{times:?}.map(page.human)")), json!(expected));
}

/// A request that waits in a query for a connection: as a single call of the run, and as all of its calls.
#[test]
fn a_call_waits_where_the_run_does() {
    let waiting = |name: &str, [own, awaited, itself]: [u64; 3], children| {
        with(leaf(name, 1, own * MS), |it| {
            it.instances = 2;
            (it.awaited_ns, it.awaited_self_ns) = (Some(awaited * MS), Some(itself * MS));
            it.children = children;
        })
    };
    let wait = waiting("wait for a connection", [1, 64, 64], vec![]);
    let query = waiting("query", [1, 78, 14], vec![wait]);
    let mut summary = Summary::default();
    summary.elapsed_ns = 101 * MS;
    summary.tree = vec![waiting("request", [1, 97, 18], vec![query])];
    let call = |call, parent, name: &'static str, [start, end]: [u64; 2]| {
        let (start, end, span) = (start * MS, end * MS, call);
        Item::Call(Call {
            call,
            span,
            parent,
            thread: 7,
            start,
            end,
            domain: None,
            name,
            fields: &[],
            ending: Ending::Closed,
        })
    };
    let poll = |call, parent, name: &'static str, at: u64| {
        let (start, end) = (at * MS, at * MS + MS);
        Item::Range(Range { thread: 7, start, end, name, call, span: call, parent, ..Range::default() })
    };
    let items = [
        poll(1, 0, "request", 0),
        poll(2, 1, "query", 10),
        poll(3, 2, "wait for a connection", 15),
        call(3, 2, "wait for a connection", [15, 80]),
        call(2, 1, "query", [10, 90]),
        call(1, 0, "request", [0, 100]),
    ];
    let mut browser = shown("alike-wait.html", &summary, &items);
    let finding = found(&summary, FindingKind::MostAwaited);
    let (time, way) = ("64.00 ms", finding.span[1..].join(" > "));
    assert!(finding.sentence.contains(&format!("> {way} {time}")), "{}", finding.sentence);
    browser.wait_for("document.querySelectorAll('#hot-calls a').length > 0");
    browser.eval("page.select(page.find('request')[0])");
    let reason = browser.text("document.querySelector('#details .reason').innerText");
    assert!(reason.contains(&format!("{time} (64.0 %) waiting in {way}")), "{reason}");
    let slowest = browser.text("document.querySelector('#hot-calls .bar-why').innerText");
    assert!(slowest.starts_with(&format!("64.0 % waiting in {way}, ")), "{slowest}");
    // The first list shows latencies if the report begins with waiting, and so names the same phase.
    let hot = browser.text("document.querySelector('#hot-cpu li').innerText");
    assert!(hot.starts_with(finding.span.last().expect("a phase")), "{hot}");
    let said = browser.text("document.getElementById('panel').innerText");
    assert!(said.contains(&plain(&finding.sentence).replace(" %)", "%)")), "{} in {said}", finding.sentence);
    assert_eq!(browser.complaints(), NOTHING);
}

/// A phase selected by a click has the report's average, which excludes a long first call.
#[test]
fn a_first_call_counts_in_no_average() {
    let linear = with(leaf("linear", 20, 464 * MS), |it| {
        it.max_ns = 450 * MS;
        it.longest = Some(with(LongestInstance::default(), |longest| {
            (longest.ns, longest.is_first, longest.number, longest.of) = (450 * MS, true, Some(1), 20);
        }));
    });
    let summary = with(Summary::default(), |it| it.tree = vec![linear, leaf("other", 4, 8 * MS)]);
    let finding = found(&summary, FindingKind::OneLongCall);
    let mut browser = shown("alike-first.html", &summary, &[]);
    for (name, mean) in [("linear", "736.8 us"), ("other", "2.000 ms")] {
        let at = browser.eval(&format!("page.phase({name:?})"));
        let at = (at["x"].as_f64().expect("x"), at["y"].as_f64().expect("y"));
        browser.mouse("mouseMoved", at, json!({}));
        let tip = browser.text("document.getElementById('tip').innerText");
        assert!(tip.contains(&format!("per call\n{}", plain(mean))), "{tip}");
        let mut text = Vec::new();
        summary.render(&[Report::Tree], &RenderOptions::default(), &mut text).expect("memory takes it");
        let text = String::from_utf8(text).expect("text");
        assert!(text.lines().any(|line| line.contains(mean) && line.contains(name)), "{text}");
    }
    assert!(finding.sentence.contains("the others 736.8 us each"), "{}", finding.sentence);
    assert_eq!(browser.complaints(), NOTHING);
}

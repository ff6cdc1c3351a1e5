//! Marks beside the phase tree and sentences below it, as in the printed text; and the first screen of a comparison.

use range_model::timeline::Sink;
use range_page::HtmlSink;
use serde_json::json;
use tests::with;
use tracing_gpu::summary::{CallStats, LongestInstance, Quantile, RangeStats, RangeStyle, Times, TreeNode};
use tracing_gpu::{Comparison, RenderOptions, Report, Summary, SummaryExt as _, WriteHtml as _};

use crate::chromium::Browser;
use crate::{NOTHING, folder, written};

/// Waiting phases have columns in the tree and a table of their own, in both themes.
#[test]
fn calls_have_a_table_and_what_waits_is_said() {
    const MS: u64 = 1_000_000;
    let mut latency = Times::new(20, 1_700 * MS);
    (latency.max_ns, latency.median_ns, latency.median_exact) = (120 * MS, Some(84e6), true);
    latency.quantiles = vec![Quantile::new(0.9, 90e6, true), Quantile::new(0.99, 118e6, false)];
    let mut query = CallStats::new("query_db", latency);
    (query.cancelled, query.busy_ns, query.awaited_ns, query.awaited_self_ns) =
        (Some(2), 9 * MS, 1_691 * MS, 1_690 * MS);
    let mut node = TreeNode::new("query_db");
    (node.calls, node.instances, node.total_ns, node.self_ns) = (20, 60, 9 * MS, 9 * MS);
    (node.awaited_ns, node.awaited_self_ns) = (Some(1_691 * MS), Some(1_690 * MS));
    node.quantiles = vec![Quantile::new(0.999, 2e6, false)];
    let mut warm = TreeNode::new("linear");
    (warm.calls, warm.instances, warm.total_ns, warm.self_ns, warm.max_ns) = (20, 20, 464 * MS, 464 * MS, 450 * MS);
    let mut longest = LongestInstance::default();
    (longest.ns, longest.is_first, longest.number, longest.of) = (450 * MS, true, Some(1), 20);
    warm.longest = Some(longest);
    let mut summary = Summary::default();
    summary.ranges = vec![RangeStats::new("query_db", Times::new(60, 9 * MS))];
    (summary.tree, summary.calls) = (vec![node, warm], vec![query]);
    let mut page = Vec::new();
    let mut sink = HtmlSink::new(&mut page);
    sink.begin(&summary.process).and_then(|()| sink.end(&summary, 0)).expect("memory takes it");
    let mut browser = Browser::start();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.size(1_280, 800);
        browser.open(&written("calls.html", &page));
        let hot = browser.text("document.querySelector('#hot-cpu ol').innerText");
        assert!(hot.contains("14.00 ms") && !hot.contains("464.0 ms"), "the first call of `linear` has no rank: {hot}");
        let tab = |name: &str| {
            format!("[...document.querySelectorAll('#tabs button')].find((tab) => tab.innerText.startsWith('{name}'))")
        };
        let row = "[...document.querySelector('#panel tbody tr').children].map((cell) => cell.innerText)";
        browser.click_on(&tab("Calls"));
        let cells = ["query_db", "20", "2", "84.00 ms", "90.00 ms", "~118.0 ms", "120.0 ms", "85.00 ms", "9.000 ms"];
        let cells = [&cells[..], &["1.691 s", "1.690 s", "0 ns"]].concat();
        assert_eq!(browser.eval(row), json!(cells));
        browser.screenshot(&folder().join(format!("calls-{scheme}.png")));
        browser.click_on(&tab("Phase tree"));
        let head = browser.eval("[...document.querySelectorAll('#panel th button')].map((one) => one.innerText)");
        assert!(head.to_string().contains(r#""Awaited","Awaited self","p99.9""#), "{head}");
        let said = browser.text("document.querySelector('#panel caption').innerText");
        assert!(said.contains("~~ most time awaited: query_db 1.690 s (100.0%)"), "{said}");
        assert!(said.contains("`linear`: first call 450.0 ms, the others 736.8 µs each"), "{said}");
        let mean = "[...document.querySelectorAll('#panel tbody tr')][1].children[6].innerText";
        assert_eq!(browser.text(mean), "736.8 µs");
        browser.screenshot(&folder().join(format!("waiting-{scheme}.png")));
    }
}

/// Futures on other threads need the marks of the printed tree. The page has the same marks, shares and sentences.
#[test]
fn the_tree_has_the_marks_and_the_words_of_the_text() {
    const MS: u64 = 1_000_000;
    let node = |name: &str, [total, own, calls, instances]: [u64; 4], children| {
        let mut it = TreeNode::new(name);
        it.total_ns = total * MS;
        it.self_ns = own * MS;
        it.calls = calls;
        it.instances = instances;
        it.children = children;
        it
    };
    let mut summary = Summary::default();
    summary.elapsed_ns = 40 * MS;
    summary.tree = vec![
        node("serve", [2, 2, 1, 4], vec![node("task", [10, 10, 3, 9], vec![])]),
        node("load", [8, 8, 1, 1], vec![]),
    ];
    let times = Times::new(3, 45 * MS);
    summary.ranges = vec![with(RangeStats::new("task", times), |it| it.style = RangeStyle::StartEnd)];
    let mut page = Vec::new();
    let mut sink = HtmlSink::new(&mut page);
    sink.begin(&summary.process).and_then(|()| sink.end(&summary, 0)).expect("memory takes it");
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&written("marks.html", &page));
    browser.click_on(
        "[...document.querySelectorAll('#tabs button')].find((tab) => tab.innerText.startsWith('Phase tree'))",
    );
    let cells = browser
        .eval("[...document.querySelectorAll('#panel tbody tr')].map((row) => [0, 1, 4, 5, 7].map((cell) => row.children[cell].innerText))");
    let expected = [
        ["serve", "10.0 %", "10.0 %", "1&", "4"],
        ["task", "50.0 %", "-*", "3&", "9"],
        ["load", "40.0 %", "40.0 %", "1", "1"],
    ];
    assert_eq!(cells, json!(expected));
    let mut text = Vec::new();
    summary.render(&[Report::Tree], &RenderOptions::default().width(1_000), &mut text).expect("memory takes it");
    let text = String::from_utf8(text).expect("text");
    for row in expected {
        let [name, _, share, calls, _] = row.map(|cell| cell.replace(' ', ""));
        let line = text.lines().find(|line| line.split(' ').any(|word| word == name)).expect("it is printed");
        assert!([share, calls].iter().all(|cell| line.split(' ').any(|word| word == cell)), "{row:?} in {text}");
    }
    let said = browser.eval("[...document.querySelectorAll('#panel caption div')].map((one) => one.innerText)");
    let said: Vec<String> = serde_json::from_value(said).expect("texts");
    assert_eq!(said.len(), 4, "{said:?}");
    let plain = |text: &str| text.replace(" us", " µs").split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in &said {
        assert!(text.lines().any(|line| plain(line) == plain(sentence)), "{sentence:?} in {text}");
    }
    // The base of the first screen's shares: 100 % may be little of the wall time, or more than it.
    let figures = browser.text("document.getElementById('figures').innerText");
    assert!(
        figures.starts_with("Wall time\n40.00 ms\nIn spans\n20.00 ms on all threads: the 100 % of shares"),
        "{figures}"
    );
    // Figures are aligned with and without a mark.
    let edges = browser.eval(
        "[...document.querySelectorAll('#panel tbody tr')].map((row) => { const range = document.createRange(); \
         range.selectNode(row.children[5].firstChild); return Math.round(range.getBoundingClientRect().right); })",
    );
    assert!(edges[0] == edges[1] && edges[1] == edges[2], "{edges}");
    browser.screenshot(&folder().join("marks.png"));
    assert_eq!(browser.complaints(), NOTHING);
}

/// The first screen shows ranges that became slower themselves; ranges around them are in the table.
#[test]
fn the_bars_of_a_comparison_are_of_the_cause() {
    let run = |own: u64| {
        let mut summary = Summary::default();
        let node = |name: &str, total_ns, self_ns, children| {
            let mut it = TreeNode::new(name);
            it.total_ns = total_ns;
            it.self_ns = self_ns;
            it.calls = 1;
            it.instances = 1;
            it.children = children;
            it
        };
        summary.tree = vec![node("outer", 40_000 + own, 40_000, vec![node("inner", own, own, vec![])])];
        summary.ranges = [("outer", RangeStyle::PushPop, 40_000 + own), ("inner", RangeStyle::PushPop, own)]
            .into_iter()
            .chain([("outer", RangeStyle::StartEnd, 300_000 + 2 * own)])
            .map(|(name, style, total_ns)| with(RangeStats::new(name, Times::new(1, total_ns)), |it| it.style = style))
            .collect();
        summary
    };
    let (old, new) = (run(60_000), run(150_000));
    let mut page = Vec::new();
    Comparison::of([("old", &old), ("new", &new)]).write_html(&mut page).expect("memory takes it");
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&written("cause.html", &page));
    let card = browser.text("document.querySelector('#changes section').innerText");
    let lines: Vec<&str> = card.lines().filter(|line| !line.trim().is_empty()).collect();
    let verdict = "slower itself in new: inner +90.00 µs (x2.50); slower in new: outer (start/end) +180.0 µs (x1.43), \
                   outer +90.00 µs (x1.90), inner +90.00 µs (x2.50)";
    assert_eq!(lines, ["new", verdict, "Changes of own times:", "inner", "+90.00 µs", "x2.50"], "{card}");
    browser.screenshot(&folder().join("cause.png"));
    assert_eq!(browser.complaints(), NOTHING);
}

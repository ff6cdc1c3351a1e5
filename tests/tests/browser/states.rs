//! What a call or a range did: its strip, the sentence, the facts and the tables agree, and sum to its latency.

use range_model::timeline::{Call, Item, Range, Sink};
use range_page::HtmlSink;
use serde_json::json;
use tracing_gpu::Summary;

use crate::chromium::Browser;
use crate::{NOTHING, folder, written};

const MS: u64 = 1_000_000;

fn call(number: u64, parent: u64, [start, end]: [u64; 2], name: &'static str) -> Item<'static> {
    Item::Call(Call { call: number, span: number, parent, start: start * MS, end: end * MS, name, ..Call::default() })
}

/// A range of the main thread, which surely ran in it for `on` ms, and surely did not for `off`.
fn range([start, end]: [u64; 2], name: &'static str, depth: u32, of: [u64; 2], [on, off]: [u64; 2]) -> Item<'static> {
    Item::Range(Range {
        thread: 101,
        start: start * MS,
        end: end * MS,
        name,
        depth,
        call: of[0],
        span: of[0],
        parent: of[1],
        on_cpu_ns: on * MS,
        off_cpu_ns: off * MS,
        ..Range::default()
    })
}

fn shown(name: &str, items: &[Item<'static>]) -> Browser {
    let mut page = Vec::new();
    let mut sink = HtmlSink::new(&mut page);
    let mut summary = Summary::default();
    summary.elapsed_ns = 3_000 * MS;
    sink.begin(&summary.process).expect("memory takes it");
    items.iter().for_each(|item| sink.item(item).expect("memory takes it"));
    sink.end(&summary, 0).expect("memory takes it");
    let mut browser = Browser::start();
    browser.size(1_440, 900);
    browser.open(&written(name, &page));
    browser.wait_for("page.calls.count > 0");
    browser
}

/// For each call on the page, by how much its segments differ from its latency, in ns.
const DIFFERENCES: &str = "[...page.calls.item].filter((item) => item >= 0).map((item) => {
    const segments = page.statesOf(item);
    let at = page.run.start[item];
    for (const { from, to } of segments) {
        if (Math.abs(from - at) > 1 || to <= from) return 'a gap at ' + from;
        at = to;
    }
    return Math.round(Math.abs(at - page.run.end[item]));
})";
const SEGMENTS: &str = "[...document.querySelectorAll('#details .state')].map((one) => one.textContent)";
/// The parts of the strip that its segments are, in thousandths.
const WIDTHS: &str =
    "[...document.querySelectorAll('#details .state')].map((one) => Math.round(1000 * one.style.flexGrow))";
const SAYS: &str = "document.querySelector('#details .state-says').textContent";
const REASON: &str = "document.querySelector('#details .reason').innerText";
/// The fact of a call on its time on threads.
const ON_THREAD: &str = "[...document.querySelectorAll('#details dl > div')].map((one) => one.textContent)
    .find((text) => text.startsWith('on a thread'))";

fn open_calls(browser: &mut Browser) {
    let tab = "[...document.querySelectorAll('#tabs button')].find((tab) => tab.innerText.startsWith('Calls'))";
    browser.eval(&format!("{tab}.click()"));
}

fn select(browser: &mut Browser, call: u64) {
    browser.eval(&format!(
        "page.select(page.calls.item[page.run.call[page.find('{}')[0]] - 1])",
        if call == 1 { "serve" } else { "fetch" }
    ));
    browser.settle();
}

#[test]
fn states_of_a_range_are_drawn_in_proportion() {
    let items = [
        // One poll, which ran for 241 of 1,112 ms, and waits after it.
        call(1, 0, [0, 1_200], "serve"),
        range([0, 1_112], "serve", 0, [1, 0], [241, 871]),
        range([1_199, 1_200], "serve", 0, [1, 0], [0, 0]),
        // Half of what is known of a call is in a range inside it, and a tenth is not known.
        call(2, 0, [1_300, 1_500], "fetch"),
        range([1_300, 1_400], "fetch", 0, [2, 0], [50, 40]),
        range([1_310, 1_360], "parse", 1, [3, 2], [45, 5]),
        range([1_499, 1_500], "fetch", 0, [2, 0], [0, 0]),
    ];
    let mut browser = shown("proportion.html", &items);
    assert_eq!(browser.eval(DIFFERENCES), json!([0, 0, 0]));
    select(&mut browser, 1);
    let states = ["partly on the CPU, 21.7 %", "mostly off the CPU, 78.3 %", "waiting", "on a thread"];
    assert_eq!(browser.eval(SEGMENTS), json!(states));
    assert_eq!(browser.eval(WIDTHS), json!([201, 726, 73, 1]));
    let says = "871.0 ms (72.6 %) off the CPU. 78.3 % of its own time in serve was so, and when is not recorded. A \
                click leads to serve.";
    assert_eq!(browser.text(SAYS), says);
    assert_eq!(browser.text(REASON), "Most of it: 871.0 ms (72.6 %) off the CPU");
    let fact = "on a thread1.113 s in 2 polls on 1 thread, 241.0 ms of it on the CPU, 871.0 ms off it";
    assert_eq!(browser.text(ON_THREAD), fact);
    let slowest = browser.text("document.querySelector('#hot-calls a').innerText");
    let parts = "72.6 % off the CPU, 20.1 % on the CPU, 7.3 % waiting";
    assert!(slowest.contains(parts), "{slowest}");
    browser.screenshot(&folder().join("proportion.png"));
    // 5 of 50 ms on, 35 off and 10 not known in `fetch` itself; what is inside has states of its own.
    select(&mut browser, 2);
    let mine = ["partly on the CPU, 10.0 %", "partly on a thread, 20.0 %", "mostly off the CPU, 70.0 %"];
    let inside = ["mostly on the CPU in parse, 90.0 %", "partly off the CPU in parse, 10.0 %"];
    let states = [&mine[..], &inside, &mine, &["waiting", "on a thread"]].concat();
    assert_eq!(browser.eval(SEGMENTS), json!(states));
    assert_eq!(browser.eval(WIDTHS), json!([5, 10, 35, 225, 25, 20, 40, 140, 495, 5]));
    let fact = "on a thread101.0 ms in 2 polls on 1 thread, 50.00 ms of it on the CPU, 40.00 ms off it";
    assert_eq!(browser.text(ON_THREAD), fact);
    assert_eq!(browser.complaints(), NOTHING);
}

/// A call of more polls than are looked into says so of the rest, and does not call it waiting.
#[test]
fn what_is_not_looked_into_is_no_waiting() {
    let mut items = vec![call(1, 0, [0, 3_000], "serve")];
    for poll in 0..3_000 {
        // One part of each ms is open, and then it waits.
        let Item::Range(it) = range([poll, poll + 1], "serve", 0, [1, 0], [0, 0]) else { unreachable!() };
        items.push(Item::Range(Range { end: it.start + MS / 2, ..it }));
    }
    let mut browser = shown("many-polls.html", &items);
    assert_eq!(browser.eval(DIFFERENCES), json!([0]));
    let sum = |says: &str| {
        format!(
            "page.statesOf(page.calls.item[0]).filter(({{ says }}) => says === '{says}')
                .reduce((sum, {{ from, to }}) => sum + to - from, 0) / 1e6"
        )
    };
    let [waits, runs, more] = ["waiting", "on a thread", "not looked into"].map(|says| browser.number(&sum(says)));
    assert!((waits - runs).abs() < 1.0 && more > 1_000.0, "{waits} ms waiting, {runs} on a thread, {more} unknown");
}

/// A real profiler: a plain span and a future that run and sleep. The page agrees with the summary.
#[test]
fn strips_and_tables_of_a_real_run_agree() {
    use std::future::{Future as _, poll_fn};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    use tracing::{Instrument as _, info_span};
    use tracing_gpu::{Output, Profiler};

    let path = folder().join("real-states.html");
    let profiler = Profiler::builder().output(Output::None).html(&path).build().expect("it can be built");
    let half_busy = || {
        std::thread::sleep(Duration::from_millis(30));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(20) {}
    };
    tracing::subscriber::with_default(profiler.subscriber(), || {
        info_span!("plain").in_scope(|| {
            info_span!("inside").in_scope(half_busy);
            half_busy();
        });
        let mut polls = 0;
        let future = poll_fn(|_: &mut Context<'_>| {
            half_busy();
            polls += 1;
            if polls > 2 { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut future = pin!(future.instrument(info_span!("future")));
        let context = &mut Context::from_waker(Waker::noop());
        while future.as_mut().poll(context).is_pending() {}
    });
    let summary = profiler.summary();
    profiler.finish().expect("the page can be written");
    let mut browser = Browser::start();
    browser.size(1_440, 900);
    browser.open(&path);
    browser.wait_for("page.calls.count > 0");
    let differences: Vec<u64> = serde_json::from_value(browser.eval(DIFFERENCES)).expect("numbers");
    assert!(differences.len() == 3 && differences.iter().all(|ns| *ns <= 1), "{differences:?}");
    for node in &summary.tree {
        let sum = |states: &str| {
            format!(
                "page.statesOf(page.calls.item[page.run.call[page.find('{}')[0]] - 1])
                    .filter(({{ state }}) => {states}.includes(state))
                    .reduce((sum, {{ from, to }}) => sum + to - from, 0)",
                node.name
            )
        };
        let [on, off] = ["['cpu']", "['off', 'offLikely']"].map(|states| browser.number(&sum(states)));
        let near = |ns: f64, known: u64| (ns - known as f64).abs() <= 0.001 * node.total_ns as f64;
        assert!(near(on, node.on_cpu_ns) && near(off, node.off_cpu_ns), "{on} on, {off} off, not as in {node:?}");
    }
    // The table of calls has both.
    open_calls(&mut browser);
    for node in &summary.tree {
        let cells = browser.text(&format!(
            "[...document.querySelectorAll('#panel tbody tr')].find((row) => row.innerText.startsWith('{}')).innerText",
            node.name
        ));
        for ns in [node.on_cpu_ns, node.off_cpu_ns] {
            let said = browser.text(&format!("page.human({ns})"));
            assert!(cells.contains(&said), "{said} in {cells}");
        }
    }
    assert_eq!(browser.complaints(), NOTHING);
}

/// Calls of plain threads, and a root that travels with its message and is never entered, have rows of their own.
#[test]
fn the_tab_calls_has_all_outermost_calls() {
    use tracing::info_span;
    use tracing_gpu::{Output, Profiler};

    let path = folder().join("all-calls.html");
    let profiler = Profiler::builder().output(Output::None).html(&path).build().expect("it can be built");
    tracing::subscriber::with_default(profiler.subscriber(), || {
        for _ in 0..12 {
            info_span!("job").in_scope(|| info_span!("parse").in_scope(|| {}));
            let request = info_span!("request", nvtx.lifetime = true);
            let infer = info_span!(parent: &request, "infer");
            (0..2).for_each(|_| infer.in_scope(|| {}));
        }
    });
    profiler.finish().expect("the page can be written");
    let mut browser = Browser::start();
    browser.size(1_440, 900);
    browser.open(&path);
    open_calls(&mut browser);
    let cells = "[...document.querySelectorAll('#panel tbody tr')].map((row) => [0, 1].map((at) => row.children[at].innerText))";
    let mut rows: Vec<[String; 2]> = serde_json::from_value(browser.eval(cells)).expect("names and calls");
    rows.sort();
    assert_eq!(rows, [["infer", "12"], ["job", "12"], ["request", "12"]]);
    // Each leads to its slowest calls.
    let spreads = "document.querySelectorAll('#panel td.spread button').length";
    browser.wait_for(&format!("{spreads} === 3"));
    assert_eq!(browser.complaints(), NOTHING);
}

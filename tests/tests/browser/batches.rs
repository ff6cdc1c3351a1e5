//! A batch and the requests that it serves lead to each other.

use range_model::timeline::{Call, Item, Link, Range, Sink};
use range_page::HtmlSink;
use serde_json::json;
use tracing_gpu::Summary;

use crate::chromium::Browser;
use crate::{NOTHING, folder, written};

const MS: u64 = 1_000_000;
const BATCH: u64 = 9;

/// Three requests on one thread that wait for a batch on another; a fourth that no batch serves.
fn page() -> Vec<u8> {
    let mut page = Vec::new();
    let mut sink = HtmlSink::new(&mut page);
    let summary = Summary::default();
    sink.begin(&summary.process).expect("memory takes it");
    let mut give = |item: Item<'_>| sink.item(&item).expect("memory takes it");
    for (thread, name) in [(7, "server"), (8, "batcher")] {
        give(Item::Thread { thread, name });
    }
    let poll = |call: u64, start: u64, thread| {
        let name = if call == BATCH { "infer" } else { "request" };
        let end = start + if call == BATCH { 40 * MS } else { MS };
        Item::Range(Range { thread, start, end, name, call, span: call, ..Range::default() })
    };
    for call in 1..=4 {
        give(poll(call, 2 * call * MS, 7));
        give(poll(call, (60 + 2 * call) * MS, 7));
        let (start, end) = (2 * call * MS, (61 + 2 * call) * MS);
        give(Item::Call(Call { call, span: call, thread: 7, start, end, name: "request", ..Call::default() }));
    }
    give(poll(BATCH, 15 * MS, 8));
    (1..=3).for_each(|served| give(Item::Link(Link { batch: BATCH, served, weight: 1.0 })));
    give(Item::Link(Link { batch: 99, served: 4, weight: 1.0 })); // not on the page
    sink.end(&summary, 0).expect("memory takes it");
    page
}

/// Curves that are drawn, and the number of bars that are not dim.
fn drawn(browser: &mut Browser) -> (f64, f64) {
    let found = browser.eval(
        "(() => {
            const kept = {};
            const found = [0, 0];
            const canvas = CanvasRenderingContext2D.prototype;
            const note = { bezierCurveTo: () => found[0]++, fillRect: (it, height) => (found[1] += it > 0.9 && height > 9) };
            for (const [name, count] of Object.entries(note)) {
                kept[name] = canvas[name];
                canvas[name] = function (...given) {
                    if (this.canvas.id === 'lanes') count(this.globalAlpha, given[3]);
                    kept[name].apply(this, given);
                };
            }
            page.draw();
            Object.assign(canvas, kept);
            return found;
        })()",
    );
    (found[0].as_f64().expect("a number"), found[1].as_f64().expect("a number"))
}

#[test]
fn a_batch_leads_to_its_requests_and_back() {
    let mut browser = Browser::start();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.size(1_280, 800);
        browser.open(&written("batches.html", &page()));
        let linked = "[...document.querySelectorAll('#details .linked')].map((line) => line.innerText)";
        let select = |browser: &mut Browser, item: &str| {
            browser.eval(&format!("page.select({item})"));
            browser.settle();
        };
        let request = "page.find('request').find((item) => page.lineOf(item)?.part === 'calls')";
        select(&mut browser, "page.find('infer')[0]");
        let served = "serves 3: request 61.00 ms, request 61.00 ms, request 61.00 ms";
        assert_eq!(browser.eval(linked), json!([served]));
        assert_eq!(drawn(&mut browser).0, 3.0, "a curve from each request");
        browser.screenshot(&folder().join(format!("batch-{scheme}.png")));
        // The first of them, and back.
        browser.click_on("document.querySelector('#details .linked a')");
        browser.wait_for("document.querySelector('#details .linked')?.innerText.startsWith('in batch')");
        assert_eq!(browser.eval(linked), json!(["in batch: infer 40.00 ms"]));
        browser.eval("page.show(0, 80e6)");
        assert_eq!(drawn(&mut browser).0, 2.0, "from poll to poll, and to the batch");
        browser.screenshot(&folder().join(format!("batched-{scheme}.png")));
        browser.click_on("document.querySelector('#details .linked a')");
        browser.wait_for("document.querySelector('#details strong').innerText === 'infer'");
        select(&mut browser, &format!("{request} + 3"));
        assert_eq!(browser.eval(linked), json!([]), "no batch serves the last one");
        assert_eq!(browser.complaints(), NOTHING);
    }
}

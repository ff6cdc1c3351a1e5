//! Large runs: how much is drawn of them, and the page's notes on omitted items. The benchmark `page` measures times.

use range_page::{HtmlLimits, HtmlSink};

use crate::invented::Run;
use crate::requests::server;
use crate::{Browser, NOTHING, written};

/// Zooms in and out, between the whole run and a few ranges, selects an item, and sums up what is seen. The shapes of a
/// frame are bounded by the lines and the pixels that are seen, however many items there are.
fn is_drawn_by_pixels(browser: &mut Browser, selected: &str) {
    browser.wait_for("page.calls.count > 0");
    let shapes = "(() => {
        const canvas = CanvasRenderingContext2D.prototype;
        const kept = Object.fromEntries(['fillRect', 'fillText', 'lineTo'].map((name) => [name, canvas[name]]));
        let shapes = 0;
        for (const name in kept) canvas[name] = function (...given) { shapes++; return kept[name].apply(this, given); };
        page.draw();
        Object.assign(canvas, kept);
        return shapes;
    })()";
    let mut most = 0.0_f64;
    for step in 0..40 {
        browser.key(if step < 20 { "w" } else { "s" }, 0);
        most = most.max(browser.number(shapes));
    }
    browser.key("0", 0);
    let item = browser.number(selected);
    browser.eval(&format!("page.select({item}); page.draw()"));
    assert!(browser.text("document.getElementById('details').innerText").len() > 20);
    browser.key("Escape", 0);
    browser.key("m", 0);
    let pixels = browser.number("page.timeline.width * (page.timeline.lines.length + 1)");
    println!("at most {most} shapes a frame, of {pixels} pixels of lines");
    assert!(most > 100.0 && most < pixels, "{most} shapes for {pixels} pixels of lines");
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn a_hundred_thousand_calls_are_drawn_by_pixels() {
    let (server, path) = server();
    let items = server.calls.len() + server.ranges.len() + server.operations.len();
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(path);
    assert_eq!(browser.number("page.run.count"), items as f64);
    is_drawn_by_pixels(&mut browser, "page.calls.roots[7777]");
    assert_eq!(browser.number("page.calls.roots.length"), 27_000.0);
}

#[test]
fn of_more_than_a_million_ranges_only_the_shortest_are_left_out() {
    let run = Run::many(1_000_617);
    let summary = Run::many(4_000).summary(); // the tables' own cost is small in comparison
    let mut page = Vec::new();
    run.write(&mut HtmlSink::new(&mut page), &summary, 0).expect("memory takes it");
    let path = written("million.html", &page);
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&path);
    is_drawn_by_pixels(&mut browser, "page.find('request 0')[500]");
    assert_eq!(browser.number("page.run.count"), 1_000_000.0);
    let notice = browser.text("document.getElementById('left-out').innerText");
    assert!(notice.starts_with("617 of 1,000,617 items are not drawn"), "{notice}");
}

#[test]
fn a_page_says_what_it_leaves_out() {
    let run = Run::many(20_000);
    let summary = Run::many(400).summary();
    let mut page = Vec::new();
    let limits = HtmlLimits { items: 5_000, ..HtmlLimits::default() };
    run.write(&mut HtmlSink::with_limits(&mut page, limits), &summary, 37).expect("memory takes it");
    let mut browser = Browser::start();
    browser.open(&written("thinned.html", &page));
    let drawn = browser.number("page.run.count");
    assert_eq!(drawn, 5_000.0);
    let notice = browser.text("document.getElementById('left-out').innerText");
    assert!(notice.contains("37 items were lost"), "{notice}");
    let left_out = format!("{} of 20,000 items are not drawn", thousands(20_000 - drawn as usize));
    assert!(notice.contains(&left_out), "{left_out} in {notice}");
    assert_eq!(browser.complaints(), NOTHING);
}

fn thousands(count: usize) -> String {
    format!("{},{:03}", count / 1_000, count % 1_000)
}

//! Large runs: the time to load and to draw the page, and its notes on omitted items.

use std::path::Path;
use std::time::Instant;

use range_report::export::{HtmlLimits, HtmlSink};

use crate::invented::Run;
use crate::requests::server;
use crate::{Browser, NOTHING, written};

/// `count` ranges on four threads, three deep, of 300 names.
fn many(count: usize) -> Run {
    let threads = [1_u32, 2, 3, 4];
    let mut run = Run { threads: threads.map(|thread| (thread, "worker")).to_vec(), ..Run::default() };
    let mut at = [0_u64; 4];
    let mut made = 0;
    while made < count {
        for thread in threads {
            let start = at[thread as usize - 1];
            let outer = run.open(thread, start, &format!("request {}", made % 40), None);
            let inner = run.open(thread, start + 400, &format!("phase {}", made % 160), Some(outer));
            let mut end = start + 900;
            for leaf in 0..8 {
                end = run.leaf(thread, end, 1_500, &format!("leaf {}", (made + leaf) % 100), Some(inner));
            }
            run.close(inner, end + 300);
            at[thread as usize - 1] = run.close(outer, end + 600) + 2_000;
            made += 10;
        }
    }
    run.spans.truncate(count);
    run
}

/// The page's processor time in milliseconds, because other programs run beside this one. Checks the slowest frame of
/// zooming in and out, at all scales between the whole run and a few ranges.
fn is_quick(path: &Path, selected: &str) {
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    let wall = Instant::now();
    let first_drawn = browser.busy(|browser| {
        browser.open(path);
        browser.wait_for("page.timeline.firstDrawn > 0");
    });
    let wall = wall.elapsed().as_millis();
    browser.wait_for("page.calls.count > 0");
    let mut zoom = 0.0;
    for step in 0..40 {
        let key = if step < 20 { "w" } else { "s" };
        let frame = format!("document.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}' }})); page.draw()");
        zoom = browser.busy(|browser| drop(browser.eval(&frame))).max(zoom);
    }
    browser.key("0", 0);
    let item = browser.number(selected);
    let select = browser.busy(|browser| drop(browser.eval(&format!("page.select({item}); page.draw()"))));
    assert!(browser.text("document.getElementById('details').innerText").len() > 20);
    browser.key("Escape", 0);
    let mark = "document.dispatchEvent(new KeyboardEvent('keydown', { key: 'm' })); page.draw()";
    let mark = browser.busy(|browser| drop(browser.eval(mark)));
    assert_eq!(browser.complaints(), NOTHING);
    println!(
        "{}: {:.1} MB, drawn in {first_drawn:.0} ms ({wall} ms beside other programs), the worst frame of zooming in \
         {zoom:.0} ms, a selection in {select:.0} ms, the sums of everything in {mark:.0} ms",
        path.file_name().unwrap_or_default().display(),
        std::fs::metadata(path).expect("it is there").len() as f64 / 1e6,
    );
    assert!(first_drawn < 1_000.0, "first drawn in {first_drawn} ms");
    assert!(zoom < 100.0 && select < 100.0, "a frame takes {zoom} ms zooming, {select} ms selecting");
}

#[test]
fn a_hundred_thousand_calls_are_quick() {
    let (server, path) = server();
    let items = server.calls.len() + server.ranges.len() + server.operations.len();
    is_quick(path, "page.calls.roots[7777]");
    let mut browser = Browser::start();
    browser.open(path);
    assert_eq!(browser.number("page.run.count"), items as f64);
    assert_eq!(browser.number("page.calls.roots.length"), 27_000.0);
}

#[test]
fn a_million_ranges_are_quick_and_one_more_costs_no_other() {
    let run = many(1_000_617);
    let summary = many(4_000).summary(); // the tables' own cost is small in comparison
    let mut page = Vec::new();
    run.write(&mut HtmlSink::new(&mut page), &summary, 0).expect("memory takes it");
    let path = written("million.html", &page);
    is_quick(&path, "page.find('request 0')[500]");
    let mut browser = Browser::start();
    browser.open(&path);
    assert_eq!(browser.number("page.run.count"), 1_000_000.0);
    let notice = browser.text("document.getElementById('left-out').innerText");
    assert!(notice.starts_with("617 of 1,000,617 items are not drawn"), "{notice}");
}

#[test]
fn a_page_says_what_it_leaves_out() {
    let run = many(20_000);
    let summary = many(400).summary();
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

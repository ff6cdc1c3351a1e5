//! Large runs: how long the page takes to load and to draw, and what it says of what it leaves out.

use std::time::Instant;

use range_report::export::{HtmlLimits, HtmlSink};

use crate::invented::Run;
use crate::{Browser, NOTHING, written};

/// `count` ranges on four threads, three deep, of 300 names.
pub(crate) fn many(count: usize) -> Run {
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

#[test]
fn a_hundred_thousand_ranges_load_and_zoom() {
    let run = many(100_000);
    let summary = many(4_000).summary(); // the tables' own cost is small beside
    let mut page = Vec::new();
    let began = Instant::now();
    run.write(&mut HtmlSink::new(&mut page), &summary, 0).expect("memory takes it");
    let writing = began.elapsed();
    let path = written("large.html", &page);
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    let began = Instant::now();
    browser.open(&path);
    browser.settle();
    let loading = began.elapsed();
    assert_eq!(browser.number("page.run.count"), 100_000.0);
    let script = browser.number("performance.getEntriesByType('navigation')[0].domComplete");
    let mut steps = Vec::new();
    for step in 0..60 {
        // In, and out again: at all distances between the whole run and a few ranges.
        let key = if step % 30 < 15 { "w" } else { "s" };
        browser.key(key, 0);
        steps.push(browser.number("page.draw()"));
    }
    steps.sort_by(f64::total_cmp);
    let (median, worst) = (steps[steps.len() / 2], steps[steps.len() - 1]);
    let searched = browser.number("(() => { const began = performance.now(); document.getElementById('search').value = 'leaf 7'; document.getElementById('search').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' })); page.draw(); return performance.now() - began; })()");
    assert!(browser.text("document.getElementById('found').innerText").contains(" of "));
    browser.screenshot(&crate::folder().join("large.png"));
    println!(
        "100,000 ranges: page {:.2} MB, written in {:.0} ms, loaded in {:.0} ms (browser's own figure {script:.0} ms), one zoom step drawn in {median:.1} ms \
         (worst of 60: {worst:.1} ms), a search in {searched:.0} ms",
        page.len() as f64 / 1e6,
        writing.as_secs_f64() * 1e3,
        loading.as_secs_f64() * 1e3,
    );
    assert!(median < 50.0, "one zoom step takes {median} ms");
    assert_eq!(browser.complaints(), NOTHING);
}

/// By hand: `cargo test --release -p tests --features browser --test browser -- --ignored --nocapture`.
#[test]
#[ignore = "takes half a minute"]
fn a_million_ranges_load_and_zoom() {
    let run = many(1_000_000);
    let summary = many(4_000).summary();
    let mut page = Vec::new();
    let mut sink = HtmlSink::new(&mut page);
    let began = Instant::now();
    run.write(&mut sink, &summary, 0).expect("memory takes it");
    println!("a million ranges: {} MB in {:?}", page.len() >> 20, began.elapsed());
    let path = written("million.html", &page);
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    let began = Instant::now();
    browser.open(&path);
    println!("loaded in {:?}", began.elapsed());
    for key in ["w", "w", "w", "w", "w", "w", "w", "w"] {
        browser.key(key, 0);
        println!("drawn in {:.1} ms", browser.number("page.draw()"));
    }
    assert_eq!(browser.complaints(), NOTHING);
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
    assert!((2_000.0..=5_000.0).contains(&drawn), "{drawn}");
    let notice = browser.text("document.getElementById('left-out').innerText");
    assert!(notice.contains("37 items were lost"), "{notice}");
    let left_out = format!("{} of 20,000 items are not drawn", thousands(20_000 - drawn as usize));
    assert!(notice.contains(&left_out), "{left_out} in {notice}");
    assert_eq!(browser.complaints(), NOTHING);
}

fn thousands(count: usize) -> String {
    format!("{},{:03}", count / 1_000, count % 1_000)
}

//! The page's processor time in milliseconds, because other programs run beside this one: until it is drawn, for the
//! slowest frame of zooming in and out, for a selection, and for the sums of everything.
//!
//! ```text
//! cargo bench -p tests --features browser --bench page
//! ```
#![allow(dead_code)] // of what the tests of the page use

#[path = "../tests/browser/chromium.rs"]
mod chromium;
#[path = "../tests/browser/invented.rs"]
mod invented;
#[path = "../tests/browser/server.rs"]
mod server;

use std::path::{Path, PathBuf};
use std::time::Instant;

use range_page::HtmlSink;
use serde_json::json;

use chromium::Browser;
use invented::Run;
use server::Server;

fn main() {
    let million = {
        let mut page = Vec::new();
        let summary = Run::many(4_000).summary(); // the tables' own cost is small in comparison
        Run::many(1_000_617).write(&mut HtmlSink::new(&mut page), &summary, 0).expect("memory takes it");
        written("million.html", &page)
    };
    print_times(&written("server.html", &Server::of(27_000).page()), "page.calls.roots[7777]");
    print_times(&million, "page.find('request 0')[500]");
}

fn written(name: &str, page: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, page).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

fn print_times(path: &Path, selected: &str) {
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    let wall = Instant::now();
    let first_drawn = busy(&mut browser, |browser| {
        browser.open(path);
        browser.wait_for("page.timeline.firstDrawn > 0");
    });
    let wall = wall.elapsed().as_millis();
    browser.wait_for("page.calls.count > 0");
    let mut zoom = 0.0;
    for step in 0..40 {
        let key = if step < 20 { "w" } else { "s" };
        let frame = format!("document.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{key}' }})); page.draw()");
        zoom = busy(&mut browser, |browser| drop(browser.eval(&frame))).max(zoom);
    }
    browser.key("0", 0);
    let item = browser.number(selected);
    let select = busy(&mut browser, |browser| drop(browser.eval(&format!("page.select({item}); page.draw()"))));
    browser.key("Escape", 0);
    let mark = "document.dispatchEvent(new KeyboardEvent('keydown', { key: 'm' })); page.draw()";
    let mark = busy(&mut browser, |browser| drop(browser.eval(mark)));
    println!(
        "{}: {:.1} MB, drawn in {first_drawn:.0} ms ({wall} ms beside other programs), the worst frame of zooming in \
         {zoom:.0} ms, a selection in {select:.0} ms, the sums of everything in {mark:.0} ms",
        path.file_name().unwrap_or_default().display(),
        std::fs::metadata(path).expect("it is there").len() as f64 / 1e6,
    );
}

/// Milliseconds of processor time of the page for this work.
fn busy(browser: &mut Browser, work: impl FnOnce(&mut Browser)) -> f64 {
    let before = thread_time(browser);
    work(browser);
    1e3 * (thread_time(browser) - before)
}

fn thread_time(browser: &mut Browser) -> f64 {
    browser.call("Performance.enable", json!({ "timeDomain": "threadTicks" }));
    let all = browser.call("Performance.getMetrics", json!({}));
    let metrics = all["metrics"].as_array().expect("a list");
    let time = metrics.iter().find(|metric| metric["name"] == "ThreadTime").expect("Chromium measures it");
    time["value"].as_f64().expect("seconds")
}

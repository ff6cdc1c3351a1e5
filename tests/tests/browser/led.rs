//! From what the first screen names to its lane; what is clicked stays in sight.

use range_page::HtmlSink;
use serde_json::Value;

use crate::chromium::Browser;
use crate::invented::{PID, Run};
use crate::requests::server;
use crate::training::training;
use crate::{NOTHING, showing, written};

const MS: u64 = 1_000_000;
const SIZES: [(u32, u32); 2] = [(1_440, 900), (1_024, 700)];
/// Above the selected bar, that bar, what is said of it, the end of the window.
const HEIGHTS: &str = "[
    document.querySelector('.bar').getBoundingClientRect().bottom,
    page.point(page.timeline.selected).y,
    document.getElementById('details').getBoundingClientRect().top,
    innerHeight,
]";

fn is_in_sight(browser: &mut Browser, what: &str) {
    let heights: [f64; 4] = serde_json::from_value(browser.eval(HEIGHTS)).expect("numbers");
    let [bar, y, details, end] = heights;
    assert!(bar < y && y < details.min(end), "{what}: {heights:?}");
}

/// In `main`, which lasts for the whole run, 40 requests of 2 ms; the 18th takes 9 ms, most of it in `parse`.
fn plain() -> Run {
    let mut run = Run { threads: vec![(PID, "main"), (9, "writer")], ..Run::default() };
    let main = run.open(PID, 0, "main", None);
    let mut at = MS;
    for number in 0..40 {
        let length = if number == 17 { 9 * MS } else { 2 * MS };
        let request = run.open(PID, at, "request", Some(main));
        let parse = run.open(PID, at + MS / 2, "parse", Some(request));
        run.close(parse, at + length - MS / 2);
        run.close(request, at + length);
        at += length + MS;
        run.leaf(9, at, MS, "write", None);
    }
    run.close(main, at);
    run
}

#[test]
fn slow_calls_of_plain_threads_are_listed_and_shown() {
    for (width, height) in SIZES {
        let mut browser = showing("plain.html", &plain());
        browser.size(width, height);
        browser.wait_for("!document.getElementById('hot-calls').hidden");
        let slowest = browser.eval("[...document.querySelectorAll('#hot-calls a')].map((one) => one.innerText)");
        let slowest: Vec<String> = serde_json::from_value(slowest).expect("texts");
        let said = "request\n9.000 ms\n88.9 % on a thread in parse, 11.1 % on a thread\n+7.000 ms";
        assert_eq!(slowest, [said]);
        browser.click_on("document.querySelector('#hot-calls a')");
        browser.wait_for("page.timeline.selected === page.find('request')[17]");
        browser.settle();
        is_in_sight(&mut browser, "request");
        // A name of a list leads to its longest.
        browser.key("Escape", 0);
        let entry = |name: &str| {
            format!(
                "[...document.querySelectorAll('#hot-cpu button')].find((one) => one.innerText.startsWith('{name}\\n'))"
            )
        };
        browser.click_on(&entry("parse"));
        browser.wait_for("page.timeline.selected === page.find('parse')[17]");
        browser.settle();
        is_in_sight(&mut browser, "parse");
        assert_eq!(browser.text("document.getElementById('search').value"), "\"parse\"");
        assert_eq!(browser.text("document.getElementById('found').innerText"), "18 of 40");
        assert_eq!(browser.complaints(), NOTHING);
    }
}

#[test]
fn a_page_says_that_nobody_is_to_blame_where_that_is_proved() {
    let run = plain();
    for is_proved in [true, false] {
        let mut summary = run.summary();
        for node in &mut summary.tree {
            node.on_cpu_ns = if is_proved { node.total_ns } else { node.total_ns / 2 };
        }
        let mut page = Vec::new();
        run.write(&mut HtmlSink::new(&mut page), &summary, 0).expect("memory takes it");
        let mut browser = Browser::start();
        browser.open(&written("nobody.html", &page));
        let line = browser.text("document.getElementById('command').innerText");
        assert_eq!(
            line.ends_with(" \u{b7} no span made others wait: they were on the CPU for at least 99 % of their time"),
            is_proved,
            "{line}"
        );
    }
}

#[test]
fn what_is_clicked_stays_above_what_is_said_of_it() {
    let training = written("clicked.html", &training().page(0));
    for (width, height) in SIZES {
        for path in [&training, &server().1] {
            let mut browser = Browser::start();
            browser.size(width, height);
            browser.open(path);
            browser.wait_for("page.calls.count > 0 || page.run.count < 5000");
            let lines = browser.number("page.timeline.lines.length") as usize;
            let mut clicked = 0;
            for line in (0..lines).step_by(3) {
                browser.key("Escape", 0);
                browser.key("0", 0);
                // The line stands right above the lower end of the window, where the details will be.
                let place = browser.eval(&format!(
                    "(() => {{
                        const line = page.timeline.lines[{line}];
                        if (!line || line.part === 'flight') return null;
                        const scroller = page.timeline.scroller;
                        scroller.scrollTop = line.y - scroller.clientHeight + line.height + 4;
                        scrollBy(0, scroller.getBoundingClientRect().top + line.y - scroller.scrollTop + line.height + 6 - innerHeight);
                        const at = (index) => (line.ids ? line.ids[index] : index);
                        let best = at(line.first);
                        for (let index = line.first; index < Math.min(line.last, line.first + 3000); index++)
                            if (page.run.end[at(index)] - page.run.start[at(index)] > page.run.end[best] - page.run.start[best]) best = at(index);
                        const y = scroller.getBoundingClientRect().top + line.y - scroller.scrollTop + line.height / 2;
                        return y > 60 && y < innerHeight ? [page.point(best).x, y] : null;
                    }})()"
                ));
                let Value::Array(place) = place else { continue };
                browser.settle();
                browser.click((place[0].as_f64().expect("x"), place[1].as_f64().expect("y")));
                if browser.number("page.timeline.selected") >= 0.0 {
                    clicked += 1;
                    is_in_sight(&mut browser, &format!("line {line} at {place:?} of {}", path.display()));
                }
            }
            assert!(clicked >= 2, "{clicked} lines of {} were clicked", path.display());
            assert_eq!(browser.complaints(), NOTHING);
        }
    }
}

//! What is drawn and said is as much as there is: lanes of many short ranges, dim items, colours that a user forces,
//! places without scripts.

use range_page::{HtmlLimits, HtmlSink};
use serde_json::json;

use crate::chromium::Browser;
use crate::invented::{PID, Run};
use crate::requests::served;
use crate::training::training;
use crate::{NOTHING, folder, showing, written};

/// A thread with this number of ranges, each for 7.5 % of the time until the next.
fn ticks(count: u64) -> Run {
    let mut run = Run { threads: vec![(PID, "main")], ..Run::default() };
    (0..count).for_each(|number| _ = run.leaf(PID, number * 100_000, 7_500, "tick", None));
    run
}

/// The part of the pixels of the lane of `tick` that are coloured.
const COLOURED: &str = "(() => {
    page.draw();
    const line = page.lineOf(page.find('tick')[0]);
    const { canvas, gutter, width, scroller } = page.timeline;
    const context = canvas.getContext('2d');
    const top = line.y - scroller.scrollTop;
    const { data } = context.getImageData(gutter + 20, top, width - gutter - 60, line.height);
    const free = context.getImageData(gutter + 3, top, 1, 1).data;
    let used = 0;
    for (let at = 0; at < data.length; at += 4)
        used += [0, 1, 2].some((channel) => Math.abs(data[at + channel] - free[channel]) > 40);
    return used / (data.length / 4);
})()";

#[test]
fn pixels_are_as_high_as_they_are_used() {
    let (many, summary) = (ticks(40_000), ticks(10).summary());
    let mut page = Vec::new();
    many.write(&mut HtmlSink::new(&mut page), &summary, 0).expect("memory takes it");
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.open(&written("mostly-idle.html", &page));
        let coloured = browser.number(COLOURED);
        assert!((0.05..0.2).contains(&coloured), "{coloured} of the pixels are coloured at 7.5 % use, {scheme}");
        browser.screenshot(&folder().join(format!("mostly-idle-{scheme}.png")));
        // What is looked for can be seen.
        browser.eval("document.getElementById('search').value = 'tick'");
        let enter = "new KeyboardEvent('keydown', { key: 'Enter' })";
        browser.eval(&format!("document.getElementById('search').dispatchEvent({enter})"));
        browser.key("0", 0);
        assert!(browser.number(COLOURED) > 0.9);
    }
    assert_eq!(browser.complaints(), NOTHING);
}

/// The parts of the points of the lane of `tick` that have the colour of `tick`, that of `tock`, and both at the top.
const POINTS: &str = "(() => {
    page.draw();
    const [tick, tock] = ['tick', 'tock'].map((name) => page.find(name)[0]);
    const bytes = (color) => color.match(/[0-9a-f]{2}/g).map((part) => parseInt(part, 16));
    const colors = [tick, tock].map((item) => bytes(page.color(item)));
    const line = page.lineOf(tick);
    const { canvas, gutter, width, scroller } = page.timeline;
    const parts = [gutter + 20, line.y - scroller.scrollTop, width - gutter - 60, line.height];
    const context = canvas.getContext('2d');
    const { data, width: across } = context.getImageData(...parts.map((part) => part * devicePixelRatio));
    const found = [0, 0, 0];
    for (let at = 0; at < data.length; at += 4)
        colors.forEach((color, index) => {
            if (![0, 1, 2].every((channel) => data[at + channel] === color[channel])) return;
            found[index]++;
            found[2] += at < 4 * across;
        });
    return found.map((count) => count / (data.length / 4));
})()";

#[test]
fn many_short_ranges_are_painted_in_their_colours() {
    let mut run = Run { threads: vec![(PID, "main")], ..Run::default() };
    for number in 0..40_000_u64 {
        let name = if number / 37 % 2 == 0 { "tick" } else { "tock" };
        run.leaf(PID, number * 100_000, 45_000, name, None);
    }
    let path = written("painted.html", &run.page(0));
    let mut browser = Browser::start();
    for ratio in [1, 2] {
        let metrics = json!({ "width": 1_280, "height": 800, "deviceScaleFactor": ratio, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", metrics);
        browser.open(&path);
        let found: [f64; 3] = serde_json::from_value(browser.eval(POINTS)).expect("three numbers");
        let is_painted = |part: f64| (0.2..0.3).contains(&part);
        assert!(is_painted(found[0]) && is_painted(found[1]) && found[2] == 0.0, "{found:?} at 45 % use, {ratio}");
    }
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn spreads_count_what_is_not_on_the_page() {
    let (many, mut summary) = (ticks(2_000), ticks(10).summary());
    summary.ranges[0].times.histogram = vec![(100, 1_500), (108, 400), (124, 100)];
    let mut page = Vec::new();
    let limits = HtmlLimits { items: 500, ..HtmlLimits::default() };
    many.write(&mut HtmlSink::with_limits(&mut page, limits), &summary, 0).expect("memory takes it");
    let mut browser = Browser::start();
    browser.open(&written("thinned-spread.html", &page));
    let button = "document.querySelector('#panel .spread button')";
    browser.wait_for(&format!("{button} !== null"));
    let title = "2,000 times, 500 of them on this page, from 5.312 \u{b5}s to 46.34 \u{b5}s. Click for the slowest.";
    assert_eq!(browser.text(&format!("{button}.title")), title);
    assert_eq!(browser.text(&format!("{button}.querySelector('path').getAttribute('d')")).matches('M').count(), 24);
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn a_match_comes_into_sight_above_what_is_said_of_it() {
    for (width, height) in [(1_440, 900), (1_024, 700)] {
        let mut browser = showing("hits.html", &training());
        browser.size(width, height);
        browser.settle();
        for query in ["adam", "load batch", "[CUDA memcpy HtoD]", "events"] {
            browser.eval(&format!("document.getElementById('search').value = '{query}'"));
            let enter = "new KeyboardEvent('keydown', { key: 'Enter' })";
            browser.eval(&format!("document.getElementById('search').dispatchEvent({enter})"));
            browser.settle();
            if browser.number("page.timeline.selected") < 0.0 {
                continue;
            }
            let y = browser.number("page.point(page.timeline.selected).y");
            let box_of = |edge: &str, id: &str| format!("document.{id}.getBoundingClientRect().{edge}");
            let above = browser.number(&box_of("bottom", "querySelector('.bar')"));
            let below = browser.number(&box_of("top", "getElementById('details')"));
            assert!(above < y && y < below, "{query} at {y}, from {above} to {below}, {width} x {height}");
        }
        assert_eq!(browser.complaints(), NOTHING);
    }
}

#[test]
fn forced_colours_keep_bars_and_lanes() {
    let mut browser = Browser::start();
    browser.size(1_440, 900);
    let features = json!([{ "name": "forced-colors", "value": "active" }]);
    browser.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    browser.open(&written("forced.html", &training().page(0)));
    assert_eq!(browser.eval("matchMedia('(forced-colors: active)').matches"), true);
    let fills = "new Set([...document.querySelectorAll('.bar-fill')].map((bar) => getComputedStyle(bar).backgroundImage + getComputedStyle(bar).backgroundColor)).size";
    assert!(browser.number(fills) > 3.0, "bars have colours");
    // The lanes have a ground on which their colours can be seen.
    let ground = "[...page.timeline.canvas.getContext('2d').getImageData(2, 2, 1, 1).data]";
    assert_eq!(browser.eval(ground), json!([255, 255, 255, 255]));
    browser.screenshot(&folder().join("forced.png"));
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn a_place_without_scripts_says_so() {
    let page = training().page(0);
    let text = String::from_utf8(page.clone()).expect("text");
    let policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"script-src 'none'\"><title>";
    let strict = written("strict.html", text.replacen("<title>", policy, 1).as_bytes());
    for (path, is_disabled) in [(strict, false), (written("unscripted.html", &page), true)] {
        let mut browser = Browser::start();
        browser.size(1_280, 800);
        browser.call("Emulation.setScriptExecutionDisabled", json!({ "value": is_disabled }));
        browser.call("Page.navigate", json!({ "url": format!("file://{}", path.display()) }));
        browser.wait_for("document.readyState === 'complete' && document.getElementById('unscripted') !== null");
        let displays =
            "['unscripted', 'unfinished', 'page'].map((id) => getComputedStyle(document.getElementById(id)).display)";
        assert_eq!(browser.eval(displays), json!(["block", "none", "none"]));
        let says = browser.text("document.getElementById('unscripted').textContent");
        assert!(says.starts_with("This page is complete, but draws its content by scripts"), "{says}");
    }
    // A page whose scripts run has no such notice.
    let mut browser = showing("scripted.html", &training());
    assert_eq!(browser.eval("document.getElementById('unscripted')"), serde_json::Value::Null);
}

#[test]
fn moments_are_on_the_clock_of_the_world_too() {
    let run = training();
    let mut summary = run.summary();
    summary.process.started_unix_ns = 1_700_000_000_250_000_000;
    let mut page = Vec::new();
    run.write(&mut HtmlSink::new(&mut page), &summary, 0).expect("memory takes it");
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&written("utc.html", &page));
    browser.eval("page.show(5e7, 7e7); page.draw()");
    assert_eq!(browser.text("document.getElementById('span').textContent"), "20.00 ms shown, from 22:13:20.300 UTC");
    let facts =
        "(page.select(page.find('step')[3]), document.getElementById('details').innerText.replace(/\\n/g, ' '))";
    let began = browser
        .text("new Date(1700000000250 + page.run.start[page.find('step')[3]] / 1e6).toISOString().slice(11, 23)");
    let facts = browser.text(facts);
    assert!(facts.contains(&format!("began {began} UTC")), "{began} in {facts}");
}

/// What is said of a table is as wide as what is seen of it, also where the table is wider and scrolled.
#[test]
fn explanations_of_tables_are_not_clipped() {
    let mut browser = served();
    for (width, height, scheme) in [(1_440, 900, "light"), (390, 800, "dark")] {
        browser.size(width, height);
        browser.prefer(scheme);
        let tabs = browser.number("document.querySelectorAll('#tabs button').length") as usize;
        for tab in 0..tabs {
            browser.eval(&format!("document.querySelectorAll('#tabs button')[{tab}].click()"));
            for scrolled in [0, 10_000] {
                let clipped = browser.eval(&format!(
                    "(() => {{
                        const sheet = document.querySelector('#panel .sheet');
                        sheet.scrollLeft = {scrolled};
                        const seen = sheet.getBoundingClientRect();
                        return [...sheet.querySelectorAll('caption > *')]
                            .filter((one) => {{
                                const {{ left, right }} = one.getBoundingClientRect();
                                return left < seen.left || right > Math.min(seen.right, innerWidth);
                            }})
                            .map((one) => one.textContent);
                    }})()"
                ));
                assert_eq!(clipped, json!([]), "tab {tab}, {width} x {height}, scrolled by {scrolled}");
            }
        }
        browser.eval(
            "[...document.querySelectorAll('#tabs button')].find((one) => one.innerText.startsWith('Calls')).click()",
        );
        browser.eval("document.getElementById('tables').scrollIntoView()");
        browser.screenshot(&folder().join(format!("calls-{width}.png")));
    }
    assert_eq!(browser.complaints(), NOTHING);
}

/// Esc ends the search and the selection, wherever it is pressed: all is drawn as before.
#[test]
fn nothing_stays_dim_after_escape() {
    const PICTURES: &str = "(page.draw(), [page.timeline.canvas, page.flame.canvas].map((one) => one.toDataURL()))";
    let mut browser = served();
    let (first, button) = ("document.querySelector('#hot-cpu li button')", "document.querySelector('#hot-calls a')");
    browser.settle();
    let before = browser.eval(PICTURES);
    for (start, place) in [(first, "timeline"), (button, "timeline"), (first, "search")] {
        browser.click_on(start);
        browser.wait_for("page.timeline.selected >= 0");
        browser.settle();
        assert_ne!(browser.eval(PICTURES), before, "what is selected stands out");
        browser.eval(&format!("document.getElementById('{place}').focus()"));
        browser.key("Escape", 0);
        browser.eval("document.activeElement.blur()");
        browser.key("0", 0);
        browser.mouse("mouseMoved", (5.0, 5.0), json!({}));
        browser.eval("page.timeline.scroller.scrollTop = 0");
        browser.settle();
        assert!(browser.eval(PICTURES) == before, "as before {start} and Esc in {place}");
    }
    assert_eq!(browser.complaints(), NOTHING);
}

/// A range, the call of a future, a list and a flame graph have the colour that the program gave.
#[test]
fn colours_of_the_program_are_drawn() {
    use std::future::{Future as _, poll_fn};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use tracing::{Instrument as _, info_span};
    use tracing_gpu::{Output, Profiler};

    let path = folder().join("given.html");
    let profiler = Profiler::builder().output(Output::None).html(&path).build().expect("it can be built");
    tracing::subscriber::with_default(profiler.subscriber(), || {
        info_span!("plain", nvtx.color = "#ff8800").in_scope(|| info_span!("none").in_scope(|| {}));
        drop(info_span!("lifetime", nvtx.color = "#12ab34", nvtx.lifetime = true));
        let mut polls = 0;
        let future = poll_fn(|_: &mut Context<'_>| {
            polls += 1;
            if polls > 2 { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut future = pin!(future.instrument(info_span!("future", nvtx.color = "#0000ff")));
        let context = &mut Context::from_waker(Waker::noop());
        while future.as_mut().poll(context).is_pending() {}
    });
    profiler.finish().expect("the page can be written");
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&path);
    let colors = |name: &str| format!("[...new Set(page.find('{name}').map(page.color))]");
    for (name, color) in [("plain", "#ff8800"), ("lifetime", "#12ab34"), ("future", "#0000ff")] {
        assert_eq!(browser.eval(&colors(name)), json!([color]), "{name}");
    }
    assert_eq!(browser.number("page.find('future').length"), 5.0, "three polls, its drop and a call");
    let listed = |name: &str| {
        format!(
            "[...document.querySelectorAll('#panel tbody tr th')].find((one) => one.innerText === '{name}')
                .style.getPropertyValue('--color')"
        )
    };
    assert_eq!(browser.text(&listed("plain")), "#ff8800");
    assert!(!["#ff8800", "#0000ff"].contains(&&*browser.text(&listed("none"))));
    assert_eq!(browser.complaints(), NOTHING);
}

/// What is near the median is said to be, and nothing else.
#[test]
fn a_call_above_the_median_is_not_about_it() {
    let mut run = Run { threads: vec![(PID, "main")], ..Run::default() };
    for (number, length) in [100_u64, 100, 100, 138, 103, 80, 160].into_iter().enumerate() {
        let start = number as u64 * 1_000_000;
        let step = run.open(PID, start, "step", None);
        let inside = run.open(PID, start, "inside", Some(step));
        run.close(inside, start + length * 500);
        run.close(step, start + length * 1_000);
    }
    let mut browser = showing("median.html", &run);
    browser.wait_for("page.calls.count > 0");
    let mut said = |step: usize| {
        browser.eval(&format!("page.select(page.find('step')[{step}])"));
        browser.text("document.querySelector('#details .reason strong').textContent")
    };
    let expected = ["About the median", "38 % above the median", "About the median", "20 % below the median"];
    assert_eq!([0, 3, 4, 5].map(&mut said), expected);
    assert_eq!(said(6), "1.6 times the median");
}

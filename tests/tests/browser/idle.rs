//! The page's reasons for an idle GPU, compared with the report `idle` of the same run.

use std::collections::BTreeMap;

use range_model::timeline::{IdleTime, OperationName, Work};
use serde_json::Value;
use tracing_gpu::summary::IdleCause;
use tracing_gpu::{RenderOptions, Report, SummaryExt as _};

use crate::chromium::Browser;
use crate::invented::Run;
use crate::training::training;
use crate::{NOTHING, folder, showing};

impl Run {
    /// Explains the time between two operations: the host's code until the launch, then the launch, then the way to the
    /// device. Short times get other causes, so that each cause occurs.
    fn explained(mut self) -> Self {
        let mut operations = self.operations.clone();
        operations.sort_by_key(|op| op.start);
        let mut until = operations.first().map_or(0, |op| op.start);
        for (number, op) in operations.iter().enumerate() {
            let (thread, launched) = op.launch;
            let ended_by = match op.work {
                Work::Kernel(_) | Work::Graph(_) => OperationName::Kernel(op.kernel),
                Work::Memory(memory) => OperationName::Memory(memory.kind),
            };
            let called = launched + 3_000;
            let rest = if number % 3 == 0 { IdleCause::Dispatching } else { IdleCause::ALL[number % 10] };
            for (to, cause) in [(launched, IdleCause::Host), (called, IdleCause::Launching), (op.start, rest)] {
                let to = to.min(op.start);
                while until < to {
                    let next = self.changes(thread).find(|at| *at > until).unwrap_or(to).min(to);
                    let waited = if cause == IdleCause::Synchronising { 7_000 * (number as u64 % 5) } else { 0 };
                    let idle = IdleTime {
                        device: 0,
                        start: until,
                        end: next,
                        cause,
                        thread: Some(thread),
                        charged_at: until.saturating_sub(waited),
                        ended_by,
                    };
                    self.idle.push(idle);
                    until = next;
                }
            }
            until = until.max(op.end);
        }
        self
    }

    /// The times at which a thread enters or leaves a range, in order.
    fn changes(&self, thread: u32) -> impl Iterator<Item = u64> {
        let spans = self.spans.iter().filter(|span| span.thread == thread && !span.lifetime);
        let mut changes: Vec<u64> = spans.flat_map(|span| [span.start, span.end]).collect();
        changes.sort_unstable();
        changes.into_iter()
    }
}

/// The rows of the first table of the report: cause and duration.
fn reported(run: &Run) -> BTreeMap<String, String> {
    let mut text = Vec::new();
    run.summary().render(&[Report::Idle], &RenderOptions::default().width(200), &mut text).expect("memory takes it");
    let text = String::from_utf8(text).expect("text");
    let rows = text.lines().filter_map(|line| line.trim().strip_prefix("idle: "));
    let figure = |row: &str| {
        let (cause, rest) = row.split_once("  ").expect("columns");
        let (time, _) = rest.trim().split_once("  ").expect("two figures");
        (format!("idle: {cause}"), time.replace("us", "µs"))
    };
    rows.map(figure).collect()
}

fn select(browser: &mut Browser, name: &str, start: u64) {
    browser
        .eval(&format!("page.find({name:?}).filter((item) => page.run.start[item] === {start}).forEach(page.select)"));
    browser.settle();
}

#[test]
fn the_strip_and_the_bars_have_what_the_report_has() {
    let run = training().explained();
    let causes = run.idle().devices[0].causes;
    let all = IdleCause::ALL.map(|cause| (format!("idle: {}", cause.name()), causes.of(cause)));
    let expected: BTreeMap<String, u64> = all.into_iter().filter(|(_, ns)| *ns > 0).collect();
    assert!(expected.len() > 8, "{expected:?}");
    let mut browser = showing("idle.html", &run);
    let sums = browser.eval(
        "(() => {
            const sums = {};
            for (const row of page.run.rows.filter((row) => row.part === 'idle'))
                for (let item = row.first; item < row.last; item++) {
                    const name = page.run.texts[page.run.name[item]];
                    sums[name] = (sums[name] ?? 0) + page.run.end[item] - page.run.start[item];
                }
            return sums;
        })()",
    );
    let drawn: BTreeMap<String, u64> = serde_json::from_value(sums).expect("sums");
    assert_eq!(drawn, expected);
    let said = drawn.iter().map(|(name, ns)| (name.clone(), browser.text(&format!("page.human({ns})"))));
    assert_eq!(said.collect::<BTreeMap<_, _>>(), reported(&run));
    let texts = |browser: &mut Browser, of: &str| -> Vec<String> {
        let all = format!("[...document.querySelectorAll({of:?})].map((part) => part.innerText)");
        serde_json::from_value(browser.eval(&all)).expect("texts")
    };
    let mut largest_first: Vec<(&String, &u64)> = expected.iter().collect();
    largest_first.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
    let whole: u64 = expected.values().sum();
    let names: Vec<&str> = largest_first.iter().map(|(name, _)| &name["idle: ".len()..]).collect();
    assert_eq!(texts(&mut browser, "#hot-idle .bar-name"), names);
    let shares: Vec<String> =
        largest_first.iter().map(|(_, ns)| format!("{:.1} %", 100.0 * **ns as f64 / whole as f64)).collect();
    assert_eq!(texts(&mut browser, "#hot-idle .bar-share"), shares);
    let used = IdleCause::ALL.iter().filter(|cause| causes.of(**cause) > 0).map(|cause| cause.name());
    assert_eq!(texts(&mut browser, "#idle-causes li:not(.quiet)"), used.collect::<Vec<_>>());
    assert!(!texts(&mut browser, "#hot-idle p")[0].contains("too short"), "all of it is drawn");
    // The idle times of a selected range are listed below the timeline.
    let summary = run.summary();
    let span = &summary.idle.as_ref().expect("explained").spans[0];
    let name = span.name.as_deref().expect("a range");
    browser.eval(&format!("page.select(page.find({name:?})[0])"));
    let mut causes: Vec<(u64, IdleCause)> = IdleCause::ALL.map(|cause| (span.causes.of(cause), cause)).to_vec();
    causes.retain(|(ns, _)| *ns > 0);
    causes.sort_by_key(|(ns, cause)| (std::cmp::Reverse(*ns), *cause));
    let names: Vec<&str> = causes.iter().map(|(_, cause)| cause.name()).collect();
    assert_eq!(texts(&mut browser, "#details .bar-name"), names);
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn a_click_on_idle_time_names_cause_and_ranges() {
    let run = training().explained();
    let mut browser = showing("idle-clicked.html", &run);
    let longest = |cause| run.idle.iter().filter(|idle| idle.cause == cause).max_by_key(|idle| idle.end - idle.start);
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        for cause in [IdleCause::Host, IdleCause::Launching, IdleCause::Dispatching] {
            let idle = longest(cause).expect("one of each");
            let around: Vec<&str> = run.around(idle).iter().map(|span| span.name.as_str()).collect();
            assert!(around.len() > 1, "{cause:?}: {around:?}");
            let name = format!("idle: {}", cause.name());
            browser.eval("page.select(-1)");
            let item = format!("page.find({name:?}).find((item) => page.run.start[item] === {})", idle.start);
            browser.eval(&format!("page.show({} - 5e4, {} + 5e4)", idle.start, idle.end));
            browser.eval("document.getElementById('timeline').scrollIntoView()");
            browser.eval(&format!("page.timeline.scroller.scrollTop = page.lineOf({item}).y - 100"));
            browser.settle();
            let point = browser.eval(&format!("page.point({item})"));
            let point = (point["x"].as_f64().expect("x"), point["y"].as_f64().expect("y"));
            browser.mouse("mouseMoved", point, serde_json::json!({}));
            assert_eq!(browser.text("document.querySelector('#tip strong').innerText"), name);
            browser.screenshot(&folder().join(format!("{scheme}-idle-{}.png", cause.name())));
            browser.click(point);
            assert_eq!(browser.text("document.querySelector('#details strong').innerText"), name);
            let links = browser.eval("[...document.querySelectorAll('#details a')].map((link) => link.innerText)");
            assert_eq!(links, Value::from(around), "{name}");
            let facts = browser.text("document.querySelector('#details dl').innerText").replace('\n', " ");
            let ended_by = match idle.ended_by {
                OperationName::Kernel(kernel) => kernel,
                OperationName::Memory(_) => "[CUDA mem",
            };
            assert!(facts.contains(&format!("before {ended_by}")), "{facts}");
            let human = browser.text(&format!("page.human({})", idle.end - idle.start));
            assert!(facts.contains(&format!("duration {human}")), "{human}: {facts}");
            let start = browser.text(&format!("page.human({})", idle.start));
            assert!(facts.contains(&format!("start {start} device GPU 0 idle")), "{start}: {facts}");
        }
    }
    assert_eq!(browser.complaints(), NOTHING);
}

/// The keys that move from range to range also move from gap to gap.
#[test]
fn keys_go_along_idle_time() {
    let run = training().explained();
    let mut browser = showing("idle-keys.html", &run);
    let [first, second] = [&run.idle[0], &run.idle[1]];
    select(&mut browser, &format!("idle: {}", first.cause.name()), first.start);
    browser.eval("document.getElementById('scroller').focus()");
    browser.key("ArrowRight", 8);
    let said = browser.text("document.querySelector('#details strong').innerText");
    assert_eq!(said, format!("idle: {}", second.cause.name()));
    assert_eq!(browser.number("page.run.start[page.timeline.selected]"), second.start as f64);
    // A click on the bar of a cause finds its idle times.
    browser.click_on("document.querySelector('#hot-idle button')");
    let largest = browser.text("document.querySelector('#hot-idle .bar-name').innerText");
    let count = run.idle.iter().filter(|idle| idle.cause.name() == largest).count();
    assert_eq!(browser.number("page.search.found.length"), count as f64);
    assert_eq!(browser.complaints(), NOTHING);
}

/// Zoomed out, a pixel has the colour of the cause with most time in it, and its height is its idle fraction.
#[test]
fn a_pixel_has_the_cause_with_most_time() {
    let idle = |start, end, cause| {
        let (thread, ended_by) = (None, OperationName::Kernel("k"));
        IdleTime { device: 0, start, end, cause, thread, charged_at: start, ended_by }
    };
    // Of each 10 us, 4.5 are idle: 1, 2.5 and 1. The longest part of a pixel is copying, and the first is launching.
    let of = |start| {
        [
            idle(start, start + 1_000, IdleCause::Launching),
            idle(start + 2_000, start + 4_500, IdleCause::Copying),
            idle(start + 5_000, start + 6_000, IdleCause::Launching),
        ]
    };
    let mut run = Run { idle: (0..100_000).flat_map(|at| of(at * 10_000)).collect(), ..Run::default() };
    run.threads.push((1, "main"));
    let span = run.open(1, 0, "all", None);
    run.close(span, 1_000_000_000);
    let mut browser = showing("idle-pixels.html", &run);
    let pixels = browser.eval(
        "(() => {
            const drawn = [];
            const kept = CanvasRenderingContext2D.prototype.fillRect;
            CanvasRenderingContext2D.prototype.fillRect = function (...given) {
                if (this.canvas.id === 'lanes' && given[2] === 1 && given[3] < 12) drawn.push([this.fillStyle, given[3]]);
                kept.apply(this, given);
            };
            page.draw();
            CanvasRenderingContext2D.prototype.fillRect = kept;
            return drawn.filter(([style]) => typeof style === 'string');
        })()",
    );
    let pixels: Vec<(String, f64)> = serde_json::from_value(pixels).expect("colours and heights");
    let most = browser.text("page.color(page.find('idle: copying')[0])");
    // Each pixel has some hundred idle times; the first and the last pixel are partial.
    let right = pixels.iter().filter(|(color, height)| *color == most && (height / 19.0 - 0.45).abs() < 0.02).count();
    assert!(right > 900 && right + 3 > pixels.len(), "{right} of {}: {:?}", pixels.len(), &pixels[..5]);
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn a_run_without_a_gpu_shows_nothing_of_it() {
    let mut run = Run { threads: vec![(1, "main")], ..Run::default() };
    let span = run.open(1, 0, "all", None);
    run.close(span, 1_000_000);
    let mut browser = showing("idle-none.html", &run);
    browser.eval("page.select(0)");
    let shown = "['hot-idle', 'idle-causes'].map((id) => document.getElementById(id).hidden)";
    assert_eq!(browser.eval(shown), Value::from(vec![true, true]));
    assert!(!browser.text("document.body.innerText").contains("idle"));
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn pictures_of_idle_time() {
    let run = training().explained();
    let mut browser = showing("idle-pictures.html", &run);
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        for width in [1_280, 800] {
            browser.size(width, 1_600);
            browser.screenshot(&folder().join(format!("{scheme}-idle-{width}.png")));
            browser.eval("page.select(page.find('step')[3])");
            browser.settle();
            browser.screenshot(&folder().join(format!("{scheme}-idle-{width}-range.png")));
            browser.eval("page.select(-1)");
        }
    }
    assert_eq!(browser.complaints(), NOTHING);
}

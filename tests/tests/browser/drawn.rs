//! Compares drawings and details, number by number, with the run from which the page was made.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tracing_gpu::summary::TreeNode;

use crate::chromium::Browser;
use crate::invented::{Op, PID, Run, Span};
use crate::training::training;
use crate::{NOTHING, showing};

/// A drawing call to a canvas.
struct Call {
    canvas: String,
    call: String,
    color: String,
    arguments: Vec<Value>,
}

impl Call {
    fn number(&self, index: usize) -> f64 {
        self.arguments[index].as_f64().expect("a number")
    }
}

/// Draws once, and records the calls.
fn drawn(browser: &mut Browser) -> Vec<Call> {
    let calls = browser.eval(
        "(() => {
            const calls = [];
            const kept = {};
            const canvas = CanvasRenderingContext2D.prototype;
            for (const name of ['fillText', 'fillRect', 'moveTo', 'bezierCurveTo']) {
                kept[name] = canvas[name];
                canvas[name] = function (...given) {
                    calls.push({ canvas: this.canvas.id, call: name, color: this.fillStyle, given });
                    kept[name].apply(this, given);
                };
            }
            page.draw();
            Object.assign(canvas, kept);
            return calls;
        })()",
    );
    let text = |call: &Value, key: &str| call[key].as_str().unwrap_or_default().to_owned();
    let calls = calls.as_array().expect("a list").iter().map(|call| Call {
        canvas: text(call, "canvas"),
        call: text(call, "call"),
        color: text(call, "color"),
        arguments: call["given"].as_array().expect("a list").clone(),
    });
    calls.collect()
}

/// The expected conversion from times to positions on the timeline.
struct Scale {
    from: f64,
    to: f64,
    gutter: f64,
    width: f64,
}

impl Scale {
    fn of(browser: &mut Browser) -> Self {
        let mut number = |name: &str| browser.number(&format!("page.timeline.{name}"));
        Self { from: number("from"), to: number("to"), gutter: number("gutter"), width: number("width") }
    }

    fn x(&self, ns: u64) -> f64 {
        self.gutter + (ns as f64 - self.from) / (self.to - self.from) * (self.width - self.gutter)
    }
}

fn spans<'a>(run: &'a Run, name: &str) -> Vec<&'a Span> {
    let mut spans: Vec<&Span> = run.spans.iter().filter(|span| span.name == name && !span.lifetime).collect();
    spans.sort_by_key(|span| span.start);
    spans
}

/// The nanoseconds of `12.34 µs`, which further text may follow.
fn nanoseconds(text: &str) -> f64 {
    let mut words = text.split(' ');
    let number: f64 = words.next().unwrap_or_default().replace(',', "").parse().unwrap_or_else(|_| panic!("{text}"));
    let scale = match words.next() {
        None if number == 0.0 => 1.0,
        Some("ns") => 1.0,
        Some("µs") => 1e3,
        Some("ms") => 1e6,
        Some("s") => 1e9,
        _ => panic!("{text}: no unit"),
    };
    number * scale
}

/// Checks the first four digits.
fn is_about(text: &str, ns: u64) {
    let said = nanoseconds(text);
    assert!((said - ns as f64).abs() <= ns as f64 * 0.000_501, "{text} is not {ns} ns");
}

#[test]
fn the_axis_says_the_times_that_are_there() {
    let mut browser = showing("axis.html", &training());
    for (from, to) in
        [(0_u64, 200_000_000), (50_000_000, 51_200_000), (60_000_000, 60_009_000), (70_000_000, 70_000_400)]
    {
        browser.eval(&format!("page.show({from}, {to})"));
        let scale = Scale::of(&mut browser);
        assert!((scale.from - from as f64).abs() < 1.0 && (scale.to - to as f64).abs() < 1.0, "{from} to {to}");
        let calls = drawn(&mut browser);
        let ticks: Vec<&Call> = calls
            .iter()
            .filter(|call| call.canvas == "lanes" && call.call == "fillText" && call.number(2) == 12.0)
            .collect();
        assert!((3..15).contains(&ticks.len()), "{} ticks from {from} to {to}", ticks.len());
        for tick in ticks {
            let label = tick.arguments[0].as_str().expect("a label");
            let off = tick.number(1) - 4.0 - scale.x(nanoseconds(label).round() as u64);
            assert!(off.abs() <= 1.0, "{label} is drawn {off} pixels off, from {from} to {to}");
        }
    }
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn bars_are_drawn_where_their_ranges_are() {
    let run = training();
    let mut browser = showing("bars.html", &run);
    browser.prefer("light");
    let step = spans(&run, "step")[3];
    browser.eval(&format!("page.show({}, {})", step.start - 1_000_000, step.end + 1_000_000));
    let scale = Scale::of(&mut browser);
    let calls = drawn(&mut browser);
    let mut heights = BTreeMap::new();
    let seen = run.spans.iter().filter(|span| span.thread == PID && !span.lifetime);
    let seen = seen.filter(|span| span.start >= step.start && span.end <= step.end);
    let mut bars = 0;
    for span in seen.filter(|span| scale.x(span.end) - scale.x(span.start) >= 4.0) {
        let (left, width) = (scale.x(span.start), scale.x(span.end) - scale.x(span.start));
        let bar = calls.iter().find(|call| {
            call.canvas == "lanes"
                && call.call == "fillRect"
                && (call.number(0) - left).abs() < 0.01
                && (call.number(2) - width).abs() < 0.01
                && call.number(3) > 10.0
        });
        let bar = bar.unwrap_or_else(|| panic!("{}: no bar at {left}, {width} wide", span.name));
        // Spans of one depth are in one row, and each row is below the one around it.
        let y = *heights.entry(span.depth).or_insert(bar.number(1));
        assert_eq!(bar.number(1), y, "{} at depth {}", span.name, span.depth);
        if let Some(color) = span.color {
            assert_eq!(bar.color, format!("#{:06x}", color & 0xff_ffff), "{}", span.name);
        }
        bars += 1;
    }
    assert!(bars > 15, "{bars}");
    assert_eq!(heights.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
    let ys: Vec<f64> = heights.into_values().collect();
    assert!(ys.windows(2).all(|pair| pair[1] - pair[0] == 20.0), "{ys:?}");
    assert_eq!(browser.complaints(), NOTHING);
}

/// The labels and values of an item's tooltip.
fn told(browser: &mut Browser, name: &str, index: usize) -> BTreeMap<String, String> {
    let item = browser.number(&format!("page.find({name:?})[{index}]"));
    browser.eval(&format!("page.show(page.run.start[{item}] - 5e4, page.run.end[{item}] + 5e4)"));
    browser.eval("document.getElementById('timeline').scrollIntoView()");
    browser.eval(&format!("page.timeline.scroller.scrollTop = page.point({item}).y - 300"));
    browser.settle();
    let point = browser.eval(&format!("page.point({item})"));
    browser.mouse("mouseMoved", (point["x"].as_f64().expect("x"), point["y"].as_f64().expect("y")), json!({}));
    assert_eq!(browser.text("document.querySelector('#tip strong').innerText"), name);
    let facts = browser
        .eval("[...document.querySelectorAll('#tip dl > div')].map((fact) => [...fact.children].map((part) => part.innerText))");
    let facts: Vec<(String, String)> = serde_json::from_value(facts).expect("pairs");
    facts.into_iter().collect()
}

/// Threads of a pool share a name: only the text in brackets distinguishes them.
#[test]
fn what_tells_threads_apart_is_not_cut() {
    let mut browser = showing("labels.html", &training());
    browser.eval(
        "page.run.groups.forEach((group, index) => { group.label = `one-name-for-the-whole-pool (24417${index})`; })",
    );
    let calls = drawn(&mut browser);
    let shown = |index: u32| {
        let end = format!("\u{2026} (24417{index})");
        let is_label = |call: &&Call| {
            call.arguments[0].as_str().is_some_and(|text| text.starts_with("one-") && text.ends_with(&end))
        };
        calls.iter().filter(|call| call.call == "fillText").filter(is_label).count()
    };
    assert_eq!([shown(0), shown(1)], [1, 1], "{:?}", calls.iter().map(|call| &call.arguments[0]).collect::<Vec<_>>());
}

#[test]
fn a_tooltip_has_each_fact_under_its_name() {
    let run = training();
    let mut browser = showing("facts.html", &run);
    let adam = "adam_update(float*, float const*, float*, float*, int)";
    for (name, nth) in [(adam, 4), ("[CUDA memcpy Host-to-Device]", 8)] {
        let of_name = |op: &&Op| if name == adam { op.kernel == adam } else { op.kernel.is_empty() && op.stream == 13 };
        // The first six copies are those of the weights, on the other stream.
        let skipped = if name == adam { 0 } else { 6 };
        let op = run.operations.iter().filter(of_name).nth(nth - skipped).expect("it is there");
        let index = if name == adam {
            nth as f64
        } else {
            browser.number(&format!("page.find({name:?}).findIndex((item) => page.run.start[item] === {})", op.start))
        };
        let facts = told(&mut browser, name, index as usize);
        is_about(&facts["start"], op.start);
        is_about(&facts["duration"], op.end - op.start);
        is_about(&facts["launched"], op.start - op.launch.1);
        assert!(facts["launched"].ends_with(" before, on main (4711)"), "{facts:?}");
        assert_eq!(facts["launched by"], run.spans[op.span].name);
        assert_eq!(facts["stream"], format!("stream {}", op.stream));
        let place = run.operations.iter().position(|other| (other.stream, other.start) == (op.stream, op.start));
        assert_eq!(facts["correlation"], (100 + place.expect("it is there")).to_string());
        if name == adam {
            assert_eq!(facts["grid"], "512 x 64 x 1");
            assert_eq!(facts["block"], "256 x 1 x 1");
            assert_eq!(facts["registers"], "96");
        } else {
            assert_eq!(facts["bytes"], "38.54 MB (38,535,168)");
            assert_eq!(facts["speed"], format!("{:.2} GB/s", 38_535_168.0 / (op.end - op.start) as f64));
            assert_eq!(facts["memory"], "pinned to device");
        }
    }
    let (facts, step) = (told(&mut browser, "step", 5), spans(&run, "step")[5]);
    is_about(&facts["start"], step.start);
    is_about(&facts["duration"], step.end - step.start);
    let [payload, number, batch] = ["payload", "step", "batch"].map(|label| facts[label].as_str());
    assert_eq!((payload, number, batch), ("5", "5", "64"));
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn the_arrow_leads_from_the_launch_to_the_operation() {
    let run = training();
    let mut browser = showing("arrow.html", &run);
    let adam = "adam_update(float*, float const*, float*, float*, int)";
    let op = run.operations.iter().filter(|op| op.kernel == adam).nth(7).expect("it is there");
    browser.eval(&format!("page.select(page.find({adam:?})[7])"));
    browser.eval(&format!("page.show({} - 2e5, {} + 2e5)", op.launch.1, op.end));
    let scale = Scale::of(&mut browser);
    let calls = drawn(&mut browser);
    let arrow = |call: &Call| call.call == "bezierCurveTo" && (call.number(4) - scale.x(op.start)).abs() < 0.01;
    let at = calls.iter().position(arrow).expect("an arrow to the operation");
    let (begins, curve) = (&calls[at - 1], &calls[at]);
    assert_eq!(begins.call, "moveTo");
    assert!((begins.number(0) - scale.x(op.launch.1)).abs() < 0.01, "from the launch");
    assert!(scale.x(op.start) - scale.x(op.launch.1) > 50.0, "they can be told from each other");
    assert!(begins.number(1) < curve.number(5), "from the thread above to the stream below");
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn the_strip_shows_who_is_busy_when() {
    let run = training();
    let mut browser = showing("strip.html", &run);
    browser.prefer("light");
    let scale = Scale::of(&mut browser);
    let until = browser.number("page.run.until");
    let calls = drawn(&mut browser);
    // The top and the bottom of a band at a moment.
    let band = |color: &str, ns: u64| {
        let x = scale.gutter + (ns as f64 / until * (scale.width - scale.gutter)).floor();
        let columns =
            calls.iter().filter(|call| call.canvas == "strip" && call.call == "fillRect" && call.color == color);
        columns
            .filter(|call| call.number(0) == x && call.number(2) == 1.0)
            .map(|call| (call.number(1), call.number(1) + call.number(3)))
            .next()
    };
    let (cpu, gpu) = ("#5f7fb8", "#3f8f6b");
    let parse = spans(&run, "parse")[0];
    let parsing = (parse.start + parse.end) / 2;
    assert!(band(cpu, parsing).is_some() && band(gpu, parsing).is_none(), "nothing is on the GPU yet");
    let longest = run.operations.iter().max_by_key(|op| op.end - op.start).expect("it is there");
    let computing = (longest.start + longest.end) / 2;
    let (above, below) =
        (band(cpu, computing).expect("a thread is busy"), band(gpu, computing).expect("the GPU is busy"));
    assert!(above.1 <= below.0, "CPU {above:?} above GPU {below:?}");
    let labels: Vec<&str> = calls
        .iter()
        .filter(|call| call.canvas == "strip" && call.call == "fillText")
        .filter_map(|call| call.arguments[0].as_str())
        .collect();
    assert_eq!(labels, ["CPU", "GPU"]);
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn zooming_is_by_the_factor_that_it_says() {
    let mut browser = showing("factors.html", &training());
    browser.eval("page.show(4e7, 1.4e8)");
    let wheel = |delta: f64| (delta / 250.0).exp();
    for (key, factor) in [("w", 0.7), ("w", 0.7), ("s", 1.0 / 0.7), ("-", 1.0 / 0.7), ("+", 0.7)] {
        zoomed(&mut browser, factor, |browser| browser.key(key, 0));
    }
    for (id, factor) in [("zoom-in", 0.5), ("zoom-out", 2.0)] {
        zoomed(&mut browser, factor, |browser| browser.click_on(&format!("document.getElementById({id:?})")));
    }
    let lanes = browser.middle("document.getElementById('lanes')");
    for delta in [-100.0, 60.0] {
        let turned = json!({ "deltaX": 0, "deltaY": delta, "modifiers": 2 });
        zoomed(&mut browser, wheel(delta), |browser| browser.mouse("mouseWheel", lanes, turned));
    }
    assert_eq!(browser.complaints(), NOTHING);
}

fn zoomed(browser: &mut Browser, factor: f64, by: impl FnOnce(&mut Browser)) {
    let before = Scale::of(browser);
    by(browser);
    let after = Scale::of(browser);
    let found = (after.to - after.from) / (before.to - before.from);
    assert!((found / factor - 1.0).abs() < 1e-6, "{found} instead of {factor}");
}

#[test]
fn the_tree_and_the_figures_are_those_of_the_summary() {
    let run = training();
    let summary = run.summary();
    let mut browser = showing("figures.html", &run);
    browser.click_on(
        "[...document.querySelectorAll('#tabs button')].find((tab) => tab.innerText.startsWith('Phase tree'))",
    );
    browser.click_on("document.getElementById('exact')");
    let cells = browser
        .eval("[...document.querySelectorAll('#panel tbody tr')].map((row) => [...row.children].slice(0, 6).map((cell) => cell.innerText))");
    let shown: Vec<Vec<String>> = serde_json::from_value(cells).expect("texts");
    let mut expected = Vec::new();
    let whole = own(&summary.tree);
    rows(&summary.tree, whole, whole, &mut expected);
    assert_eq!(shown, expected);

    let gpu = summary.gpu.as_ref().expect("it used one");
    let busy = format!("{:.1} % of the wall time", 100.0 * gpu.total.busy_ns as f64 / summary.elapsed_ns as f64);
    let figures = browser.text("document.getElementById('figures').innerText");
    assert!(figures.contains(&busy), "{busy} in {figures}");
    assert!(figures.contains(&format!("GPU operations\n{}", gpu.total.operations)), "{figures}");
    assert_eq!(browser.complaints(), NOTHING);
}

fn own(nodes: &[TreeNode]) -> u64 {
    nodes.iter().map(|node| node.self_ns + own(&node.children)).sum()
}

/// Phase, Self of all, Self, Total, Of parent, Calls.
fn rows(nodes: &[TreeNode], parent: u64, whole: u64, out: &mut Vec<Vec<String>>) {
    let percent = |part: u64, whole: u64| format!("{:.1} %", 100.0 * part as f64 / whole as f64);
    for node in nodes {
        let figures = [node.self_ns, node.total_ns, node.calls].map(crate::compared::thousands);
        let [own, total, calls] = figures;
        let (of_all, of_parent) = (percent(node.self_ns, whole), percent(node.total_ns, parent));
        out.push(vec![node.name.clone(), of_all, own, total, of_parent, calls]);
        rows(&node.children, node.total_ns, whole, out);
    }
}

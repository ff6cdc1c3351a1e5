//! Actions of a reader.

use serde_json::json;

use range_page::HtmlSink;
use tests::with;
use tracing_gpu::summary::{ApiCallStats, CapturedWork, GpuActivity, GpuWork, GraphWork, NodeWork, Times, TreeNode};
use tracing_gpu::{Summary, WriteHtml as _};

use crate::chromium::Browser;
use crate::invented::Run;
use crate::training::training;
use crate::{NOTHING, showing, written};

const CTRL: u32 = 2;
const SHIFT: u32 = 8;

fn span(browser: &mut Browser) -> f64 {
    browser.number("page.timeline.to - page.timeline.from")
}

fn focused(browser: &mut Browser) -> String {
    browser.text("document.activeElement.id || document.activeElement.getAttribute('role') || document.activeElement.textContent")
}

fn typed(browser: &mut Browser, text: &str) {
    for letter in text.chars() {
        browser.key(&letter.to_string(), 0);
    }
    browser.wait_for(&format!("page.search.query === {:?}", text.to_lowercase()));
}

/// The position on the screen of the `index`th item with this name.
fn place(browser: &mut Browser, name: &str, index: usize) -> (f64, f64) {
    let point = browser.eval(&format!("page.point(page.find({name:?})[{index}])"));
    (point["x"].as_f64().expect("x"), point["y"].as_f64().expect("y"))
}

fn tip(browser: &mut Browser) -> String {
    browser.text("document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText")
}

/// The cells of a column of the open table.
fn column(browser: &mut Browser, index: usize) -> Vec<String> {
    let cells = browser.eval(&format!(
        "[...document.querySelectorAll('#panel tbody tr')].map((row) => row.children[{index}].innerText)"
    ));
    cells.as_array().expect("a list").iter().map(|cell| cell.as_str().unwrap_or_default().to_owned()).collect()
}

fn click_header(browser: &mut Browser, title: &str) {
    browser.click_on(&format!(
        "[...document.querySelectorAll('#panel th button')].find((b) => b.innerText.startsWith({title:?}))"
    ));
}

fn open_tab(browser: &mut Browser, title: &str) {
    browser.click_on(&format!(
        "[...document.querySelectorAll('#tabs button')].find((b) => b.innerText.startsWith({title:?}))"
    ));
}

#[test]
fn the_first_screen_says_what_is_slow() {
    let mut browser = showing("first.html", &training());
    let figures = browser.text("document.getElementById('figures').innerText");
    for expected in ["Wall time\n243", "Ranges\n1,0", "GPU busy\n", "% of the wall time", "NVIDIA H200"] {
        assert!(figures.contains(expected), "{expected:?} in {figures}");
    }
    let header = browser.text("document.querySelector('header').innerText");
    for expected in ["train", "host node07", "rank 0", "process 4711"] {
        assert!(header.contains(expected), "{expected:?} in {header}");
    }
    let command = browser.text("document.getElementById('command').innerText");
    assert!(command.contains("--model resnet18") && command.contains("started 2026-11-20 15:35:42 UTC"), "{command}");
    let slowest = browser.text("document.querySelector('#hot-cpu li').innerText");
    assert!(slowest.starts_with("synchronize"), "{slowest}");
    assert!(browser.number("document.getElementById('timeline').getBoundingClientRect().top") < 400.0);
    let groups = browser.text("page.run.groups.map((group) => group.label).join(', ')");
    assert_eq!(groups, "main (4711), loader-0 (4718), loader-1 (4719), stream 7, stream 13");
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn without_ranges_the_first_screen_says_which_calls_are_slow() {
    let mut gpu = GpuActivity::default();
    let calls = [("cudaMalloc_v3020", 165_860_000), ("cudaFree_v3020", 81_893)];
    gpu.calls = Some(calls.map(|(name, ns)| ApiCallStats::new(name, Times::new(1, ns))).into());
    let mut summary = Summary::default();
    summary.gpu = Some(gpu);
    let mut page = Vec::new();
    Run::default().write(&mut HtmlSink::new(&mut page), &summary, 0).expect("memory takes it");
    let mut browser = Browser::start();
    browser.open(&written("calls.html", &page));
    let slowest = browser.text("document.querySelector('#hot-api li').innerText");
    assert!(slowest.starts_with("cudaMalloc\n") && slowest.ends_with("100.0 %"), "{slowest}");
    let hidden = browser.text("[...document.querySelectorAll('.hot section')].map((part) => part.hidden).join()");
    assert_eq!(hidden, "true,true,true,true,false,true");
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn zooming_and_panning() {
    let mut browser = showing("zoom.html", &training());
    let whole = span(&mut browser);
    let at = place(&mut browser, "step", 3);
    let under = format!(
        "page.timeline.from + ({} - document.getElementById('lanes').getBoundingClientRect().left - page.timeline.gutter) / (page.timeline.width - page.timeline.gutter) * (page.timeline.to - page.timeline.from)",
        at.0
    );
    let before = browser.number(&under);
    browser.mouse("mouseWheel", at, json!({ "deltaX": 0, "deltaY": -100, "modifiers": CTRL }));
    let closer = span(&mut browser);
    assert!(closer < whole * 0.8, "{whole} to {closer}");
    assert!((browser.number(&under) - before).abs() < whole / 1_000.0, "what is under the pointer stays there");

    browser.eval("document.getElementById('scroller').focus()");
    browser.key("w", 0);
    assert!(span(&mut browser) < closer);
    let from = browser.number("page.timeline.from");
    browser.key("ArrowRight", 0);
    assert!(browser.number("page.timeline.from") > from);
    browser.key("a", 0);
    assert!((browser.number("page.timeline.from") - from).abs() < 10.0);
    browser.key("0", 0);
    assert!((span(&mut browser) - whole).abs() < 10.0);

    // With the mouse: dragging with Shift marks a time span, without it moves the view.
    browser.mouse("mousePressed", (500.0, at.1), json!({ "modifiers": SHIFT }));
    browser.mouse("mouseMoved", (700.0, at.1), json!({ "modifiers": SHIFT, "buttons": 1, "button": "left" }));
    browser.mouse("mouseReleased", (700.0, at.1), json!({ "modifiers": SHIFT }));
    browser.click_on("document.getElementById('zoom-marked')");
    let marked = span(&mut browser);
    assert!(marked < whole / 4.0, "{marked}");
    let from = browser.number("page.timeline.from");
    browser.mouse("mousePressed", (500.0, at.1), json!({}));
    browser.mouse("mouseMoved", (600.0, at.1), json!({ "buttons": 1, "button": "left" }));
    browser.mouse("mouseReleased", (600.0, at.1), json!({}));
    assert!(browser.number("page.timeline.from") < from);
    assert!((span(&mut browser) - marked).abs() < 10.0);
    browser.click_on("document.getElementById('zoom-all')");
    assert!((span(&mut browser) - whole).abs() < 10.0);
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn searching_and_reading_a_tooltip() {
    let mut browser = showing("search.html", &training());
    browser.key("/", 0);
    assert_eq!(focused(&mut browser), "search");
    typed(&mut browser, "wait for batch");
    assert_eq!(browser.text("document.getElementById('found').innerText"), "14 matches");
    browser.key("Enter", 0);
    assert_eq!(browser.text("document.getElementById('found').innerText"), "1 of 14");
    browser.key("Enter", SHIFT);
    assert_eq!(browser.text("document.getElementById('found').innerText"), "14 of 14");
    browser.eval("document.activeElement.blur()");
    for _ in 0..9 {
        browser.key("n", 0);
    }
    assert_eq!(browser.text("document.getElementById('found').innerText"), "9 of 14");
    browser.key("p", 0);
    browser.key("n", 0);
    let details = browser.text("document.getElementById('details').innerText");
    assert!(details.starts_with("wait for batch") && details.contains("main (4711)"), "{details}");

    let at = place(&mut browser, "wait for batch", 8);
    browser.mouse("mouseMoved", at, json!({}));
    let told = tip(&mut browser);
    for expected in ["wait for batch", "duration", " ms (", "start", "thread", "main (4711)"] {
        assert!(told.contains(expected), "{expected:?} in {told}");
    }
    // The search covers tables and the flame graph, too, and fields as well as names.
    let tabs = browser.text("document.getElementById('tabs').innerText");
    assert!(tabs.contains("Ranges1") && tabs.contains("Phase tree1") && tabs.contains("Kernels0"), "{tabs}");
    assert_eq!(browser.eval("document.querySelectorAll('#panel tr.found').length"), 1);
    browser.key("f", CTRL);
    assert_eq!(focused(&mut browser), "search");
    typed(&mut browser, "training");
    assert_eq!(browser.text("document.getElementById('found').innerText"), "1 match", "a category");
    browser.key("Escape", 0);
    assert_eq!(browser.eval("page.search.active"), false);
    // A click on a name searches for exactly that name: `batch` does not find `load batch`.
    browser.click_on("[...document.querySelectorAll('#panel button.name')].find((name) => name.innerText === 'step')");
    assert_eq!(browser.text("document.getElementById('search').value"), "\"step\"");
    assert_eq!(
        browser.text("document.getElementById('found').innerText"),
        "42 matches",
        "14 on the thread, 14 on each stream"
    );
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn tooltips_of_operations_and_spans() {
    let mut browser = showing("tooltips.html", &training());
    let mut told = |name: &str, index: usize| {
        let item = browser.number(&format!("page.find({name:?})[{index}]"));
        browser.eval(&format!("page.show(page.run.start[{item}] - 5e4, page.run.end[{item}] + 5e4)"));
        browser.eval("document.getElementById('timeline').scrollIntoView()");
        browser.eval(&format!("page.timeline.scroller.scrollTop = page.point({item}).y - 300"));
        browser.settle();
        let at = place(&mut browser, name, index);
        browser.mouse("mouseMoved", at, json!({}));
        tip(&mut browser)
    };
    let copy = told("[CUDA memcpy Host-to-Device]", 7);
    for expected in [
        "38.54 MB (38,535,168)",
        "GB/s",
        "pinned to device",
        "launched by",
        "Set input data",
        "before, on main (4711)",
        "stream 13",
    ] {
        assert!(copy.contains(expected), "{expected:?} in {copy}");
    }
    let kernel = told("adam_update(float*, float const*, float*, float*, int)", 1);
    for expected in ["512 x 64 x 1", "256 x 1 x 1", "16.38 KB", "optimizer", "stream 7"] {
        assert!(kernel.contains(expected), "{expected:?} in {kernel}");
    }
    let step = told("step", 3);
    for expected in ["payload", "batch", "64", "start"] {
        assert!(step.contains(expected), "{expected:?} in {step}");
    }
    let mark = told("batch 8 came late: the loaders are behind", 0);
    assert!(mark.contains("warn") && mark.contains("event") && mark.contains("said on"), "{mark}");
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn tables_are_sorted_by_their_figures() {
    let mut browser = showing("tables.html", &training());
    let names = column(&mut browser, 0);
    click_header(&mut browser, "Max");
    let header = "[...document.querySelectorAll('#panel th')].find((h) => h.innerText.startsWith('Max')).ariaSort";
    assert_eq!(browser.text(header), "descending");
    let times = column(&mut browser, 8);
    assert_eq!(times[0], "213.8 ms");
    let ns: Vec<f64> = times.iter().map(|time| nanoseconds(time)).collect();
    assert!(ns.windows(2).all(|pair| pair[0] >= pair[1]), "{times:?}");
    // The header has kept the focus: a key does the same.
    browser.key("Enter", 0);
    assert_eq!(browser.text(header), "ascending");
    assert_eq!(column(&mut browser, 8).last(), times.first());
    click_header(&mut browser, "Range");
    let mut sorted = names.clone();
    sorted.sort_by_key(|name| name.to_lowercase());
    assert_eq!(column(&mut browser, 0), sorted);
    click_header(&mut browser, "Total");
    assert_eq!(column(&mut browser, 0), names);

    // The tree keeps its hierarchy.
    open_tab(&mut browser, "Phase tree");
    click_header(&mut browser, "Self, of all");
    let phases = column(&mut browser, 0);
    let at =
        |name: &str| phases.iter().position(|phase| phase == name).unwrap_or_else(|| panic!("{name} in {phases:?}"));
    assert!(
        at("train epoch") < at("step") && at("step") < at("synchronize") && at("synchronize") < at("wait for batch"),
        "{phases:?}"
    );
    browser.click_on("document.getElementById('exact')");
    assert!(
        column(&mut browser, 3).iter().all(|cell| cell.chars().all(|letter| letter.is_ascii_digit() || letter == ','))
    );

    open_tab(&mut browser, "GPU memory");
    assert!(browser.text("document.getElementById('panel').innerText").contains("GB/s"));
    browser.key("ArrowRight", 0);
    assert_eq!(browser.text("document.querySelector('#tabs [aria-selected=true]').innerText"), "API calls3");
    assert_eq!(browser.complaints(), NOTHING);
}

fn nanoseconds(time: &str) -> f64 {
    let (number, unit) = time.split_once(' ').expect("a unit");
    let scale = match unit {
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        _ => 1e9,
    };
    number.parse::<f64>().expect("a number") * scale
}

#[test]
fn the_theme_is_the_systems_or_the_readers() {
    let mut browser = showing("themes.html", &training());
    let ground = "getComputedStyle(document.body).backgroundColor";
    browser.prefer("light");
    assert_eq!(browser.text(ground), "rgb(244, 246, 248)");
    browser.prefer("dark");
    assert_eq!(browser.text(ground), "rgb(14, 17, 22)");
    let pixel = "[...document.getElementById('lanes').getContext('2d').getImageData(2, 2, 1, 1).data].join()";
    assert_eq!(browser.text(pixel), "22,27,34,255");
    browser.click_on("document.getElementById('theme')");
    assert_eq!(browser.text(ground), "rgb(244, 246, 248)");
    assert_eq!(browser.text(pixel), "255,255,255,255");
    assert_eq!(browser.text("document.getElementById('theme').innerText"), "Dark");
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn everything_is_within_reach_of_the_keyboard() {
    let mut browser = showing("keys.html", &training());
    let mut reached = Vec::new();
    loop {
        browser.key("Tab", 0);
        if browser.eval("document.activeElement === document.body") == true {
            break;
        }
        let style = "getComputedStyle(document.activeElement)";
        let outlined =
            browser.eval(&format!("{style}.outlineStyle !== 'none' && parseFloat({style}.outlineWidth) > 0"));
        assert_eq!(outlined, true, "{} shows that it has the focus", focused(&mut browser));
        reached.push(focused(&mut browser));
        assert!(reached.len() < 80, "{reached:?}");
    }
    let at = |id: &str| reached.iter().position(|name| name == id).unwrap_or_else(|| panic!("{id} in {reached:?}"));
    assert!(
        at("search") < at("theme")
            && at("theme") < at("scroller")
            && at("scroller") < at("flame")
            && at("flame") < at("exact")
    );
    assert!(at("exact") < at("tab-0"));

    browser.eval("document.getElementById('scroller').focus()");
    browser.key("ArrowRight", SHIFT);
    let selected = "document.querySelector('#details strong').innerText";
    assert_eq!(browser.text(selected), "Load Module");
    for (key, expected) in
        [("ArrowRight", "train epoch"), ("ArrowDown", "step"), ("ArrowRight", "step"), ("ArrowUp", "train epoch")]
    {
        browser.key(key, SHIFT);
        assert_eq!(browser.text(selected), expected, "{key}");
    }
    browser.key("ArrowDown", SHIFT);
    let whole = span(&mut browser);
    browser.key("Enter", 0);
    assert!(span(&mut browser) < whole / 8.0);
    browser.key("Escape", 0);
    assert_eq!(browser.eval("page.timeline.selected"), -1);

    browser.eval("document.getElementById('flame').focus()");
    for _ in 0..3 {
        browser.key("ArrowDown", 0);
    }
    let phase = "document.querySelector('#flame-details strong').innerText";
    assert_eq!(browser.text(phase), "parse", "the widest in Load Module");
    browser.key("ArrowUp", 0);
    browser.key("ArrowRight", 0);
    browser.key("Enter", 0);
    assert_eq!(browser.text(phase), "train epoch");
    assert_eq!(browser.eval("page.flame.root >= 0"), true);
    browser.key("Backspace", 0);
    assert_eq!(browser.number("page.flame.root"), -1.0);

    browser.key("?", SHIFT);
    assert_eq!(browser.eval("document.getElementById('help').open"), true);
    browser.key("Escape", 0);
    assert_eq!(browser.eval("document.getElementById('help').open"), false);
    let unnamed = browser.text("[...document.querySelectorAll('button, input, [role=application]')].filter((e) => !e.hidden && !(e.ariaLabel || e.textContent.trim())).map((e) => e.outerHTML).join()");
    assert_eq!(unnamed, "", "everything that can have the focus has a name");
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn the_flame_graph_shows_cpu_and_gpu() {
    let mut browser = showing("flames.html", &training());
    browser.eval("document.getElementById('flame').scrollIntoView({ block: 'center' })");
    let hover = |browser: &mut Browser, name: &str| {
        let point = browser.eval(&format!("page.phase({name:?})"));
        let at = (point["x"].as_f64().expect("x"), point["y"].as_f64().expect("y"));
        browser.mouse("mouseMoved", at, json!({}));
        (at, tip(browser))
    };
    let (_, told) = hover(&mut browser, "synchronize");
    for expected in ["synchronize", "total", "self", "of all", "calls", "14", "instances"] {
        assert!(told.contains(expected), "{expected:?} in {told}");
    }
    browser.click_on("document.getElementById('flame-gpu')");
    let (at, told) = hover(&mut browser, "backward");
    assert!(told.starts_with("backward") && told.contains("GPU busy"), "{told}");
    browser.click(at);
    assert_eq!(browser.eval("page.run.tree[page.flame.root].name"), "backward");
    browser.click_on("document.getElementById('flame-all')");
    assert_eq!(browser.number("page.flame.root"), -1.0);
    assert_eq!(browser.complaints(), NOTHING);
}

/// What a replay consists of stands below its phase, and takes its part of the phase's width.
#[test]
fn captured_work_is_below_the_phase_that_replays_it() {
    let work = |ns| with(GpuWork::default(), |it| (it.operations, it.sum_ns, it.busy_ns) = (6, ns, ns));
    let part = |path, ns| with(CapturedWork::new(path), |it| (it.kernels, it.timed, it.sum_ns) = (2, 2, ns));
    let captured = vec![part("encoder > attention", 60), part("encoder", 20), part("decoder", 10)];
    let replay = |name, captured| {
        let graphs = with(GraphWork::default(), |it| (it.replays, it.captured) = (2, captured));
        with(TreeNode::new(name), |it| {
            (it.calls, it.instances, it.total_ns, it.self_ns) = (2, 2, 500, 500);
            it.gpu = Some(with(NodeWork::new(work(100), work(100)), |it| it.graphs = graphs));
        })
    };
    // The second one has branches that run at once.
    let tree = vec![replay("replay", captured), replay("branches", vec![part("one > two", 150), part("one", 50)])];
    let gpu = with(GpuActivity::default(), |it| it.total = work(200));
    let summary = with(Summary::default(), |it| (it.tree, it.gpu) = (tree, Some(gpu)));
    let mut html = Vec::new();
    summary.write_html(&mut html).expect("memory takes it");
    let mut browser = Browser::start();
    browser.open(&written("captured.html", &html));
    browser.click_on("document.getElementById('flame-gpu')");
    let value = |browser: &mut Browser, name: &str| {
        browser
            .number(&format!("page.flame.graphs.gpu.value[page.run.tree.findIndex((node) => node.name === '{name}')]"))
    };
    let names = ["replay", "[encoder]", "[attention]", "[decoder]", "branches", "[one]", "[two]"];
    assert_eq!(names.map(|name| value(&mut browser, name)), [100.0, 80.0, 60.0, 10.0, 100.0, 100.0, 75.0]);
    let at = browser.eval("page.phase('[attention]')");
    browser.mouse("mouseMoved", (at["x"].as_f64().expect("x"), at["y"].as_f64().expect("y")), json!({}));
    let told = tip(&mut browser);
    assert!(told.contains("sum of GPU times") && told.contains("60 ns") && !told.contains("instances"), "{told}");
    let tab = "[...document.querySelectorAll('[role=tab]')].find((tab) => tab.textContent.startsWith('Phase tree'))";
    browser.click_on(tab);
    let rows = browser.text("[...document.querySelectorAll('#panel tbody tr')].map((row) => row.innerText.replace(/\\s+/g, ' ').trim()).join('\\n')");
    let expected = "\
replay 50.0 % 500 ns 500 ns 50.0 % 2 250 ns 2 100 ns 100 ns 6
[encoder] - - - - - - - 80 ns 20 ns 4
[attention] - - - - - - - 60 ns 60 ns 2
[decoder] - - - - - - - 10 ns 10 ns 2
branches 50.0 % 500 ns 500 ns 50.0 % 2 250 ns 2 100 ns 100 ns 6
[one] - - - - - - - 200 ns 50 ns 4
[two] - - - - - - - 150 ns 150 ns 2";
    assert_eq!(rows, expected);
    assert!(browser.text("document.body.innerText").contains("4 in 2 phases"), "captured work is no phase");
    assert_eq!(browser.complaints(), NOTHING);
}

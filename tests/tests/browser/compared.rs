//! Runs side by side on a page of their own, whose contents equal those of `Comparison`.

use tracing_gpu::compare::InRun;
use tracing_gpu::summary::{Process, RangeStats, RangeStyle, Times};
use tracing_gpu::{Comparison, RenderOptions, Summary, WriteHtml as _};

use crate::chromium::Browser;
use crate::{NOTHING, folder, written};

/// A run with these totals in ns. Names that end in `*` are start/end ranges.
pub(crate) fn run(pid: u32, ranges: &[(&str, u64, u64)]) -> Summary {
    let mut summary = Summary::default();
    summary.ranges = ranges
        .iter()
        .map(|&(name, instances, total_ns)| {
            let mut it = RangeStats::new(
                name.split_once(':').map_or(name, |(_, name)| name).trim_end_matches('*'),
                Times::new(instances, total_ns),
            );
            it.domain = name.split_once(':').map(|(domain, _)| domain.to_owned());
            it.style = if name.ends_with('*') { RangeStyle::StartEnd } else { RangeStyle::PushPop };
            it
        })
        .collect();
    summary.process = {
        let mut it = Process::default();
        it.pid = pid;
        it.host = format!("node{pid}");
        it.command = format!("bench --backend {pid}");
        it.started_unix_ns = 1_795_188_942_000_000_000;
        it
    };
    summary
}

/// Backends, compared as a user compares them. The figures of `cuda` and `sycl` are those of `docs/compare.md`.
fn backends() -> [(&'static str, Summary); 4] {
    let [load, data, random, running] = ["Load Module", "Set input data", "Init random data", "Module running"];
    let cuda = [
        (load, 1, 3_498_803_745),
        (data, 1, 602_374),
        (random, 1, 3_134_933),
        (running, 1, 7_365_201),
        ("app:warm up", 3, 40_000),
        ("idle", 2, 0),
        ("request*", 9, 8_000_000),
        ("cublasCreate", 1, 91_000_000),
    ];
    let sycl = [
        (load, 1, 875_001_997),
        (data, 1, 417_100),
        (random, 1, 2_453_900),
        (running, 1, 23_833_423_995),
        ("app:warm up", 3, 40_000),
        ("idle", 2, 0),
        ("request*", 12, 9_876_543),
        ("jit compile", 4, 77_000_001),
    ];
    let slow = [(load, 1, 3_498_803_745), (running, 2, 900_000_000), ("idle", 2, 5)];
    let same = [(load, 1, 3_498_803_745), (running, 1, 7_365_201)];
    [("cuda", run(11, &cuda)), ("sycl", run(12, &sycl)), ("opencl", run(13, &slow)), ("cuda again", run(0, &same))]
}

fn compared(runs: &[(&str, Summary)]) -> Comparison {
    Comparison::of(runs.iter().map(|(name, summary)| (*name, summary)))
}

pub(crate) fn page(name: &str, comparison: &Comparison) -> std::path::PathBuf {
    let mut page = Vec::new();
    comparison.write_html(&mut page).expect("memory takes it");
    written(name, &page)
}

/// The cells of the comparison's table, row by row.
pub(crate) fn rows(browser: &mut Browser) -> Vec<Vec<String>> {
    let rows = browser
        .eval("[...document.querySelectorAll('#compared tbody tr')].map((row) => [...row.children].map((cell) => cell.innerText))");
    serde_json::from_value(rows).expect("a list of lists of texts")
}

pub(crate) fn texts(browser: &mut Browser, elements: &str) -> Vec<String> {
    let texts = browser.eval(&format!("[...document.querySelectorAll({elements:?})].map((one) => one.innerText)"));
    serde_json::from_value(texts).expect("a list of texts")
}

pub(crate) fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits")).collect();
    groups.join(",")
}

/// The expected contents of the table with exact figures: from the numbers of `Comparison`, not from its page.
pub(crate) fn expected(comparison: &Comparison) -> Vec<Vec<String>> {
    let none = || "-".to_owned();
    let any_start_end = comparison.ranges.iter().any(|range| range.style == RangeStyle::StartEnd);
    let signed = |ns: i64| {
        let sign = match ns.signum() {
            1 => "+",
            -1 => "-",
            _ => "",
        };
        format!("{sign}{}", thousands(ns.unsigned_abs()))
    };
    let any_own =
        comparison.ranges.iter().flat_map(|range| &range.in_runs).flatten().any(|place| place.self_ns.is_some());
    let rows = comparison.ranges.iter().map(|range| {
        let mut cells = vec![range.label()];
        if any_start_end {
            cells.push(if range.style == RangeStyle::StartEnd { "StartEnd" } else { "PushPop" }.to_owned());
        }
        for (number, place) in range.in_runs.iter().enumerate() {
            let time = |place: &InRun| (thousands(place.times.total_ns), format!("{:.1} %", place.percent));
            let (total, share) = place.as_ref().map_or((none(), none()), time);
            cells.extend([total, share]);
            if number > 0 {
                cells.push(range.difference_ns(number).map_or_else(none, signed));
                cells.push(match (&range.in_runs[0], place) {
                    (None, None) => none(),
                    (None, Some(_)) => "new".to_owned(),
                    (Some(_), None) => "gone".to_owned(),
                    (Some(base), Some(place)) if base.times.total_ns == 0 => {
                        if place.times.total_ns == 0 { "x1.00" } else { ">x1e6" }.to_owned()
                    }
                    (Some(_), Some(place)) => match place.ratio.expect("the first run has it") {
                        ratio if ratio > 0.0 && ratio < 0.005 => "<x0.01".to_owned(),
                        ratio if ratio < 9.995 => format!("x{ratio:.2}"),
                        ratio if ratio < 99.95 => format!("x{ratio:.1}"),
                        ratio => format!("x{ratio:.0}"),
                    },
                });
            }
            if any_own {
                cells.push(place.as_ref().and_then(|place| place.self_ns).map_or_else(none, thousands));
                let difference = range.self_difference_ns(number).map_or_else(none, signed);
                cells.extend((number > 0).then_some(difference));
            }
        }
        cells
    });
    rows.collect()
}

pub(crate) fn click_header(browser: &mut Browser, index: usize) {
    browser.click_on(&format!("document.querySelectorAll('#compared thead th button')[{index}]"));
}

pub(crate) fn names(rows: &[Vec<String>]) -> Vec<&str> {
    rows.iter().map(|row| row[0].as_str()).collect()
}

/// The names of the ranges in order of a figure, those without it last.
pub(crate) fn by<K: PartialOrd>(
    comparison: &Comparison,
    down: bool,
    key: impl Fn(&tracing_gpu::compare::ComparedRange) -> Option<K>,
) -> Vec<String> {
    let mut ranges: Vec<_> = comparison.ranges.iter().collect();
    ranges.sort_by(|a, b| match (key(a), key(b)) {
        (Some(a), Some(b)) => {
            let order = a.partial_cmp(&b).expect("numbers");
            if down { order.reverse() } else { order }
        }
        (a, b) => a.is_none().cmp(&b.is_none()),
    });
    ranges.into_iter().map(tracing_gpu::compare::ComparedRange::label).collect()
}

#[test]
fn the_page_of_a_comparison_has_its_numbers() {
    let comparison = compared(&backends());
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&page("compared.html", &comparison));
    assert_eq!(browser.text("document.title"), "Comparison: cuda, sycl, opencl, cuda again - tracing-gpu");
    let shown = rows(&mut browser);
    assert_eq!(
        shown[0][..10],
        [
            "Module running",
            "PushPop",
            "7.365 ms",
            "0.2 %",
            "23.83 s",
            "96.1 %",
            "+23.83 s",
            "x3236",
            "900.0 ms",
            "20.5 %"
        ]
    );
    assert_eq!(shown[1][6..8], ["-2.624 s", "x0.25"], "{:?}", shown[1]);
    browser.click_on("document.querySelector('#comparison [data-setting=exact]')");
    let shown = rows(&mut browser);
    assert_eq!(shown, expected(&comparison));
    differences_are_coloured(&mut browser, &comparison);
    // The headers that group columns by run.
    assert_eq!(texts(&mut browser, "#compared thead .group"), comparison.runs);
    let spans = browser.eval("[...document.querySelectorAll('#compared thead th.edge')].map((one) => one.colSpan)");
    assert_eq!(spans, serde_json::json!([2, 4, 4, 4]));

    // Differences: the largest loss first, and the reverse with a key.
    let sycl = 6;
    click_header(&mut browser, sycl);
    assert_eq!(names(&rows(&mut browser)), by(&comparison, true, |range| range.difference_ns(1)));
    browser.key("Enter", 0);
    assert_eq!(names(&rows(&mut browser)), by(&comparison, false, |range| range.difference_ns(1)));
    // Ratios: new ranges before all others, removed ones after.
    click_header(&mut browser, sycl + 1);
    let sorted = rows(&mut browser);
    assert_eq!((sorted[0][0].as_str(), sorted[0][7].as_str()), ("jit compile", "new"));
    assert_eq!((sorted[8][0].as_str(), sorted[8][7].as_str()), ("cublasCreate", "gone"), "{sorted:?}");
    click_header(&mut browser, 2);
    assert_eq!(names(&rows(&mut browser)), by(&comparison, true, |range| range.total_ns(0)));
    // Sorting keeps each row whole.
    let (mut sorted, mut all) = (rows(&mut browser), expected(&comparison));
    sorted.sort();
    all.sort();
    assert_eq!(sorted, all);
    // In light and dark mode, slower and faster differ in colour and are readable.
    for (scheme, ground) in [("light", "rgb(244, 246, 248)"), ("dark", "rgb(14, 17, 22)")] {
        browser.prefer(scheme);
        assert_eq!(browser.text("getComputedStyle(document.body).backgroundColor"), ground);
        let colors = "[...new Set([...document.querySelectorAll('.bar-fill')].map((bar) => getComputedStyle(bar).backgroundColor))].length";
        assert_eq!(browser.number(colors), 2.0, "{scheme}");
        for (cells, least) in [(".share.slower", 4.5), (".share.faster", 4.5), (".verdict.slower", 4.5)] {
            let contrast = contrast(&mut browser, cells);
            assert!(contrast >= least, "{scheme}: {cells} {contrast}");
        }
        for (width, height) in [(1_280, 800), (800, 900)] {
            browser.size(width, height);
            browser.screenshot(&folder().join(format!("compared-{scheme}-{width}.png")));
            let overflow =
                browser.number("document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert!(overflow <= 0.0, "{overflow} pixels beyond {width}");
            // However far the table is scrolled, the names are visible.
            let hidden = browser.number(
                "(() => { const sheet = document.querySelector('#compared .sheet'); sheet.scrollLeft = 1e4; \
                 return sheet.getBoundingClientRect().left - document.querySelector('#compared tbody button').getBoundingClientRect().left; })()",
            );
            assert!(hidden < 0.0, "{hidden}");
            browser.screenshot(&folder().join(format!("compared-{scheme}-{width}-scrolled.png")));
            browser.eval("document.querySelector('#compared .sheet').scrollLeft = 0");
        }
    }
    assert_eq!(browser.complaints(), NOTHING);
}

/// The bar behind a difference: its length as a fraction of the largest.
fn differences_are_coloured(browser: &mut Browser, comparison: &Comparison) {
    let most = comparison.ranges[0].largest_difference_ns() as f64;
    for run in 1..comparison.runs.len() {
        let cells = browser.eval(&format!(
            "[...document.querySelectorAll('#compared tbody tr')].map((row) => row.children[{}]) \
             .map((cell) => [cell.classList.contains('slower'), cell.classList.contains('faster'), parseFloat(cell.style.getPropertyValue('--share')) || 0])",
            4 * run + 2,
        ));
        let cells: Vec<(bool, bool, f64)> = serde_json::from_value(cells).expect("a list");
        for (range, (slower, faster, part)) in comparison.ranges.iter().zip(cells) {
            let ns = range.difference_ns(run).unwrap_or(0);
            assert_eq!((slower, faster), (ns > 0, ns < 0), "{} in run {run}", range.name);
            let expected = 100.0 * ns.unsigned_abs() as f64 / most;
            assert!((part - expected).abs() < 0.01, "{} in run {run}: {part} %, not {expected}", range.name);
        }
    }
}

/// The contrast between an element's text and its background, by the formula of WCAG.
fn contrast(browser: &mut Browser, element: &str) -> f64 {
    browser.number(&format!(
        "(() => {{
            const one = document.querySelector({element:?});
            const style = getComputedStyle(one);
            // As a colour of the theme: the property itself has both themes'.
            const themed = (name) => {{ one.style.outlineColor = `var(${{name}})`; const color = style.outlineColor; one.style.outlineColor = ''; return color; }};
            const canvas = document.createElement('canvas').getContext('2d');
            const pixel = (color) => {{ canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; }};
            const linear = (part) => {{ const c = part / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }};
            const light = (color) => {{ const [r, g, b] = pixel(color).map(linear); return 0.2126 * r + 0.7152 * g + 0.0722 * b; }};
            const behind = themed(one.classList.contains('share') ? '--share-ground' : '--panel');
            const [a, b] = [light(style.color), light(behind)];
            return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        }})()"
    ))
}

#[test]
fn what_is_slower_is_seen_first() {
    let comparison = compared(&backends());
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&page("slower.html", &comparison));
    assert_eq!(browser.text("document.getElementById('comparison-title').innerText"), "Compared with cuda");
    let base = browser.text("document.getElementById('base-run').innerText");
    assert_eq!(base, "host node11 \u{b7} process 11 \u{b7} started 2026-11-20 15:35:42 UTC");
    assert_eq!(texts(&mut browser, "#changes h2"), ["sycl", "opencl", "cuda again"]);
    let processes = texts(&mut browser, "#changes h2 + span");
    assert!(processes[0].starts_with("host node12 \u{b7} process 12 \u{b7} started"), "{processes:?}");
    // The verdicts have the words of the printed text.
    let mut text = Vec::new();
    comparison.render(&RenderOptions::default().width(300), &mut text).expect("memory takes it");
    let text = String::from_utf8(text).expect("text");
    let verdicts = texts(&mut browser, ".verdict");
    assert_eq!(verdicts.len(), 3);
    for verdict in verdicts {
        assert!(text.contains(&format!(" {verdict}\n")), "{verdict:?} in {text}");
    }
    // The bars of each run: slower ranges first, then faster ones, the largest loss on top, all on one scale.
    let most = comparison.ranges[0].largest_difference_ns() as f64;
    for (card, number) in [(1, 1), (2, 2)] {
        let entries = texts(&mut browser, &format!("#changes section:nth-child({card}) li button"));
        let widths = browser.eval(&format!(
            "[...document.querySelectorAll('#changes section:nth-child({card}) .bar-fill')].map((bar) => [parseFloat(bar.style.width), bar.className])"
        ));
        let mut changed: Vec<_> = comparison
            .ranges
            .iter()
            .filter_map(|range| {
                let lifetime = if range.style == RangeStyle::StartEnd { " (start/end)" } else { "" };
                Some((range.difference_ns(number).filter(|&ns| ns != 0)?, range.label() + lifetime))
            })
            .collect();
        changed.sort_by_key(|&(ns, _)| (ns < 0, std::cmp::Reverse(ns.unsigned_abs())));
        let (slower, faster): (Vec<_>, Vec<_>) = changed.into_iter().partition(|(ns, _)| *ns > 0);
        let expected: Vec<_> = slower.into_iter().take(5).chain(faster.into_iter().take(3)).collect();
        assert_eq!(entries.len(), expected.len(), "{entries:?}");
        for (at, ((ns, name), entry)) in expected.iter().zip(&entries).enumerate() {
            assert_eq!(entry.lines().next(), Some(name.as_str()));
            let (width, class) = (widths[at][0].as_f64().expect("a width"), widths[at][1].as_str().expect("a class"));
            assert!((width - 100.0 * ns.unsigned_abs() as f64 / most).abs() < 0.01, "{name}: {width} %");
            assert_eq!(class, if *ns > 0 { "bar-fill slower" } else { "bar-fill faster" }, "{name}");
        }
    }
    let first = browser.text("document.querySelector('#changes li button').innerText").replace('\n', " ");
    assert_eq!(first, "Module running +23.83 s x3236");
    assert!(
        browser.number("document.querySelector('#changes li').getBoundingClientRect().bottom") < 300.0,
        "on the first screen"
    );

    // Searching with `/` and by a click on a name shows only matches.
    browser.key("/", 0);
    for letter in "mod".chars() {
        browser.key(&letter.to_string(), 0);
    }
    browser.wait_for("page.search.query === 'mod'");
    assert_eq!(browser.text("document.getElementById('found').innerText"), "2 rows");
    assert_eq!(texts(&mut browser, "#compared tr.found th"), ["Module running", "Load Module"]);
    browser.click_on("document.querySelector('#comparison [data-setting=only]')");
    assert_eq!(names(&rows(&mut browser)), ["Module running", "Load Module"]);
    browser.click_on("document.querySelector('#changes li button')");
    assert_eq!(names(&rows(&mut browser)), ["Module running"]);
    // Sections of a run are absent, and their keys do nothing.
    for section in ["overview", "timeline", "flames", "tables", "notes", "unfinished", "next"] {
        assert_eq!(browser.eval(&format!("document.getElementById('{section}').hidden")), true, "{section}");
    }
    browser.eval("document.activeElement.blur()");
    for key in ["n", "w", "a", "0", "Escape"] {
        browser.key(key, 0);
    }
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn a_comparison_is_within_reach_of_the_keyboard() {
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&page("compared-keys.html", &compared(&backends())));
    let mut reached = Vec::new();
    loop {
        browser.key("Tab", 0);
        if browser.eval("document.activeElement === document.body") == true {
            break;
        }
        let style = "getComputedStyle(document.activeElement)";
        let outlined =
            browser.eval(&format!("{style}.outlineStyle !== 'none' && parseFloat({style}.outlineWidth) > 0"));
        assert_eq!(outlined, true, "{reached:?}");
        reached.push(browser.text(
            "document.activeElement.id || document.activeElement.className || document.activeElement.textContent",
        ));
        assert!(reached.len() < 80, "{reached:?}");
    }
    let count = |name: &str| reached.iter().filter(|one| *one == name).count();
    assert_eq!((count("search"), count("theme"), count("name")), (1, 1, 1), "{reached:?}");
    assert_eq!(reached.iter().filter(|one| one.starts_with("Difference")).count(), 3, "{reached:?}");
    browser.eval("document.querySelector('#compared button.name').focus()");
    browser.key("ArrowDown", 0);
    assert_eq!(browser.text("document.activeElement.innerText"), "Load Module");
    browser.key("?", 8);
    let keys = browser.text("document.getElementById('help').innerText");
    assert!(keys.contains("search;") && !keys.contains("zoom"), "{keys}");
    assert_eq!(browser.complaints(), NOTHING);
}

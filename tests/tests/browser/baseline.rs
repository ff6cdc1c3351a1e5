//! The page of a run with a baseline: its comparison section has the numbers of `Comparison`.

use std::path::Path;

use tracing_gpu::{Comparison, Output, Profiler, Summary, SummaryExt as _};

use crate::chromium::Browser;
use crate::compared::{by, click_header, expected, names, rows, run, texts};
use crate::invented::Run;
use crate::training::training;
use crate::{NOTHING, folder, showing, written};

/// A real run beside an earlier one: the page has the numbers of the run's own summary.
#[test]
fn a_run_is_compared_with_its_baseline() {
    let [base, own, html] = ["baseline.json", "baseline-run.json", "baseline.html"].map(|name| folder().join(name));
    let earlier = run(7, &[("Load Module", 1, 900), ("step", 5, 9_000_000_000), ("removed", 1, 50_000_000)]);
    let mut text = Vec::new();
    earlier.write_json(&mut text).expect("memory takes it");
    std::fs::write(&base, text).expect("the folder can be written");
    let profiler = Profiler::builder()
        .output(Output::None)
        .html(&html)
        .json(&own)
        .baseline(&base)
        .build()
        .expect("it can be built");
    measure(&profiler);
    profiler.finish().expect("all can be written");
    let summary = read(&own);
    let comparison = Comparison::of([("baseline", &earlier), ("this run", &summary)]);

    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&html);
    assert_eq!(browser.text("document.getElementById('comparison-title').innerText"), "Compared with baseline");
    assert!(browser.text("document.getElementById('base-run').innerText").starts_with("host node7 \u{b7} process 7"));
    browser.click_on("document.querySelector('#comparison [data-setting=exact]')");
    assert_eq!(rows(&mut browser), expected(&comparison));
    // One switch for all tables.
    assert_eq!(browser.text("document.getElementById('exact').ariaPressed"), "true");
    click_header(&mut browser, 6); // after the name, the totals, shares and the base's own time
    assert_eq!(names(&rows(&mut browser)), by(&comparison, true, |range| range.difference_ns(1)));
    // The rest of the run's page is unchanged, and one search covers both.
    assert_eq!(browser.eval("document.getElementById('timeline').hidden"), false);
    browser
        .click_on("[...document.querySelectorAll('#compared button.name')].find((name) => name.innerText === 'step')");
    assert_eq!(browser.text("document.getElementById('found').innerText"), "5 matches");
    assert_eq!(
        texts(&mut browser, "tr.found button.name"),
        ["step", "step"],
        "in the comparison and in the table of ranges"
    );
    browser.click_on(
        "[...document.querySelectorAll('#compared button.name')].find((name) => name.innerText === 'removed')",
    );
    assert_eq!(browser.text("document.getElementById('found').innerText"), "in tables only");
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.eval("scrollTo(0, 0)");
        browser.screenshot(&folder().join(format!("baseline-{scheme}.png")));
    }
    assert_eq!(browser.complaints(), NOTHING);

    // The next run may be compared with this one, and then overwrite the same file with its own summary.
    let profiler = Profiler::builder()
        .output(Output::None)
        .html(&html)
        .json(&own)
        .baseline(&own)
        .build()
        .expect("it can be built");
    measure(&profiler);
    profiler.finish().expect("all can be written");
    let comparison = Comparison::of([("baseline-run", &summary), ("this run", &read(&own))]);
    browser.open(&html);
    browser.click_on("document.querySelector('#comparison [data-setting=exact]')");
    assert_eq!(rows(&mut browser), expected(&comparison));
    assert_eq!(browser.complaints(), NOTHING);
}

fn measure(profiler: &Profiler) {
    use tracing::info_span;
    tracing::subscriber::with_default(profiler.subscriber(), || {
        info_span!("Load Module").in_scope(|| info_span!("parse").in_scope(|| ()));
        for _ in 0..5 {
            info_span!("step").in_scope(|| ());
        }
    });
}

fn read(path: &Path) -> Summary {
    let mut file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Summary::read_json(&mut file).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_baseline_that_cannot_be_read_is_one_line() {
    let [html, report, nonsense] =
        ["no-baseline.html", "no-baseline.txt", "nonsense.json"].map(|name| folder().join(name));
    std::fs::write(&nonsense, "{\"schema\":").expect("the folder can be written");
    let missing = folder().join("no such\nbaseline.json");
    let mut browser = Browser::start();
    for (path, why) in [(&missing, "No such file or directory (os error 2)"), (&nonsense, "not JSON: ")] {
        let profiler = Profiler::builder()
            .output(Output::File(report.clone()))
            .html(&html)
            .baseline(path)
            .build()
            .expect("it can be built");
        measure(&profiler);
        let told = profiler.finish().expect_err("it cannot be read").to_string();
        let said = format!("cannot read the baseline `{}`: {why}", path.display().to_string().replace('\n', "\\n"));
        assert!(told.starts_with(&said) && told.lines().count() == 1, "{told}");
        let printed = std::fs::read_to_string(&report).expect("the report is printed all the same");
        assert!(printed.contains("Load Module"), "{printed}");
        std::fs::remove_file(&report).expect("it is there");
        browser.open(&html);
        assert_eq!(browser.eval("document.getElementById('comparison').hidden"), true);
        assert_eq!(browser.number("page.find('step').length"), 5.0);
        let notes = browser.text("document.getElementById('notes').textContent");
        assert!(notes.contains(&format!("This run is not compared with another: {said}")), "{notes}");
    }
    assert_eq!(browser.complaints(), NOTHING);
}

/// With many ranges, the table above the timeline is short until more is asked for.
#[test]
fn a_long_comparison_leaves_the_timeline_in_reach() {
    use range_model::timeline::Sink;
    use range_page::HtmlSink;
    let run: Run = training();
    let mut base = run.summary();
    for range in &mut base.ranges {
        range.times.total_ns = range.times.total_ns * 9 / 10;
    }
    let mut page = Vec::new();
    let mut sink = HtmlSink::new(&mut page).compared_with("main", Ok(base.clone()));
    run.write(&mut sink as &mut dyn Sink, &run.summary(), 0).expect("memory takes it");
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&written("training-compared.html", &page));
    let summary = run.summary();
    let comparison = Comparison::of([("main", &base), ("this run", &summary)]);
    assert!(comparison.ranges.len() > 12);
    assert_eq!(rows(&mut browser).len(), 10);
    browser.click_on("document.querySelector('#compared > button')");
    assert_eq!(rows(&mut browser).len(), comparison.ranges.len());
    for (scheme, width, height) in [("light", 1_280, 1_200), ("dark", 800, 1_200)] {
        browser.prefer(scheme);
        browser.size(width, height);
        browser.eval("scrollTo(0, 0)");
        browser.screenshot(&folder().join(format!("training-compared-{scheme}.png")));
    }
    assert_eq!(browser.complaints(), NOTHING);
    // Without a baseline there is no such section.
    drop(browser);
    let mut browser = showing("not-compared.html", &run);
    assert_eq!(browser.eval("document.getElementById('comparison').hidden"), true);
}

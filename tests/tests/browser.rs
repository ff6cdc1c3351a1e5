//! Tests the page in a real browser: actions with a mouse and with keys, 100,000 calls and a million ranges, and
//! harmless odd names. `cargo test -p tests --features browser --test browser`; pages and pictures are in
//! `target/tmp/pages`, and with `BLESS=1` the pictures of the README in `docs/`.

#[path = "browser/alike.rs"]
mod alike;
#[path = "browser/baseline.rs"]
mod baseline;
#[path = "browser/batches.rs"]
mod batches;
#[path = "browser/causes.rs"]
mod causes;
#[path = "browser/chromium.rs"]
mod chromium;
#[path = "browser/compared.rs"]
mod compared;
#[path = "browser/drawn.rs"]
mod drawn;
#[path = "browser/honest.rs"]
mod honest;
#[path = "browser/idle.rs"]
mod idle;
#[path = "browser/invented.rs"]
mod invented;
#[path = "browser/late.rs"]
mod late;
#[path = "browser/led.rs"]
mod led;
#[path = "browser/marks.rs"]
mod marks;
#[path = "browser/odd.rs"]
mod odd;
#[path = "browser/processes.rs"]
mod processes;
#[path = "browser/reader.rs"]
mod reader;
#[path = "browser/requests.rs"]
mod requests;
#[path = "browser/server.rs"]
mod server;
#[path = "browser/size.rs"]
mod size;
#[path = "browser/states.rs"]
mod states;
#[path = "browser/training.rs"]
mod training;

use std::path::{Path, PathBuf};
use tracing_gpu::WriteHtml as _;

use chromium::Browser;
use invented::Run;
use training::training;

/// The folder of pages and pictures, for a look at them.
fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

fn written(name: &str, page: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, page).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path
}

/// A browser that shows the page of a run.
fn showing(name: &str, run: &Run) -> Browser {
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&written(name, &run.page(0)));
    browser
}

const NOTHING: [&str; 0] = [];

#[test]
fn pictures_in_both_themes() {
    let mut browser = showing("training.html", &training());
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        for (width, height) in [(1_280, 800), (800, 900), (1_280, 2_400)] {
            browser.size(width, height);
            browser.screenshot(&folder().join(format!("{scheme}-{width}x{height}.png")));
        }
        browser.size(1_280, 900);
        browser.eval(
            "(() => { const box = document.getElementById('search'); box.value = 'adam'; \
             for (let i = 0; i < 20; i++) box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' })); })()",
        );
        browser.eval("page.show(page.timeline.from - 5e5, page.timeline.to + 2e6)");
        browser.settle();
        let at = browser.eval("page.point(page.timeline.selected)");
        let at = (at["x"].as_f64().expect("x"), at["y"].as_f64().expect("y"));
        browser.mouse("mouseMoved", at, serde_json::json!({}));
        browser.screenshot(&folder().join(format!("{scheme}-found.png")));
        browser.mouse("mouseMoved", (5.0, 5.0), serde_json::json!({}));
        browser
            .eval("document.getElementById('search').dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))");
        browser.key("Escape", 0);
        browser.key("0", 0);
    }
    assert_eq!(browser.complaints(), NOTHING);
}

/// The pictures of the README and of `docs/files.md`, which follow a slow request.
#[test]
fn pictures_of_the_documentation() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let mut browser = requests::served();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.size(1_280, 940);
        browser.click_on("document.querySelectorAll('#hot-calls a')[3]");
        browser.wait_for("page.timeline.selected >= 0");
        browser.eval("scrollTo(0, 0)");
        browser.settle();
        let shot = folder().join(format!("page-{scheme}.png"));
        browser.screenshot(&shot);
        assert!(std::fs::metadata(&shot).expect("it is there").len() < 300 << 10);
        if std::env::var_os("BLESS").is_some() {
            std::fs::copy(&shot, docs.join(format!("page-{scheme}.png"))).expect("the repository can be written");
        }
        browser.key("Escape", 0);
        browser.eval("location.hash = ''");
    }
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn text_can_be_read_on_all_colours() {
    let mut browser = showing("colours.html", &Run::default());
    let lowest = browser.number(
        "(() => {
            const linear = (part) => { const c = parseInt(part, 16) / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
            const light = (c) => 0.2126 * linear(c.slice(1, 3)) + 0.7152 * linear(c.slice(3, 5)) + 0.0722 * linear(c.slice(5, 7));
            const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
            const of = (colors, text) => colors.map((color) => contrast(color, text));
            return Math.min(...of(page.palettes.light, '#14181d'), ...of(page.palettes.dark, '#ffffff'));
        })()",
    );
    println!("lowest contrast of text on a colour: {lowest:.2}");
    assert!(lowest >= 4.5);
}

/// A real profiler with spans, instead of invented data.
#[test]
fn a_profiler_writes_a_page() {
    use tracing::{info, info_span};
    use tracing_gpu::{Output, Profiler};
    let path = folder().join("real.html");
    let profiler = Profiler::builder().output(Output::None).html(&path).build().expect("it can be built");
    tracing::subscriber::with_default(profiler.subscriber(), || {
        info_span!("Load Module", nvtx.category = "setup", file = "resnet.onnx").in_scope(|| {
            info_span!("parse").in_scope(|| std::thread::sleep(std::time::Duration::from_millis(3)));
        });
        for step in 0..5_u64 {
            info_span!("step", step, nvtx.payload = step).in_scope(|| info!("step {step}"));
        }
    });
    // `parse`, unless a busy machine delayed another phase for longer.
    let summary = profiler.summary();
    let phases = summary.tree.iter().flat_map(|node| node.children.iter().chain([node]));
    let slowest = phases.max_by_key(|node| node.self_ns).expect("a phase");
    profiler.finish().expect("the page can be written");
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&path);
    let count = |browser: &mut Browser, name: &str| browser.number(&format!("page.find({name:?}).length"));
    assert_eq!(["Load Module", "parse", "step", "step 3"].map(|name| count(&mut browser, name)), [1.0, 1.0, 5.0, 1.0]);
    let facts =
        browser.text("(page.select(page.find('Load Module')[0]), document.getElementById('details').innerText)");
    for expected in ["category", "setup", "file", "resnet.onnx", "a_profiler_writes_a_page"] {
        assert!(facts.contains(expected), "{expected} in {facts}");
    }
    let first = browser.text("document.querySelector('#hot-cpu li').innerText");
    assert!(first.starts_with(&slowest.name), "{first}, not {slowest:?}");
    let fits = "[[page.timeline.canvas, page.timeline.scroller], [page.flame.canvas, page.flame.box]].every(([canvas, box]) => canvas.clientWidth === box.clientWidth)";
    browser.wait_for(fits);
    browser.screenshot(&folder().join("real.png"));
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn a_run_that_was_killed_says_so() {
    use range_model::timeline::Sink;
    use range_page::HtmlSink;
    let mut page = Vec::new();
    HtmlSink::new(&mut page).begin(&training().summary().process).expect("memory takes it");
    let mut browser = Browser::start();
    browser.open(&written("killed.html", &page));
    let notice = browser.text("document.getElementById('unfinished').innerText");
    assert!(notice.starts_with("This run has not ended"), "{notice}");
    assert_eq!(browser.text("document.title"), "train - tracing-gpu");
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn a_page_of_a_summary_has_all_but_the_timeline() {
    let mut page = Vec::new();
    training().summary().write_html(&mut page).expect("memory takes it");
    let mut browser = Browser::start();
    browser.open(&written("summary.html", &page));
    let hidden = ["timeline", "overview", "flames", "tables", "notes"]
        .map(|section| browser.eval(&format!("document.getElementById('{section}').hidden")) == true);
    assert_eq!(hidden, [true, false, false, false, false]);
    let notes = browser.text("document.getElementById('notes').innerText");
    assert!(notes.contains("This page was made from the summary of a run"), "{notes}");
    for key in ["n", "w", "0", "f", "m", "Escape"] {
        browser.key(key, 0);
    }
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn a_run_without_anything_has_a_page() {
    let mut browser = showing("empty.html", &Run::default());
    assert_eq!(browser.text("document.querySelector('#figures').innerText"), "Wall time\n1.200 ms");
    for section in ["timeline", "flames", "tables", "notes"] {
        assert_eq!(browser.eval(&format!("document.getElementById('{section}').hidden")), true, "{section}");
    }
    for key in ["n", "w", "0", "Escape"] {
        browser.key(key, 0);
    }
    assert_eq!(browser.complaints(), NOTHING);
}

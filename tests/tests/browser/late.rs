//! Four ranks of a training: the others wait in each all-reduce for one that is late, and the page leads to it.

use std::path::PathBuf;

use range_model::timeline::Sink;
use range_page::HtmlSink;
use serde_json::json;
use tracing_gpu::Summary;
use tracing_gpu::summary::CommunicatorStats;

use crate::chromium::Browser;
use crate::invented::{Op, PID, Run, kernel};
use crate::{NOTHING, folder, written};

const STEPS: u64 = 4;
const US: u64 = 1_000;
const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// A rank: the lower its number, the later it starts. Rank 1 waits for its batches.
fn rank(number: u32) -> (Run, Summary) {
    let started = u64::from(3 - number) * 1_000 * US;
    let thread = PID + 100 * number;
    let mut run = Run { threads: vec![(thread, "main")], ..Run::default() };
    let mut stats = CommunicatorStats::default();
    (stats.id, stats.names) = (77, vec!["AllReduce".to_owned()]);
    for step in 0..STEPS {
        let at = |us: u64| (10_000 + 40_000 * step + us) * US - started;
        let late = if number == 1 { 14_000 } else { 0 };
        let begins = 12_000 + 100 * u64::from(number) + late;
        let span = run.open(thread, at(0), "step", None);
        let batch = run.open(thread, at(50), "wait for batch", Some(span));
        run.close(batch, at(1_000 + late));
        let backward = run.open(thread, at(1_100 + late), "backward", Some(span));
        let mut launch = |start: u64, end: u64, stream, kernel_name, launched: u64| {
            let (work, launch) = (kernel(128, 256), (thread, at(launched)));
            run.operations.push(Op {
                start: at(start),
                end: at(end),
                stream,
                work,
                kernel: kernel_name,
                launch,
                span: backward,
            });
        };
        for block in 0..5 {
            let start = 1_300 + late + 2_100 * block;
            launch(start, start + 2_000, 7, "gemm", start - 100);
        }
        launch(begins, 30_000, 20, ALL_REDUCE, begins - 500);
        run.close(backward, at(2_000 + begins));
        run.close(span, at(30_200));
        stats.name.push(0);
        stats.start_ns.push(at(begins));
        stats.time_ns.push((30_000 - begins) * US);
        stats.alone_ns.push((30_000 - begins) * US);
    }
    let mut summary = run.summary();
    (summary.process.pid, summary.process.rank) = (thread, Some(number));
    summary.process.started_unix_ns += started;
    summary.communicators = vec![stats];
    (run, summary)
}

fn joined() -> PathBuf {
    let mut summaries = Vec::new();
    let mut pages = Vec::new();
    for (run, summary) in (0..4).rev().map(rank) {
        let mut page = Vec::new();
        run.write(&mut HtmlSink::new(&mut page), &summary, 0).expect("memory takes it");
        pages.push((summary.process.clone(), page));
        summaries.push(summary);
    }
    let all = Summary::merge(summaries);
    let merged = all.as_one();
    let mut page = Vec::new();
    let mut sink = HtmlSink::new(&mut page).with_late_ranks(&all.processes);
    sink.begin(&merged.process).expect("memory takes it");
    for (process, page) in &pages {
        sink.join(process, pages[0].0.started_unix_ns, &page[..]).expect("it is whole");
    }
    sink.end(&merged, 0).expect("memory takes it");
    written("late.html", &page)
}

/// Numbers of arrows, each of which begins with a dot, and of pale bars.
fn drawn(browser: &mut Browser) -> serde_json::Value {
    browser.eval(
        "(() => {
            const canvas = CanvasRenderingContext2D.prototype;
            const { arc, fillRect } = canvas;
            const found = [0, 0];
            canvas.arc = function (...given) { found[0]++; arc.apply(this, given); };
            canvas.fillRect = function (...given) {
                if (Math.abs(this.globalAlpha - 0.45) < 0.01) found[1]++;
                fillRect.apply(this, given);
            };
            page.draw();
            Object.assign(canvas, { arc, fillRect });
            return found;
        })()",
    )
}

#[test]
fn a_wait_leads_to_the_late_rank_and_back() {
    let path = joined();
    for (scheme, width) in [("light", 1_440), ("dark", 1_024)] {
        let mut browser = Browser::start();
        browser.prefer(scheme);
        browser.size(width, 1_400); // high enough for all ranks
        browser.open(&path);
        // The kernel of a rank in a step. The first operation is not judged: processes start at different times.
        let of = |rank: u32, step: u64| {
            let label = format!("rank {rank} ({})", PID + 100 * rank);
            format!(
                "page.find({ALL_REDUCE:?}).filter((item) => page.run.processes[page.run.groups[
                    page.run.rows.find(({{ last }}) => item < last).group].process] === {label:?})[{step}]"
            )
        };
        let said = |browser: &mut Browser| browser.text("document.querySelector('#details .linked')?.innerText");
        let is_selected =
            |browser: &mut Browser, item: &str| browser.eval(&format!("page.timeline.selected === {item}"));
        assert_eq!(browser.number("page.run.late.length"), 9.0, "three ranks, in all steps but the first");
        browser.eval("page.show(85e6, 125e6)");
        assert_eq!(drawn(&mut browser), json!([0, 3]), "three kernels wait");
        browser.settle();
        browser.screenshot(&folder().join(format!("late-{scheme}-none.png")));
        browser.eval(&format!("page.select({})", of(0, 2)));
        browser.settle();
        assert_eq!(said(&mut browser), "waits 14.10 ms for rank 1 (4811) Show it");
        assert_eq!(drawn(&mut browser)[0], 2, "from the launch, and from the late rank");
        browser.screenshot(&folder().join(format!("late-{scheme}-waits.png")));
        let point = browser.eval(&format!("page.point({})", of(3, 2)));
        browser.mouse("mouseMoved", (point["x"].as_f64().expect("x"), point["y"].as_f64().expect("y")), json!({}));
        let tip = browser.text("document.getElementById('tip').innerText.replace(/\\s+/g, ' ')");
        assert!(tip.contains("waits 13.80 ms for rank 1 (4811)"), "{tip}");
        browser.screenshot(&folder().join(format!("late-{scheme}-tip.png")));
        browser.click_on("document.querySelector('#details .linked button')");
        assert_eq!(is_selected(&mut browser, &of(1, 2)), true);
        let expected =
            "the last of 4 ranks, by 13.90 ms: rank 0 (4711) 14.10 ms rank 2 (4911) 13.90 ms rank 3 (5011) 13.80 ms";
        assert_eq!(said(&mut browser), expected);
        assert_eq!(drawn(&mut browser)[0], 4, "from its launch, and to each rank that waits for it");
        browser.screenshot(&folder().join(format!("late-{scheme}.png")));
        // The focus is on the first of them.
        browser.key("Enter", 0);
        assert_eq!(is_selected(&mut browser, &of(0, 2)), true);
        browser.eval(&format!("page.select({})", of(0, 0)));
        assert_eq!(said(&mut browser), "");
        assert_eq!(browser.complaints(), NOTHING);
    }
}

//! One page of the 60 processes of a run: a lane for each, on one clock, found by search.

use std::path::PathBuf;

use range_model::timeline::Sink;
use range_page::HtmlSink;
use serde_json::json;
use tracing_gpu::Summary;

use crate::chromium::Browser;
use crate::invented::{PID, Run};
use crate::training::training;
use crate::{NOTHING, folder, written};

const PROCESSES: u32 = 60;
const LATER: u64 = 2_000_000;

/// A rank of the run: its threads have numbers of their own, and rank 37 has a range that the others do not have.
fn rank(number: u32) -> (Run, Summary) {
    let mut run = training();
    let apart = number * 100;
    run.threads.iter_mut().for_each(|(thread, _)| *thread += apart);
    run.spans.iter_mut().for_each(|span| span.thread += apart);
    run.operations.iter_mut().for_each(|operation| operation.launch.0 += apart);
    run.calls.iter_mut().for_each(|call| call.0 += apart);
    run.marks.iter_mut().for_each(|mark| mark.0 += apart);
    if number == 37 {
        run.leaf(PID + apart, 700_000_000, 5_000_000, "recover from a lost link", None);
    }
    let mut summary = run.summary();
    summary.process.pid = PID + apart;
    summary.process.rank = Some(number);
    summary.process.started_unix_ns += u64::from(number) * LATER;
    (run, summary)
}

/// The page of so many ranks.
fn joined(count: u32) -> PathBuf {
    let mut summaries = Vec::new();
    let mut pages = Vec::new();
    for number in 0..count {
        let (run, summary) = rank(number);
        let mut page = Vec::new();
        run.write(&mut HtmlSink::new(&mut page), &summary, 0).expect("memory takes it");
        pages.push((summary.process.clone(), page));
        summaries.push(summary);
    }
    let first = pages[0].0.started_unix_ns;
    let merged = Summary::merge(summaries).as_one();
    let mut page = Vec::new();
    let mut sink = HtmlSink::new(&mut page);
    sink.begin(&merged.process).expect("memory takes it");
    for (process, page) in &pages {
        sink.join(process, first, &page[..]).expect("it is whole");
    }
    sink.end(&merged, 0).expect("memory takes it");
    written(&format!("joined-{count}.html"), &page)
}

fn labels(browser: &mut Browser) -> Vec<String> {
    let shown = "page.timeline.groups.map((group) => group.label)";
    serde_json::from_value(browser.eval(shown)).expect("texts")
}

#[test]
fn sixty_processes_are_one_page() {
    let path = joined(PROCESSES);
    for (scheme, (width, height)) in [("light", (1_440, 900)), ("dark", (1_024, 700))] {
        let mut browser = Browser::start();
        browser.prefer(scheme);
        browser.size(width, height);
        browser.open(&path);
        // A lane for each, folded, in the order in which they started.
        let expected: Vec<String> =
            (0..PROCESSES).map(|number| format!("rank {number} ({})", PID + 100 * number)).collect();
        assert_eq!(labels(&mut browser), expected);
        let figures = browser.text("document.getElementById('figures').innerText");
        assert!(figures.contains("Processes\n60"), "{figures}");
        // On one clock.
        let starts = browser.eval("page.find('Load Module').slice(0, 60).map((item) => page.run.start[item])");
        let starts: Vec<u64> = serde_json::from_value(starts).expect("numbers");
        let expected: Vec<u64> = (0..u64::from(PROCESSES)).map(|number| 400_000 + number * LATER).collect();
        assert_eq!(starts, expected);
        // Lanes are as low as can still be seen and clicked.
        let highest = browser.number("Math.max(...page.timeline.groups.map((group) => group.bottom - group.y))");
        assert!(highest <= 40.0, "{highest}");
        browser.screenshot(&folder().join(format!("processes-{scheme}.png")));
        // A search finds the rank with something of its own, in sight, and says which it is.
        browser.eval("document.getElementById('search').value = 'lost link'");
        let enter = "new KeyboardEvent('keydown', { key: 'Enter' })";
        browser.eval(&format!("document.getElementById('search').dispatchEvent({enter})"));
        browser.settle();
        let details = browser.text("document.getElementById('details').innerText.replace(/\\n/g, ' ')");
        assert!(details.contains(&format!("process rank 37 ({})", PID + 3_700)), "{details}");
        let y = browser.number("page.point(page.timeline.selected).y");
        let [above, below] = [
            "document.querySelector('.bar').getBoundingClientRect().bottom",
            "document.getElementById('details').getBoundingClientRect().top",
        ]
        .map(|edge| browser.number(edge));
        assert!(above < y && y < below, "{y} of {above} to {below}");
        browser.screenshot(&folder().join(format!("processes-{scheme}-found.png")));
        // Its lane opens by a click on its name: its threads and streams, and no other's.
        let heading = "page.timeline.groups.find((group) => group.label.startsWith('rank 37'))";
        let at = browser.eval(&format!(
            "(() => {{ const box = page.timeline.canvas.getBoundingClientRect();
                const {{ y, bottom }} = {heading};
                return [box.left + 30, box.top + (y + bottom) / 2 - page.timeline.scroller.scrollTop]; }})()"
        ));
        browser.click((at[0].as_f64().expect("x"), at[1].as_f64().expect("y")));
        let opened = labels(&mut browser);
        let own = ["main (8411)", "loader-0", "loader-1", "stream"];
        assert!(opened.len() > 63, "{opened:?}");
        for (label, own) in opened[38..].iter().zip(own) {
            assert!(label.starts_with(own), "{opened:?}");
        }
        assert!(opened[37].starts_with("rank 37") && opened.last().is_some_and(|last| last.starts_with("rank 59")));
        assert_eq!(browser.complaints(), NOTHING);
    }
}

#[test]
fn few_processes_are_open_and_a_launch_stays_in_its_process() {
    let mut browser = Browser::start();
    browser.size(1_440, 900);
    browser.open(&joined(2));
    let labels = labels(&mut browser);
    assert!(labels[0].starts_with("rank 0") && labels[1].starts_with("main (4711)"), "{labels:?}");
    // Each operation was launched on a thread of its own process.
    let processes = "(() => {
        const { groups, launch, rows } = page.run;
        const of = new Map(groups.filter(({ kind }) => kind === 'thread').map(({ thread, process }) => [thread, process]));
        const found = {};
        for (const row of rows.filter(({ part }) => part === 'operations'))
            for (let item = row.first; item < row.last; item++) {
                const key = [groups[row.group].process, of.get(launch.thread[row.launch + item - row.first] - 1)].join();
                found[key] = (found[key] ?? 0) + 1;
            }
        return found;
    })()";
    let count = training().operations.len();
    assert_eq!(browser.eval(processes), json!({ "0,0": count, "1,1": count }));
    assert_eq!(browser.complaints(), NOTHING);
}

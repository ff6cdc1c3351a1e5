//! What a call did at each moment, who made it wait, and the way from the wait to its cause.

use range_model::timeline::{Api, ApiCall, Call, CallWait, Item, Operation, Range, Sink, Value};
use range_page::HtmlSink;
use serde_json::json;
use tracing_gpu::Summary;
use tracing_gpu::summary::{OffCpuStats, WaitStats};

use crate::chromium::Browser;
use crate::invented::kernel;
use crate::{NOTHING, folder, written};

const MS: u64 = 1_000_000;
const WORKERS: u32 = 6;

/// Numbers of calls. The request waits for a lock that a job holds, for a thread, in CUDA, and for a busy GPU.
const REQUEST: u64 = 1;
const SAVE: u64 = 2;
const JOB: u64 = 3;
const EXPORT: u64 = 4;
const OTHER: u64 = 5;
const LOAD: u64 = 6;
const NEXT: u64 = 7;

fn range(thread: u32, [start, end]: [u64; 2], name: &'static str, call: u64) -> Item<'static> {
    let (start, end) = (start * MS, end * MS);
    Item::Range(Range { thread, start, end, name, call, span: call, ..Range::default() })
}

fn inside(range: Item<'static>, parent: u64, depth: u32) -> Item<'static> {
    let Item::Range(range) = range else { panic!("{range:?}") };
    Item::Range(Range { parent, depth, ..range })
}

fn call(call: u64, parent: u64, [start, end]: [u64; 2], name: &'static str) -> Item<'static> {
    let fields = &[("tenant", Value::Text("globex"))];
    let (start, end) = (start * MS, end * MS);
    Item::Call(Call { call, span: call, parent, thread: 101, start, end, name, fields, ..Call::default() })
}

fn wait(call: u64, [start, end]: [u64; 2], by: Option<&'static str>) -> CallWait<'static> {
    CallWait { call, start: start * MS, end: end * MS, by, ..CallWait::default() }
}

fn operation(call: u64, [start, end]: [u64; 2], launched: u64, kernel_name: &'static str) -> Item<'static> {
    let (span, launch) = (if call == REQUEST { "GET /orders" } else { "POST /embed" }, Some((101, launched * MS)));
    let (start, end, work) = (start * MS, end * MS, kernel(8, 128));
    Item::Operation(Operation {
        start,
        end,
        stream: 7,
        work,
        kernel: kernel_name,
        launch,
        span: Some(span),
        call,
        ..Operation::default()
    })
}

fn items() -> Vec<Item<'static>> {
    let mut items: Vec<Item<'static>> =
        (0..WORKERS).map(|worker| Item::Thread { thread: 101 + worker, name: "tokio-runtime-worker" }).collect();
    items.push(Item::Device { device: 0, name: "NVIDIA H100" });
    // The request: created at 10, polled at 14; in `save` from 20 to 220; ends at 400.
    items.extend([
        call(REQUEST, 0, [10, 400], "GET /orders"),
        call(SAVE, REQUEST, [20, 221], "save"),
        range(101, [14, 22], "GET /orders", REQUEST),
        inside(range(101, [20, 22], "save", SAVE), REQUEST, 1),
        // The job lets it go at 200; a worker runs `export` until 210.
        range(102, [220, 240], "GET /orders", REQUEST),
        inside(range(102, [220, 221], "save", SAVE), REQUEST, 1),
        inside(range(102, [225, 238], "render", 0), REQUEST, 1),
        Item::ApiCall(ApiCall {
            api: Api::Driver,
            name: "cuLaunchKernel",
            thread: 102,
            start: 239 * MS,
            end: 240 * MS,
            correlation: 1,
            result: 0,
        }),
        range(101, [398, 400], "GET /orders", REQUEST),
        Item::Wait(wait(SAVE, [22, 200], Some("compact ledger"))),
        Item::Wait(CallWait { is_for_worker: true, ..wait(SAVE, [203, 219], Some("export")) }),
        // The job waits for a timer while it has the lock.
        call(JOB, 0, [5, 201], "compact ledger"),
        range(103, [5, 15], "compact ledger", JOB),
        range(103, [190, 201], "compact ledger", JOB),
        Item::Wait(wait(JOB, [15, 189], None)),
        range(102, [203, 219], "export", EXPORT),
        call(OTHER, 0, [238, 396], "POST /embed"),
        range(104, [238, 239], "POST /embed", OTHER),
        operation(OTHER, [239, 340], 239, "reindex(float*)"),
        operation(REQUEST, [341, 397], 239, "gemm(float*)"),
        // `load` waits for `flush`, as most of its name do.
        call(LOAD, 0, [300, 390], "load"),
        range(104, [300, 301], "load", LOAD),
        range(104, [389, 390], "load", LOAD),
        range(105, [330, 388], "flush", 9),
        // The next in the queue.
        call(NEXT, 0, [310, 394], "load"),
        range(105, [310, 311], "load", NEXT),
        range(105, [391, 394], "load", NEXT),
    ]);
    items
}

fn inferred(waiter: &str, by: &str, waits: u64, of: u64, by_chance: u64) -> WaitStats {
    let mut row = WaitStats::new(waiter, Some(by.to_owned()), waits, 4_000 * MS, 90 * MS);
    (row.of_waits, row.by_chance, row.over_ns, row.within_ns) =
        (Some(of), Some(by_chance), Some(20 * MS), Some(2 * MS));
    row
}

fn page() -> Vec<u8> {
    let mut summary = Summary::default();
    summary.waits = vec![inferred("load", "flush", 68, 69, 1)];
    page_of(&items(), summary)
}

fn page_of(items: &[Item<'static>], mut summary: Summary) -> Vec<u8> {
    let mut page = Vec::new();
    let mut sink = HtmlSink::new(&mut page);
    summary.elapsed_ns = 420 * MS;
    sink.begin(&summary.process).expect("memory takes it");
    items.iter().for_each(|item| sink.item(item).expect("memory takes it"));
    sink.end(&summary, 0).expect("memory takes it");
    page
}

/// A browser in which the request is selected.
fn shown(width: u32, height: u32) -> Browser {
    let mut browser = Browser::start();
    browser.size(width, height);
    browser.open(&written("causes.html", &page()));
    select(&mut browser, "GET /orders");
    browser
}

fn select(browser: &mut Browser, name: &str) {
    browser.eval(&format!(
        "page.select(page.find('{name}').find((item) => page.run.rows.find((row) => row.last > item).part === 'calls'))"
    ));
    browser.settle();
}

/// The one that began last.
fn select_last(browser: &mut Browser, name: &str) {
    let is_call = "(item) => page.run.rows.find((row) => row.last > item).part === 'calls'";
    browser.eval(&format!("page.select(page.find('{name}').filter({is_call}).sort((a, b) => page.run.start[a] - page.run.start[b]).at(-1))"));
    browser.settle();
}

const SEGMENTS: &str = "[...document.querySelectorAll('#details .state')].map((one) => one.textContent)";
const SAYS: &str = "document.querySelector('#details .state-says').textContent";
const CRUMBS: &str = "[...document.querySelectorAll('#details .crumbs button')].map((one) => one.textContent)";
const SELECTED: &str = "page.run.texts[page.run.name[page.timeline.selected]]";

#[test]
fn a_strip_says_what_a_call_did_and_who_made_it_wait() {
    let mut browser = shown(1_440, 900);
    let expected = json!([
        "ready, not polled yet",
        "on a thread",
        "on a thread in save",
        "waiting in save for compact ledger",
        "ready for a thread in save",
        "ready for a thread in save, held by export",
        "", // ready, and on a thread in save
        "on a thread",
        "on a thread in render",
        "", // on a thread, and in CUDA
        "waiting for a busy GPU, behind reindex(float*)",
        "waiting",
        "waiting for its GPU work, gemm(float*)",
        "waiting",
        "on a thread",
    ]);
    assert_eq!(browser.eval(SEGMENTS), expected);
    assert_eq!(
        browser.text(SAYS),
        "178.0 ms (45.6 %) waiting in save for compact ledger. A click leads to compact ledger."
    );
    browser.screenshot(&folder().join("causes.png"));
    let blamed = "[...document.querySelectorAll('#hot-blamed li')].map((one) => one.textContent)";
    let expected = "flush4.000 sload most likely waited for it: 68 of 69 such waits ended right after one, 1 would by \
                    chance68 waits";
    assert_eq!(browser.eval(blamed), json!([expected]));
    // The name of who is to blame is seen whole.
    let is_whole = "[...document.querySelectorAll('#hot-blamed .bar-name')].every((one) => one.scrollWidth <= one.clientWidth && one.clientWidth >= 150)";
    for width in [1_440, 1_024] {
        browser.size(width, 900);
        assert_eq!(browser.eval(is_whole), json!(true), "{width}");
    }
    // What nobody told is inferred, with the evidence.
    select(&mut browser, "load");
    assert_eq!(browser.eval(SEGMENTS), json!(["on a thread", "waiting, most likely for flush", "on a thread"]));
    let says = "88.00 ms (97.8 %) waiting, most likely for flush. 68 of 69 such waits ended right after one, 1 would by \
                chance. A click leads to flush.";
    assert_eq!(browser.text(SAYS), says);
    // A queue is followed to its head.
    select_last(&mut browser, "load");
    let states =
        json!(["on a thread", "waiting, most likely for flush", "waiting in a queue, behind load", "on a thread"]);
    assert_eq!(browser.eval(SEGMENTS), states);
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn keys_lead_from_a_wait_to_its_cause_and_back() {
    for (width, height, scheme) in [(1_440, 900, "light"), (1_024, 700, "dark")] {
        let mut browser = shown(width, height);
        browser.prefer(scheme);
        // The group of threads in which the job ran is folded.
        let folded = "page.timeline.groups.find((group) => group.key?.startsWith('threads')).bottom - page.timeline.groups.find((group) => group.key?.startsWith('threads')).y";
        let low = browser.number(folded);
        browser.eval("document.querySelector('#details .states [tabindex=\"0\"]').focus()");
        browser.key("ArrowRight", 0);
        let says = "3.000 ms (0.8 %) ready for a thread in save, 4.000 ms (1.0 %) in all. A click leads to save.";
        assert_eq!(browser.text(SAYS), says);
        browser.key("ArrowLeft", 0);
        browser.key("Enter", 0);
        assert_eq!(browser.text(SELECTED), "compact ledger");
        assert_eq!(browser.eval(CRUMBS), json!(["GET /orders 390.0 ms"]));
        let states = json!([
            "on a thread",
            "waiting for a timer, I/O or the end of a task",
            "ready for a thread",
            "on a thread"
        ]);
        assert_eq!(browser.eval(SEGMENTS), states);
        assert!(browser.text(SAYS).ends_with("It ends at what has no span."), "{}", browser.text(SAYS));
        // It is in sight, above what is said of it.
        let y = browser.number("page.point(page.timeline.selected).y");
        let details = browser.number("document.getElementById('details').getBoundingClientRect().top");
        assert!(y > 40.0 && y < details, "{y} {details}");
        browser.screenshot(&folder().join(format!("chain-{scheme}.png")));
        browser.key("Backspace", 0);
        assert_eq!(browser.text(SELECTED), "GET /orders");
        assert_eq!(browser.eval(CRUMBS), json!([]));
        // The busy GPU: the operation in front, which ends the chain; a click leads back.
        browser.click_on(
            "[...document.querySelectorAll('#details .state')].find((one) => one.textContent.includes('busy GPU'))",
        );
        assert_eq!(browser.text(SELECTED), "reindex(float*)");
        assert!(browser.text("document.getElementById('details').innerText").contains("POST /embed"));
        browser.screenshot(&folder().join(format!("chain-gpu-{scheme}.png")));
        browser.click_on("document.querySelector('#details .crumbs button')");
        // Who held the thread ran on a thread that is folded: now it is not.
        browser.click_on("[...document.querySelectorAll('#details .state')].find((one) => one.textContent.includes('held by export'))");
        assert_eq!(browser.text(SELECTED), "export");
        assert!(browser.number(folded) > 2.0 * low);
        assert_eq!(browser.complaints(), NOTHING);
    }
}

/// Few waits, or many by chance, are told in other words than many that are no chance.
#[test]
fn weak_evidence_has_words_of_its_own() {
    let mut browser = Browser::start();
    for (waits, by_chance, word) in [(68, 1, "most likely"), (68, 9, "probably"), (20, 0, "probably")] {
        let mut summary = Summary::default();
        summary.waits = vec![inferred("load", "flush", waits, waits, by_chance)];
        browser.open(&written("weak.html", &page_of(&items(), summary)));
        let blamed = browser.text("document.querySelector('#hot-blamed .bar-why').textContent");
        assert!(blamed.starts_with(&format!("load {word} waited for it: {waits} of {waits}")), "{blamed}");
        select(&mut browser, "load");
        let waiting = format!("waiting, {word} for flush");
        assert_eq!(browser.eval(SEGMENTS), json!(["on a thread", waiting, "on a thread"]));
    }
    assert_eq!(browser.complaints(), NOTHING);
}

/// Where nothing is known of a wait, what threads did meanwhile and mostly do not is said, as no proof.
#[test]
fn what_threads_did_meanwhile_is_said_of_unknown_waits() {
    let with_cpu = |item: Item<'static>, on: u64, off: u64| {
        let Item::Range(range) = item else { panic!("{item:?}") };
        Item::Range(Range { on_cpu_ns: on * MS, off_cpu_ns: off * MS, ..range })
    };
    let items = [
        call(REQUEST, 0, [100, 200], "GET /health"),
        range(101, [100, 101], "GET /health", REQUEST),
        range(101, [199, 200], "GET /health", REQUEST),
        // It holds two threads: it runs on one, and makes another wait.
        with_cpu(range(102, [102, 199], "compact ledger", 0), 97, 0),
        with_cpu(range(103, [105, 198], "append_ledger", 0), 0, 93),
        // This one always runs.
        range(104, [0, 1_000], "poll", 0),
        // Nothing happens in the second.
        call(NEXT, 0, [400, 500], "GET /users"),
        range(101, [400, 401], "GET /users", NEXT),
        range(101, [499, 500], "GET /users", NEXT),
    ];
    let mut summary = Summary::default();
    let off_cpu = |call: &str, ms: u64| OffCpuStats::new("append_ledger", call, ms, ms * MS);
    summary.off_cpu = vec![off_cpu("futex (lock or condition)", 90), off_cpu("read", 10)];
    let mut browser = Browser::start();
    browser.size(1_440, 900);
    browser.open(&written("meanwhile.html", &page_of(&items, summary)));
    select(&mut browser, "GET /health");
    let says = "98.00 ms (98.0 %) waiting. It ends at what no record names. What made it wait is not known; meanwhile: \
                compact ledger on the CPU for 99.0 % of it (usually 9.7 % of the time), append_ledger off the CPU for \
                94.9 % of it (usually 9.3 % of the time).";
    assert_eq!(browser.text(SAYS), says);
    select(&mut browser, "GET /users");
    assert_eq!(browser.text(SAYS), "98.00 ms (98.0 %) waiting. It ends at what no record names.");
    // The system call behind time off the CPU is known of all ranges of a name together.
    browser.eval("page.select(page.find('append_ledger')[0])");
    browser.settle();
    let says = "93.00 ms (100.0 %) off the CPU. Of append_ledger off the CPU, 90.0 % is futex (lock or condition), by \
                samples. It ends at a lock, a system call or a busy processor. What made it wait is not known; meanwhile: \
                compact ledger on the CPU for 100.0 % of it (usually 9.7 % of the time).";
    assert_eq!(browser.text(SAYS), says);
    assert_eq!(browser.complaints(), NOTHING);
}

/// A stream that waits for an event of another stream: the work there that ended right before.
#[test]
fn work_of_another_stream_that_ended_right_before_is_named() {
    let elsewhere = |start: u64, end: u64| {
        let Item::Operation(it) = operation(OTHER, [0, 0], 99, "reindex(float*)") else { panic!("an operation") };
        Item::Operation(Operation { stream: 8, start, end, ..it })
    };
    let state = |ends: u64| {
        let items = [
            call(REQUEST, 0, [100, 200], "infer"),
            range(101, [100, 102], "infer", REQUEST),
            range(101, [199, 200], "infer", REQUEST),
            operation(REQUEST, [150, 198], 101, "gemm(float*)"),
            elsewhere(100 * MS, ends),
        ];
        let mut browser = Browser::start();
        browser.open(&written("across.html", &page_of(&items, Summary::default())));
        select(&mut browser, "infer");
        assert_eq!(browser.complaints(), NOTHING);
        browser.eval(&format!("{SEGMENTS}[1]"))
    };
    assert_eq!(state(150 * MS - 5_000), json!("waiting for a busy GPU, probably behind reindex(float*)"));
    assert_eq!(state(149 * MS), json!("waiting"), "it ended long before");
}

/// A real profiler: a followed future waits for a span.
#[test]
fn a_profiler_tells_who_ended_a_wait() {
    use std::cell::Cell;
    use std::future::{Future as _, poll_fn};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    use tracing::{Instrument as _, info_span};
    use tracing_gpu::{Output, Profiler, follow};

    let path = folder().join("told.html");
    let profiler = Profiler::builder().output(Output::None).html(&path).build().expect("it can be built");
    let runs_for = |ms: u64| {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(ms) {}
    };
    tracing::subscriber::with_default(profiler.subscriber(), || {
        let waker = Cell::new(None::<Waker>);
        let mut polls = 0;
        let waits = poll_fn(|context: &mut Context<'_>| {
            polls += 1;
            waker.set(Some(context.waker().clone()));
            if polls > 1 { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut future = pin!(follow(waits.instrument(info_span!("request"))));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(future.as_mut().poll(context).is_pending());
        info_span!("compact ledger").in_scope(|| {
            runs_for(20);
            waker.take().expect("it waits").wake();
            runs_for(1);
        });
        assert!(future.as_mut().poll(context).is_ready());
    });
    profiler.finish().expect("the page can be written");
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&path);
    select(&mut browser, "request");
    // Where a busy machine takes the thread away after the wake, being ready takes longer than waiting did.
    let told = "[...document.querySelectorAll('#details .state')].find((one) => one.title.includes(') waiting for compact ledger'))";
    browser.click_on(told);
    assert_eq!(browser.text(SELECTED), "compact ledger");
    assert_eq!(browser.complaints(), NOTHING);
}

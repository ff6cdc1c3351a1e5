//! Requests among many: the calls of a server are drawn, followed and summed up.

use std::path::PathBuf;
use std::sync::OnceLock;

use range_model::timeline::Call;
use serde_json::{Value, json};

use crate::invented::{PID, Run};
use crate::server::{SLOW_KERNEL, SLOW_QUERY, Server};
use crate::training::training;
use crate::{Browser, NOTHING, folder, showing, written};

const SHIFT: u32 = 8;
/// The visible time as a multiple of an item's length.
const SEEN: &str = "((item) => (page.timeline.to - page.timeline.from) / (page.run.end[item] - page.run.start[item]))";

/// A server of some seconds with more than 100,000 calls, and its page.
pub(crate) fn server() -> &'static (Server, PathBuf) {
    static SERVER: OnceLock<(Server, PathBuf)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = Server::of(27_000);
        assert!(server.calls.len() > 100_000, "{} calls that wait", server.calls.len());
        let path = written("server.html", &server.page());
        (server, path)
    })
}

/// Its page in a browser.
pub(crate) fn served() -> Browser {
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&server().1);
    browser.wait_for("document.querySelectorAll('#hot-calls a').length > 1");
    browser
}

fn texts(browser: &mut Browser, selector: &str) -> Vec<String> {
    let found = browser.eval(&format!("[...document.querySelectorAll({selector:?})].map((one) => one.innerText)"));
    serde_json::from_value(found).expect("texts")
}

/// Drawn shapes, as recorded by a test of a canvas: kind of shape, opacity, colour, position.
fn shapes(browser: &mut Browser) -> Vec<(String, f64, String, Vec<f64>)> {
    let noted = browser.eval(
        "(() => {
            const noted = [];
            const kept = {};
            const canvas = CanvasRenderingContext2D.prototype;
            for (const name of ['fillRect', 'bezierCurveTo']) {
                kept[name] = canvas[name];
                canvas[name] = function (...given) {
                    if (this.canvas.id === 'lanes') noted.push([name, this.globalAlpha, String(this.fillStyle), given]);
                    kept[name].apply(this, given);
                };
            }
            page.draw();
            Object.assign(canvas, kept);
            return noted;
        })()",
    );
    serde_json::from_value(noted).expect("shapes")
}

#[test]
fn why_a_request_was_slow_is_said() {
    let mut browser = served();
    let slowest = texts(&mut browser, "#hot-calls a");
    let expected = [
        ["GET /orders id 7777", "781.8 ms", "99.8 % waiting in query > wait for a connection", "+779.4 ms"],
        [
            "GET /orders id 11500",
            "30.34 ms",
            "98.9 % waiting in query > fetch rows, 1.0 % waiting in query > wait for a connection; mostly so: 99 of \
             the 100 slowest",
            "+27.99 ms",
        ],
        [
            "POST /predict id 12111",
            "310.2 ms",
            "100.0 % waiting for its GPU work in infer, reindex(float*, int)",
            "+309.5 ms",
        ],
        [
            "POST /predict id 12121",
            "309.8 ms",
            "99.8 % waiting for a busy GPU in infer, behind reindex(float*, int); mostly so: 99 of the 100 \
             slowest",
            "+309.1 ms",
        ],
    ];
    assert_eq!(slowest, expected.map(|parts| parts.join("\n")));
    browser.screenshot(&folder().join("server.png"));
    let details = "document.getElementById('details').innerText";
    for (index, number, why) in [
        (0, SLOW_QUERY, "780.0 ms (99.8 %) waiting in query > wait for a connection, usually 2"),
        (3, SLOW_KERNEL, "(99.8 %) waiting for a busy GPU in infer, usually 5"),
    ] {
        browser.click_on(&format!("document.querySelectorAll('#hot-calls a')[{index}]"));
        browser.wait_for(&format!("{details}.includes('times the median')"));
        browser.wait_for(&format!("{details}.includes('{number}')"));
        let said = browser.text(details);
        assert!(said.contains(why) && said.contains("acme") && said.contains(" polls on "), "{said}");
        // The reason is visible without scrolling.
        let bottom = browser.number("document.querySelector('#details .reason').getBoundingClientRect().bottom");
        assert!(bottom < 800.0, "{bottom}");
        browser.screenshot(&folder().join(format!("slow-{number}.png")));
    }
    // The page shows the item that the sentence names, and the sentence stays.
    let said = browser.text(details);
    browser.eval("page.show(0, 1e9)");
    browser.click_on("document.querySelector('#details .reason button')");
    let infer =
        browser.eval("page.calls.item[page.calls.at[page.calls.place[page.run.call[page.timeline.selected] - 1] + 1]]");
    assert_eq!(browser.eval(&format!("page.run.texts[page.run.name[{infer}]]")), "infer");
    assert!((browser.number(&format!("{SEEN}({infer})")) - 1.3).abs() < 0.01);
    let (y, top) =
        (browser.number(&format!("page.point({infer}).y")), "document.getElementById('lanes').getBoundingClientRect()");
    assert!(browser.number(&format!("{top}.top")) < y && y < browser.number(&format!("{top}.bottom")), "{y}");
    assert_eq!(browser.text(details), said);
    // A call that was dropped while it waited is labelled so; a selected call is drawn even if folded away.
    browser.key("f", 0);
    browser.eval("page.select([...page.calls.roots].find((item) => page.factsOf(item).facts.some(([label]) => label === 'ended')))");
    assert!(browser.text(details).contains("cancelled"), "{}", browser.text(details));
    assert_eq!(browser.eval("page.lineOf(page.timeline.selected).part"), "calls");
    browser.key("f", 0);
    browser.key("Escape", 0);
    assert_eq!(browser.text("document.querySelector('#details').textContent"), "");
    let policy = browser.text("document.querySelector('meta[http-equiv=Content-Security-Policy]').content");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert_eq!(browser.complaints(), NOTHING);
}

/// All requests fetch for 10 ms. One waits 8 ms for a lock, one asks 40 times, one does two additional things.
#[test]
fn the_reason_is_what_took_longer_than_usual() {
    const US: u64 = 1_000;
    let mut server = Server::of(0);
    let mut put = |parent: u64, name: &'static str, start: u64, length: u64| {
        let call = server.calls.len() as u64 + 1;
        let (start, end) = (start * US, (start + length) * US);
        server.calls.push(Call { call, span: call, parent, thread: 100, start, end, name, ..Call::default() });
        call
    };
    for number in 0..31_u64 {
        let at = number * 100_000;
        let (locked, asked) = (if number == 10 { 8_000 } else { 20 }, if number == 20 { 40 } else { 1 });
        let charged = if number == 30 { 2 } else { 0 };
        let request = put(0, "request", at, locked + 10_000 + asked * 300 + charged * 4_500 + 50);
        put(request, "lock", at + 10, locked);
        put(request, "fetch", at + 10 + locked, 10_000);
        for _ in 0..charged {
            put(request, "charge", at + 20 + locked + 10_000 + asked * 300, 9_000);
        }
        for query in 0..asked {
            put(request, "query", at + 10 + locked + 10_000 + query * 300, 290);
        }
    }
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&written("usual.html", &server.page()));
    let slow = [
        (10, "What took longer: 8.000 ms (43.6 %) waiting in lock, usually 20.00 µs."),
        (20, "Most of it: 11.60 ms (52.6 %) waiting in query × 40, one after another, usually × 1, 290.0 µs."),
        (30, "9.000 ms (46.5 %) waiting in charge × 2, at the same time. Most calls of request have no charge."),
        (5, "Most of it: 10.00 ms (96.4 %) waiting in fetch, usually 10.00 ms."),
    ];
    for (number, why) in slow {
        let start = number * 100_000 * US;
        browser.eval(&format!("page.select(page.find('request').find((item) => page.run.start[item] === {start}))"));
        let said = browser.text("document.querySelector('#details .reason').innerText");
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(browser.complaints(), NOTHING);
}

/// The search text occurs in other ids and times, too; it must find the request with exactly this id, whatever the
/// view.
#[test]
fn a_field_is_found_by_its_value() {
    let mut browser = served();
    browser.eval("page.show(1e9, 1.1e9)");
    let facts = "document.getElementById('details').innerText";
    for query in ["700", "id=701", "ID 702", "id 703"] {
        search(&mut browser, query);
        let id = query.get(query.len() - 3..).expect("digits");
        assert!(browser.text(facts).contains(&format!("id\n{id}\ntenant")), "{query}: {}", browser.text(facts));
    }
    assert_eq!(browser.text("document.getElementById('found').innerText"), "1 of 1");
    // By name, the search moves from call to call and not from poll to poll; each is shown whole.
    let (server, _) = server();
    let count = server.calls.iter().filter(|call| call.name == "GET /orders").count() as f64;
    browser.eval("page.show(1e9, 1.1e9)");
    for _ in 0..3 {
        search(&mut browser, "get /orders");
        assert_eq!(browser.number("page.search.found.length"), count);
        let part = browser.number(&format!("{SEEN}(page.timeline.selected)"));
        assert!((part - 1.2).abs() < 0.01, "{part}");
    }
    // Typed text replaces the old one.
    browser.key("/", 0);
    browser.key("7", 0);
    assert_eq!(browser.text("document.getElementById('search').value"), "7");
    // Without a match, no facts about a request are shown.
    search(&mut browser, "id=99999");
    assert_eq!(browser.text(facts), "No match on the timeline for id=99999");
    assert_eq!(browser.number("page.timeline.selected"), -1.0);
    search(&mut browser, "wait for");
    assert!(browser.text(facts).starts_with("wait for a connection"), "{}", browser.text(facts));
    assert_eq!(browser.complaints(), NOTHING);
}

/// Searches as if by typing and Enter.
fn search(browser: &mut Browser, text: &str) {
    browser.eval(&format!("document.getElementById('search').value = {text:?}"));
    browser.eval("document.getElementById('search').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }))");
}

#[test]
fn a_call_is_followed_over_threads_and_streams() {
    let small = Server::of(12);
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&written("followed.html", &small.page()));
    let faint = |shapes: &[(String, f64, String, Vec<f64>)]| {
        shapes.iter().filter(|(shape, opacity, ..)| shape == "fillRect" && *opacity < 0.3).count()
    };
    let plain = shapes(&mut browser);
    assert_eq!(faint(&plain), 0);
    // A request that launches a kernel.
    let call = small.calls.iter().find(|call| call.name == "POST /predict").expect("it is there");
    let item = browser.number(&format!(
        "page.find('POST /predict').find((item) => page.run.start[item] === {} && page.run.end[item] === {})",
        call.start, call.end
    ));
    browser.eval(&format!("page.show({} - 1e5, {} + 1e5)", call.start, call.end));
    let at = browser.eval(&format!("page.point({item})"));
    browser.click((at["x"].as_f64().expect("x"), at["y"].as_f64().expect("y")));
    assert_eq!(browser.number("page.timeline.selected"), item);
    let followed = shapes(&mut browser);
    assert!(faint(&followed) > 10, "all else is dim: {}", faint(&followed));
    let width = browser_width(&mut browser);
    let scale = |ns: u64| {
        let from = call.start as f64 - 1e5;
        width.0 + (ns as f64 - from) / (call.end as f64 + 1e5 - from) * (width.1 - width.0)
    };
    let polls: Vec<_> = small.ranges.iter().filter(|range| range.call == call.call).collect();
    assert_eq!(polls.len(), 3);
    for poll in &polls {
        let x = scale(poll.start);
        let is_there = |(shape, opacity, _, place): &(String, f64, String, Vec<f64>)| {
            shape == "fillRect" && *opacity == 1.0 && (place[0] - x).abs() <= 1.0
        };
        assert!(followed.iter().any(is_there), "a poll at {x}");
    }
    // Arrows lead from poll to poll, and from the launch to the kernel.
    let operation = small.operations.iter().find(|op| op.launch.is_some_and(|(_, at)| at > call.start)).expect("one");
    let ends = [polls[1].start, polls[2].start, operation.start];
    for end in ends {
        let x = scale(end);
        let leads = |(shape, _, _, place): &(String, f64, String, Vec<f64>)| {
            shape == "bezierCurveTo" && (place[4] - x).abs() <= 1.0
        };
        assert!(followed.iter().any(leads), "a link to {x}");
    }
    // The child calls are unfolded below it: `infer` has a lane there.
    assert!(browser.eval("page.timeline.groups[0].labels.some(({ text }) => text === 'the selected call')") == true);
    // A search for something else does not fade it.
    search(&mut browser, "fetch rows");
    browser.eval(&format!("page.select({item}), page.show({} - 1e5, {} + 1e5)", call.start, call.end));
    let searched = shapes(&mut browser);
    let solid = |shapes: &[(String, f64, String, Vec<f64>)]| {
        let solid = shapes.iter().filter(|(_, opacity, ..)| *opacity == 1.0);
        solid.map(|(.., place)| place.clone()).collect::<Vec<_>>()
    };
    assert!(faint(&searched) > 10 && solid(&searched) == solid(&followed));
    search(&mut browser, "");
    browser.key("Escape", 0);
    assert_eq!(faint(&shapes(&mut browser)), 0);
    assert_eq!(browser.number("page.timeline.selected"), -1.0);
    assert_eq!(browser.complaints(), NOTHING);
}

/// The left and right end of the timeline.
fn browser_width(browser: &mut Browser) -> (f64, f64) {
    (browser.number("page.timeline.gutter"), browser.number("page.timeline.width"))
}

#[test]
fn threads_of_one_name_fold() {
    let mut browser = served();
    let labels = "page.timeline.groups.map((group) => group.label)";
    let whole = json!(["Slowest calls", "Other calls", "tokio-runtime-worker \u{d7} 8", "stream 7"]);
    assert_eq!(browser.eval(labels), whole);
    let workers = "page.timeline.lines.filter((line) => line.group.thread !== undefined)";
    assert_eq!(browser.eval(&format!("{workers}.length")), 8, "one low line each");
    assert_eq!(browser.number(&format!("{workers}[0].height")), 10.0, "high enough for a pointer");
    // A click on the name in the margin unfolds the lanes. The browser shows a pointer there.
    let y = browser.number("page.timeline.groups[2].y - page.timeline.scroller.scrollTop + document.getElementById('lanes').getBoundingClientRect().top + 8");
    browser.click((60.0, y));
    assert_eq!(browser.eval(&format!("{workers}.length")), 8 * 3, "three levels each");
    assert_eq!(browser.eval("page.timeline.groups[2].labels.filter(({ own }) => own).length"), 8);
    browser.key("f", 0);
    assert_eq!(browser.eval(&format!("{workers}.length")), 8);
    assert_eq!(browser.eval("page.timeline.lines.length"), 1 + 1 + 8 + 1, "all is folded");
    browser.key("f", 0);
    assert!(browser.number("page.timeline.lines.length") > 100.0);
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn what_is_marked_is_summed_up() {
    let run = training();
    let mut browser = showing("marked.html", &run);
    browser.eval("page.show(4e7, 1.2e8)");
    browser.eval("document.getElementById('timeline').scrollIntoView()");
    let top = browser.number("document.getElementById('lanes').getBoundingClientRect().top");
    let main = browser.number("page.timeline.groups[0].y + 40");
    let (gutter, width) = browser_width(&mut browser);
    let at = |part: f64| (16.0 + 1.0 + gutter + part * (width - gutter), top + main);
    let down = json!({ "modifiers": SHIFT });
    browser.mouse("mousePressed", at(0.25), down.clone());
    browser.mouse("mouseMoved", at(0.75), json!({ "modifiers": SHIFT, "buttons": 1, "button": "left" }));
    browser.mouse("mouseReleased", at(0.75), down);
    let area = browser.eval("[page.timeline.marked.from, page.timeline.marked.to]");
    let (from, to) = (area[0].as_f64().expect("ns"), area[1].as_f64().expect("ns"));
    assert!((from - 6e7).abs() < 2e5 && (to - 1e8).abs() < 2e5, "{area}");
    let rows = browser.eval("[...document.querySelectorAll('#details tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))");
    let rows: Vec<Vec<String>> = serde_json::from_value(rows).expect("texts");
    let human = |browser: &mut Browser, ns: f64| browser.text(&format!("page.human({ns})"));
    for name in ["step", "block", "stage1"] {
        let spans = run.spans.iter().filter(|span| span.thread == PID && span.name == name);
        let spans: Vec<(f64, f64)> = spans.map(|span| (span.start as f64, span.end as f64)).collect();
        let spans: Vec<_> = spans.into_iter().filter(|(start, end)| *end > from && *start < to).collect();
        let inside: f64 = spans.iter().map(|(start, end)| end.min(to) - start.max(from)).sum();
        let mut lengths: Vec<f64> = spans.iter().map(|(start, end)| end - start).collect();
        lengths.sort_by(f64::total_cmp);
        let rank = |part: f64| lengths[(lengths.len() as f64 * part).ceil() as usize - 1];
        let figures = [inside.round(), rank(0.5), rank(0.99)].map(|ns| human(&mut browser, ns));
        let row = rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name} in {rows:?}"));
        assert_eq!(row[2..], [vec![spans.len().to_string()], figures.to_vec()].concat(), "{name}");
    }
    assert!(rows.iter().all(|row| row[0] != "load batch"), "another thread: {rows:?}");
    browser.screenshot(&folder().join("marked.png"));
    browser.click_on("document.getElementById('zoom-marked')");
    let shown = browser.eval("[page.timeline.from, page.timeline.to]");
    assert!((shown[0].as_f64().expect("ns") - from).abs() < 10.0 && (shown[1].as_f64().expect("ns") - to).abs() < 10.0);
    // The key `m` marks exactly the visible part of all threads.
    browser.key("m", 0);
    assert!(texts(&mut browser, "#details tbody th").contains(&"load batch".to_owned()));
    browser.key("Escape", 0);
    assert_eq!(browser.text("document.getElementById('details').textContent"), "");
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn a_row_opens_its_ten_slowest() {
    let run = training();
    let mut browser = showing("slowest.html", &run);
    browser.wait_for("document.querySelectorAll('#panel .spread button').length > 5");
    let row = "[...document.querySelectorAll('#panel tbody tr')].find((row) => row.children[0].textContent === 'step')";
    assert!(browser.text(&format!("{row}.querySelector('path').getAttribute('d')")).matches('M').count() == 24);
    browser.click_on(&format!("{row}.querySelector('.spread button')"));
    let mut steps: Vec<_> = run.spans.iter().filter(|span| span.name == "step").collect();
    steps.sort_by_key(|span| std::cmp::Reverse(span.end - span.start));
    let links = texts(&mut browser, ".slowest a");
    assert_eq!(links.len(), 10);
    for (link, step) in links.iter().zip(&steps) {
        assert_eq!(*link, browser.text(&format!("page.human({})", step.end - step.start)));
    }
    let entry = browser.text("document.querySelector('.slowest li').innerText");
    assert!(entry.contains("step=8") && entry.contains("main (4711)"), "{entry}");
    browser.click_on("document.querySelectorAll('.slowest a')[3]");
    browser.wait_for("page.timeline.selected >= 0");
    assert_eq!(browser.number("page.run.start[page.timeline.selected]"), steps[3].start as f64);
    let shown = browser.eval("[page.timeline.from, page.timeline.to]");
    let shown = [0, 1].map(|index| shown[index].as_f64().expect("ns"));
    assert!(shown[0] <= steps[3].start as f64 && shown[1] >= steps[3].end as f64, "{shown:?}");
    assert!(shown[1] - shown[0] < 2.0 * (steps[3].end - steps[3].start) as f64, "{shown:?}");
    // A program without futures has reasons, too: this step waited for its pictures.
    let slowest = browser.number(&format!("page.run.start.indexOf({})", steps[0].start));
    browser.eval(&format!("page.select({slowest})"));
    let why = browser.text("document.querySelector('#details .reason').innerText");
    assert!(
        why.contains(" off the CPU in wait for batch, usually ") && why.starts_with("2.0 times the median"),
        "{why}"
    );
    // The same button closes the list. With keys, the button is to the right of the name.
    browser.click_on(&format!("{row}.querySelector('.spread button')"));
    assert_eq!(browser.eval("document.querySelectorAll('.slowest').length"), 0);
    browser.eval(&format!("{row}.querySelector('.name').focus()"));
    browser.key("ArrowRight", 0);
    browser.key("Enter", 0);
    assert_eq!(browser.eval("document.querySelectorAll('.slowest a').length"), 10);
    browser.key("ArrowLeft", 0);
    assert_eq!(browser.text("document.activeElement.innerText"), "step");
    // p50 and p99 have columns of their own.
    let heads = texts(&mut browser, "#panel thead th");
    assert!(heads.iter().any(|head| head.starts_with("p50")), "{heads:?}");
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn the_first_list_is_of_latency_or_of_self_time() {
    let mut browser = served();
    let first = "document.querySelector('#hot-cpu li').innerText";
    // This server waits more than it runs.
    let tab = "document.querySelector('#tabs [aria-selected=true]').innerText";
    assert!(browser.text(tab).starts_with("Calls"), "{}", browser.text(tab));
    assert_eq!(browser.text("document.getElementById('by-latency').ariaPressed"), "true");
    assert!(browser.text(first).starts_with("infer"), "{}", browser.text(first));
    browser.click_on("document.getElementById('by-self')");
    assert_eq!(browser.text("document.getElementById('by-latency').ariaPressed"), "false");
    assert!(browser.text(first).starts_with("render"), "{}", browser.text(first));
    assert!(browser.text("document.getElementById('hot-cpu-title').innerText").contains("time of their own"));
    assert_eq!(browser.complaints(), NOTHING);
    drop(browser);
    // Without waiting there is no choice.
    let mut browser = showing("no-choice.html", &training());
    assert_eq!(browser.eval("document.getElementById('hot-by').hidden"), true);
    assert!(browser.text(tab).starts_with("Ranges"), "{}", browser.text(tab));
}

/// With 60 consecutive names, some neighbours would have the same colour by chance.
#[test]
fn neighbours_differ_in_colour() {
    let mut many = Run { threads: vec![(PID, "main")], ..Run::default() };
    let mut at = 1_000;
    for number in 0..180 {
        at = many.leaf(PID, at, 90_000, &format!("phase {}", number % 60), None) + 1_000;
    }
    for (name, run) in [("many", many), ("training", training())] {
        let mut browser = showing(&format!("neighbours-{name}.html"), &run);
        let alike = browser.eval(
            "(() => {
                const alike = new Set();
                for (const row of page.run.rows) {
                    if (row.part !== 'ranges' && row.part !== 'operations') continue;
                    for (let item = row.first; item + 1 < row.last; item++) {
                        const names = [item, item + 1].map((one) => page.run.texts[page.run.name[one]]);
                        if (names[0] !== names[1] && page.color(item) === page.color(item + 1)) alike.add(names.join());
                    }
                }
                return [...alike];
            })()",
        );
        assert_eq!(alike, json!([]), "{name}");
    }
}

#[test]
fn the_address_keeps_the_view() {
    let path = written("address.html", &training().page(0));
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&path);
    browser.eval("page.show(5e7, 7e7)");
    search(&mut browser, "stage 1 & more");
    browser.eval("page.select(page.find('step')[3])");
    browser.wait_for("location.hash.includes('s=')");
    let view = browser.text("location.hash");
    assert!(view.starts_with("#t=50000000,70000000&q=stage%201%20%26%20more&s="), "{view}");
    let state = "[page.timeline.from, page.timeline.to, page.timeline.selected, page.search.query]";
    let before = browser.eval(state);
    // Back from a view that a link opened.
    browser.eval(&format!("location.hash = {:?}", view.replace("70000000", "60000000")));
    browser.wait_for("page.timeline.to === 6e7");
    browser.eval("history.back()");
    browser.wait_for("page.timeline.to === 7e7");
    // A link is followed even while the page writes its former view to the address.
    browser.eval(
        "new Promise((done) => {
            addEventListener('hashchange', () => done(true));
            location.hash = '#s=1';
            history.replaceState(null, '', location.href.split('#')[0]);
        })",
    );
    assert_eq!(browser.number("page.timeline.selected"), 1.0);
    drop(browser);
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open_view(&path, &view);
    assert_eq!(browser.eval(state), before);
    assert!(browser.text("document.getElementById('details').innerText").starts_with("step"));
    // Nonsense is ignored.
    for view in ["#t=x,y&s=99999999&q=%E0%A4%A", "#s=-7&t=5", "#&&==", "#t=9,1&p=nothing"] {
        browser.open_view(&path, view);
        assert_eq!(browser.eval("page.timeline.selected"), -1, "{view}");
        assert!(browser.number("page.timeline.to - page.timeline.from") > 2e8, "{view}");
    }
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn odd_names_of_calls_do_no_harm() {
    let odd = "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 2'>";
    let mut server = Server::of(20);
    for call in &mut server.calls {
        call.name = odd;
    }
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    browser.open(&written("odd-calls.html", &server.page()));
    browser.wait_for("document.querySelectorAll('#hot-calls a').length > 0");
    browser.click_on("document.querySelector('#hot-calls a')");
    browser.wait_for("page.timeline.selected >= 0");
    assert_eq!(browser.text("document.querySelector('#details strong').innerText"), odd);
    browser.key("m", 0);
    browser.eval("page.select(page.find('fetch rows')[0] ?? 0)");
    let value: Value = browser.eval("window.harmed === undefined");
    assert_eq!(value, true);
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn filters_select_by_length_field_and_state() {
    let mut browser = served();
    let mut found = |query: &str| {
        search(&mut browser, query);
        browser.text("document.getElementById('found').innerText")
    };
    let (server, _) = server();
    let count = |is_selected: &dyn Fn(&Call<'_>) -> bool| server.calls.iter().filter(|call| is_selected(call)).count();
    let slow = count(&|call| call.end - call.start >= 300_000_000 && call.name == "GET /orders");
    assert_eq!((slow, found("get >300ms")), (1, "1 of 1".to_owned()));
    let of_tenant = count(&|call| call.end - call.start >= 300_000_000 && !call.fields.is_empty());
    assert_eq!(found(">300ms tenant=acme"), format!("1 of {of_tenant}"));
    assert_eq!(found(">300ms tenant=globex"), "no match");
    let between = count(&|call| (290_000_000..=300_000_000).contains(&(call.end - call.start)) && call.name == "infer");
    assert!(found("\"infer\" >290ms <300ms").ends_with(&format!("of {between}")), "{between}");
    assert_eq!(found("state=waiting GET >300ms"), "1 of 1");
    assert_eq!(found("state=on-cpu"), "no match");
    // A field alone is looked for as before, and so is a text that has no filter in it.
    assert_eq!(found("id=701"), "1 of 1");
    assert!(found("nothing>100").starts_with("no match"));
    // p50 and p99 of all calls of the name by a field of the selected one.
    browser.click_on("document.querySelector('#hot-calls a')");
    browser.wait_for("[...document.querySelectorAll('#details .by')].length === 2");
    browser.eval("[...document.querySelectorAll('#details .by')].find((one) => one.textContent === 'tenant').focus()");
    browser.key("Enter", 0);
    let row = texts(&mut browser, "#details tbody tr");
    assert_eq!(row.len(), 1);
    assert!(row[0].starts_with("acme\t24,300\t2.355 ms\t"), "{row:?}");
    browser.key("Enter", 0);
    assert_eq!(browser.text("page.search.query"), "get /orders tenant=acme");
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn sums_count_nested_calls_once() {
    let mut browser = Browser::start();
    browser.size(1_280, 800);
    let small = Server::of(40);
    browser.open(&written("nested.html", &small.page()));
    browser.eval("scrollTo(0, 0)");
    browser.key("m", 0);
    let rows = browser.eval(
        "[...document.querySelectorAll('#details tbody tr')].map((row) => [...row.children].slice(0, 3).map((cell) => cell.innerText))",
    );
    let rows: Vec<[String; 3]> = serde_json::from_value(rows).expect("texts");
    for name in ["GET /orders", "query", "fetch rows"] {
        let calls = small.calls.iter().filter(|call| call.name == name).count();
        let expected = [name.to_owned(), "call".to_owned(), calls.to_string()];
        assert!(rows.contains(&expected), "{expected:?} in {rows:?}");
    }
    assert_eq!(browser.complaints(), NOTHING);
}

#[test]
fn what_is_brushed_is_compared_with_the_rest() {
    for (width, height, scheme) in [(1_440, 900, "light"), (1_024, 700, "dark")] {
        let mut browser = served();
        browser.prefer(scheme);
        browser.size(width, height);
        browser.wait_for("document.querySelectorAll('#heat-of option').length === 2");
        let rows = "[...document.querySelectorAll('#populations tbody tr')].map((row) => row.innerText)";
        // With keys: the upper half of the latencies of the first name, in all of the run.
        browser.eval("document.getElementById('heat').focus()");
        browser.key("ArrowUp", 0);
        let found: Vec<String> = serde_json::from_value(browser.eval(rows)).expect("texts");
        assert_eq!(found[0], "mostly waiting in query > wait for a connection\t100.0 % of 1\t0.0 % of 300");
        assert!(
            found.iter().any(|row| row.starts_with("mostly waiting in query > fetch rows\t0.0 % of 1\t")),
            "{found:?}"
        );
        browser.screenshot(&folder().join(format!("heat-{scheme}.png")));
        browser.key("Enter", 0);
        browser.key("Enter", 0);
        browser.wait_for("page.timeline.selected >= 0");
        assert_eq!(browser.number("page.run.start[page.timeline.selected]"), slowest_start("GET /orders"));
        // With the mouse: requests to the GPU at the time of the long kernel, against all others.
        browser.eval("document.getElementById('heat-of').value = 'POST /predict'");
        browser.eval("document.getElementById('heat-of').dispatchEvent(new Event('change'))");
        browser.eval("document.getElementById('heat').scrollIntoView({ block: 'center' })");
        browser.settle();
        let place = "document.getElementById('heat').getBoundingClientRect()";
        let (left, top) = (browser.number(&format!("{place}.left")), browser.number(&format!("{place}.top")));
        let right = browser.number(&format!("{place}.right"));
        browser.mouse("mousePressed", (left + 200.0, top + 4.0), json!({ "button": "left", "clickCount": 1 }));
        browser.mouse("mouseMoved", (right - 30.0, top + 20.0), json!({ "buttons": 1 }));
        browser.mouse("mouseReleased", (right - 30.0, top + 20.0), json!({ "button": "left", "clickCount": 1 }));
        let found: Vec<String> = serde_json::from_value(browser.eval(rows)).expect("texts");
        let is_of_kernel = |row: &&String| row.starts_with("held up by reindex(float*, int)\t");
        let row = found.iter().find(is_of_kernel).unwrap_or_else(|| panic!("{found:?}"));
        assert!(row.ends_with("% of 300\t0.0 % of 300") && !row.contains("\t0.0 % of 300\t"), "{row}");
        assert_eq!(browser.complaints(), NOTHING);
    }
}

/// When the slowest call of a name began.
fn slowest_start(name: &str) -> f64 {
    let calls = server().0.calls.iter().filter(|call| call.name == name);
    calls.max_by_key(|call| call.end - call.start).expect("a call").start as f64
}

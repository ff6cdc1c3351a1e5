//! Runs the scenarios of `semantics.rs` with NVIDIA's own layer and checks its exact present behaviour, so that the
//! table in `docs/nsight.md` stays true. `cargo test -p tests --features nvidia --test peers -- --nocapture` prints the
//! table.

mod scenario;

use scenario::{BOTH, LAYER, Ran, command, outcome_recorded};
use std::collections::BTreeMap;
use tests::recorder::Call;

const NVIDIA: &str = "nvidia";

fn run(scenario: &str, tier: &str) -> Ran {
    outcome_recorded(&mut command(scenario, tier))
}

/// The calls of its layer, by thread in order of appearance: `start task`, `end task`. The domain, which is the span's
/// target, is left out.
fn told(ran: &Ran) -> Vec<Vec<String>> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut threads: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for call in ran.calls.iter().filter(|call| call.is_event()) {
        let id = call.rest.get("id").map_or("", String::as_str);
        let message = call.message.as_deref().or_else(|| names.get(id).copied()).unwrap_or_default();
        names.insert(id, message);
        threads.entry(call.thread).or_default().push(format!("{} {message}", call.kind));
    }
    threads.into_values().collect()
}

/// Whether it panicked when it inserted its data of a span for the second time.
fn inserted_twice(ran: &Ran) -> bool {
    !ran.status.success() && ran.stderr.contains("assertion failed: self.replace(val).is_none()")
}

/// The number of ranges that a tool saw begin.
fn begun(ran: &Ran) -> usize {
    ran.count("push") + ran.count("start")
}

#[test]
fn only_the_first_poll_is_seen() {
    let ran = run("async-re-entry", NVIDIA);
    assert_eq!(told(&ran), [["start task", "end task"]]);
    assert!(ran.status.success());
}

#[test]
fn an_entry_while_the_span_is_open_panics() {
    for scenario in ["recursive-entry", "concurrent-entry", "current-handed-on"] {
        let ran = run(scenario, NVIDIA);
        assert!(inserted_twice(&ran), "{scenario}: {}\n{}", ran.status, ran.stderr);
        assert_eq!((ran.count("start"), ran.count("end")), (2, 0), "{scenario}");
    }
}

#[test]
fn two_of_its_layers_panic() {
    let ran = run("two-layers", NVIDIA);
    assert!(inserted_twice(&ran), "{}\n{}", ran.status, ran.stderr);
}

#[test]
fn exits_elsewhere_and_out_of_order_are_fine_since_it_only_starts_and_ends() {
    let ran = run("exit-elsewhere", NVIDIA);
    let expected = [&["start outer", "start moved", "end outer", "start after", "end after"][..], &["end moved"]];
    assert_eq!(told(&ran), expected);
    let ran = run("out-of-order", NVIDIA);
    let begin = ["start below", "start outer", "start inner", "start top"];
    let end = ["end outer", "end top", "end inner", "end below"];
    assert_eq!(told(&ran), [[begin, end].concat()]);
    let ran = run("guards-across-await", NVIDIA);
    assert_eq!(told(&ran), [["start a", "start b", "end a", "end b"]]);
    assert_eq!((ran.count("push"), ran.count("pop")), (0, 0), "nothing nests on a thread's row in Nsight Systems");
}

#[test]
fn what_is_recorded_counts_only_before_the_first_entry() {
    let shown = |ran: &Ran| -> Vec<(u32, Option<u32>, Option<String>)> {
        let starts = ran.calls.iter().filter(|call| call.kind == "start");
        starts.map(|call| (call.category, call.color, call.payload.clone())).collect()
    };
    let before = run("record-before-entry", NVIDIA);
    assert_eq!(shown(&before), [(1, Some(0xFFFF_0000), Some("u64:2".to_owned()))], "and the second entry is lost");
    let later = run("record", NVIDIA);
    assert_eq!(shown(&later), [(0, None, None)], "one of four entries, without what was recorded");
}

#[test]
fn the_message_of_an_event_is_dropped() {
    let ran = run("events", NVIDIA);
    let marks: Vec<&str> =
        ran.calls.iter().filter(|call| call.kind == "mark").map(|call| call.message.as_deref().unwrap()).collect();
    assert_eq!(marks.len(), 12);
    let by_name = ["named", "hidden name", "only a name"];
    assert!(
        marks.iter().all(|mark| mark.starts_with("event tests/examples/spans/") || by_name.contains(mark)),
        "{marks:?}"
    );
    assert!(ran.calls.iter().filter(|call| call.kind == "mark").all(|call| call.category == 0));
}

#[test]
fn hex_colors_and_formatted_values_are_ignored() {
    let ran = run("nvidia-fields", NVIDIA);
    let starts: Vec<(&str, Option<u32>, u32)> = ran
        .calls
        .iter()
        .filter(|call| call.kind == "start")
        .map(|call| (call.message.as_deref().unwrap(), call.color, call.category))
        .collect();
    assert_eq!(starts, [("span", Some(0xFFFF_0000), 1), ("hex", None, 0), ("display", None, 0)]);
}

#[test]
fn a_nul_is_stripped() {
    let ran = run("odd-names", NVIDIA);
    let first = ran.calls.iter().find(|call| call.kind == "start").and_then(|call| call.message.as_deref());
    assert_eq!(first, Some("ab"));
}

/// Prints a tool's view of each scenario, and checks all of ours.
#[test]
fn the_table() {
    let rows: [(&str, &str, usize); 9] = [
        ("async re-entry: 5 polls and the drop", "async-re-entry", 6),
        ("the same span twice on one thread", "recursive-entry", 3),
        ("the same span on two threads at once", "concurrent-entry", 2),
        ("`Span::current()` handed to a worker", "current-handed-on", 3),
        ("exit on another thread", "exit-elsewhere", 3),
        ("out-of-order exit of 4 spans, 2 of them split", "out-of-order", 6),
        ("guards held across await, 1 of 2 split", "guards-across-await", 3),
        ("`record` between 4 entries", "record", 4),
        ("two layers in one stack", "two-layers", 0),
    ];
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/nsight.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let say = |line: String| {
        println!("{line}");
        assert!(page.contains(&format!("\n{line}\n")), "docs/nsight.md does not have this line: {line}");
    };
    for (title, scenario, expected) in rows {
        let describe = |ran: &Ran| match (ran.status.success(), begun(ran)) {
            (false, _) => "**panics**".to_owned(),
            (true, 1) => "1 range".to_owned(),
            (true, count) => format!("{count} ranges"),
        };
        let (theirs, ours) = (run(scenario, NVIDIA), run(scenario, LAYER));
        say(format!("| {title} | {} | {} |", describe(&theirs), describe(&ours)));
        assert!(ours.status.success(), "{scenario}: {}", ours.stderr);
        for tier in BOTH.iter().filter(|_| expected > 0) {
            assert_eq!(begun(&run(scenario, tier)), expected, "{scenario} {tier}");
        }
    }
    let messages = |tier: &str| -> usize {
        let is_said = |call: &&Call| call.kind == "mark" && call.message.as_deref() == Some("failed: disk");
        run("events", tier).calls.iter().filter(is_said).count()
    };
    say(format!("| an event's message | {} | {} |", shown(messages(NVIDIA)), shown(messages(LAYER))));
    assert_eq!((messages(NVIDIA), messages(LAYER)), (0, 1));
}

fn shown(count: usize) -> &'static str {
    if count == 0 { "dropped" } else { "shown" }
}

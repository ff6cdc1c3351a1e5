//! Timelines written while a program runs, compared with the summary of the same run; and their state if the program
//! ends early.

#[path = "timelines/calls.rs"]
mod calls;
#[path = "timelines/endings.rs"]
mod endings;
#[path = "timelines/faults.rs"]
mod faults;
#[cfg(feature = "nsight")]
#[path = "timelines/nsight.rs"]
mod nsight;
#[path = "timelines/read.rs"]
mod read;
mod scenario;
#[path = "timelines/values.rs"]
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use read::{Database, Files, Run, Trace};
use scenario::{BOTH, LAYER, instances, notes};
use serde_json::json;
use tracing::info_span;
use tracing::subscriber::with_default;
use tracing_gpu::summary::{RangeStyle, TreeNode};
use tracing_gpu::{Note, Output, Profiler, Summary};

/// Rows of a summary: instances and total.
type Rows = BTreeMap<(RangeStyle, String), (u64, u64)>;

fn rows(summary: &Summary) -> Rows {
    let row =
        |row: &tracing_gpu::summary::RangeStats| ((row.style, row.label()), (row.times.instances, row.times.total_ns));
    summary.ranges.iter().map(row).collect()
}

/// Whether two times of this many instances agree: to 1 ns an instance, because a file has whole nanoseconds; and to a
/// part in 100,000, because a file converts ticks by the rate of the clock measured so far, and a summary by that of
/// the whole run.
fn agree(instances: u64, ours: f64, theirs: f64) -> bool {
    (ours - theirs).abs() <= instances as f64 + theirs * 1e-5
}

/// Checks for the same ranges with equal counts, and with sums that [`agree`].
fn assert_same(what: &str, ours: &Rows, summary: &Rows) {
    let counts =
        |rows: &Rows| -> Vec<_> { rows.iter().map(|(key, (instances, _))| (key.clone(), *instances)).collect() };
    assert_eq!(counts(ours), counts(summary), "{what}");
    for (key, &(instances, total)) in ours {
        let wanted = summary[key].1;
        let agree = agree(instances, total as f64, wanted as f64);
        assert!(agree, "{what}: {key:?} {total} ns, in the summary {wanted} ns");
    }
}

fn assert_complete(what: &str, run: &Files) -> (Trace, Database) {
    let (trace, database, summary) = (run.trace(), run.database(), run.summary());
    trace.assert_nested(what);
    assert_same(&format!("{what}, trace"), &trace.rows(), &rows(&summary));
    assert_same(&format!("{what}, database"), &database.rows(), &rows(&summary));
    (trace, database)
}

#[test]
fn everything_is_in_both_files_as_in_the_summary() {
    for tier in BOTH {
        let run = Run::of("timeline", tier);
        assert_eq!(run.ran.status.code(), Some(0), "{tier}: {}", run.ran.stderr);
        let summary = run.summary();
        assert!(summary.losses.split_instances > 200 && !notes(&run.ran.stderr).contains("missing"), "{summary:?}");
        assert_eq!(instances(&summary)["kernel"], 4 * 60 * 20);
        let (trace, database) = assert_complete(tier, &run);

        // Each has its own fields, even reopened ones.
        let layers: Vec<_> = trace.slices.iter().filter(|slice| slice.name.starts_with("layer ")).collect();
        assert!(layers.iter().all(|slice| slice.args["fields"]["kind"] == "conv"));
        for slice in &layers {
            let number = slice.args["fields"]["layer"].as_u64().expect("a number");
            assert_eq!(slice.name, format!("layer {}", number % 4));
        }
        let reopened: Vec<_> = trace.slices.iter().filter(|slice| slice.name == "reopened").collect();
        assert_eq!(reopened.len(), 2 * 4 * 60, "{tier}");
        for slice in reopened {
            assert!(slice.args["color"] == "0xffff0000" && slice.args["payload"].is_u64(), "{tier}: {slice:?}");
        }
        let typed = trace.slice("typed");
        let fields = json!({
            "text": "a \"b\"\n", "small": -1, "large": u64::MAX.to_string(), "half": 0.5, "yes": true,
            "shown": "Some(1)",
        });
        assert_eq!(typed.args["fields"], fields, "{tier}");
        assert_eq!(trace.slice("coloured").args["color"], "0xff76b900");
        assert_eq!((trace.slice("categorised").cat.as_str(), trace.slice("numbered").cat.as_str()), ("io", "7"));
        assert_eq!(trace.slice("numbered").args["payload"], -5);
        let later: Vec<_> = trace.slices.iter().filter(|slice| slice.name == "recorded later").collect();
        assert_eq!((&later[0].args["fields"], &later[1].args["fields"]["found"]), (&json!(null), &json!("here")));

        // Threads by name, and the contents of each.
        let threads: BTreeSet<&str> = trace.threads.values().map(String::as_str).collect();
        for name in ["main", "worker 0", "worker 1", "worker 2", "closer"] {
            assert!(threads.contains(name) && database.threads.contains(&name.to_owned()), "{tier}: {threads:?}");
        }
        for batch in trace.slices.iter().filter(|slice| slice.name == "batch") {
            let (number, thread) = (&batch.args["fields"]["number"], &trace.threads[&batch.track]);
            assert!(*number == 100 && thread == "main" || *thread == format!("worker {number}"), "{tier}: {batch:?}");
        }

        // Lifetimes: one that ended here, one elsewhere.
        let lifetimes: Vec<_> = trace.lifetimes.iter().filter(|lifetime| lifetime.name == "request").collect();
        assert_eq!(lifetimes.len(), 2, "{tier}");
        let of = |id: u64| lifetimes.iter().find(|one| one.args["fields"]["id"] == id).expect("a lifetime");
        assert_eq!((of(7).track, trace.threads[&of(7).track].as_str()), (of(7).end_track, "main"));
        assert_eq!((of(7).cat.as_str(), &of(7).args["color"]), ("net", &json!("0xff0000ff")));
        assert_eq!(trace.threads[&of(8).track], "main");
        assert_eq!(trace.threads[&of(8).end_track], "closer");
        let other_thread = "SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 60 AND endGlobalTid <> globalTid";
        assert_eq!(database.number(other_thread), 1);

        // Events.
        let mut marks: Vec<(&str, &str)> =
            trace.marks.iter().map(|mark| (mark.cat.as_str(), mark.name.as_str())).collect();
        marks.sort_unstable();
        let all = [
            ("debug", "größe 日本語"),
            ("error", "disk \"is\" full"),
            ("info", "batch 0 begins"),
            ("info", "batch 1 begins"),
            ("info", "batch 100 begins"),
            ("info", "batch 2 begins"),
        ];
        assert_eq!(marks, all, "{tier}");
        assert_eq!(database.marks(), all.map(|(_, text)| text), "{tier}");
        let fields = json!({"left": 3, "ready": false, "share": 0.5, "disk": "/dev/\"a\"", "mounted": "Some(1)"});
        let with_fields = |mark: &&read::Event| mark.cat == "error";
        let in_trace: Vec<_> = trace.marks.iter().filter(with_fields).map(|mark| &mark.args["fields"]).collect();
        assert_eq!(in_trace, [&fields], "{tier}");
        let in_database = database.text("SELECT jsonText FROM NVTX_EVENTS WHERE eventType = 34 AND category = 1");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&in_database).expect("JSON"), fields, "{tier}");
        let without = "SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 34 AND jsonText IS NULL";
        assert_eq!(database.number(without), 5, "{tier}");
        // Marks use the clock of the ranges: each batch marks its begin.
        for mark in trace.marks.iter().filter(|mark| mark.name.ends_with("begins")) {
            let around = |slice: &&read::Event| {
                slice.name == "batch" && slice.track == mark.track && slice.start <= mark.start && mark.end <= slice.end
            };
            assert_eq!(trace.slices.iter().filter(around).count(), 1, "{tier}: {mark:?}");
        }
        let within = "SELECT count(*) FROM NVTX_EVENTS m JOIN NVTX_EVENTS e ON e.globalTid = m.globalTid
                AND e.start <= m.start AND m.start <= e.end JOIN StringIds ON id = e.textId
            WHERE m.eventType = 34 AND m.text LIKE '%begins' AND e.eventType = 59 AND value = 'batch'";
        assert_eq!(database.number(within), 4, "{tier}");
        assert_eq!(database.number("SELECT count(*) FROM NVTX_EVENTS WHERE text LIKE 'disk%' AND category = 1"), 1);
        let json =
            database.text("SELECT jsonText FROM NVTX_EVENTS e JOIN StringIds ON id = textId WHERE value = 'typed'");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(json["large"], u64::MAX, "the database keeps it as a number");
        let values = "SELECT count(*) FROM NVTX_EVENTS e JOIN StringIds ON id = textId
            WHERE value = 'reopened' AND color = 4294901760 AND uint64Value IS NOT NULL";
        assert_eq!(database.number(values), 2 * 4 * 60, "{tier}");
    }
}

/// Instances and totals of all nodes of a name.
fn add_nodes(nodes: &[TreeNode], rows: &mut Rows) {
    for node in nodes {
        let label = node.domain.iter().map(|domain| format!("{domain}:")).collect::<String>() + &node.name;
        let row = rows.entry((RangeStyle::PushPop, label)).or_default();
        *row = (row.0 + node.instances, row.1 + node.total_ns);
        add_nodes(&node.children, rows);
    }
}

#[test]
fn the_tree_and_the_categories_say_what_the_database_says() {
    for (scenario, tier) in BOTH.into_iter().flat_map(|tier| [("timeline", tier), ("timeline-domains", tier)]) {
        let run = Run::of(scenario, tier);
        let (mut summary, database) = (run.summary(), run.database());
        let categories: BTreeMap<String, (u64, u64)> =
            summary.categories.drain(..).map(|row| (row.category, (row.times.instances, row.times.total_ns))).collect();
        let of_database = database.categories();
        assert_eq!(categories.keys().collect::<Vec<_>>(), of_database.keys().collect::<Vec<_>>(), "{scenario} {tier}");
        for (category, &(instances, total)) in &categories {
            let theirs = of_database[category];
            let agree = theirs.0 == instances && agree(instances, total as f64, theirs.1 as f64);
            assert!(agree, "{scenario} {tier}: {category} {instances} times {total} ns, not {theirs:?}");
        }
        assert!(scenario != "timeline" || categories.len() > 2, "{categories:?}");

        summary.ranges.retain(|row| row.style == RangeStyle::PushPop);
        let mut of_tree = Rows::new();
        add_nodes(&summary.tree, &mut of_tree);
        assert_same(&format!("{scenario} {tier}, tree"), &of_tree, &rows(&summary));
    }
}

/// The window is the program's: writing after its end does not belong to it. A busy machine can make a window too long,
/// but never too short, so one good run of ten is enough.
#[test]
fn the_window_ends_before_the_rest_is_written() {
    let tried: Vec<String> = (0..10).map_while(|_| window_with_writing().err()).collect();
    assert!(tried.len() < 10, "{tried:?}");
}

/// An error if the window may include the writing afterwards.
fn window_with_writing() -> Result<(), String> {
    let files = Files::new("trace.json");
    let begun = Instant::now();
    let builder = Profiler::builder().nvtx(false).output(Output::None).sqlite(&files.database).json(&files.json);
    let profiler = builder.build().expect("a profiler");
    with_default(profiler.subscriber(), || (0..100_000).for_each(|_| info_span!("step").in_scope(|| ())));
    let (measured, end) = (begun.elapsed(), Instant::now());
    profiler.finish().expect("it can be written");
    let (writing, summary) = (end.elapsed(), files.summary());
    let window = Duration::from_nanos(summary.elapsed_ns);
    assert_eq!(instances(&summary)["step"], 100_000);
    let said = format!("{window:?}: {measured:?} were measured, and {writing:?} written");
    if window < measured + writing / 2 { Ok(()) } else { Err(said) }
}

#[test]
fn domains_are_told_apart() {
    for tier in BOTH {
        let run = Run::of("timeline-domains", tier);
        let (trace, _) = assert_complete(tier, &run);
        let read: BTreeSet<&str> =
            trace.slices.iter().filter(|slice| slice.name == "read").map(|slice| slice.cat.as_str()).collect();
        assert_eq!(read, BTreeSet::from(["io,disk", "net"]), "{tier}");
        assert!(trace.marks.iter().all(|mark| mark.cat == "net,info"), "{tier}");
    }
}

#[test]
fn a_compressed_trace_is_the_same() {
    let run = Run::under("timeline", LAYER, "trace.json.gz");
    assert_complete("gzip", &run);
}

#[test]
fn a_timeline_needs_no_statistics() {
    for tier in BOTH {
        let run = Run::of("timeline-without-statistics", tier);
        assert_eq!((run.ran.status.code(), run.ran.stderr.as_str()), (Some(0), ""), "{tier}");
        let trace = run.trace();
        let (outer, inner) = (trace.slice("outer"), trace.slice("inner"));
        assert!(inner.end - inner.start >= 50_000 && outer.start <= inner.start && inner.end <= outer.end, "{trace:?}");
        let lasted = "SELECT min(end - start) >= 50000 FROM NVTX_EVENTS WHERE eventType = 59";
        assert_eq!(run.database().number(lasted), 1, "{tier}");
    }
}

#[test]
fn what_is_open_at_the_end_is_cut_there() {
    for tier in BOTH {
        let run = Run::of("timeline-cut", tier);
        let (trace, _) = assert_complete(tier, &run);
        let is_cut = |name: &str| trace.slice(name).args["cut"] == true;
        assert_eq!([is_cut("outer"), is_cut("inner"), is_cut("closed")], [true, true, false], "{tier}");
        assert_eq!(trace.slice("outer").args["fields"]["id"], 1, "{tier}");
    }
}

/// The summary is that of the last window; the timeline covers all.
#[test]
fn what_is_open_at_a_reset_is_whole_and_keeps_its_values() {
    for tier in BOTH {
        let run = Run::of("timeline-reset", tier);
        let (trace, summary) = (run.trace(), run.summary());
        trace.assert_nested(tier);
        assert!(!instances(&summary).contains_key("before"), "{tier}: {summary:?}");
        // The table must not include the time before the window that the database has.
        let (outer, whole) = (summary.ranges.iter().find(|row| row.name == "outer"), trace.slice("outer"));
        let in_window = outer.expect("a row").times.total_ns;
        assert!(in_window + 200_000_000 < whole.end - whole.start, "{tier}: {in_window} ns of {whole:?}");
        let inside = [trace.slice("before"), trace.slice("between"), trace.slice("after")];
        for (name, id) in [("outer", json!(1)), ("plain", json!(null)), ("inner", json!(2)), ("next", json!(3))] {
            let slice = trace.slice(name);
            assert_eq!(slice.args["fields"]["id"], id, "{tier}: {name}");
            let is_around = inside.map(|other| slice.start <= other.start && other.end <= slice.end);
            assert_eq!(is_around, [name != "next"; 3], "{tier}: {name}");
        }
        let request = &trace.lifetimes[0];
        assert!(
            request.args["fields"]["id"] == 9 && request.start <= trace.slice("outer").start,
            "{tier}: {request:?}"
        );
        let around = "SELECT count(*) FROM NVTX_EVENTS o, NVTX_EVENTS b JOIN StringIds ob ON ob.id = o.textId
            JOIN StringIds bb ON bb.id = b.textId WHERE ob.value IN ('request', 'outer', 'plain', 'inner') AND bb.value = 'before'
            AND o.start <= b.start AND b.end <= o.end";
        assert_eq!(run.database().number(around), 4, "{tier}");
    }
}

/// All losses are counted, in the report and in both files.
#[test]
fn what_does_not_fit_is_counted() {
    for tier in BOTH {
        let run = Run::of("timeline-lost", tier);
        let (trace, database, summary) = (run.trace(), run.database(), run.summary());
        // Each thread's name is one more record.
        let lost = 200_000 + 1 - trace.slices.len() as u64 - trace.threads.len() as u64;
        assert_eq!(instances(&summary)["step"], 200_000, "{tier}");
        assert!(lost > 0, "{tier}");
        assert_eq!(trace.lost, Some(lost), "{tier}");
        assert_eq!(database.rows().values().map(|(instances, _)| instances).sum::<u64>(), trace.slices.len() as u64);
        assert!(summary.notes.contains(&Note::TimelineFull { items: lost }), "{tier} {lost}: {:?}", summary.notes);
    }
}

/// Written records make room for new ones.
#[test]
fn room_is_used_again() {
    for tier in BOTH {
        let run = Run::of("timeline-room", tier);
        assert_eq!(run.ran.status.code(), Some(0), "{tier}: {}", run.ran.stderr);
        let (trace, _) = assert_complete(tier, &run);
        assert_eq!((trace.slices.len(), trace.marks.len(), trace.lost), (20_000, 40, None), "{tier}");
    }
}

#[test]
fn threads_that_have_ended_keep_their_names() {
    for tier in BOTH {
        let run = Run::of("timeline-short-threads", tier);
        let trace = run.trace();
        let mut numbers: Vec<u64> = Vec::new();
        for slice in trace.slices.iter().filter(|slice| slice.name == "on") {
            let number = slice.args["fields"]["number"].as_u64().expect("a number");
            assert_eq!(trace.threads[&slice.track], format!("short {number}"), "{tier}");
            numbers.push(number);
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..20).collect::<Vec<_>>(), "{tier}");
        assert_complete(tier, &run);
    }
}

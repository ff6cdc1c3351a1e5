//! Perfetto's own trace processor, the program behind ui.perfetto.dev, reads our timelines: complete, compressed and
//! cut off. So does the importer of chrome://tracing.
//!
//! Both are part of a PyPI wheel (see `install`), as WebAssembly and as a page, and run in Node.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use range_files::{Chrome, Perfetto};
use serde_json::{Value as Json, json};

#[path = "perfetto/demonstration.rs"]
mod demonstration;
#[path = "perfetto/native.rs"]
mod native;
use demonstration::{PID, STEPS};

fn processor() -> PathBuf {
    let folders = fs::read_dir(tests::installed::folder("perfetto")).into_iter().flatten().flatten();
    let found = folders.map(|entry| entry.path()).find(|folder| folder.join("trace_processor.wasm").exists());
    found.expect("Perfetto's trace processor is missing: run `bash tests/install`")
}

/// The lines that a script prints for a file.
fn read(script: &str, file: &Path, input: &str) -> Vec<Json> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("perfetto").join(script);
    let mut node = Command::new("node")
        .arg(script)
        .args([&processor(), file])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Node is missing: run `bash tests/install`");
    node.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("the input is taken");
    let output = node.wait_with_output().expect("Node ends");
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&output.stderr));
    let answers = String::from_utf8(output.stdout).expect("text");
    answers.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// The rows of each query.
fn ask(file: &Path, queries: &[&str]) -> Vec<Json> {
    read("query.mjs", file, &queries.join("\n"))
}

fn temporary(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).expect("a temporary file");
    path
}

/// The same in Perfetto's own format.
fn native() -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    demonstration::write(&mut Perfetto::new(&mut file));
    file.into_inner()
}

fn text() -> Vec<u8> {
    let mut text = Vec::new();
    demonstration::write(&mut Chrome::new(&mut text));
    text
}

/// The reader's error counters. (A flow that ends before its start is no error to it.)
const FAULTS: &str =
    "select name, value from stats where value > 0 and (severity in ('error', 'data_loss') or name like 'flow%')";
const SLICES: &str = "select count(*) from slice";

#[test]
fn a_timeline_is_read_as_it_was_meant() {
    let on = |track: &str| {
        format!(
            "select s.name, s.depth, s.category, count(*), sum(s.dur), min(s.ts) from slice s join thread_track k on k.id = s.track_id \
             join thread t using (utid) where t.name = '{track}' group by 1, 2, 3 order by min(s.ts)"
        )
    };
    let queries = [
        FAULTS.to_owned(),
        "select pid, name from process where name not null order by 1".to_owned(),
        // The processor names a thread of its own.
        "select name from thread where name not null and name <> 'swapper' order by name".to_owned(),
        on("main"),
        on("Stream 7"),
        on("Stream 7 (2)"),
        on("Stream 7 ranges"),
        on("Stream 7 ranges, level 1"),
        on("loader"),
        on("loader (2)"),
        on("CUDA API of loader"),
        // The slice around an arrow's begin, and its end.
        "select p.name, i.name, count(*) from flow f join slice o on o.id = f.slice_out join slice i on i.id = f.slice_in \
         left join slice p on p.id = o.parent_id where o.name = 'launch' group by 1, 2 order by 1, 2"
            .to_owned(),
        "select t.name, count(*), max(c.value) from counter c join counter_track t on t.id = c.track_id group by 1 order by 1".to_owned(),
        "select name, count(*), sum(dur) from slice where name = 'request' group by 1".to_owned(),
        // Calls overlap, and arrows lead to the ranges in them.
        "select name, count(*), sum(dur), max(depth), count(distinct extract_arg(arg_set_id, 'args.fields.step')) from slice \
         where category = 'call' group by 1"
            .to_owned(),
        "select r.name, count(*) from slice r join slice c on extract_arg(r.arg_set_id, 'args.parent') = \
         extract_arg(c.arg_set_id, 'args.call') where c.category = 'call' and c.ts < r.ts group by 1"
            .to_owned(),
        "select distinct display_value from slice s join args a on a.arg_set_id = s.arg_set_id \
         where s.name like 'void im2col%' and key in ('args.symbol', 'args.grid[0]', 'args.span') order by 1"
            .to_owned(),
    ];
    let answers = ask(&temporary("timeline.json", &text()), &queries.each_ref().map(String::as_str));
    let count = STEPS;
    let first = |ns: u64| 1_000 + ns;
    let forward = "forward";
    let copy = "Memcpy DtoH (Device -> Pageable)";
    let expected = [
        json!([]),
        json!([[PID, "serve"], [10_000_000 + PID, "GPU 0 NVIDIA H200"]]),
        json!(
            [
                "CUDA API of loader",
                "Stream 13",
                "Stream 7",
                "Stream 7 (2)",
                "Stream 7 ranges",
                "Stream 7 ranges, level 1",
                "loader",
                "loader (2)",
                "main",
                "tokio \"worker\"",
            ]
            .map(|name| json!([name]))
        ),
        json!([
            ["serve", 0, "range", 1, 20_000_050, 10],
            [forward, 1, "range", count, 160_000 * count, first(200_000)],
            ["im2col", 2, "range", count, 10_000 * count, first(205_000)],
            ["launch", 3, "launch", count, 0, first(210_000)],
            ["half\\tway", 2, "info", count, 0, first(340_000)],
            ["launch", 2, "launch", count, 0, first(350_500)],
        ]),
        json!([
            ["void im2col<float>(float*)", 0, "kernel", count, 80_007 * count, first(220_000)],
            ["gemm", 0, "kernel", count, 100_000 * count, first(400_000)],
            ["softmax", 0, "kernel", count, 100_000 * count, first(600_000)],
            [copy, 0, "memcpy", count, 10_000 * count, first(720_000)],
        ]),
        json!([["gemm", 0, "kernel", count, 150_000 * count, first(450_000)]]),
        json!([[forward, 0, "range", count, 480_000 * count, first(220_000)]]),
        json!([["im2col", 0, "range", count, 80_007 * count, first(220_000)]]),
        json!([
            ["Set input data", 0, "io", count, 50_000 * count, first(100_000)],
            ["launch", 1, "launch", count, 0, first(110_000)],
            ["decode", 0, "a", count, 50_000 * count, first(800_000)],
        ]),
        json!([["encode", 0, "b", count, 70_000 * count, first(830_000)]]),
        json!([["cuMemcpyHtoDAsync_v2", 0, "cuda_driver", count, 9_000 * count, first(110_000)]]),
        json!([
            [null, copy, count],
            ["Set input data", "Memcpy HtoD (Pinned -> Device)", count],
            [forward, "gemm", 2 * count],
            [forward, "softmax", count],
            ["im2col", "void im2col<float>(float*)", count],
        ]),
        json!([["Copied DtoH bytes", count + 1, 4_000 * count], ["Copied HtoD bytes", count + 1, count << 20]]),
        json!([["request", count, 900_000 * count]]),
        json!([["infer", count, (1_000_003 + 210_000) * count, 0, count]]),
        json!([["forward", count]]),
        json!([["132"], ["_Z6im2colIfEvPf"], ["im2col"]]),
    ];
    for ((query, answer), expected) in queries.iter().zip(&answers).zip(&expected) {
        assert_eq!(answer, expected, "{query}");
    }
    assert_eq!(answers.len(), expected.len());
    // In Perfetto's own format all is the same, but for a text with an escape, and for where arguments are.
    let queries = queries
        .each_ref()
        .map(|query| query.replace("args.", "debug.").replace("s.name", "replace(s.name, '\t', '\\t')"));
    let own = ask(&temporary("timeline.pftrace", &native()), &queries.each_ref().map(String::as_str));
    for ((query, answer), expected) in queries.iter().zip(&own).zip(&expected) {
        assert_eq!(answer, expected, "{query}");
    }
}

#[test]
fn a_timeline_that_was_cut_off_or_compressed_opens() {
    let text = text();
    let all = ask(&temporary("whole.json", &text), &[SLICES])[0][0][0].as_u64().expect("a count");
    // Cut between two flushes, in the middle of a line, in the middle of a letter's escape, and without the last
    // bracket.
    for cut in [text.len() / 3, text.len() / 2 + 7, text.len() - 2_001, text.len() - 3] {
        let answers = ask(&temporary("cut.json", &text[..cut]), &[FAULTS, SLICES]);
        let slices = answers[1][0][0].as_u64().expect("a count");
        let share = slices as f64 / all as f64 - cut as f64 / text.len() as f64;
        assert!(share.abs() < 0.05, "{cut} of {} bytes: {slices} of {all} slices", text.len());
        assert_eq!(answers[0], json!([]), "{cut}");
    }
    let mut compressed = Cursor::new(Vec::new());
    demonstration::write(&mut Chrome::gzip(&mut compressed));
    let compressed = compressed.into_inner();
    assert!(compressed.len() < text.len() / 4);
    assert_eq!(ask(&temporary("whole.json.gz", &compressed), &[FAULTS, SLICES]), [json!([]), json!([[all]])]);
}

/// Each text of an event with the worst possible ends: a quotation mark, backslashes, both.
#[test]
fn odd_texts_are_read() {
    use range_model::timeline::{Item, Mark, Range, Sink as _, Value};
    use tracing_gpu::Summary;
    use tracing_gpu::summary::{Process, RangeStyle};
    let texts = [
        "a\\",
        "C:\\folder\\",
        "\\\\",
        "\\\"",
        "\"",
        "\\n\\",
        "</script>",
        "\u{7f}\0\n",
        "日本語\\",
        "",
        "{",
        "]",
        "\",\"ts\":",
    ];
    let mut out = Vec::new();
    let mut sink = Chrome::new(&mut out);
    let mut process = Process::default();
    process.pid = 7;
    process.command = "run \\".to_owned();
    process.host = "a\\".to_owned();
    sink.begin(&process).expect("memory takes it");
    let mut at = 0;
    for (thread, text) in (8..).zip(texts) {
        let fields = [(text, Value::Text(text)), ("other", Value::Text(text))];
        let domain = Some(text).filter(|text| !text.is_empty());
        let mark = Mark { thread, at: at + 1, domain, text, level: 3, fields: &fields };
        let range = Range {
            thread,
            start: at,
            end: at + 9,
            style: RangeStyle::PushPop,
            domain,
            name: text,
            depth: 0,
            category: domain,
            color: None,
            payload: Some(Value::Text(text)),
            fields: &fields,
            end_thread: None,
            cut: false,
            ..Range::default()
        };
        let lifetime = Range { style: RangeStyle::StartEnd, ..range.clone() };
        for item in [Item::Thread { thread, name: text }, Item::Mark(mark), Item::Range(range), Item::Range(lifetime)] {
            sink.item(&item).expect("memory takes it");
        }
        at += 10;
    }
    sink.end(&Summary::default(), 0).expect("memory takes it");
    drop(sink);
    let file = temporary("odd.json", &out);
    assert_eq!(ask(&file, &[FAULTS, SLICES]), [json!([]), json!([[3 * texts.len()]])]);
    assert_eq!(read("viewer.mjs", &file, "")[0]["warnings"], json!([]));
}

/// The file of a killed program is complete up to the last write, for readers that require complete parts.
#[test]
fn a_compressed_trace_without_its_end_opens_in_both() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("killed.json.gz");
    let mut sink = Chrome::gzip(fs::File::create(&path).expect("a temporary file"));
    demonstration::write_without_end(&mut sink);
    std::mem::forget(sink);
    let mut text = Vec::new();
    demonstration::write_without_end(&mut Chrome::new(&mut text));
    let slices = ask(&temporary("killed.json", &text), &[SLICES]);
    assert_eq!(ask(&path, &[FAULTS, SLICES]), [json!([]), slices[0].clone()]);
    let seen = &read("viewer.mjs", &path, "")[0];
    assert_eq!((&seen["slices"]["main"]["0 forward"], &seen["warnings"]), (&json!(STEPS), &json!([])));
    let unpacked = Command::new("gzip").arg("-dc").arg(&path).output().expect("gzip runs");
    assert!(unpacked.status.success() && unpacked.stdout == text, "{}", String::from_utf8_lossy(&unpacked.stderr));
}

#[test]
fn chrome_tracing_reads_the_same() {
    let text = text();
    let [whole] = &read("viewer.mjs", &temporary("viewer.json", &text), "")[..] else { panic!("one answer") };
    let count = STEPS;
    assert_eq!(whole["warnings"], json!([]));
    assert_eq!(
        whole["processes"],
        json!([
            format!("serve (pid {PID}): /opt/bin/serve --model resnet"),
            format!("GPU 0 NVIDIA H200 (pid {})", 10_000_000 + PID)
        ])
    );
    let main = json!({
        "0 serve": 1, "1 forward": count, "2 im2col": count, "3 launch": count, "2 half\tway": count, "2 launch": count,
    });
    assert_eq!((&whole["slices"]["main"], &whole["slices"]["loader (2)"]), (&main, &json!({"0 encode": count})));
    assert_eq!(whole["slices"]["Stream 7 (2)"], json!({"0 gemm": count}));
    assert_eq!(
        whole["flows"],
        json!({
            "Set input data -> Memcpy HtoD (Pinned -> Device)": count,
            "forward -> gemm": 2 * count,
            "forward -> softmax": count,
            "im2col -> void im2col<float>(float*)": count,
            "undefined -> Memcpy DtoH (Device -> Pageable)": count,
        })
    );
    // Cut off between two lines, as by a kill: the file ends where its lines end.
    let line = text.len() / 2 + text[text.len() / 2..].windows(2).position(|pair| pair == b",\n").expect("a line ends");
    for cut in [line, line + 1, line + 2] {
        let answer = &read("viewer.mjs", &temporary("viewer-cut.json", &text[..cut]), "")[0];
        let forward = answer["slices"]["main"]["0 forward"].as_u64().expect("ranges");
        assert!(forward.abs_diff(count / 2) <= 1 && answer["warnings"] == json!([]), "{answer}");
    }
}

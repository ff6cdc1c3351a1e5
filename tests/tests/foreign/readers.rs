//! Our files in Python's own readers.

use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use tests::foreign::folder;
use tests::json_schema::wrong_with;
use tracing_gpu::summary::{CategoryStats, RangeStats, Times, TreeNode};
use tracing_gpu::{CsvFlavor, Report, Summary, SummaryExt as _};

/// The output of `readers.py` for these lines.
fn read_by_python(what: &str, lines: &[Value]) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/foreign/readers.py");
    let packages = std::env::join_paths(["jsonschema", "attrs", "pyrsistent"].map(folder)).expect("a list of folders");
    let mut python = Command::new("python3");
    python.args([script, what]).env("PYTHONPATH", packages).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().expect("python3: run tests/install");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    python.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let output = python.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn python_reads_the_names_in_our_csv() {
    let names =
        ["plain", "a, b", "\"", "\"\"", "a\"b,\"c\"", "line\nline", "\r\n", "\r", "", " ", "=1+1", "ü 😀", ";\t|"];
    let mut summary = Summary::default();
    for (name, total) in names.iter().zip(1_000..) {
        summary.ranges.push(RangeStats::new(*name, Times::new(1, total)));
        summary.categories.push(CategoryStats::new(*name, Times::new(1, total)));
        summary.tree.push(TreeNode::new(*name));
    }
    let reports = [Report::Ranges, Report::Categories, Report::Tree];
    let texts = reports.map(|report| {
        let mut text = Vec::new();
        CsvFlavor::Rfc4180.write_report(&summary, report, &mut text).expect("writing to memory");
        String::from_utf8(text).expect("text")
    });
    let read = read_by_python("csv", &texts.each_ref().map(|text| json!(text)));
    for (number, text) in texts.iter().enumerate() {
        let table = read[number].as_array().expect("a table");
        assert_eq!(read[number], json!(tests::csv::lines(text)), "{text}");
        assert_eq!(table.len(), names.len() + 1, "{text}");
        let cells = |row: &Value| row.as_array().map_or(0, Vec::len);
        assert!(table.iter().all(|row| cells(row) == cells(&table[0])), "{text}");
        for name in names.iter().filter(|name| !name.is_empty()) {
            let has_it = |row: &Value| row.as_array().is_some_and(|row| row.contains(&json!(name)));
            assert!(table.iter().any(has_it), "{name:?} is not in {text}");
        }
    }
}

/// The schema checker of these tests and the most common one agree, on a complete summary and on many faulty ones.
#[test]
fn python_judges_summaries_by_our_schema_as_we_do() {
    let schema: Value = serde_json::from_str(Summary::JSON_SCHEMA).expect("the schema is JSON");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/json/full.json");
    let full: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("golden summary")).expect("JSON");
    let mut places = Vec::new();
    pointers(&full, String::new(), &mut places);
    let others =
        [json!(null), json!(true), json!(-1), json!(1.5), json!(4_294_967_296_u64), json!("x"), json!([]), json!({})];
    let mut documents = vec![schema.clone(), full.clone()];
    for (place, other) in places.iter().step_by(3).zip(others.iter().cycle()) {
        let mut changed = full.clone();
        *changed.pointer_mut(place).expect("it was there") = other.clone();
        documents.push(changed);
    }
    let read = read_by_python("schema", &documents);
    let (mut good, mut bad) = (0, 0);
    for (document, is_valid) in documents[1..].iter().zip(read.as_array().expect("a list")) {
        let wrong = wrong_with(document, &schema, false);
        assert_eq!(is_valid, &json!(wrong.is_empty()), "{wrong:?}");
        *(if wrong.is_empty() { &mut good } else { &mut bad }) += 1;
    }
    assert!(good > 20 && bad > 80, "{good} and {bad}");
}

/// Paths to all values in a document, as JSON pointers.
fn pointers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| pointers(field, format!("{at}/{name}"), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, item)| pointers(item, format!("{at}/{place}"), found));
        }
        _ => {}
    }
    found.push(at);
}

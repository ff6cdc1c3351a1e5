//! Summaries as JSON: written files match the schema, files that the schema allows can be read, and reading gives the
//! same summary back.
//!
//! `golden/json/full.json` has every field and every kind of value. A new field of a summary must be added there and to
//! the schema: the tests fail until it is in both.

mod scenario;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use scenario::{BOTH, LAYER, TemporaryFile, command, instances, outcome};
use serde_json::{Value, json};
use tests::json_schema::wrong_with;
use tracing_gpu::{
    Comparison, JsonError, MergedSummaryExt as _, MergedTable, Note, RenderOptions, Report, Summary, SummaryExt as _,
};

fn schema() -> Value {
    serde_json::from_str(Summary::JSON_SCHEMA).expect("the schema is JSON")
}

fn full() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/json/full.json");
    serde_json::from_str(&fs::read_to_string(path).expect("golden summary")).expect("JSON")
}

fn read(value: &Value) -> Result<Summary, JsonError> {
    Summary::read_json(value.to_string().as_bytes())
}

fn written(summary: &Summary) -> Value {
    let mut text = Vec::new();
    summary.write_json(&mut text).expect("writing to memory");
    serde_json::from_slice(&text).expect("JSON")
}

#[test]
fn what_a_run_leaves_is_what_the_schema_says() {
    for tier in BOTH {
        for scenario in ["steady", "defaults", "deep", "many-names"] {
            let file = TemporaryFile::new("run.json");
            let setting = format!("out=none,json={}", file.0.display());
            let ran = outcome(command(scenario, tier).env("TRACING_GPU", setting));
            assert!(ran.status.success() && ran.stderr.is_empty(), "{tier} {scenario}: {}", ran.stderr);
            let value: Value = serde_json::from_str(&file.text()).expect("JSON");
            assert_eq!(wrong_with(&value, &schema(), true), Vec::<String>::new(), "{tier} {scenario}");
            let summary = read(&value).expect("a summary");
            assert_eq!(written(&summary), value, "{tier} {scenario}");
            // A scenario that reports its own counts; `deep` continues in a new window.
            for said in ran.summaries().iter().filter(|_| scenario != "deep") {
                assert_eq!(instances(said), instances(&summary), "{tier} {scenario}");
                assert_eq!(said.process, summary.process, "{tier} {scenario}");
            }
            assert!(summary.process.pid > 0 && summary.process.rank.is_none(), "{:?}", summary.process);
        }
    }
}

#[test]
fn every_field_comes_back() {
    let full = full();
    assert_eq!(wrong_with(&full, &schema(), true), Vec::<String>::new());
    let summary = read(&full).expect("a summary");
    assert_eq!(written(&summary), full);
    assert_eq!(read(&written(&summary)).expect("a summary"), summary);
    let empty = written(&Summary::default());
    assert_eq!(wrong_with(&empty, &schema(), true), Vec::<String>::new());
}

/// An older version wrote no figures of notes. A newer one may write other kinds, or other figures.
#[test]
fn notes_without_known_figures_are_read_as_text() {
    let text = |text: &str| Note::Text { text: text.to_owned() };
    let mut value = full();
    let sentences = value["notes"].clone();
    let [first, second] = [&sentences[0], &sentences[1]].map(|sentence| sentence.as_str().expect("a sentence"));
    let one = Note::Shared { note: Box::new(Note::WaitsOverLimit { parts: 3 }), processes: 2 };
    assert_eq!(read(&value).expect("a summary").notes, [text(first), one.clone()]);
    for unknown in [json!({"kind": "of_the_future", "moons": 2}), json!({"kind": "waits_over_limit", "names": "a"})] {
        value["note_figures"][0] = unknown;
        assert_eq!(read(&value).expect("a summary").notes, [text(first), one.clone()]);
    }
    value.as_object_mut().expect("an object").remove("note_figures");
    let old = read(&value).expect("a summary");
    assert_eq!(
        (old.notes_as_text(), &old.notes),
        (vec![first.to_owned(), second.to_owned()], &vec![text(first), text(second)])
    );
    assert_eq!(written(&old)["notes"], sentences);
}

/// The golden summary has every name of the schema, so that the whole schema is tested.
#[test]
fn the_schema_names_nothing_that_is_never_written() {
    fn names(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(fields.keys().cloned());
                // The figures of each kind of finding and of note have names of their own.
                let fields = fields.iter().filter(|(name, _)| !["evidence", "note_figures"].contains(&name.as_str()));
                fields.for_each(|(_, field)| names(field, found));
            }
            Value::Array(items) => items.iter().for_each(|item| names(item, found)),
            _ => {}
        }
    }
    fn properties(schema: &Value, found: &mut BTreeSet<String>) {
        for (keyword, rule) in schema.as_object().into_iter().flatten() {
            if keyword == "properties" {
                found.extend(rule.as_object().expect("properties").keys().cloned());
            }
            properties(rule, found);
        }
    }
    let (mut written, mut named) = (BTreeSet::new(), BTreeSet::new());
    names(&full(), &mut written);
    properties(&schema(), &mut named);
    assert_eq!(written, named);
}

/// Paths to all values in a document, as JSON pointers.
fn pointers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                pointers(field, format!("{at}/{name}"), found);
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                pointers(item, format!("{at}/{place}"), found);
            }
        }
        _ => {}
    }
    found.push(at);
}

/// Whatever changes in a good document: if the reader refuses it, so does the schema.
#[test]
fn the_schema_forbids_what_cannot_be_read() {
    let (schema, full) = (schema(), full());
    let mut all = Vec::new();
    pointers(&full, String::new(), &mut all);
    let others = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(4_294_967_296_u64),
        json!(18_446_744_073_709_551_616_f64),
        json!("x"),
        json!([]),
        json!({}),
    ];
    let (mut refused, mut tried) = (0, 0);
    let mut judge = |changed: Value, what: String| {
        tried += 1;
        if let Err(error) = read(&changed) {
            refused += 1;
            assert!(
                !wrong_with(&changed, &schema, false).is_empty(),
                "{what} is refused ({error}), but not by the schema"
            );
        }
    };
    for at in &all {
        for other in &others {
            let mut changed = full.clone();
            *changed.pointer_mut(at).expect("it was there") = other.clone();
            judge(changed, format!("{at} as {other}"));
        }
        let mut longer = full.clone();
        if let Some(Value::Array(items)) = longer.pointer_mut(at) {
            items.push(json!(null));
            judge(longer, format!("{at} with a null"));
        }
        let Some((above, name)) = at.rsplit_once('/') else { continue };
        let mut shorter = full.clone();
        match shorter.pointer_mut(above) {
            Some(Value::Object(fields)) => drop(fields.remove(name)),
            Some(Value::Array(items)) => drop(items.remove(name.parse().expect("a place"))),
            _ => continue,
        }
        judge(shorter, format!("{at} left out"));
    }
    assert!(tried > 5_000 && refused > 3_000, "{refused} of {tried}");
}

#[test]
fn what_is_not_known_is_passed_over() {
    let full = full();
    let mut all = Vec::new();
    pointers(&full, String::new(), &mut all);
    let mut more = full.clone();
    for at in all {
        if let Some(Value::Object(fields)) = more.pointer_mut(&at) {
            fields.insert("from a later version".to_owned(), json!([{"deep": {}}, 1.5]));
        }
    }
    assert_eq!(wrong_with(&more, &schema(), false), Vec::<String>::new());
    assert_eq!(read(&more).expect("a summary"), read(&full).expect("a summary"));
}

/// A file may contain anything. Nothing made from it fails.
#[test]
fn the_largest_numbers_do_no_harm() {
    /// Fields of 32 bits.
    fn short(schema: &Value, name: &str, found: &mut BTreeSet<String>) {
        for (key, rule) in schema.as_object().into_iter().flatten() {
            match rule.as_u64() {
                Some(most) if key == "maximum" && most == u64::from(u32::MAX) => _ = found.insert(name.to_owned()),
                _ => short(rule, key, found),
            }
        }
    }
    fn replace(value: &mut Value, name: &str, with: &Value, except: &BTreeSet<String>) {
        match value {
            Value::Object(fields) => fields.iter_mut().for_each(|(name, field)| replace(field, name, with, except)),
            Value::Array(items) => items.iter_mut().for_each(|item| replace(item, name, with, except)),
            Value::Number(_) if !except.contains(name) => *value = with.clone(),
            _ => {}
        }
    }
    let mut except = BTreeSet::new();
    short(&schema(), "", &mut except);
    except.extend(["histogram", "before"].map(str::to_owned)); // pairs, of which the first number is short
    except.insert("name".to_owned()); // of communicators: lists of places
    assert!(except.contains("pid") && except.len() < 15, "{except:?}");
    for number in [json!(u64::MAX), json!(0), json!(1), json!(u64::MAX / 2)] {
        let mut value = full();
        replace(&mut value, "", &number, &except);
        let summary = read(&value).expect("a summary");
        let (options, mut out) = (RenderOptions::default(), Vec::new());
        summary.render(Report::ALL, &options, &mut out).expect("writing to memory");
        for report in Report::ALL {
            let _no_table = summary.write_csv(*report, &mut out);
        }
        summary.write_folded(&mut out).expect("writing to memory");
        summary.write_folded_gpu(&mut out).expect("writing to memory");
        let empty = Summary::default();
        let comparison = Comparison::of([("a", &summary), ("b", &empty), ("c", &summary), ("d", &empty)]);
        comparison.render(&options, &mut out).expect("writing to memory");
        comparison.write_csv(&mut out).expect("writing to memory");
        comparison.write_json(&mut out).expect("writing to memory");
        assert_eq!(comparison.regressions(0.0), []);
        assert!(Comparison::of([("b", &empty), ("a", &summary)]).regressions(0.0).is_empty());
        let merged = Summary::merge([summary.clone(), summary, empty]);
        merged.render(&options, &mut out).expect("writing to memory");
        MergedTable::ALL.iter().try_for_each(|table| merged.write_csv(*table, &mut out)).expect("writing to memory");
        merged.write_json(&mut out).expect("writing to memory");
    }
}

#[test]
fn what_is_no_summary_is_an_error_that_says_so() {
    let mut full = full();
    for (schema, said) in [
        (
            json!("tracing-gpu/2"),
            "written by a newer tracing-gpu, in version 2 of the format: this one reads up to version 1",
        ),
        (
            json!("tracing-gpu/0"),
            "not a summary of tracing-gpu: its `schema` is \"tracing-gpu/0\", and not \"tracing-gpu/1\"",
        ),
        (json!("other/1"), "not a summary of tracing-gpu: its `schema` is \"other/1\", and not \"tracing-gpu/1\""),
        (json!(1), "not a summary of tracing-gpu: its `schema` is 1, and not \"tracing-gpu/1\""),
        (json!(null), "not a summary of tracing-gpu: it has no `schema`"),
    ] {
        full["schema"] = schema;
        assert_eq!(read(&full).expect_err("no summary").to_string(), said);
    }
    for (text, said) in [
        ("", "not JSON: EOF while parsing a value at line 1 column 0"),
        ("{", "not JSON: EOF while parsing an object at line 1 column 1"),
        ("nonsense", "not JSON: expected ident at line 1 column 2"),
        ("{}", "not a summary of tracing-gpu: it has no `schema`"),
        ("[]", "not a summary of tracing-gpu: it is an array, and a summary is an object"),
        ("[{\"name\": 1}, [2]]", "not a summary of tracing-gpu: it is an array, and a summary is an object"),
        ("[{\"name\": 1}, 2", "not JSON: EOF while parsing a list at line 1 column 15"),
        ("[a]", "not JSON: expected value at line 1 column 2"),
        ("7", "not a summary of tracing-gpu: invalid type: integer `7`, expected an object at line 1 column 1"),
        ("{\"schema\":\"tracing-gpu/1\"}", "not a summary of tracing-gpu: missing field `process` at line 1 column 26"),
    ] {
        let error = Summary::read_json(text.as_bytes()).expect_err(text);
        assert_eq!(error.to_string(), said, "{text}");
    }
    // Cut off anywhere, as on a full disk.
    let mut text = Vec::new();
    Summary::default().write_json(&mut text).expect("writing to memory");
    for length in 0..text.len() - 2 {
        assert!(Summary::read_json(&text[..length]).is_err(), "{length}");
    }
    let marked = [b"\xef\xbb\xbf".as_slice(), &text].concat();
    assert!(Summary::read_json(marked.as_slice()).is_ok(), "a byte order mark");
}

/// The files of one run lie side by side, so a timeline is easily mistaken for a summary.
#[test]
fn a_timeline_is_called_one() {
    let said = "not a summary of tracing-gpu: it is a timeline of Chrome trace events, as `trace=` writes it; a summary is what `json=` writes";
    let trace = TemporaryFile::new("trace.json");
    let setting = format!("out=none,trace={}", trace.0.display());
    let ran = outcome(command("steady", LAYER).env("TRACING_GPU", setting));
    assert!(ran.status.success() && ran.stderr.is_empty(), "{}", ran.stderr);
    let whole = trace.text();
    let first_event = whole.match_indices('\n').nth(1).expect("an event a line").0;
    // In the form of a killed program, of other programs, and of an editor.
    let object = format!("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":{whole}}}");
    let marked = format!("\u{feff} \n{whole}");
    let timelines =
        [&whole, &whole[..first_event], &whole[..whole.len() / 2], &object, &marked, "{\"traceEvents\":[]}"];
    for text in timelines {
        let error = Summary::read_json(text.as_bytes()).expect_err(text);
        assert!(matches!(error, JsonError::NotASummary(_)), "{error:?}");
        assert_eq!(error.to_string(), said, "{text}");
    }
}

//! Any bytes as the JSON of a summary. Input that the schema allows is read, and survives writing and reading.

use range_model::Summary;
use range_report::SummaryExt as _;
use serde_json::Value;
use std::sync::LazyLock;

use super::json_schema::wrong_with;

pub(crate) static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(Summary::JSON_SCHEMA).expect("the schema is JSON"));

pub fn run(data: &[u8]) {
    if let Ok(summary) = Summary::read_json(data).inspect_err(|error| assert!(!error.to_string().is_empty())) {
        comes_back(&summary);
        super::merge::shown(&summary);
    }
    // Read again without duplicate fields, which a schema cannot forbid.
    if let Ok(value) = serde_json::from_slice::<Value>(data) {
        let wrong = wrong_with(&value, &SCHEMA, false);
        if let Err(error) = Summary::read_json(value.to_string().as_bytes()) {
            assert!(!wrong.is_empty(), "the schema allows what is refused: {error}");
        }
    }
}

pub(crate) fn comes_back(summary: &Summary) {
    let mut text = Vec::new();
    summary.write_json(&mut text).expect("writing to memory");
    let value: Value = serde_json::from_slice(&text).expect("what is written is JSON");
    assert_eq!(wrong_with(&value, &SCHEMA, true), Vec::<String>::new(), "what is written follows the schema");
    let again = Summary::read_json(text.as_slice()).expect("what is written can be read");
    let mut second = Vec::new();
    again.write_json(&mut second).expect("writing to memory");
    assert_eq!(second, text);
    assert_eq!(&again, summary);
}

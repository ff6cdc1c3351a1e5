//! The JSON schema, generated from the declarations.

use serde_json::{Map, Value, json};

use crate::FindingKind;
use range_model::Summary;
use range_model::summary::schema::Declared;

/// All structs in a summary but the summary itself.
fn rows() -> Vec<&'static Declared> {
    fn add(declared: &Declared, found: &mut Vec<&'static Declared>) {
        let written = declared.fields.iter().zip(declared.parts).filter(|([.., serde], _)| *serde != "skip");
        for row in written.filter_map(|(_, part)| part()) {
            if found.iter().all(|known| known.name != row.name) {
                found.push(row);
                add(row, found);
            }
        }
    }
    let mut found = Vec::new();
    add(&Summary::DECLARED, &mut found);
    found
}

/// Documentation without link syntax, which readers of a schema do not need.
fn plain(about: &str) -> String {
    about.trim().replace("[`", "`").replace("`]", "`")
}

fn with(mut rule: Value, more: Value) -> Value {
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    rule
}

/// The JSON form of a type.
fn rule_of(kind: &str) -> Value {
    if let Some(items) = kind.strip_prefix("Vec<").and_then(|rest| rest.strip_suffix('>')) {
        return json!({"type": "array", "items": rule_of(items)});
    }
    if kind == "Option<(Option<String>, String)>" {
        let pair = json!([rule_of("Option<String>"), rule_of("String")]);
        return json!({"type": ["array", "null"], "prefixItems": pair, "items": false, "minItems": 2});
    }
    if let Some(known) = kind.strip_prefix("Option<").and_then(|rest| rest.strip_suffix('>')) {
        let mut rule = rule_of(known);
        let null = Value::Null;
        match rule.as_object_mut().unwrap() {
            rule if rule.contains_key("enum") => rule["enum"].as_array_mut().unwrap().push(null),
            rule if rule.contains_key("type") => rule["type"] = json!([rule["type"], "null"]),
            _ => {} // absent if unknown
        }
        return rule;
    }
    match kind {
        "(u32, u64)" => {
            json!({"type": "array", "prefixItems": [rule_of("u32"), rule_of("u64")], "items": false, "minItems": 2})
        }
        "u64" => json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}),
        "u32" => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
        "f64" => json!({"type": "number"}),
        "bool" => json!({"type": "boolean"}),
        "String" => json!({"type": "string"}),
        "CallKind" => json!({"enum": ["failed", "wait", "allocate", "pageable_copy", "default_stream"]}),
        "RangeStyle" => json!({"enum": ["PushPop", "StartEnd"]}),
        "MemoryKind" => {
            let kinds = "Unknown HtoD DtoH HtoA AtoH AtoA AtoD DtoA DtoD HtoH PtoP Set";
            json!({"enum": kinds.split(' ').collect::<Vec<_>>()})
        }
        "Note" => json!({"type": "object", "required": ["kind"]}),
        row if rows().iter().any(|declared| declared.name == row) => json!({"$ref": format!("#/$defs/{row}")}),
        unknown => panic!("add a rule for the type `{unknown}` here"),
    }
}

/// The rules of a struct. In a file, a nested row has its depth in place of its children.
fn object_of(declared: &Declared) -> Value {
    let (mut required, mut properties) = (Vec::new(), Map::new());
    for [name, about, kind, serde] in declared.fields.iter().filter(|[.., serde]| *serde != "skip") {
        if *kind == format!("Vec<{}>", declared.name) {
            let about = "Nodes above it; 0 for a root. The parent is the nearest node before it with a lower depth.";
            properties.insert("depth".to_owned(), with(rule_of("u32"), json!({"description": about})));
            required.push("depth");
            continue;
        }
        if !serde.contains("default") {
            required.push(name);
        }
        let name = if *kind == "Vec<Note>" { "note_figures" } else { name };
        properties.insert(name.to_owned(), with(rule_of(kind), json!({"description": plain(about)})));
    }
    json!({
        "description": plain(declared.about), "type": "object", "required": required, "properties": properties,
    })
}

/// The form of a finding, without fields that restate others: see `export/json.rs`.
fn finding() -> Value {
    let kinds: Vec<&str> = FindingKind::ALL.iter().map(|kind| kind.name()).collect();
    let described = |rule: Value, about: &str| with(rule, json!({"description": about}));
    json!({
        "description": "A conclusion from the run, with its figures.",
        "type": "object",
        "required": ["kind", "at_stake_ns", "evidence", "sentence"],
        "properties": {
            "kind": described(json!({"enum": kinds}), "What it is about. More kinds may come."),
            "span": described(rule_of("Vec<String>"), "Names from the root of the tree down to the phase, shortened."),
            "node": described(rule_of("u64"), "Place of the phase in `tree`."),
            "at_stake_ns": described(rule_of("u64"), "The time that it is about; 0 where it costs none."),
            "of_ns": described(rule_of("u64"), "The time that this is a part of."),
            "evidence": described(json!({"type": "object"}), "Figures that only this kind has; `Evidence` in the API."),
            "sentence": described(rule_of("String"), "The finding in words."),
            "advice": described(rule_of("String"), "The one thing to do."),
        },
    })
}

/// The schema as text, with each definition and each field on its own line.
fn text(value: &Value, depth: usize) -> String {
    let is_list_of_rules = |fields: &Map<String, Value>| fields.values().all(Value::is_object);
    match value.as_object().filter(|fields| fields.contains_key("properties") || is_list_of_rules(fields)) {
        None => value.to_string(),
        Some(fields) => {
            let line =
                |(name, rule)| format!("\n{:width$}{name}: {}", "", text(rule, depth + 1), width = 2 * depth + 2);
            let lines: Vec<String> = fields.iter().map(|(name, rule)| line((json!(name), rule))).collect();
            format!("{{{}\n{:width$}}}", lines.join(","), "", width = 2 * depth)
        }
    }
}

/// `BLESS=1 cargo test -p range-report --all-features json_schema` rewrites the file.
#[test]
fn the_json_schema_is_what_is_declared() {
    let mut schema = object_of(&Summary::DECLARED);
    let about = "What `Summary::write_json` writes: everything measured in one window of one process. Times are \
                 nanoseconds. Fields may be added within a version, and readers pass over those that they do not know. \
                 Integers are written without a fraction and have up to 64 bits.";
    let name = json!({"const": "tracing-gpu/1", "description": "Name and version of the format."});
    schema["properties"]["schema"] = name;
    schema["required"].as_array_mut().unwrap().insert(0, "schema".into());
    let sentences = json!({"description": "The sentences of `note_figures`, in the same order."});
    schema["properties"]["notes"] = with(rule_of("Vec<String>"), sentences);
    schema["required"].as_array_mut().unwrap().push("notes".into());
    schema["properties"]["findings"] = json!({
        "type": "array", "items": {"$ref": "#/$defs/Finding"},
        "description": "What is concluded from the rest, the most costly first, in at most 2 KB.",
    });
    let left_out = json!({"description": "Findings that had no room."});
    schema["properties"]["findings_left_out"] = with(rule_of("u64"), left_out);
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tracing-gpu summary, version 1",
        "description": about,
    });
    let mut rows: Map<String, Value> = rows().into_iter().map(|row| (row.name.to_owned(), object_of(row))).collect();
    rows.insert("Finding".to_owned(), finding());
    let schema = with(with(schema, head), json!({"$defs": rows}));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/summary.schema.json");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, text(&schema, 0) + "\n").unwrap();
    }
    // Not what was compiled in: that is older than what has just been written.
    let written: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(written == schema, "the schema is of an older declaration: write it anew");
}

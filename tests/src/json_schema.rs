//! Checks a value against a JSON Schema: the few keywords that ours uses, and no others, so that none is passed over in
//! silence.

use serde_json::Value;

/// Keywords that say nothing about a value.
const SILENT: [&str; 4] = ["$schema", "$defs", "title", "description"];

/// All errors in `value`, one line with place and reason for each. With `known_only`, a field that the schema does not
/// name is an error, too.
///
/// # Panics
/// If the schema has a keyword that is not understood here, or refers to a missing definition.
pub fn wrong_with(value: &Value, schema: &Value, known_only: bool) -> Vec<String> {
    let mut found = Vec::new();
    Checker { root: schema, known_only }.check(value, schema, "", &mut found);
    found
}

struct Checker<'a> {
    root: &'a Value,
    known_only: bool,
}

impl Checker<'_> {
    fn check(&self, value: &Value, schema: &Value, at: &str, found: &mut Vec<String>) {
        if schema == &Value::Bool(false) {
            found.push(format!("{at}: is not to be there"));
            return;
        }
        let keywords = schema.as_object().unwrap_or_else(|| panic!("no schema at {at}: {schema}"));
        for (keyword, rule) in keywords {
            let well = match keyword.as_str() {
                silent if SILENT.contains(&silent) => true,
                "$ref" => {
                    let pointer = rule.as_str().and_then(|reference| reference.strip_prefix('#')).expect("a reference");
                    let target = self.root.pointer(pointer).unwrap_or_else(|| panic!("{rule} leads nowhere"));
                    self.check(value, target, at, found);
                    true
                }
                "type" => list(rule).iter().any(|kind| is(value, kind.as_str().expect("a type"))),
                "enum" => list(rule).contains(value),
                "const" => rule == value,
                // Integers of 64 bits: beyond what a double holds exactly, so they are compared as integers.
                "minimum" => number(value).is_none_or(|number| number >= number_of(rule)),
                "maximum" => number(value).is_none_or(|number| number <= number_of(rule)),
                "minItems" => value.as_array().is_none_or(|items| items.len() as i128 >= number_of(rule)),
                "required" => {
                    let missing = |name: &&Value| value.get(name.as_str().expect("a name")).is_none();
                    !value.is_object() || !list(rule).iter().any(|name| missing(&name))
                }
                "properties" => {
                    self.properties(value, rule, at, found);
                    true
                }
                "prefixItems" => {
                    for (place, (item, rule)) in items(value).iter().zip(list(rule)).enumerate() {
                        self.check(item, &rule, &format!("{at}/{place}"), found);
                    }
                    true
                }
                "items" => {
                    let first = keywords.get("prefixItems").map_or(0, |before| list(before).len());
                    for (place, item) in items(value).iter().enumerate().skip(first) {
                        self.check(item, rule, &format!("{at}/{place}"), found);
                    }
                    true
                }
                other => panic!("the keyword {other:?} is not understood"),
            };
            if !well {
                let mut shown = value.to_string();
                shown.truncate(shown.char_indices().nth(60).map_or(shown.len(), |(at, _)| at));
                found.push(format!("{at}: {keyword} is {rule}, not so {shown}"));
            }
        }
    }

    fn properties(&self, value: &Value, rules: &Value, at: &str, found: &mut Vec<String>) {
        for (name, field) in value.as_object().into_iter().flatten() {
            match rules.get(name) {
                Some(rule) => self.check(field, rule, &format!("{at}/{name}"), found),
                None if self.known_only => found.push(format!("{at}/{name}: is not in the schema")),
                None => {}
            }
        }
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_else(|| vec![value.clone()])
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => number(value).is_some(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type {other:?} is not known"),
    }
}

/// The value of an integer, written without a fraction.
fn number(value: &Value) -> Option<i128> {
    value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from))
}

fn number_of(rule: &Value) -> i128 {
    number(rule).expect("a bound is an integer")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_keyword_refuses_something() {
        let schema = json!({
            "$defs": {"count": {"type": "integer", "minimum": 0, "maximum": 10}},
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"$ref": "#/$defs/count", "description": "said"},
                "b": {"enum": ["x", null]},
                "c": {"const": 1},
                "d": {"type": ["array", "null"], "prefixItems": [{"type": "string"}], "items": false, "minItems": 1},
                "e": {"type": "array", "items": {"type": "boolean"}}
            }
        });
        let wrong = |value: Value| wrong_with(&value, &schema, false).len();
        assert_eq!(wrong(json!({"a": 10, "b": null, "c": 1, "d": ["x"], "e": [true], "unknown": 7})), 0);
        for odd in [
            json!([]),
            json!({}),
            json!({"a": 11}),
            json!({"a": -1}),
            json!({"a": 1.0}),
            json!({"a": "1"}),
            json!({"a": 1, "b": "y"}),
            json!({"a": 1, "c": 2}),
            json!({"a": 1, "d": []}),
            json!({"a": 1, "d": [1]}),
            json!({"a": 1, "d": ["x", "y"]}),
            json!({"a": 1, "e": [true, 0]}),
        ] {
            assert_eq!(wrong(odd.clone()), 1, "{odd}");
        }
        assert_eq!(wrong_with(&json!({"a": 1, "unknown": 7}), &schema, true), ["/unknown: is not in the schema"]);
    }
}

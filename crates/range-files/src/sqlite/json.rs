//! What NVTX has no column for: the fields of the span, and a payload that is a text.

use std::io::Write as _;
use std::ops::Range;

use crate::chrome::text;
use range_model::timeline::Value;

/// Writes both as one JSON object behind what is there, if there is any. Where it is.
pub(super) fn write(
    json: &mut Vec<u8>,
    payload: Option<Value<'_>>,
    fields: &[(&str, Value<'_>)],
) -> Option<Range<usize>> {
    let from = json.len();
    let payload = payload.map(|value| ("nvtx.payload", value));
    for (name, value) in payload.into_iter().chain(fields.iter().copied()) {
        json.push(if json.len() == from { b'{' } else { b',' });
        text::string(json, &[name]);
        json.push(b':');
        match value {
            Value::Integer(value) => {
                json.extend((value < 0).then_some(b'-'));
                text::integer(json, value.unsigned_abs());
            }
            Value::Unsigned(value) => text::integer(json, value),
            Value::Float(value) if value.is_finite() => drop(write!(json, "{value:?}")), // a vector takes all
            Value::Float(value) => drop(write!(json, "\"{value}\"")),
            Value::Bool(value) => json.extend_from_slice(if value { b"true" } else { b"false" }),
            Value::Text(value) => text::string(json, &[value]),
        }
    }
    if json.len() == from {
        return None;
    }
    json.push(b'}');
    Some(from..json.len())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let odd = "a \"b\" \\ \u{0}\n\u{1f}\u{7f} größe 時間";
        let payload = Value::Text("\\");
        let fields = [
            (odd, Value::Text(odd)),
            ("least", Value::Integer(i64::MIN)),
            ("most", Value::Unsigned(u64::MAX)),
            ("half", Value::Float(-0.5)),
            ("no number", Value::Float(f64::NEG_INFINITY)),
            ("no", Value::Bool(false)),
        ];
        let mut text = b"before".to_vec();
        assert_eq!((write(&mut text, None, &[]), text.len()), (None, 6));
        let place = write(&mut text, Some(payload), &fields).unwrap();
        assert_eq!(place, 6..text.len());
        let read: Json = serde_json::from_slice(&text[place]).unwrap();
        let expected = json!({
            "nvtx.payload": "\\", odd: odd, "least": i64::MIN, "most": u64::MAX, "half": -0.5, "no number": "-inf",
            "no": false,
        });
        assert_eq!(read, expected);
    }
}

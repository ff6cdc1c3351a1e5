//! The fields of a span, from the JSON in which a database has them.

use rustc_hash::FxHashSet;
use serde_json::Value as Json;

use range_model::timeline::Value;

/// The largest number of different names: they are kept as long as the process lives, as those of a program's spans
/// are.
const MOST: usize = 1 << 14;

/// Names of fields.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: FxHashSet<&'static str>,
}

impl Names {
    fn name(&mut self, name: &str) -> Option<&'static str> {
        if let Some(known) = self.known.get(name) {
            return Some(known);
        }
        if self.known.len() >= MOST {
            return None;
        }
        let name: &'static str = Box::leak(name.into());
        self.known.insert(name);
        Some(name)
    }

    /// The fields in an object, and its payload. Counts those that are left out in `lost`.
    pub(super) fn read<'a>(
        &mut self,
        json: &'a Json,
        lost: &mut u64,
    ) -> (Option<Value<'a>>, Vec<(&'static str, Value<'a>)>) {
        let (mut payload, mut fields) = (None, Vec::new());
        let Json::Object(members) = json else {
            *lost += u64::from(!json.is_null());
            return (payload, fields);
        };
        for (name, value) in members {
            let value = match value {
                Json::Bool(value) => Some(Value::Bool(*value)),
                Json::String(value) => Some(Value::Text(value)),
                Json::Number(value) => (value.as_i64().map(Value::Integer))
                    .or_else(|| value.as_u64().map(Value::Unsigned))
                    .or_else(|| value.as_f64().map(Value::Float)),
                _ => None,
            };
            match (value, name.as_str()) {
                (Some(value), "nvtx.payload") => payload = Some(value),
                (Some(value), name) => match self.name(name) {
                    Some(name) => fields.push((name, value)),
                    None => *lost += 1,
                },
                (None, _) => *lost += 1,
            }
        }
        (payload, fields)
    }
}

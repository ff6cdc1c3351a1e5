//! Details of an item besides its name and time: a JSON object. Equal items share one text.

use serde::Serialize;

use super::texts::presentable;
use range_model::MemoryKind;
use range_model::names::memory_name;
use range_model::timeline::{Api, ApiCall, Call, Ending, Mark, Operation, Range, Value, Work};

/// The largest length of a field's name or value in bytes.
pub(super) const LONGEST_VALUE: usize = 256;
/// The largest number of fields of a range or a mark.
const MOST_FIELDS: usize = 32;

/// The members of the object, as text. Absent values have none.
#[derive(Default)]
pub(super) struct Detail(Vec<u8>);

impl Detail {
    pub(super) fn with(mut self, key: &'static str, value: Option<impl Serialize>) -> Self {
        if let Some(value) = value {
            self.0.push(if self.0.is_empty() { b'{' } else { b',' });
            let _to_memory = serde_json::to_writer(&mut self.0, key);
            self.0.push(b':');
            let _to_memory = serde_json::to_writer(&mut self.0, &value);
        }
        self
    }

    fn flag(self, key: &'static str, is_set: bool) -> Self {
        self.with(key, is_set.then_some(true))
    }

    /// The fields of a span or an event, and how many are left out.
    fn fields(self, all: &[(&str, Value<'_>)]) -> Self {
        let kept = all.iter().take(MOST_FIELDS).map(|(name, of)| (presentable(name, LONGEST_VALUE), value(*of)));
        let kept: Vec<_> = kept.collect();
        let more = all.len().saturating_sub(MOST_FIELDS);
        self.with("fields", (!kept.is_empty()).then_some(kept)).with("more_fields", (more > 0).then_some(more))
    }

    /// `None` for an item without details.
    pub(super) fn text(self) -> Option<String> {
        let Self(mut text) = self;
        text.push(b'}');
        String::from_utf8(text).ok().filter(|text| text.len() > 1)
    }
}

pub(super) fn of_range(range: &Range<'_>) -> Detail {
    Detail::default()
        .with("category", range.category.map(|category| presentable(category, LONGEST_VALUE)))
        .with("payload", range.payload.map(value))
        .fields(range.fields)
        .with("ended_on", range.end_thread)
        .flag("cut", range.cut)
}

pub(super) fn of_mark(mark: &Mark<'_>) -> Detail {
    Detail::default().fields(mark.fields)
}

pub(super) fn of_operation(operation: &Operation<'_>) -> Detail {
    let nothing = Detail::default();
    let work = match operation.work {
        Work::Kernel(kernel) => nothing
            .with("grid", Some(kernel.grid.map(|size| size.to_string()).join(" x ")))
            .with("block", Some(kernel.block.map(|size| size.to_string()).join(" x ")))
            .with("registers", Some(kernel.registers))
            .with("shared_bytes", Some(i64::from(kernel.static_shared) + i64::from(kernel.dynamic_shared))),
        Work::Memory(memory) if memory.kind == MemoryKind::Set => {
            nothing.with("to", memory_name(memory.destination)).with("set_to", Some(memory.value))
        }
        Work::Memory(memory) => {
            nothing.with("from", memory_name(memory.source)).with("to", memory_name(memory.destination))
        }
        Work::Graph(_) => nothing,
    };
    let captured = (!operation.captured.is_empty()).then(|| operation.captured.join(" > "));
    let work = work.with("captured_in", captured);
    work.with("graph_node", (operation.graph_node != 0).then_some(operation.graph_node))
}

pub(super) fn of_call(call: &Call<'_>) -> Detail {
    let detail = Detail::default().fields(call.fields);
    detail.flag("cancelled", call.ending == Ending::Cancelled).flag("cut", call.ending == Ending::Cut)
}

pub(super) fn of_api_call(call: &ApiCall<'_>) -> Detail {
    let api = match call.api {
        Api::Driver => "driver",
        Api::Runtime => "runtime",
    };
    Detail::default().with("api", Some(api)).with("result", (call.result != 0).then_some(call.result))
}

fn value(value: Value<'_>) -> String {
    match value {
        Value::Integer(value) => value.to_string(),
        Value::Unsigned(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Text(value) => presentable(value, LONGEST_VALUE).into_owned(),
    }
}

//! Details of an item besides its name and time: a JSON object. Equal items share one text.

use std::fmt::Write as _;

use serde::Serialize;

use super::texts::presentable;
use crate::timeline::{Api, ApiCall, Call, Ending, Mark, Operation, Range, Value, Work};

/// The largest length of a field's name or value in bytes.
pub(super) const LONGEST_VALUE: usize = 256;
/// The largest number of fields of a range or a mark.
const MOST_FIELDS: usize = 32;

#[derive(Serialize)]
pub(super) struct RangeDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<(String, String)>,
    #[serde(skip_serializing_if = "is_zero")]
    more_fields: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_on: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde requires this signature
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl RangeDetail {
    pub(super) fn of(range: &Range<'_>) -> Self {
        let (fields, more_fields) = fields(range.fields);
        Self {
            category: range.category.map(|category| presentable(category, LONGEST_VALUE).into_owned()),
            payload: range.payload.map(value),
            fields,
            more_fields,
            ended_on: range.end_thread,
            cut: range.cut,
        }
    }
}

#[derive(Serialize)]
pub(super) struct MarkDetail {
    fields: Vec<(String, String)>,
    #[serde(skip_serializing_if = "is_zero")]
    more_fields: usize,
}

impl MarkDetail {
    /// The details of a mark with fields.
    pub(super) fn of(mark: &Mark<'_>) -> Option<Self> {
        let (fields, more_fields) = fields(mark.fields);
        (!fields.is_empty()).then_some(Self { fields, more_fields })
    }
}

/// The fields that are kept, and the number of the others.
fn fields(all: &[(&str, Value<'_>)]) -> (Vec<(String, String)>, usize) {
    let kept = all.iter().take(MOST_FIELDS);
    let kept = kept.map(|(name, of)| (presentable(name, LONGEST_VALUE).into_owned(), value(*of))).collect();
    (kept, all.len().saturating_sub(MOST_FIELDS))
}

#[derive(Serialize)]
pub(super) struct OperationDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    grid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    registers: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_bytes: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    set_to: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    graph_node: Option<u64>,
}

impl OperationDetail {
    pub(super) fn of(operation: &Operation<'_>) -> Self {
        let nothing = Self {
            grid: None,
            block: None,
            registers: None,
            shared_bytes: None,
            from: None,
            to: None,
            set_to: None,
            graph_node: (operation.graph_node != 0).then_some(operation.graph_node),
        };
        match operation.work {
            Work::Kernel(kernel) => Self {
                grid: Some(kernel.grid.map(|size| size.to_string()).join(" x ")),
                block: Some(kernel.block.map(|size| size.to_string()).join(" x ")),
                registers: Some(kernel.registers),
                shared_bytes: Some(i64::from(kernel.static_shared) + i64::from(kernel.dynamic_shared)),
                ..nothing
            },
            Work::Memory(memory) if memory.kind == crate::MemoryKind::Set => {
                Self { to: memory_name(memory.destination), set_to: Some(memory.value), ..nothing }
            }
            Work::Memory(memory) => {
                Self { from: memory_name(memory.source), to: memory_name(memory.destination), ..nothing }
            }
        }
    }
}

/// CUPTI's memory kinds.
const fn memory_name(kind: u8) -> Option<&'static str> {
    match kind {
        1 => Some("pageable"),
        2 => Some("pinned"),
        3 => Some("device"),
        4 => Some("array"),
        5 => Some("managed"),
        6 | 7 => Some("static"),
        _ => None,
    }
}

#[derive(Serialize)]
pub(super) struct IdleDetail {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thread: Option<u32>,
    pub(super) ended_by: String,
}

#[derive(Serialize)]
pub(super) struct CallDetail {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<(String, String)>,
    #[serde(skip_serializing_if = "is_zero")]
    more_fields: usize,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cancelled: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

impl CallDetail {
    pub(super) fn of(call: &Call<'_>) -> Self {
        let (fields, more_fields) = fields(call.fields);
        Self { fields, more_fields, cancelled: call.ending == Ending::Cancelled, cut: call.ending == Ending::Cut }
    }
}

#[derive(Serialize)]
pub(super) struct ApiCallDetail {
    api: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<u32>,
}

impl ApiCallDetail {
    pub(super) fn of(call: &ApiCall<'_>) -> Self {
        let api = match call.api {
            Api::Driver => "driver",
            Api::Runtime => "runtime",
        };
        Self { api, result: (call.result != 0).then_some(call.result) }
    }
}

fn value(value: Value<'_>) -> String {
    let mut text = String::new();
    let _never_fails = match value {
        Value::Integer(value) => write!(text, "{value}"),
        Value::Unsigned(value) => write!(text, "{value}"),
        Value::Float(value) => write!(text, "{value}"),
        Value::Bool(value) => write!(text, "{value}"),
        Value::Text(value) => return presentable(value, LONGEST_VALUE).into_owned(),
    };
    text
}

//! Values of a single span: name, colour, category, payload, lifetime, read from its fields.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use nvtx_rs::{Attributes, Color, Payload, RangeId};
use parking_lot::Mutex;
use tracing_core::field::{Field, Visit};
use tracing_core::{Metadata, span};

use super::catalog::CategoryName;
use super::lifetimes::Begun;
use super::tape::{Fields, Record};
use crate::activity::InstanceId;
use crate::clock::Ticks;
use crate::gpu::StreamId;
use crate::timeline::Value;

/// Fields of NVIDIA's own layer come without a prefix, so that code written for it works unchanged.
const NAME: &str = "nvtx.name";
const COLOR: [&str; 2] = ["nvtx.color", "color"];
const CATEGORY: [&str; 2] = ["nvtx.category", "category"];
const PAYLOAD: [&str; 2] = ["nvtx.payload", "payload"];
const LIFETIME: &str = "nvtx.lifetime";
/// A number that `stream_id` gave.
const STREAM: &str = "gpu.stream";

pub(crate) fn is_own_field(name: &str) -> bool {
    [NAME, LIFETIME, STREAM].contains(&name)
        || COLOR.contains(&name)
        || CATEGORY.contains(&name)
        || PAYLOAD.contains(&name)
}

/// What was read from the fields of a span, at its creation or in one `record`.
#[derive(Debug, Default)]
pub(crate) struct FieldValues {
    pub(crate) name: Option<String>,
    pub(crate) color: Option<Color>,
    pub(crate) category: Option<CategoryName>,
    pub(crate) payload: Option<Payload>,
    pub(crate) lifetime: bool,
    pub(crate) stream: Option<StreamId>,
    /// The span's other fields, where a timeline wants them.
    pub(crate) others: Option<Vec<(&'static str, Value)>>,
}

impl FieldValues {
    pub(crate) fn of_new(attributes: &span::Attributes<'_>, with_others: bool) -> Self {
        let mut values = Self { others: with_others.then(Vec::new), ..Self::default() };
        attributes.record(&mut values);
        values
    }

    pub(crate) fn of_record(record: &span::Record<'_>, with_others: bool) -> Self {
        let mut values = Self { others: with_others.then(Vec::new), ..Self::default() };
        record.record(&mut values);
        values
    }

    fn other(&mut self, field: &Field, value: impl FnOnce() -> Value) {
        let name = field.name();
        if let Some(others) = self.others.as_mut().filter(|_| !is_own_field(name)) {
            others.push((name, value()));
        }
    }

    fn text(&mut self, field: &Field, text: &str) {
        let name = field.name();
        if name == NAME {
            self.name = Some(text.to_owned());
        } else if COLOR.contains(&name) {
            self.color = text.parse().ok().or(self.color);
        } else if CATEGORY.contains(&name) {
            self.category = Some(CategoryName::Text(Arc::from(&*nvtx_rs::text::sanitize(text))));
        }
    }

    fn integer<T: Into<Payload> + Copy + fmt::Display>(&mut self, field: &Field, value: T)
    where
        u32: TryFrom<T>,
    {
        let name = field.name();
        if name == NAME {
            self.name = Some(value.to_string());
        } else if PAYLOAD.contains(&name) {
            self.payload = Some(value.into());
        } else if COLOR.contains(&name) {
            // Without an alpha value (0xRRGGBB) a colour would be fully transparent: it is meant opaque.
            let argb =
                u32::try_from(value).ok().map(|value| if value >> 24 == 0 { value | 0xff00_0000 } else { value });
            self.color = argb.map(Color::argb).or(self.color);
        } else if name == STREAM {
            self.stream = u32::try_from(value).ok().or(self.stream);
        } else if CATEGORY.contains(&name) {
            self.category = u32::try_from(value).ok().map(CategoryName::Number).or(self.category.take());
        }
    }
}

impl Visit for FieldValues {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.other(field, || Value::Text(value.to_owned()));
        self.text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.other(field, || Value::Unsigned(value));
        self.integer(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.other(field, || Value::Integer(value));
        self.integer(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.other(field, || Value::Float(value));
        if PAYLOAD.contains(&field.name()) {
            self.payload = Some(Payload::F64(value));
        } else if field.name() == NAME {
            self.name = Some(value.to_string());
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.other(field, || Value::Bool(value));
        if field.name() == LIFETIME {
            self.lifetime = value;
        } else if PAYLOAD.contains(&field.name()) {
            self.payload = Some(Payload::U32(u32::from(value)));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // `%value` and `?value` come here; whatever else the span carries is not formatted.
        self.other(field, || Value::Text(format!("{value:?}")));
        if is_own_field(field.name()) {
            let mut text = String::new();
            if write!(text, "{value:?}").is_ok() {
                self.text(field, &text);
            }
        }
    }
}

/// The fields that are known, with others that come: one that is recorded again has the new value.
fn with(known: Fields, others: Vec<(&'static str, Value)>) -> Vec<(&'static str, Value)> {
    if known.is_none() && are_apart(&others) {
        return others;
    }
    let mut all = known.map(|known| known.to_vec()).unwrap_or_default();
    for (name, value) in others {
        all.retain(|(known, _)| *known != name);
        all.push((name, value));
    }
    all
}

/// Whether no name is there twice.
fn are_apart(fields: &[(&str, Value)]) -> bool {
    fields.iter().enumerate().all(|(place, (name, _))| fields.iter().take(place).all(|(other, _)| other != name))
}

/// The values of one span, kept from its creation to its close.
#[derive(Debug)]
pub(crate) struct SpanValues {
    pub(crate) metadata: &'static Metadata<'static>,
    /// Node of the lineage tree.
    pub(crate) node: u32,
    /// Interned name, which never changes.
    pub(crate) label: u32,
    changing: Mutex<Changing>,
    lifetime: Mutex<Option<Lifetime>>,
    fields: Mutex<Fields>,
}

/// What `record` may change; it takes effect at the next entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Changing {
    /// Interned category, 0 for none.
    pub(crate) category: u32,
    color: Option<Color>,
    payload: Option<Payload>,
    /// Stream that the span names; 0 for none.
    pub(crate) stream: StreamId,
}

impl Changing {
    /// The attributes of the row, with this span's own.
    pub(crate) fn apply<'a>(&self, mut attributes: Attributes<'a>) -> Attributes<'a> {
        if let Some(color) = self.color {
            attributes = attributes.color(color);
        }
        if let Some(payload) = self.payload {
            attributes = attributes.payload(payload);
        }
        attributes
    }
}

/// A span that is also a start/end range from creation to close.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetime {
    pub(crate) start: Ticks,
    pub(crate) range: Option<RangeId>,
    pub(crate) begun: Begun,
    /// The operating system's number of the thread that it began on.
    pub(crate) thread: u32,
    /// Its number for whoever collects the GPU's work; 0 if nobody does.
    pub(crate) instance: InstanceId,
}

impl SpanValues {
    pub(crate) fn new(metadata: &'static Metadata<'static>, node: u32, label: u32) -> Self {
        Self { metadata, node, label, changing: Mutex::default(), lifetime: Mutex::default(), fields: Mutex::default() }
    }

    pub(crate) fn now(&self) -> Changing {
        *self.changing.lock()
    }

    /// Takes over what was recorded; `category` is the interned number of the category in it.
    pub(crate) fn update(&self, recorded: FieldValues, category: Option<u32>) {
        let mut changing = self.changing.lock();
        changing.category = category.unwrap_or(changing.category);
        changing.color = recorded.color.or(changing.color);
        changing.payload = recorded.payload.or(changing.payload);
        changing.stream = recorded.stream.unwrap_or(changing.stream);
        drop(changing);
        if let Some(others) = recorded.others.filter(|others| !others.is_empty()) {
            let mut fields = self.fields.lock();
            let known = fields.take();
            *fields = Some(with(known, others).into());
        }
    }

    /// What a timeline shows of the entry that starts then.
    pub(crate) fn recorded(&self, start: Ticks) -> Record {
        let Changing { color, payload, .. } = self.now();
        Record::Values { start, color, payload, fields: Fields::clone(&self.fields.lock()) }
    }

    pub(crate) fn begin_lifetime(&self, lifetime: Lifetime) {
        *self.lifetime.lock() = Some(lifetime);
    }

    /// The lifetime, once.
    pub(crate) fn end_lifetime(&self) -> Option<Lifetime> {
        self.lifetime.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_comes_again_has_its_last_value() {
        let of = |fields: &[(&'static str, u64)]| -> Vec<(&'static str, Value)> {
            fields.iter().map(|(name, value)| (*name, Value::Unsigned(*value))).collect()
        };
        let known = || Some(of(&[("a", 1), ("b", 2)]).into());
        assert_eq!(with(None, of(&[("a", 1), ("b", 2)])), of(&[("a", 1), ("b", 2)]));
        assert_eq!(with(None, of(&[("a", 1), ("b", 2), ("a", 3)])), of(&[("b", 2), ("a", 3)]));
        assert_eq!(with(known(), of(&[("c", 3)])), of(&[("a", 1), ("b", 2), ("c", 3)]));
        assert_eq!(with(known(), of(&[("a", 4)])), of(&[("b", 2), ("a", 4)]));
    }
}

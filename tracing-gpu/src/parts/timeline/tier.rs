//! Events become NVTX marks while a tool is attached, and marks of a timeline while one is written.

use std::fmt::{self, Write as _};

use nvtx_rs::Attributes;
use tracing_core::field::{Field, Visit};
use tracing_core::{Event, Level};

use crate::core::session::Session;
use crate::core::thread::state::ThreadState;
use crate::parts::timeline::thread::tape::Record;
use crate::parts::values::span::fields::Fields;
use range_model::timeline::Value;

/// Marks an event with its message; the category is its level, 1 for errors to 5 for trace.
#[inline]
pub(crate) fn mark(session: &Session, thread: &ThreadState, event: &Event<'_>) {
    let with_tool = session.nvtx && nvtx_rs::is_tool_attached();
    if with_tool || session.records_values() {
        mark_with_message(thread, event, with_tool);
    }
}

#[inline(never)]
fn mark_with_message(thread: &ThreadState, event: &Event<'_>, with_tool: bool) {
    let session = thread.session;
    let metadata = event.metadata();
    if !session.is_enabled(metadata) {
        return;
    }
    let at = session.clock.now(); // before code of the values runs, which takes time
    let (record, fields) = thread.gate.while_closed(|| {
        let category = category(*metadata.level());
        let (domain, first) = session.domain_of_mark(metadata.target(), category);
        if first && with_tool {
            domain.name_category(category, metadata.level().as_str());
        }
        let mut said = Said { with_fields: session.records_values(), ..Said::default() };
        event.record(&mut said);
        let (text, fields) = said.finish(metadata.name());
        if with_tool {
            domain.mark(&Attributes::new().message(&text).category(category));
        }
        (Record::Mark { at, domain: domain.name(), level: category as u8, text: text.into() }, fields)
    });
    thread.record_with_fields(record, &fields);
}

fn category(level: Level) -> u32 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        _ => 5,
    }
}

/// The text of an event (its message, or else its fields), and its fields for a timeline.
#[derive(Default)]
struct Said {
    message: Option<String>,
    shown: String,
    with_fields: bool,
    fields: Fields,
}

impl Said {
    fn finish(self, name: &str) -> (String, Fields) {
        let text = match self.message {
            Some(message) if !message.is_empty() => message,
            _ if !self.shown.is_empty() => self.shown,
            _ => name.to_owned(),
        };
        let mut fields = Fields::default();
        fields.update(self.fields); // the last of two fields with one name wins, as for a span
        (text, fields)
    }

    fn show(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.message.is_none() {
            let separator = if self.shown.is_empty() { "" } else { " " };
            let _ = write!(self.shown, "{separator}{}={value:?}", field.name()); // writing to a string cannot fail
        }
    }

    /// Handles a field or the message: as text, and with `keep`, which stores it among the fields.
    fn field(&mut self, field: &Field, shown: &dyn fmt::Debug, keep: impl FnOnce(&mut Fields)) {
        if field.name() == MESSAGE {
            self.message = Some(format!("{shown:?}"));
            return;
        }
        self.show(field, shown);
        if self.with_fields {
            keep(&mut self.fields);
        }
    }
}

const MESSAGE: &str = "message";

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(field, value, |fields| fields.push_formatted(field.name(), value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == MESSAGE {
            self.message = Some(value.to_owned());
        } else {
            self.field(field, &value, |fields| fields.push(field.name(), Value::Text(value)));
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.field(field, &value, |fields| fields.push(field.name(), Value::Unsigned(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.field(field, &value, |fields| fields.push(field.name(), Value::Integer(value)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.field(field, &value, |fields| fields.push(field.name(), Value::Float(value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.field(field, &value, |fields| fields.push(field.name(), Value::Bool(value)));
    }
}

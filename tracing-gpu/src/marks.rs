//! Events become NVTX marks, while a tool is attached.

use std::fmt::{self, Write as _};

use nvtx_rs::Attributes;
use tracing_core::field::{Field, Visit};
use tracing_core::{Event, Level};

use crate::collect::core::Core;
use crate::collect::shard::Shard;

/// Marks an event with its message; the category is its level, 1 for errors to 5 for trace.
#[inline]
pub(crate) fn mark(core: &'static Core, shard: &Shard, event: &Event<'_>) {
    if core.nvtx && nvtx_rs::is_tool_attached() {
        mark_with_tool(core, shard, event);
    }
}

#[inline(never)]
fn mark_with_tool(core: &'static Core, shard: &Shard, event: &Event<'_>) {
    let metadata = event.metadata();
    if !core.is_enabled(metadata) {
        return;
    }
    shard.closed(|| {
        let category = category(*metadata.level());
        let (domain, first) = core.domain_of_mark(metadata.target(), category);
        if first {
            domain.name_category(category, metadata.level().as_str());
        }
        let mut text = Message::default();
        event.record(&mut text);
        let text = text.finish(metadata.name());
        domain.mark(&Attributes::new().message(&text).category(category));
    });
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

/// The message of an event; fields follow where there is no message.
#[derive(Default)]
struct Message {
    message: Option<String>,
    fields: String,
}

impl Message {
    fn finish(self, name: &str) -> String {
        match self.message {
            Some(message) if !message.is_empty() => message,
            _ if !self.fields.is_empty() => self.fields,
            _ => name.to_owned(),
        }
    }
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = Some(format!("{value:?}"));
        } else if self.message.is_none() {
            let separator = if self.fields.is_empty() { "" } else { " " };
            let _ = write!(self.fields, "{separator}{}={value:?}", field.name()); // writing to a string does not fail
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message = Some(value.to_owned());
        } else {
            self.record_debug(field, &value);
        }
    }
}

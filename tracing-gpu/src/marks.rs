//! Events become NVTX marks while a tool is attached, and marks of a timeline while one is written.

use std::fmt::{self, Write as _};

use nvtx_rs::Attributes;
use tracing_core::field::{Field, Visit};
use tracing_core::{Event, Level};

use crate::collect::core::Core;
use crate::collect::shard::Shard;
use crate::collect::tape::Record;

/// Marks an event with its message; the category is its level, 1 for errors to 5 for trace.
#[inline]
pub(crate) fn mark(core: &'static Core, shard: &Shard, event: &Event<'_>) {
    let with_tool = core.nvtx && nvtx_rs::is_tool_attached();
    if with_tool || core.tape_room.is_some() {
        mark_with_message(core, shard, event, with_tool);
    }
}

#[inline(never)]
fn mark_with_message(core: &'static Core, shard: &Shard, event: &Event<'_>, with_tool: bool) {
    let metadata = event.metadata();
    if !core.is_enabled(metadata) {
        return;
    }
    let recorded = shard.closed(|| {
        let category = category(*metadata.level());
        let (domain, first) = core.domain_of_mark(metadata.target(), category);
        if first && with_tool {
            domain.name_category(category, metadata.level().as_str());
        }
        let mut text = Message::default();
        event.record(&mut text);
        let text = text.finish(metadata.name());
        if with_tool {
            domain.mark(&Attributes::new().message(&text).category(category));
        }
        Record::Mark { at: core.clock.now(), domain: domain.name(), level: category as u8, text: text.into() }
    });
    shard.record(|| recorded);
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

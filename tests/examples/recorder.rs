//! A tool that writes every NVTX call as one line to the file named by `NVTX_RECORD`.
//!
//! ```text
//! 0 push domain="app" message="load" color=FF00A000 category=256 payload=u64:3 registered=true depth=0
//! ```
//!
//! The thread's number in order of first appearance, the kind of call, then the present fields, with strings quoted as
//! in JSON. Lines are written at once and appended, so that several processes and tools can share a file, and nothing
//! is lost however the process ends. Without the variable the tool refuses to be attached.

use nvtx_rs::tool::{Call, Event, Extended, Field, Tool};
use nvtx_rs::{Payload, export_tool};
use std::collections::HashMap;
use std::fmt::{Display, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

export_tool!(make);

fn make() -> impl Tool {
    let path = std::env::var_os("NVTX_RECORD").expect("NVTX_RECORD names the file to write to");
    let file = OpenOptions::new().append(true).create(true).open(path).expect("NVTX_RECORD can be written to");
    Recorder(Mutex::new(State { file, threads: HashMap::new() }))
}

struct Recorder(Mutex<State>);

struct State {
    file: File,
    threads: HashMap<ThreadId, usize>,
}

impl Tool for Recorder {
    fn call(&self, call: &Call<'_>) {
        let mut state = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let count = state.threads.len();
        let thread = *state.threads.entry(thread::current().id()).or_insert(count);
        let line = format!("{thread} {}\n", describe(call));
        state.file.write_all(line.as_bytes()).expect("the record can be written to");
    }
}

struct Line(String);

impl Line {
    fn field(&mut self, name: &str, value: impl Display) -> &mut Self {
        let _ = write!(self.0, " {name}={value}");
        self
    }

    fn text(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.field(name, serde_json::Value::from(value)),
            None => self,
        }
    }

    fn event(&mut self, event: &Event<'_>) -> &mut Self {
        self.text("message", event.message);
        if let Some(color) = event.color {
            self.field("color", format_args!("{:08X}", color.to_argb()));
        }
        if event.category != 0 {
            self.field("category", event.category);
        }
        match event.payload {
            Some(Payload::U64(value)) => self.field("payload", format_args!("u64:{value}")),
            Some(Payload::I64(value)) => self.field("payload", format_args!("i64:{value}")),
            Some(Payload::F64(value)) => self.field("payload", format_args!("f64:{value:?}")),
            Some(Payload::U32(value)) => self.field("payload", format_args!("u32:{value}")),
            Some(Payload::I32(value)) => self.field("payload", format_args!("i32:{value}")),
            Some(Payload::F32(value)) => self.field("payload", format_args!("f32:{value:?}")),
            None => self,
        };
        if event.registered {
            self.field("registered", true);
        }
        self.fields(&event.extended)
    }

    fn fields(&mut self, extended: &Extended<'_>) -> &mut Self {
        let fields: Vec<String> =
            extended.fields().iter().map(|Field { name, value, .. }| format!("{name}={value}")).collect();
        self.text("fields", (!fields.is_empty()).then(|| fields.join(" ")).as_deref())
    }
}

fn describe(call: &Call<'_>) -> String {
    let line = |kind: &str, domain: Option<&str>| {
        let mut line = Line(kind.to_owned());
        line.text("domain", domain);
        line
    };
    let line = match *call {
        Call::Attach => line("attach", None),
        Call::Push { domain, event, depth } => {
            let mut line = line("push", domain);
            line.event(&event).field("depth", depth);
            line
        }
        Call::Pop { domain, depth, extended } => {
            let mut line = line("pop", domain);
            if let Some(depth) = depth {
                line.field("depth", depth);
            }
            line.fields(&extended);
            line
        }
        Call::Mark { domain, event } => {
            let mut line = line("mark", domain);
            line.event(&event);
            line
        }
        Call::Start { domain, event, id } => {
            let mut line = line("start", domain);
            line.event(&event).field("id", id);
            line
        }
        Call::End { domain, id, extended } => {
            let mut line = line("end", domain);
            line.field("id", id).fields(&extended);
            line
        }
        Call::CreateDomain { name } => line("create_domain", Some(name)),
        Call::DestroyDomain { domain } => line("destroy_domain", domain),
        Call::RegisterString { domain, text } => {
            let mut line = line("register_string", domain);
            line.text("message", Some(text));
            line
        }
        Call::NameCategory { domain, id, name } => {
            let mut line = line("name_category", domain);
            line.text("message", Some(name)).field("category", id);
            line
        }
        Call::NameThread { id, name } => {
            let mut line = line("name_thread", None);
            line.text("message", Some(name)).field("id", id);
            line
        }
        Call::NameObject { object, handle, name } => {
            let mut line = line("name_object", None);
            line.text("message", Some(name)).field("object", format_args!("{object:?}")).field("handle", handle);
            line
        }
        Call::CreateResource { domain, kind, identifier, name } => {
            let mut line = line("create_resource", domain);
            line.text("message", name).field("class", kind.class()).field("index", kind.index());
            line.field("identifier", identifier);
            line
        }
        Call::DestroyResource { domain, name } => {
            let mut line = line("destroy_resource", domain);
            line.text("message", name);
            line
        }
        Call::Sync { domain, name, action } => {
            let mut line = line("sync", domain);
            line.text("message", name).field("action", format_args!("{action:?}"));
            line
        }
        Call::Initialize => line("initialize", None),
        ref other => line("other", Some(&format!("{other:?}"))),
    };
    line.0
}

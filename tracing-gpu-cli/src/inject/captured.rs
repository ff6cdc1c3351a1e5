//! The range to which measuring is limited: the first one of its name.

use std::sync::Mutex;
use std::thread::{self, ThreadId};

use nvtx_rs::tool::Call;

/// The name of the range, and the place where it is open.
pub(super) struct Captured {
    /// Its name, or `domain:name`.
    name: String,
    open: Mutex<Option<OpenRange>>,
}

enum OpenRange {
    Pushed { thread: ThreadId, domain: Option<String>, depth: i32 },
    Started { id: u64 },
}

/// The relation of a call to the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    Begin,
    End,
    Nothing,
}

impl Captured {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), open: Mutex::new(None) }
    }

    /// Whether this call begins the range or ends it.
    pub(super) fn meet(&self, call: &Call<'_>) -> Edge {
        let Ok(mut open) = self.open.lock() else { return Edge::Nothing };
        let begun = match *call {
            Call::Push { domain, ref event, depth, .. } if self.is_named(domain, event.message) => {
                OpenRange::Pushed { thread: thread::current().id(), domain: domain.map(str::to_owned), depth }
            }
            Call::Start { domain, ref event, id, .. } if self.is_named(domain, event.message) => {
                OpenRange::Started { id }
            }
            Call::Pop { domain, depth: Some(depth), .. } => {
                let here = |open: &OpenRange| {
                    matches!(open, OpenRange::Pushed { thread, domain: of, depth: at }
                    if *thread == thread::current().id() && of.as_deref() == domain && *at == depth)
                };
                return if open.as_ref().is_some_and(here) { Edge::End } else { Edge::Nothing };
            }
            Call::End { id, .. } => {
                let ends = matches!(*open, Some(OpenRange::Started { id: of }) if of == id);
                return if ends { Edge::End } else { Edge::Nothing };
            }
            _ => return Edge::Nothing,
        };
        if open.is_some() {
            return Edge::Nothing;
        }
        *open = Some(begun);
        Edge::Begin
    }

    fn is_named(&self, domain: Option<&str>, message: Option<&str>) -> bool {
        let Some(message) = message else { return false };
        message == self.name
            || domain.is_some_and(|domain| {
                self.name.strip_prefix(domain).and_then(|rest| rest.strip_prefix(':')) == Some(message)
            })
    }
}

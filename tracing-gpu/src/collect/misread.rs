//! Values of our own fields that mean nothing: the first of each call site and field, for a note.

use std::fmt::Write as _;

use parking_lot::Mutex;
use tracing_core::Metadata;

/// Notes that there are at most; more are counted.
const MAX_NOTES: usize = 8;
/// What is shown of a value, in characters.
const MAX_VALUE: usize = 40;

/// A field that was given something else than it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Misread {
    pub(crate) field: &'static str,
    /// What its values are.
    pub(crate) takes: &'static str,
}

/// What all threads came upon, each call site and field once: a thread remembers what it has told.
#[derive(Debug, Default)]
pub(crate) struct MisreadValues(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    /// Call site and field of each note; the note.
    first: Vec<((u64, &'static str), String)>,
    more: bool,
}

impl MisreadValues {
    /// Takes down what one span had, unless its call site and field are there.
    pub(crate) fn tell(&self, site: u64, metadata: &Metadata<'_>, misread: Misread, value: &str) {
        let mut told = self.0.lock();
        let key = (site, misread.field);
        if told.first.iter().any(|(known, _)| *known == key) {
            return;
        }
        if told.first.len() >= MAX_NOTES {
            told.more = true;
            return;
        }
        told.first.push((key, sentence(metadata, misread, value)));
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        let told = self.0.lock();
        let mut notes: Vec<String> = told.first.iter().map(|(_, note)| note.clone()).collect();
        if told.more {
            notes.push("Fields of further call sites have values that mean nothing; they were ignored.".to_owned());
        }
        notes
    }
}

fn sentence(metadata: &Metadata<'_>, misread: Misread, value: &str) -> String {
    let Misread { field, takes } = misread;
    let mut note = format!("{field} of `{}`", metadata.name());
    if let (Some(file), Some(line)) = (metadata.file(), metadata.line()) {
        let _infallible = write!(note, " ({file}:{line})");
    }
    let shown: String = value.chars().take(MAX_VALUE).collect();
    let rest = if shown.len() < value.len() { "…" } else { "" };
    let _infallible = write!(note, " was ignored: \"{shown}{rest}\" is not {takes}.");
    note
}

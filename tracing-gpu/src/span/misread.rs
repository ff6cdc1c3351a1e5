//! Invalid values of our fields, and misspelt names of our fields: a note for the first one of each call site and
//! field.

use range_model::stats::Lean;
use std::fmt::Write as _;

use parking_lot::Mutex;
use tracing_core::Metadata;

/// The largest number of notes; further ones are counted.
const MAX_NOTES: usize = 8;
/// The largest number of characters shown of a value.
const MAX_VALUE: usize = 40;

const KNOWN: &str = "the fields are nvtx.name, nvtx.color, nvtx.category, nvtx.payload and nvtx.lifetime.";

/// A field with a value that it does not accept.
#[derive(Clone, Copy)]
pub(crate) struct Misread {
    pub(crate) field: &'static str,
    /// The values that it accepts.
    pub(crate) takes: &'static str,
}

/// The findings of all threads, once per call site and field, because each thread remembers what it has reported.
#[derive(Debug, Default)]
pub(crate) struct MisreadValues(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    /// The notes, with their call sites and fields.
    first: Vec<((u64, &'static str), String)>,
    more: bool,
}

impl MisreadValues {
    /// Notes an invalid value of one span, unless its call site and field have a note.
    pub(crate) fn tell(&self, site: u64, metadata: &Metadata<'_>, misread: Misread, value: &str) {
        self.note((site, misread.field), || sentence(metadata, misread, value));
    }

    /// Notes a misspelt field.
    pub(crate) fn tell_unknown(&self, site: u64, metadata: &Metadata<'_>, field: &'static str) {
        self.note((site, field), || subject(metadata, field) + " was ignored: " + KNOWN);
    }

    fn note(&self, key: (u64, &'static str), sentence: impl FnOnce() -> String) {
        let mut told = self.0.lock();
        if told.first.iter().any(|(known, _)| *known == key) {
            return;
        }
        if told.first.len() >= MAX_NOTES {
            told.more = true;
            return;
        }
        told.first.push((key, sentence()));
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        let told = self.0.lock();
        let mut notes: Vec<String> = told.first.iter().map(|(_, note)| note.clone()).in_vec();
        if told.more {
            notes.push(
                "Fields of further call sites are unknown, or have values that they do not accept; they were ignored."
                    .to_owned(),
            );
        }
        notes
    }
}

fn sentence(metadata: &Metadata<'_>, misread: Misread, value: &str) -> String {
    let Misread { field, takes } = misread;
    let mut note = subject(metadata, field);
    let shown: String = value.chars().take(MAX_VALUE).collect();
    let rest = if shown.len() < value.len() { "…" } else { "" };
    let _infallible = write!(note, " was ignored: \"{shown}{rest}\" is not {takes}.");
    note
}

/// The field and its place in the source.
fn subject(metadata: &Metadata<'_>, field: &str) -> String {
    let mut text = format!("{field} of `{}`", metadata.name());
    if let (Some(file), Some(line)) = (metadata.file(), metadata.line()) {
        let _infallible = write!(text, " ({file}:{line})");
    }
    text
}

#[cfg(test)]
mod tests {
    use tracing::info_span;
    use tracing_subscriber::prelude::*;

    use crate::{Output, Profiler};

    #[test]
    fn fields_that_are_misspelt_are_told_once_a_call_site() {
        for with_layer in [false, true] {
            let profiler = Profiler::builder().output(Output::None).build().expect("a profiler");
            let work = || {
                for _ in 0..3 {
                    info_span!("red", nvtx.colour = "red", nvtx.payload = 1, colour = "red").in_scope(|| ());
                }
                tracing::info!(nvtx.colour = "red", "an event has what fields it likes");
                tracing::debug_span!("hidden", nvtx.colour = "red").in_scope(|| ());
            };
            if with_layer {
                tracing::subscriber::with_default(tracing_subscriber::registry().with(profiler.layer()), work);
            } else {
                tracing::subscriber::with_default(profiler.subscriber(), work);
            }
            let notes: Vec<String> =
                profiler.summary().notes.into_iter().filter(|note| note.contains("nvtx.colour")).collect();
            let [note] = notes.as_slice() else { panic!("{notes:#?}") };
            assert!(note.starts_with("nvtx.colour of `red` ("), "{note}");
            assert!(note.ends_with(&format!(" was ignored: {}", super::KNOWN)), "{note}");
        }
    }
}

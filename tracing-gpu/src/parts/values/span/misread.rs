//! Invalid values of our fields, and misspelt names of our fields: a note for the first one of each call site and
//! field.

use parking_lot::Mutex;
use range_model::Note;
use range_model::stats::Lean;
use tracing_core::Metadata;

use crate::core::span::site::place_of;

/// The largest number of notes; further ones are counted.
const MAX_NOTES: usize = 8;
/// The largest number of characters shown of a value.
const MAX_VALUE: usize = 40;

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
    first: Vec<((u64, &'static str), Note)>,
    more: bool,
}

impl MisreadValues {
    /// Notes an invalid value of one span, unless its call site and field have a note.
    pub(crate) fn tell(&self, site: u64, metadata: &Metadata<'_>, misread: Misread, value: &str) {
        let Misread { field, takes } = misread;
        self.note((site, field), || {
            let mut shown: String = value.chars().take(MAX_VALUE).collect();
            if shown.len() < value.len() {
                shown.push('…');
            }
            let (span, place) = (metadata.name().to_owned(), place_of(metadata));
            Note::MisreadField { field: field.to_owned(), span, place, value: shown, accepted: takes.to_owned() }
        });
    }

    /// Notes a misspelt field.
    pub(crate) fn tell_unknown(&self, site: u64, metadata: &Metadata<'_>, field: &'static str) {
        self.note((site, field), || Note::UnknownField {
            field: field.to_owned(),
            span: metadata.name().to_owned(),
            place: place_of(metadata),
        });
    }

    fn note(&self, key: (u64, &'static str), note: impl FnOnce() -> Note) {
        let mut told = self.0.lock();
        if told.first.iter().any(|(known, _)| *known == key) {
            return;
        }
        if told.first.len() >= MAX_NOTES {
            told.more = true;
            return;
        }
        told.first.push((key, note()));
    }

    pub(crate) fn notes(&self) -> Vec<Note> {
        let told = self.0.lock();
        let mut notes = told.first.iter().map(|(_, note)| note.clone()).in_vec();
        if told.more {
            notes.push(Note::FurtherFields);
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use range_model::Note;
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
            let notes = profiler.summary().notes;
            let unknown = notes.iter().filter(|note| matches!(note, Note::UnknownField { .. })).collect::<Vec<_>>();
            let [Note::UnknownField { field, span, place: Some(_) }] = unknown[..] else { panic!("{notes:#?}") };
            assert_eq!((field.as_str(), span.as_str()), ("nvtx.colour", "red"));
        }
    }
}

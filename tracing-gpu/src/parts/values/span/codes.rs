//! Values of a span's fields as numbers: to find the one that tells calls of one name apart.

use std::fmt::{self, Write};
use std::hash::BuildHasher as _;

use rustc_hash::FxBuildHasher;
use tracing_core::field::{Field, Visit};

/// The first fields of a call site that have codes.
pub(crate) const FIELDS: usize = 4;
/// Bytes of a value that count.
const LONGEST: usize = 64;
const CUT: &str = "…";

/// The codes of a span's values by field; 0 where there is none. Equal values of one field have one code; another value
/// has it as rarely as one in four billion. None is `u32::MAX`.
pub(crate) type Codes = [u32; FIELDS];

/// Reads the codes of values. It runs code of the values, so the gate must be closed. It takes no memory. A value that
/// is longer than what counts is told to stop; lists do not, so a long one takes its time.
pub(crate) struct CodeReader<F> {
    pub(crate) codes: Codes,
    seen: F,
}

impl<F: FnMut(u32, &Field, &str)> CodeReader<F> {
    /// Calls `seen` for each value with its code, its field and its text.
    pub(crate) fn new(seen: F) -> Self {
        Self { codes: Codes::default(), seen }
    }
}

impl<F: FnMut(u32, &Field, &str)> Visit for CodeReader<F> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let Some(place) = self.codes.get_mut(field.index()) else { return };
        // They are about the range, and equal for one name.
        if field.name().starts_with("nvtx.") || field.name().starts_with("gpu.") {
            return;
        }
        let mut text = Beginning { bytes: [0; LONGEST + CUT.len()], len: 0 };
        if write!(text, "{value:?}").is_err() {
            text.push(CUT);
        }
        let text = text.as_str();
        let hash = FxBuildHasher.hash_one((field.name(), text));
        *place = ((hash >> 32) as u32).clamp(1, u32::MAX - 1);
        (self.seen)(*place, field, text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// The beginning of a text.
struct Beginning {
    bytes: [u8; LONGEST + CUT.len()],
    len: usize,
}

impl Beginning {
    fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    fn push(&mut self, text: &str) {
        if let Some(to) = self.bytes.get_mut(self.len..self.len + text.len()) {
            to.copy_from_slice(text.as_bytes());
            self.len += text.len();
        }
    }
}

impl Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut end = text.len().min(LONGEST - self.len);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.push(text.get(..end).unwrap_or_default());
        if end < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use tracing::field::{Value, display};
    use tracing_core::{Kind, Metadata, callsite::DefaultCallsite, field::FieldSet, identify_callsite};

    use super::*;

    static SITE: DefaultCallsite = DefaultCallsite::new(&META);
    static META: Metadata<'static> = Metadata::new(
        "request",
        "here",
        tracing_core::Level::INFO,
        None,
        None,
        None,
        FieldSet::new(&["method", "uri", "nvtx.payload", "size", "fifth"], identify_callsite!(&SITE)),
        Kind::SPAN,
    );

    fn read(values: [Option<&dyn Value>; 5]) -> (Codes, Vec<String>) {
        let fields: Vec<Field> = META.fields().iter().collect();
        let mut texts = Vec::new();
        let mut reader = CodeReader::new(|_, field: &Field, text: &str| texts.push(format!("{field}={text}")));
        let values: [(&Field, Option<&dyn Value>); 5] = std::array::from_fn(|index| (&fields[index], values[index]));
        META.fields().value_set(&values).record(&mut reader);
        (reader.codes, texts)
    }

    #[test]
    fn equal_values_of_one_field_have_one_code() {
        let (codes, texts) = read([Some(&"GET"), Some(&display("/big")), Some(&3), Some(&7_u64), Some(&1)]);
        assert_eq!(texts, ["method=GET", "uri=/big", "size=7"], "ours, and those beyond the fourth, have none");
        assert!([codes[0], codes[1], codes[3]].into_iter().all(|code| code != 0) && codes[2] == 0);
        let (others, _) = read([Some(&"/big"), Some(&"/big"), None, Some(&8), None]);
        assert_eq!((others[1], others[2]), (codes[1], 0), "as text and with `Display`");
        assert!(others[0] != codes[0] && others[0] != others[1] && others[3] != codes[3]);
    }

    #[test]
    fn a_long_value_counts_by_its_beginning() {
        struct Endless;
        impl fmt::Display for Endless {
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    to.write_str("äö")?;
                }
            }
        }
        let (_, texts) = read([Some(&display(Endless)), None, None, None, None]);
        assert_eq!(texts, [format!("method={}…", "äö".repeat(LONGEST / 4))]);
    }
}

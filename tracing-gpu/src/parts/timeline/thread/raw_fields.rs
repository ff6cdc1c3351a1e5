//! Fields of a span as words: their thread writes them instead of texts, and the recorder reads them.
//!
//! A value is a word with its kind and its field, followed by its bits or its text. Numbers and booleans are stored
//! unchanged. A text is copied, because it may not outlive the span. A value with only `Debug` or `Display`, such as a
//! 128-bit integer or an error, is formatted here, because it may not exist later; its text goes straight behind the
//! other words.

use std::error::Error;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tracing_core::field::{Field, Visit};

use crate::page::Line;
use crate::parts::values::span::fields::Fields;
use range_model::timeline::Value;

const INTEGER: u64 = 0;
const UNSIGNED: u64 = 1;
const FLOAT: u64 = 2;
const BOOL: u64 = 3;
const TEXT: u64 = 4;
/// The first word of a value: its kind in the lowest bits, then the number of its field, then the length of its text.
const KINDS: u32 = 8;
const FIELDS: u32 = 24;
/// The largest number of fields of a call site, more than `tracing` allows.
const MOST_FIELDS: u64 = 1 << FIELDS;
/// Words of a line.
pub(crate) const LINE: usize = size_of::<Line>() / size_of::<u64>();

/// Writes values behind a header of one line: to a page of its thread or, if they do not fit there, to a list.
pub(crate) struct Words<'a> {
    page: &'a [AtomicU64],
    list: Vec<u64>,
    /// Words so far.
    len: usize,
    /// Memory for the list.
    spare: &'a dyn SpareWords,
}

/// Lends memory for values that do not fit into a page.
pub(crate) trait SpareWords: fmt::Debug {
    fn lend(&self) -> Vec<u64>;
}

impl<'a> Words<'a> {
    #[inline]
    pub(crate) fn new(page: &'a [AtomicU64], spare: &'a dyn SpareWords) -> Self {
        let mut words = Self { page, list: Vec::new(), len: 0, spare };
        if page.len() < LINE {
            words.go_to_list();
        }
        words.len = LINE;
        words
    }

    /// Writes the header, made from the numbers of lines and of words after it. Returns the number of lines of the
    /// whole, and the list if it is not in the page.
    #[inline]
    pub(crate) fn finish(mut self, header: impl FnOnce(usize, usize) -> Line) -> (usize, Option<Vec<u64>>) {
        let lines = self.len.div_ceil(LINE);
        for (at, word) in header(lines, self.len - LINE).into_iter().enumerate() {
            self.set(at, word);
        }
        let is_listed = self.is_listed();
        if is_listed {
            self.list.resize(lines * LINE, 0);
        }
        (lines, is_listed.then_some(self.list))
    }

    #[inline]
    fn is_listed(&self) -> bool {
        !self.list.is_empty()
    }

    #[inline]
    pub(crate) fn push(&mut self, word: u64) {
        match self.page.get(self.len) {
            Some(to) => to.store(word, Relaxed),
            None => self.push_to_list(word),
        }
        self.len += 1;
    }

    #[inline(never)]
    fn push_to_list(&mut self, word: u64) {
        if !self.is_listed() {
            self.go_to_list();
        }
        self.list.push(word);
    }

    /// Moves everything to the list; from then on the page counts as empty.
    #[cold]
    fn go_to_list(&mut self) {
        self.list = self.spare.lend();
        self.list.extend(self.page.iter().take(self.len).map(|word| word.load(Relaxed)));
        self.list.resize(self.len.max(LINE), 0);
        self.page = &[];
    }

    #[inline]
    fn set(&mut self, at: usize, word: u64) {
        match self.page.get(at) {
            Some(to) => to.store(word, Relaxed),
            None => {
                if let Some(to) = self.list.get_mut(at) {
                    *to = word;
                }
            }
        }
    }

    #[inline]
    fn value(&mut self, field: &Field, kind: u64, bits: u64) {
        self.push(tag(field, kind, 0));
        self.push(bits);
    }

    #[inline]
    fn text(&mut self, field: &Field, text: &str) {
        self.push(tag(field, TEXT, text.len()));
        let (words, rest) = text.as_bytes().as_chunks::<8>();
        for word in words {
            self.push(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            self.push(rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    /// If formatting fails, the text up to the failure stays.
    fn formatted(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        let at = self.len;
        self.push(0);
        let mut text = Text { words: self, word: 0, len: 0 };
        let _failed = text.write_fmt(value);
        let (last, len) = (text.word, text.len);
        if len % 8 > 0 {
            self.push(last);
        }
        self.set(at, tag(field, TEXT, len));
    }
}

#[inline]
fn tag(field: &Field, kind: u64, len: usize) -> u64 {
    (len as u64) << (KINDS + FIELDS) | (field.index() as u64 % MOST_FIELDS) << KINDS | kind
}

/// A text that arrives in pieces.
struct Text<'a, 'b> {
    words: &'a mut Words<'b>,
    word: u64,
    len: usize,
}

impl Write for Text<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.word |= u64::from(byte) << (self.len % 8 * 8);
            self.len += 1;
            if self.len.is_multiple_of(8) {
                self.words.push(std::mem::take(&mut self.word));
            }
        }
        Ok(())
    }
}

impl Visit for Words<'_> {
    #[inline]
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.value(field, INTEGER, value as u64);
    }

    #[inline]
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.value(field, UNSIGNED, value);
    }

    #[inline]
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.value(field, FLOAT, value.to_bits());
    }

    #[inline]
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.value(field, BOOL, u64::from(value));
    }

    #[inline]
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.formatted(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.formatted(field, format_args!("{value:?}"));
    }
}

/// Appends the values to `into`, with the names of their fields; a field without a name is left out.
pub(crate) fn read(words: &[u64], names: &[Option<&'static str>], text: &mut Vec<u8>, into: &mut Fields) {
    let mut rest = words;
    while let Some((tag, after)) = rest.split_first() {
        let name = names.get((tag >> KINDS) as usize % MOST_FIELDS as usize).copied().flatten();
        let Some((value, after)) = value(*tag, after, text) else { return };
        rest = after;
        if let Some(name) = name {
            into.push(name, value);
        }
    }
}

fn value<'a, 'b>(tag: u64, words: &'b [u64], text: &'a mut Vec<u8>) -> Option<(Value<'a>, &'b [u64])> {
    let kind = tag % (1 << KINDS);
    if kind == TEXT {
        let len = (tag >> (KINDS + FIELDS)) as usize;
        let (own, rest) = words.split_at_checked(len.div_ceil(8))?;
        text.clear();
        own.iter().for_each(|word| text.extend_from_slice(&word.to_le_bytes()));
        text.truncate(len);
        return Some((Value::Text(std::str::from_utf8(text).unwrap_or_default()), rest));
    }
    let (&bits, rest) = words.split_first()?;
    let value = match kind {
        INTEGER => Value::Integer(bits as i64),
        UNSIGNED => Value::Unsigned(bits),
        FLOAT => Value::Float(f64::from_bits(bits)),
        BOOL => Value::Bool(bits != 0),
        _ => return None,
    };
    Some((value, rest))
}

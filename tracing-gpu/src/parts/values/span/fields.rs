//! Fields of spans and events that this crate does not read itself. The values of many fields share one list, and their
//! texts one string, so that no field needs an allocation of its own, and no thread frees memory that another
//! allocated.

use std::fmt::{self, Write as _};

use range_model::timeline::Value;

/// A value. Texts are stored in the order of the list, so their lengths give their places.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stored {
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Bool(bool),
    Text(usize),
}

/// The fields of one span, or of several in sequence.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Fields {
    list: Vec<(&'static str, Stored)>,
    texts: String,
}

impl<'a> FromIterator<(&'static str, Value<'a>)> for Fields {
    fn from_iter<T: IntoIterator<Item = (&'static str, Value<'a>)>>(fields: T) -> Self {
        let mut all = Self::default();
        fields.into_iter().for_each(|(name, value)| all.push(name, value));
        all
    }
}

/// See [`Fields::places`].
pub(crate) struct Places<'a> {
    fields: &'a Fields,
    first: usize,
    texts: usize,
}

impl Places<'_> {
    /// The place of the next span's fields, of which there are `count`.
    pub(crate) fn next(&mut self, count: usize) -> FieldsAt {
        let at = FieldsAt { first: self.first, count, texts: self.texts };
        self.first += count;
        for (_, stored) in self.fields.list.get(at.first..self.first).unwrap_or_default() {
            if let Stored::Text(length) = stored {
                self.texts += length;
            }
        }
        at
    }
}

/// The place of a span's fields among those of many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FieldsAt {
    first: usize,
    count: usize,
    texts: usize,
}

impl Fields {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Bytes of all fields.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.list.as_slice()) + self.texts.len()
    }

    pub(crate) fn push(&mut self, name: &'static str, value: Value<'_>) {
        let stored = match value {
            Value::Integer(value) => Stored::Integer(value),
            Value::Unsigned(value) => Stored::Unsigned(value),
            Value::Float(value) => Stored::Float(value),
            Value::Bool(value) => Stored::Bool(value),
            Value::Text(text) => {
                self.texts.push_str(text);
                Stored::Text(text.len())
            }
        };
        self.list.push((name, stored));
    }

    /// Adds a value as formatted text. If formatting fails, the text up to the failure stays.
    pub(crate) fn push_formatted(&mut self, name: &'static str, value: &dyn fmt::Debug) {
        let from = self.texts.len();
        let _failed = write!(self.texts, "{value:?}");
        self.list.push((name, Stored::Text(self.texts.len() - from)));
    }

    /// Appends the fields of a span.
    pub(crate) fn append(&mut self, other: &Self) {
        self.list.extend_from_slice(&other.list);
        self.texts.push_str(&other.texts);
    }

    /// The places of the appended spans, in order.
    pub(crate) const fn places(&self) -> Places<'_> {
        Places { fields: self, first: 0, texts: 0 }
    }

    /// The fields of one span.
    pub(crate) fn at(&self, at: FieldsAt) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        let list = self.list.get(at.first..at.first + at.count).unwrap_or_default();
        let mut texts = self.texts.get(at.texts..).unwrap_or_default();
        list.iter().map(move |&(name, stored)| {
            let value = match stored {
                Stored::Integer(value) => Value::Integer(value),
                Stored::Unsigned(value) => Value::Unsigned(value),
                Stored::Float(value) => Value::Float(value),
                Stored::Bool(value) => Value::Bool(value),
                Stored::Text(length) => {
                    let (text, rest) = texts.split_at_checked(length).unwrap_or_default();
                    texts = rest;
                    Value::Text(text)
                }
            };
            (name, value)
        })
    }

    /// All fields.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        self.at(FieldsAt { first: 0, count: self.list.len(), texts: 0 })
    }

    /// Merges newly recorded fields; a field that is recorded again gets the new value.
    pub(crate) fn update(&mut self, others: Self) {
        if self.is_empty() && others.are_apart() {
            *self = others;
            return;
        }
        let mut all: Vec<(&'static str, Value<'_>)> = self.iter().collect();
        for (name, value) in others.iter() {
            all.retain(|(known, _)| *known != name);
            all.push((name, value));
        }
        *self = all.into_iter().collect();
    }

    /// Whether no name occurs twice.
    fn are_apart(&self) -> bool {
        let is_first =
            |(place, (name, _)): (usize, &(&str, Stored))| self.list.iter().take(place).all(|(other, _)| other != name);
        self.list.iter().enumerate().all(is_first)
    }

    /// Clears the fields, and keeps at most `kept` bytes of their memory.
    pub(crate) fn clear(&mut self, kept: usize) {
        self.list.clear();
        self.list.shrink_to(kept / size_of::<(&str, Stored)>());
        self.texts.clear();
        self.texts.shrink_to(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[(&'static str, Value<'_>)]) -> Fields {
        fields.iter().copied().collect()
    }

    #[test]
    fn a_field_that_comes_again_has_its_last_value() {
        let (one, two, three) = (Value::Text("one"), Value::Unsigned(2), Value::Text("drei"));
        let updated = |known: &[(&'static str, Value<'_>)], others: &[(&'static str, Value<'_>)]| {
            let mut fields = of(known);
            fields.update(of(others));
            fields
        };
        assert_eq!(updated(&[], &[("a", one), ("b", two)]), of(&[("a", one), ("b", two)]));
        assert_eq!(updated(&[], &[("a", one), ("b", two), ("a", three)]), of(&[("b", two), ("a", three)]));
        assert_eq!(updated(&[("a", one), ("b", two)], &[("c", three)]), of(&[("a", one), ("b", two), ("c", three)]));
        assert_eq!(updated(&[("a", one), ("b", two)], &[("a", three)]), of(&[("b", two), ("a", three)]));
        let read: Vec<_> =
            of(&[("b", two), ("a", three)]).iter().map(|(name, value)| format!("{name} {value:?}")).collect();
        assert_eq!(read, ["b Unsigned(2)", "a Text(\"drei\")"]);
    }

    #[test]
    fn those_of_many_spans_are_told_apart() {
        let spans = [
            of(&[("a", Value::Text("größe")), ("b", Value::Bool(true)), ("c", Value::Text(""))]),
            of(&[]),
            of(&[("x", Value::Float(0.5)), ("y", Value::Text("時間"))]),
            of(&[("z", Value::Integer(-1))]),
        ];
        let mut all = Fields::default();
        spans.iter().for_each(|span| all.append(span));
        let mut next = all.places();
        let places: Vec<FieldsAt> = spans.iter().map(|span| next.next(span.len())).collect();
        for (span, at) in spans.iter().zip(&places) {
            assert!(all.at(*at).eq(span.iter()), "{at:?}");
        }
        assert_eq!(all.bytes(), spans.iter().map(Fields::bytes).sum::<usize>());
        all.clear(1 << 10);
        assert_eq!(all, Fields::default());
        assert_eq!(all.at(places[2]).count(), 0);
    }

    #[test]
    fn a_value_that_cannot_be_formatted_is_there_as_far_as_it_can() {
        struct Half;
        impl fmt::Debug for Half {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("half")?;
                Err(fmt::Error)
            }
        }
        let mut fields = Fields::default();
        fields.push_formatted("a", &Half);
        fields.push_formatted("b", &1.5);
        assert!(fields.iter().eq([("a", Value::Text("half")), ("b", Value::Text("1.5"))]));
    }
}

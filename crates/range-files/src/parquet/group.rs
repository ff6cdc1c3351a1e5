//! The rows of a dataset that wait to be written as one row group: column by column, texts by number.

use std::io::Write;

use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::writer::SerializedFileWriter;
use rustc_hash::FxHashMap;

use super::schema::{Column, Kind};
use range_model::timeline::Value;

/// Rows of a row group.
pub(super) const ROWS: usize = 1 << 16;
/// Bytes of different texts in a row group.
const TEXT: usize = 16 << 20;

/// The value of a row in one column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cell<'a> {
    Number(i64),
    Text(&'a str),
    Truth(bool),
    Fields(Option<Value<'a>>, &'a [(&'static str, Value<'a>)]),
    Nothing,
}

/// The rows.
#[derive(Debug)]
pub(super) struct Group {
    columns: Vec<Values>,
    rows: usize,
    texts: Texts,
    /// Memory for the texts of a column, one a row.
    bytes: Vec<ByteArray>,
}

#[derive(Debug)]
enum Values {
    Numbers {
        values: Vec<i64>,
        levels: Option<Vec<i16>>,
    },
    /// `last` is the number of the latest text: many rows have the text of the row before.
    Texts {
        values: Vec<u32>,
        levels: Option<Vec<i16>>,
        last: u32,
    },
    Truths(Vec<bool>),
    Fields(Fields),
}

/// Fields: keys and values of all rows. `definition` and `repetition` tell where each row begins.
#[derive(Debug, Default)]
struct Fields {
    keys: Vec<u32>,
    values: Vec<u32>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
    /// Memory for the text of a number.
    written: String,
}

impl Group {
    pub(super) fn new(columns: &[Column]) -> Self {
        let columns = columns.iter().map(|column| {
            let levels = column.is_optional.then(Vec::new);
            match column.kind {
                Kind::Code | Kind::Number => Values::Numbers { values: Vec::new(), levels },
                Kind::Text => Values::Texts { values: Vec::new(), levels, last: 0 },
                Kind::Truth => Values::Truths(Vec::new()),
                Kind::Fields => Values::Fields(Fields::default()),
            }
        });
        Self { columns: columns.collect(), rows: 0, texts: Texts::default(), bytes: Vec::new() }
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row, with a cell for each column. Returns whether the rows must be written now.
    pub(super) fn add(&mut self, cells: &[Cell<'_>]) -> bool {
        let Self { columns, texts, .. } = self;
        debug_assert_eq!(columns.len(), cells.len());
        for (column, cell) in columns.iter_mut().zip(cells) {
            column.add(*cell, texts);
        }
        self.rows += 1;
        self.rows >= ROWS || self.texts.bytes >= TEXT
    }

    /// Writes the rows as a row group, and forgets them.
    pub(super) fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        let Self { columns, texts, bytes, .. } = self;
        let mut group = file.next_row_group()?;
        for column in &mut *columns {
            match column {
                Values::Numbers { values, levels } => {
                    next(&mut group, &mut |writer| match writer {
                        ColumnWriter::Int64ColumnWriter(to) => {
                            to.write_batch(values, levels.as_deref(), None).map(drop)
                        }
                        _ => Ok(()),
                    })?;
                }
                Values::Texts { values, levels, .. } => {
                    texts.all_of(values, bytes);
                    next(&mut group, &mut |writer| match writer {
                        ColumnWriter::ByteArrayColumnWriter(to) => {
                            to.write_batch(bytes, levels.as_deref(), None).map(drop)
                        }
                        _ => Ok(()),
                    })?;
                }
                Values::Truths(values) => {
                    next(&mut group, &mut |writer| match writer {
                        ColumnWriter::BoolColumnWriter(to) => to.write_batch(values, None, None).map(drop),
                        _ => Ok(()),
                    })?;
                }
                Values::Fields(Fields { keys, values, definition, repetition, .. }) => {
                    for part in [keys, values] {
                        texts.all_of(part, bytes);
                        next(&mut group, &mut |writer| match writer {
                            ColumnWriter::ByteArrayColumnWriter(to) => {
                                to.write_batch(bytes, Some(definition), Some(repetition)).map(drop)
                            }
                            _ => Ok(()),
                        })?;
                    }
                }
            }
        }
        group.close()?;
        self.columns.iter_mut().for_each(Values::clear);
        self.bytes.clear();
        self.texts.clear();
        self.rows = 0;
        Ok(())
    }
}

/// Passes the writer of the next column to `write`.
fn next<W: Write + Send>(
    group: &mut parquet::file::writer::SerializedRowGroupWriter<'_, W>,
    write: &mut dyn FnMut(&mut ColumnWriter<'_>) -> Result<()>,
) -> Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    write(column.untyped())?;
    column.close()
}

impl Values {
    fn add(&mut self, cell: Cell<'_>, texts: &mut Texts) {
        match self {
            Self::Numbers { values, levels } => {
                let value = if let Cell::Number(value) = cell { Some(value) } else { None };
                push(values, levels, value);
            }
            Self::Texts { values, levels, last } => {
                let value = if let Cell::Text(text) = cell { Some(texts.number_after(text, last)) } else { None };
                push(values, levels, value);
            }
            Self::Truths(values) => values.push(matches!(cell, Cell::Truth(true))),
            Self::Fields(fields) => match cell {
                Cell::Fields(payload, all) => fields.add(payload, all, texts),
                _ => fields.add(None, &[], texts),
            },
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Numbers { values, levels } => {
                values.clear();
                levels.iter_mut().for_each(Vec::clear);
            }
            Self::Texts { values, levels, last } => {
                values.clear();
                levels.iter_mut().for_each(Vec::clear);
                *last = 0;
            }
            Self::Truths(values) => values.clear(),
            Self::Fields(Fields { keys, values, definition, repetition, .. }) => {
                keys.clear();
                values.clear();
                definition.clear();
                repetition.clear();
            }
        }
    }
}

/// Adds a value. A column with levels has only the values that are there.
fn push<T: Default>(values: &mut Vec<T>, levels: &mut Option<Vec<i16>>, value: Option<T>) {
    match levels {
        Some(levels) => {
            levels.push(value.is_some().into());
            values.extend(value);
        }
        None => values.push(value.unwrap_or_default()),
    }
}

impl Fields {
    fn add(&mut self, payload: Option<Value<'_>>, fields: &[(&'static str, Value<'_>)], texts: &mut Texts) {
        let payload = payload.map(|value| ("nvtx.payload", value));
        let mut is_first = true;
        for (name, value) in payload.into_iter().chain(fields.iter().copied()) {
            self.definition.push(2);
            self.repetition.push((!is_first).into());
            is_first = false;
            self.keys.push(texts.number(name));
            let value = match value {
                Value::Text(text) => texts.number(text),
                other => {
                    self.written.clear();
                    write_value(&mut self.written, other);
                    texts.number(&self.written)
                }
            };
            self.values.push(value);
        }
        if is_first {
            self.definition.push(0);
            self.repetition.push(0);
        }
    }
}

fn write_value(text: &mut String, value: Value<'_>) {
    use std::fmt::Write as _;
    let _a_string_takes_all = match value {
        Value::Integer(value) => write!(text, "{value}"),
        Value::Unsigned(value) => write!(text, "{value}"),
        Value::Float(value) => write!(text, "{value}"),
        Value::Bool(value) => write!(text, "{value}"),
        Value::Text(value) => write!(text, "{value}"),
    };
}

/// Texts by number.
#[derive(Debug, Default)]
struct Texts {
    numbers: FxHashMap<Box<str>, u32>,
    all: Vec<ByteArray>,
    bytes: usize,
}

impl Texts {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len() as u32; // of at most 2^16 rows with some hundred texts each
        self.bytes += text.len();
        self.all.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// The number of a text that is often the same as the last one.
    fn number_after(&mut self, text: &str, last: &mut u32) -> u32 {
        if self.all.get(*last as usize).is_none_or(|known| known.data() != text.as_bytes()) {
            *last = self.number(text);
        }
        *last
    }

    /// Replaces `bytes` by the texts with these numbers.
    fn all_of(&self, numbers: &[u32], bytes: &mut Vec<ByteArray>) {
        bytes.clear();
        bytes.extend(numbers.iter().filter_map(|number| self.all.get(*number as usize)).cloned());
    }

    fn clear(&mut self) {
        self.numbers.clear();
        self.all.clear();
        self.bytes = 0;
    }
}

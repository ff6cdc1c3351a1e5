//! The answer of a query: as a table that fits the terminal, as comma-separated values, or as JSON.

use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::time::Instant;

use datafusion::arrow::array::{Array, AsArray as _, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::engine::{self, Reader};
use super::{Query, datasets};
use crate::complain;

/// Rows of a table, unless the user chose.
const ROWS: usize = 20;
/// The narrowest that a column of texts gets where all do not fit.
const NARROWEST: usize = 8;

/// Prints the answer to a query, and a line with how long it took.
pub(super) fn print(name: &str, text: &str, folder: &Path, asked: &Query) -> io::Result<()> {
    let began = Instant::now();
    let form = match (asked.csv, asked.json) {
        (true, _) => Form::Csv,
        (_, true) => Form::Json,
        _ => Form::Table(Vec::new()),
    };
    let most = asked.rows.unwrap_or(if matches!(form, Form::Table(_)) { ROWS } else { 0 });
    let most = if most == 0 { usize::MAX } else { most };
    let out = io::BufWriter::new(io::stdout().lock());
    let mut answer = Answer { out, form, most, count: 0, has_begun: false, progress: Progress::new() };
    let missing = engine::run(folder, datasets::find(folder)?, text, &mut answer);
    answer.progress.clear();
    let (count, missing) = match missing {
        Ok(missing) => (answer.end()?, missing),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
        Err(error) => return Err(error),
    };
    let shown = count.min(most);
    let of =
        if shown < count { format!("; the first {shown} are printed (--rows 0 prints all)") } else { String::new() };
    complain(&format!("{name}: {count} rows in {:.1} s{of}", began.elapsed().as_secs_f64()));
    if !missing.is_empty() {
        complain(&format!("there are no files of {}: the answer is that of the others", missing.join(", ")));
    }
    Ok(())
}

enum Form {
    /// The rows so far: they are printed at the end, when the widths are known.
    Table(Vec<Vec<Cell>>),
    Csv,
    Json,
}

/// A value as text.
struct Cell {
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// No value.
    Nothing,
    /// A number or a truth value.
    Plain,
    /// Fields, as an object of JSON.
    Fields,
    Text,
}

/// The answer as far as it has come.
struct Answer<W> {
    out: W,
    form: Form,
    most: usize,
    count: usize,
    has_begun: bool,
    progress: Progress,
}

impl<W: Write> Reader for Answer<W> {
    fn read(&mut self, rows: usize) {
        self.progress.show(rows);
    }

    fn take(&mut self, piece: &RecordBatch) -> io::Result<()> {
        self.progress.clear();
        let schema = piece.schema();
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        if !std::mem::replace(&mut self.has_begun, true) {
            self.begin(&names)?;
        }
        let options = FormatOptions::new();
        let columns = piece.columns().iter().map(|column| Column::new(column, &options));
        let columns = columns.collect::<io::Result<Vec<_>>>()?;
        for row in 0..piece.num_rows() {
            if self.count < self.most {
                let is_table = matches!(self.form, Form::Table(_));
                let cells = columns.iter().map(|column| column.cell(row, is_table)).collect();
                self.row(&names, cells)?;
            }
            self.count += 1;
        }
        Ok(())
    }
}

impl<W: Write> Answer<W> {
    fn begin(&mut self, names: &[&str]) -> io::Result<()> {
        let header = names.iter().map(|name| Cell { text: (*name).to_owned(), kind: Kind::Text }).collect();
        match &mut self.form {
            Form::Json => write!(self.out, "["),
            Form::Table(rows) => {
                rows.push(header);
                Ok(())
            }
            Form::Csv => csv(&mut self.out, &header),
        }
    }

    fn row(&mut self, names: &[&str], cells: Vec<Cell>) -> io::Result<()> {
        match &mut self.form {
            Form::Table(rows) => {
                rows.push(cells);
                Ok(())
            }
            Form::Csv => csv(&mut self.out, &cells),
            Form::Json => {
                write!(self.out, "{}{{", if self.count == 0 { "\n" } else { ",\n" })?;
                for (place, (name, cell)) in names.iter().zip(cells).enumerate() {
                    let comma = if place == 0 { "" } else { ", " };
                    let value = match cell.kind {
                        Kind::Nothing => "null".to_owned(),
                        Kind::Plain | Kind::Fields => cell.text,
                        Kind::Text => quoted(&cell.text),
                    };
                    write!(self.out, "{comma}{}: {value}", quoted(name))?;
                }
                write!(self.out, "}}")
            }
        }
    }

    /// Writes what is left. Returns how many rows the answer has.
    fn end(mut self) -> io::Result<usize> {
        match &self.form {
            Form::Table(rows) => {
                let columns = terminal_size::terminal_size_of(io::stdout()).map(|(columns, _)| usize::from(columns.0));
                table(&mut self.out, rows, columns.filter(|columns| *columns > 0).unwrap_or(usize::MAX))?;
            }
            Form::Csv => {}
            Form::Json => writeln!(self.out, "\n]")?,
        }
        match self.out.flush() {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(self.count),
        }
    }
}

/// A column of a piece.
struct Column<'a> {
    array: &'a dyn Array,
    texts: ArrayFormatter<'a>,
}

impl<'a> Column<'a> {
    fn new(array: &'a dyn Array, options: &'a FormatOptions<'_>) -> io::Result<Self> {
        Ok(Self { array, texts: ArrayFormatter::try_new(array, options).map_err(io::Error::other)? })
    }

    /// A value; a table has a floating-point number with three decimals.
    fn cell(&self, row: usize, is_short: bool) -> Cell {
        if self.array.is_null(row) {
            return Cell { text: String::new(), kind: Kind::Nothing };
        }
        let text = || self.texts.value(row).to_string();
        let (text, kind) = match self.array.data_type() {
            DataType::Float64 => match self.array.as_primitive::<Float64Type>().value(row) {
                number if !number.is_finite() => (number.to_string(), Kind::Text),
                number if is_short => (format!("{number:.3}"), Kind::Plain),
                number => (format!("{number:?}"), Kind::Plain),
            },
            DataType::Map(..) => (fields(&self.array.as_map().value(row)), Kind::Fields),
            DataType::Boolean => (text(), Kind::Plain),
            kind if kind.is_integer() || kind.is_floating() => (text(), Kind::Plain),
            _ => (text(), Kind::Text),
        };
        Cell { text, kind }
    }
}

/// The fields of a span as an object of JSON.
fn fields(pairs: &dyn Array) -> String {
    let pairs = pairs.as_struct();
    let options = FormatOptions::new();
    let texts: Vec<_> =
        pairs.columns().iter().filter_map(|column| ArrayFormatter::try_new(column, &options).ok()).collect();
    let [names, values] = texts.as_slice() else { return "{}".to_owned() };
    let member = |row| format!("{}: {}", quoted(&names.value(row).to_string()), quoted(&values.value(row).to_string()));
    format!("{{{}}}", (0..pairs.len()).map(member).collect::<Vec<_>>().join(", "))
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for symbol in text.chars() {
        match symbol {
            '"' | '\\' => quoted.extend(['\\', symbol]),
            symbol if symbol < ' ' => quoted += &format!("\\u{:04x}", u32::from(symbol)),
            symbol => quoted.push(symbol),
        }
    }
    quoted + "\""
}

/// A line of comma-separated values.
fn csv(out: &mut impl Write, cells: &[Cell]) -> io::Result<()> {
    for (place, cell) in cells.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        match cell.text.contains([',', '"', '\n', '\r']) {
            true => write!(out, "{comma}\"{}\"", cell.text.replace('"', "\"\""))?,
            false => write!(out, "{comma}{}", cell.text)?,
        }
    }
    writeln!(out)
}

/// A table in so many columns of the terminal, if the texts can be shortened as much. Its first row is the header.
fn table(out: &mut impl Write, rows: &[Vec<Cell>], most: usize) -> io::Result<()> {
    let Some((header, body)) = rows.split_first() else { return Ok(()) };
    let is_text: Vec<bool> = (0..header.len())
        .map(|column| body.iter().any(|row| matches!(row[column].kind, Kind::Text | Kind::Fields)))
        .collect();
    let mut widths: Vec<usize> =
        (0..header.len()).map(|column| rows.iter().map(|row| row[column].text.width()).max().unwrap_or(0)).collect();
    // The widest column gets narrower, until all fit.
    while widths.iter().map(|width| width + 2).sum::<usize>() > most.saturating_add(2) {
        let widest = (0..widths.len()).max_by_key(|column| if is_text[*column] { widths[*column] } else { 0 });
        match widest.filter(|column| is_text[*column] && widths[*column] > NARROWEST) {
            Some(column) => widths[column] -= 1,
            None => break,
        }
    }
    for row in rows {
        let mut line = String::new();
        for ((cell, width), is_text) in row.iter().zip(&widths).zip(&is_text) {
            let text = shortened(&cell.text, *width);
            let blanks = " ".repeat(width - text.width());
            line += &if *is_text { text + &blanks } else { blanks + &text };
            line += "  ";
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A text on one line, which ends in `…` where it is too wide.
fn shortened(text: &str, most: usize) -> String {
    let text: String = text.chars().map(|symbol| if symbol.is_control() { ' ' } else { symbol }).collect();
    if text.width() <= most {
        return text;
    }
    let (mut short, mut width) = (String::new(), 1);
    for symbol in text.chars() {
        width += symbol.width().unwrap_or(0);
        if width > most {
            break;
        }
        short.push(symbol);
    }
    short + "…"
}

/// A line on a terminal that says how many rows were read.
struct Progress {
    is_shown: bool,
    is_there: bool,
}

impl Progress {
    fn new() -> Self {
        Self { is_shown: io::stderr().is_terminal(), is_there: false }
    }

    fn show(&mut self, rows: usize) {
        if self.is_shown {
            let _nobody_reads = write!(io::stderr(), "\r{:.1} million rows read", rows as f64 / 1e6);
            self.is_there = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_there) {
            let _nobody_reads = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, MapBuilder, StringBuilder, StringViewArray};

    use super::*;

    fn printed(form: Form, most: usize) -> String {
        let mut maps = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        maps.keys().append_value("uri");
        maps.values().append_value("/a \"b\"");
        maps.append(true).unwrap();
        maps.append(false).unwrap();
        let columns: [(&str, ArrayRef); 4] = [
            ("name", Arc::new(StringViewArray::from(vec![Some("a,b"), None]))),
            ("count", Arc::new(Int64Array::from(vec![1, 20_000]))),
            ("mean", Arc::new(Float64Array::from(vec![Some(0.1 + 0.2), None]))),
            ("fields", Arc::new(maps.finish())),
        ];
        let piece = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
        let progress = Progress { is_shown: false, is_there: false };
        let mut answer = Answer { out: Vec::new(), form, most, count: 0, has_begun: false, progress };
        answer.take(&piece).unwrap();
        if let Form::Table(rows) = &answer.form {
            table(&mut answer.out, rows, 30).unwrap();
        }
        String::from_utf8(answer.out).unwrap()
    }

    #[test]
    fn an_answer_has_three_forms() {
        let csv = "name,count,mean,fields\n\"a,b\",1,0.30000000000000004,\"{\"\"uri\"\": \"\"/a \\\"\"b\\\"\"\"\"}\"\n,20000,,\n";
        assert_eq!(printed(Form::Csv, 9), csv);
        let json = "[\n{\"name\": \"a,b\", \"count\": 1, \"mean\": 0.30000000000000004, \"fields\": {\"uri\": \"/a \\\"b\\\"\"}},\n\
                    {\"name\": null, \"count\": 20000, \"mean\": null, \"fields\": null}";
        assert_eq!(printed(Form::Json, 9), json);
        let table = "name  count   mean  fields\na,b       1  0.300  {\"uri\": \"…\n      20000\n";
        assert_eq!(printed(Form::Table(Vec::new()), 9), table);
        assert_eq!(printed(Form::Csv, 1).lines().count(), 2);
    }

    #[test]
    fn a_text_that_is_too_wide_is_cut() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("漢字漢字", 4), "漢…");
        assert_eq!(shortened("a\nb", 9), "a b");
    }
}

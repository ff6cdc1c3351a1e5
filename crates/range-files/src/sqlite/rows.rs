//! Rows of `NVTX_EVENTS`: one statement writes many.
//!
//! Starting a statement costs as much as writing one row: with 64 rows in a statement, a range takes half the time. So
//! at most [`WAITING`] rows wait here, and are written in the order in which they arrived. If all rows of a statement
//! are ranges with the usual columns, it has only these columns, because NULLs take a third of the time. Otherwise it
//! has every column.

use std::ops;

use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, ValueRef};

/// `ENUM_NSYS_EVENT_TYPE`.
pub(super) const CATEGORY: i64 = 33;
pub(super) const MARK: i64 = 34;
pub(super) const PUSH_POP: i64 = 59;
pub(super) const START_END: i64 = 60;

/// The largest number of waiting rows.
pub(super) const WAITING: usize = 256;

/// Numbers of rows per statement. Without `OR FAIL`, SQLite would keep a journal for each statement of many rows, to
/// undo it if it fails in the middle. Here such a failure rolls back the whole transaction.
const SIZES: [usize; 3] = [64, 8, 1];
/// Bytes of JSON whose memory is kept after the rows are written.
const KEPT: usize = 1 << 20;

/// The columns: first those of whole numbers. Most ranges have only the first [`OF_MOST`].
const COLUMNS: [&str; WHOLE + 3] = [
    "start",
    "eventType",
    "globalTid",
    "domainId",
    "end",
    "textId",
    "spanId",
    "callId",
    "parentId",
    "rangeId",
    "category",
    "color",
    "endGlobalTid",
    "uint64Value",
    "int64Value",
    "uint32Value",
    "doubleValue",
    "text",
    "jsonText",
];
const OF_MOST: usize = 9;
const WHOLE: usize = 16;

/// A row. What it does not have is NULL.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// Its whole numbers, in the order of the columns.
    pub(super) whole: [Option<i64>; WHOLE],
    pub(super) double: Option<f64>,
    pub(super) text: Option<Box<str>>,
    /// Its place in [`Rows::json`].
    pub(super) json: Option<ops::Range<usize>>,
}

impl Row {
    /// Whether it has only the first columns.
    fn is_like_most(&self) -> bool {
        let others = self.whole.get(OF_MOST..).unwrap_or_default();
        others.iter().all(Option::is_none) && matches!(self, Self { double: None, text: None, json: None, .. })
    }

    /// Binds the values of the row by number of their columns.
    fn bind<'a>(
        &'a self,
        json: &'a [u8],
        mut bind: impl FnMut(usize, ToSqlOutput<'a>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        for (column, value) in self.whole.iter().enumerate() {
            value.map_or(Ok(()), |value| bind(column, value.into()))?;
        }
        self.double.map_or(Ok(()), |value| bind(WHOLE, value.into()))?;
        let json = self.json.clone().and_then(|place| json.get(place));
        for (column, text) in (WHOLE + 1..).zip([self.text.as_ref().map(|text| text.as_bytes()), json]) {
            text.map_or(Ok(()), |text| bind(column, ToSqlOutput::Borrowed(ValueRef::Text(text))))?;
        }
        Ok(())
    }
}

/// The waiting rows, and the statements that write them.
#[derive(Debug)]
pub(super) struct Rows {
    waiting: Vec<Row>,
    /// The JSON of the waiting rows.
    json: Vec<u8>,
    /// Statements by their number of columns, then by their number of rows.
    statements: [[String; SIZES.len()]; 2],
}

impl Rows {
    pub(super) fn new() -> Self {
        let statement = |columns: usize, rows: usize| {
            let row = format!("({})", vec!["?"; columns].join(","));
            let (columns, rows) = (COLUMNS[..columns].join(","), vec![row; rows].join(","));
            format!("INSERT OR FAIL INTO NVTX_EVENTS({columns})VALUES{rows}")
        };
        let statements = [OF_MOST, COLUMNS.len()].map(|columns| SIZES.map(|rows| statement(columns, rows)));
        Self { waiting: Vec::with_capacity(WAITING), json: Vec::new(), statements }
    }

    /// Adds a row. Returns whether the rows must be written now.
    pub(super) fn add(&mut self, row: Row) -> bool {
        self.waiting.push(row);
        self.waiting.len() >= WAITING
    }

    /// The buffer for the JSON of the next row.
    pub(super) const fn json(&mut self) -> &mut Vec<u8> {
        &mut self.json
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Writes all waiting rows. After an error no row waits, and the transaction must be rolled back.
    pub(super) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let written = self.write_all(connection);
        self.waiting.clear();
        self.json.clear();
        self.json.shrink_to(KEPT); // a text may be of any length
        written
    }

    fn write_all(&self, connection: &Connection) -> rusqlite::Result<()> {
        let (mut rest, [of_most, all]) = (self.waiting.as_slice(), &self.statements);
        for (place, size) in SIZES.into_iter().enumerate() {
            while let Some((rows, after)) = rest.split_at_checked(size) {
                rest = after;
                let is_like_most = rows.iter().all(Row::is_like_most);
                let (columns, statements) = if is_like_most { (OF_MOST, of_most) } else { (COLUMNS.len(), all) };
                let mut statement = connection.prepare_cached(&statements[place])?; // with all columns NULL
                for (row, first) in rows.iter().zip((1..).step_by(columns)) {
                    row.bind(&self.json, |column, value| statement.raw_bind_parameter(first + column, value))?;
                }
                statement.raw_execute()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::types::Value;

    use super::*;

    /// All rows are written in their order with all their values, whatever series of similar ranges come between
    /// others, and however many rows wait.
    #[test]
    fn rows_are_in_the_order_in_which_they_came() {
        let columns = "start,eventType,globalTid,domainId,end,textId,spanId,callId,parentId,rangeId,category,color,\
            endGlobalTid,uint64Value,int64Value,uint32Value,doubleValue,text,jsonText";
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&format!("CREATE TABLE NVTX_EVENTS({columns})")).unwrap();
        // The bits of `which` select the columns of a range. Without it the row is a mark.
        let row = |at: i64, which: Option<i64>, json: &mut Vec<u8>| {
            let Some(which) = which else {
                let mut row = Row { text: Some(at.to_string().into()), ..Row::default() };
                row.whole[..4].copy_from_slice(&[at, 34, 2, 4].map(Some));
                return row;
            };
            let has = |bit: i64, value: i64| (which >> bit & 1 == 1).then_some(value);
            let payload = |number: i64, value: i64| (which >> 4 & 7 == number).then_some(value);
            let from = json.len();
            json.extend(has(7, at).iter().flat_map(|at| at.to_string().into_bytes()));
            let (kind, thread, domain) = (59 + (which & 1), 2 + (which >> 8 & 1), 4 + (which >> 9 & 1));
            let plain = [at, kind, thread, domain, at + 1, at + 3].map(Some);
            let numbers = [has(10, at + 3), has(10, at + 4), has(10, at + 5).filter(|_| at % 3 > 0)];
            let others = [has(0, at), has(1, at + 1), has(2, at), has(3, at + 2)];
            let payloads = [payload(1, at), payload(2, -at), payload(4, i64::from(at % 2 == 0))];
            let whole = [&plain[..], &numbers, &others, &payloads].concat().try_into().unwrap();
            let double = payload(3, at).map(|at| at as f64 / 2.0);
            Row { whole, double, text: None, json: has(7, 0).map(|_| from..json.len()) }
        };
        let (mut rows, mut expected) = (Rows::new(), Vec::<Vec<Value>>::new());
        let mut add = |which: Option<i64>| {
            let row = row(expected.len() as i64, which, rows.json());
            let json = row.json.clone().map(|place| String::from_utf8(rows.json()[place].to_vec()).unwrap());
            let text = row.text.clone().map(String::from);
            expected.push([&row.whole.map(Value::from)[..], &[row.double.into(), text.into(), json.into()]].concat());
            if rows.add(row) {
                assert_eq!(rows.len(), WAITING);
                rows.write(&connection).unwrap();
            }
        };
        for length in (0..150).chain([0, 500, 0, 1]) {
            (0..length).for_each(|_| add(Some(0)));
            add(Some(length % 2048));
            add(None);
        }
        for shape in 0..2048 {
            (0..shape % 21).for_each(|_| add(Some(shape)));
        }
        // Ranges with only the first columns, on two threads and in two domains in turn.
        for turn in 0..40 {
            let either = [0, 1, 3, 2][turn as usize % 4]; // one of them changes at a time
            (0..turn).for_each(|_| add(Some(either << 8)));
        }
        (0..5_000).for_each(|mixed| add(Some(mixed * 7 % 2048)));
        rows.write(&connection).unwrap();
        assert_eq!(rows.len(), 0);
        let mut statement = connection.prepare(&format!("SELECT {columns} FROM NVTX_EVENTS ORDER BY rowid")).unwrap();
        let values = |row: &rusqlite::Row<'_>| (0..COLUMNS.len()).map(|column| row.get(column)).collect();
        let found: Vec<Vec<Value>> = statement.query_map([], values).unwrap().map(Result::unwrap).collect();
        assert_eq!(found.len(), expected.len());
        found.iter().zip(&expected).enumerate().for_each(|(at, (found, expected))| assert_eq!(found, expected, "{at}"));
    }
}

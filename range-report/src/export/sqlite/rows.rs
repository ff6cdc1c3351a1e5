//! Rows of `NVTX_EVENTS`, written many by one statement.
//!
//! A statement costs as much as what it does for one row: with 64 rows a statement, a range takes half the time. So
//! rows wait here, at most [`WAITING`], and are written in the order in which they came. Ranges of one thread and
//! domain that have the same columns go by 64 and by 8, with what they share bound once; so do ranges that differ, with
//! a value for every column. Marks and names go one by one.

use std::ops;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, params};

/// `ENUM_NSYS_EVENT_TYPE`.
pub(super) const CATEGORY: i64 = 33;
pub(super) const MARK: i64 = 34;
pub(super) const PUSH_POP: i64 = 59;
pub(super) const START_END: i64 = 60;

/// Rows that wait at most.
pub(super) const WAITING: usize = 256;

/// Rows a statement. Without `OR FAIL` one with many would have a journal of its own, for the case that it fails in the
/// middle; then all is rolled back anyway.
const SIZES: [usize; 3] = [64, 8, 1];
/// So many ranges that are alike are worth statements of their own.
const ALIKE: usize = SIZES[1];
/// Kinds of ranges that have statements of their own: the first that come. The others are written with every column.
const SHAPES: usize = 6;

/// Bytes of JSON that there is always room for.
const KEPT: usize = 1 << 20;

const TEXT: &str =
    "INSERT INTO NVTX_EVENTS(start,eventType,category,text,globalTid,domainId,jsonText)VALUES(?,?,?,?,?,?,?)";

/// A row.
#[derive(Clone, Debug)]
pub(super) enum Row {
    Range(RangeRow),
    /// A mark, or the name of a domain or category.
    Text {
        start: i64,
        kind: i64,
        category: Option<i64>,
        text: Box<str>,
        thread: i64,
        domain: i64,
        /// Its place in [`Rows::json`].
        json: Option<ops::Range<usize>>,
    },
}

/// A range.
#[derive(Clone, Debug)]
pub(super) struct RangeRow {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) thread: i64,
    pub(super) text: i64,
    pub(super) domain: i64,
    /// Of a start/end range; a push/pop range has none.
    pub(super) number: Option<i64>,
    pub(super) category: Option<i64>,
    pub(super) color: Option<u32>,
    pub(super) end_thread: Option<i64>,
    pub(super) payload: Option<Payload>,
    pub(super) numbers: Option<Numbers>,
    /// Its place in [`Rows::json`].
    pub(super) json: Option<ops::Range<usize>>,
}

/// Numbers of a range's span and call, and of the call that it runs in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) span: i64,
    pub(super) call: i64,
    pub(super) parent: Option<i64>,
}

/// A payload, by its column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload {
    Unsigned(i64),
    Integer(i64),
    Float(f64),
    Truth(bool),
}

/// Columns that a range need not have, the last three together. Those beyond the thread, the domain, the kind, the
/// times and the name.
const COLUMNS: [&str; 10] = [
    "rangeId",
    "category",
    "color",
    "endGlobalTid",
    "uint64Value",
    "int64Value",
    "doubleValue",
    "uint32Value",
    "jsonText",
    "spanId,callId,parentId",
];

/// Which of [`COLUMNS`] a range has, a bit each.
type Shape = u16;
/// The place of the columns that come together.
const NUMBERS: u32 = COLUMNS.len() as u32 - 1;
const NULL: ToSqlOutput<'_> = ToSqlOutput::Borrowed(ValueRef::Null);

/// Ranges with every column, which may be NULL, of any thread and domain.
const MIXED: Shape = 1 << COLUMNS.len();

impl RangeRow {
    fn shape(&self) -> Shape {
        let payload = match self.payload {
            None => 0,
            Some(Payload::Unsigned(_)) => 1 << 4,
            Some(Payload::Integer(_)) => 1 << 5,
            Some(Payload::Float(_)) => 1 << 6,
            Some(Payload::Truth(_)) => 1 << 7,
        };
        let bit = |has: bool, place: u32| Shape::from(has) << place;
        bit(self.number.is_some(), 0)
            | bit(self.category.is_some(), 1)
            | bit(self.color.is_some(), 2)
            | bit(self.end_thread.is_some(), 3)
            | payload
            | bit(self.json.is_some(), 8)
            | bit(self.numbers.is_some(), NUMBERS)
    }

    fn is_beside(&self, other: &Self) -> bool {
        self.thread == other.thread && self.domain == other.domain
    }

    /// The values of [`COLUMNS`] but the last ones, one by one.
    #[inline]
    fn others<'a>(
        &self,
        json: &'a [u8],
        mut take: impl FnMut(Option<ToSqlOutput<'a>>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<()> {
        take(self.number.map(Into::into))?;
        take(self.category.map(Into::into))?;
        take(self.color.map(Into::into))?;
        take(self.end_thread.map(Into::into))?;
        let (mut unsigned, mut integer, mut float, mut truth) = (None, None, None, None);
        match self.payload {
            None => {}
            Some(Payload::Unsigned(value)) => unsigned = Some(value.into()),
            Some(Payload::Integer(value)) => integer = Some(value.into()),
            Some(Payload::Float(value)) => float = Some(value.into()),
            Some(Payload::Truth(value)) => truth = Some(value.into()),
        }
        [unsigned, integer, float, truth].into_iter().try_for_each(&mut take)?;
        take(text_of(json, &self.json))
    }
}

impl Numbers {
    /// The values of its columns.
    fn values(numbers: Option<Self>) -> [ToSqlOutput<'static>; 3] {
        let value = |of: fn(Self) -> Option<i64>| numbers.and_then(of).map_or(NULL, Into::into);
        [value(|it| Some(it.span)), value(|it| Some(it.call)), value(|it| it.parent)]
    }
}

/// What stands at this place.
fn text_of<'a>(json: &'a [u8], place: &Option<ops::Range<usize>>) -> Option<ToSqlOutput<'a>> {
    let json = place.clone().and_then(|place| json.get(place));
    json.map(|json| ToSqlOutput::Borrowed(ValueRef::Text(json)))
}

/// The statements of a shape, by their rows.
fn statements(shape: Shape) -> [String; SIZES.len()] {
    let (mut columns, mut values) = match shape {
        MIXED => ("start,end,textId,globalTid,domainId,eventType".to_owned(), "(?,?,?,?,?,?".to_owned()),
        _ => {
            let kind = if shape & 1 == 0 { PUSH_POP } else { START_END };
            ("globalTid,domainId,eventType,start,end,textId".to_owned(), format!("(?1,?2,{kind},?,?,?"))
        }
    };
    for (place, column) in COLUMNS.into_iter().enumerate() {
        if shape == MIXED || shape >> place & 1 == 1 {
            columns.push(',');
            columns.push_str(column);
            values.push_str(if place == NUMBERS as usize { ",?,?,?" } else { ",?" });
        }
    }
    values.push(')');
    SIZES.map(|rows| {
        format!("INSERT OR FAIL INTO NVTX_EVENTS({columns})VALUES{}", vec![values.as_str(); rows].join(","))
    })
}

/// The rows that wait, and how they are written.
#[derive(Debug)]
pub(super) struct Rows {
    waiting: Vec<Row>,
    /// The JSON of those that wait.
    json: Vec<u8>,
    /// Those with every column first.
    shapes: Vec<(Shape, [String; SIZES.len()])>,
}

impl Rows {
    pub(super) fn new() -> Self {
        let shapes = [MIXED, 0].map(|shape| (shape, statements(shape)));
        Self { waiting: Vec::with_capacity(WAITING), json: Vec::new(), shapes: shapes.into() }
    }

    /// Whether it is time to write them.
    pub(super) fn add(&mut self, row: Row) -> bool {
        self.waiting.push(row);
        self.waiting.len() >= WAITING
    }

    /// Where the JSON of the row goes that is added next.
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

    fn write_all(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let Self { waiting, json, shapes } = self;
        let mut open = Open { connection, statements: Vec::new() };
        let mut rest = waiting.as_slice();
        while let Some(first) = rest.first() {
            let row = match first {
                Row::Range(row) => row,
                Row::Text { start, kind, category, text, thread, domain, json: place } => {
                    let json = text_of(json, place);
                    open.statement((Shape::MAX, 1), TEXT)?
                        .execute(params![start, kind, category, text, thread, domain, json])?;
                    rest = rest.get(1..).unwrap_or_default();
                    continue;
                }
            };
            let own = row.shape();
            let alike = count(rest, |other| other.shape() == own && other.is_beside(row));
            let (shape, run) = if alike >= ALIKE {
                (own, alike - alike % ALIKE)
            } else {
                let ranges = count(rest, |_| true);
                if alike == ranges { (own, alike) } else { (MIXED, ranges.min(SIZES[0])) }
            };
            let (these, after) = rest.split_at(run);
            rest = after;
            let known = shapes.iter().position(|(known, _)| *known == shape);
            let known = known.unwrap_or_else(|| {
                if alike < ALIKE || shapes.len() >= SHAPES {
                    return 0; // as one of a mixture
                }
                shapes.push((shape, statements(shape)));
                shapes.len() - 1
            });
            let Some((shape, statements)) = shapes.get(known) else { continue }; // there is
            write_ranges(these, *shape, statements, json, &mut open)?;
        }
        Ok(())
    }
}

/// Ranges at the beginning that are so.
fn count(rows: &[Row], wanted: impl Fn(&RangeRow) -> bool) -> usize {
    rows.iter().take_while(|row| matches!(row, Row::Range(row) if wanted(row))).count()
}

/// Statements by what they write and how many rows, each looked up once for all rows that wait.
struct Open<'a> {
    connection: &'a Connection,
    statements: Vec<((Shape, usize), CachedStatement<'a>)>,
}

impl<'a> Open<'a> {
    fn statement(&mut self, key: (Shape, usize), sql: &str) -> rusqlite::Result<&mut CachedStatement<'a>> {
        let place = match self.statements.iter().position(|(known, _)| *known == key) {
            Some(place) => place,
            None => {
                self.statements.push((key, self.connection.prepare_cached(sql)?));
                self.statements.len() - 1
            }
        };
        // It is there.
        self.statements.get_mut(place).map(|(_, statement)| statement).ok_or(rusqlite::Error::InvalidQuery)
    }
}

/// By as many rows a statement as there are.
fn write_ranges(
    mut run: &[Row],
    shape: Shape,
    statements: &[String; SIZES.len()],
    json: &[u8],
    open: &mut Open<'_>,
) -> rusqlite::Result<()> {
    while let Some((rows, sql)) = SIZES.into_iter().zip(statements).find(|(rows, _)| *rows <= run.len()) {
        let (these, rest) = run.split_at(rows);
        run = rest;
        let statement = open.statement((shape, rows), sql)?;
        let mut next = 1;
        let mut bind = |value: ToSqlOutput<'_>| {
            next += 1;
            statement.raw_bind_parameter(next - 1, value)
        };
        for (place, row) in these.iter().enumerate() {
            let Row::Range(row) = row else { continue };
            match shape {
                MIXED => {
                    let kind = if row.number.is_some() { START_END } else { PUSH_POP };
                    for value in [row.start, row.end, row.text, row.thread, row.domain, kind] {
                        bind(value.into())?;
                    }
                    row.others(json, |value| bind(value.unwrap_or(NULL)))?;
                    Numbers::values(row.numbers).into_iter().try_for_each(&mut bind)?;
                }
                _ => {
                    if place == 0 {
                        bind(row.thread.into())?;
                        bind(row.domain.into())?;
                    }
                    for value in [row.start, row.end, row.text] {
                        bind(value.into())?;
                    }
                    row.others(json, |value| value.map_or(Ok(()), &mut bind))?;
                    if row.numbers.is_some() {
                        Numbers::values(row.numbers).into_iter().try_for_each(&mut bind)?;
                    }
                }
            }
        }
        statement.raw_execute()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever runs of ranges that are alike come between others, and however many wait: all are written, in their
    /// order, with what they have.
    #[test]
    fn rows_are_in_the_order_in_which_they_came() {
        let connection = Connection::open_in_memory().unwrap();
        connection.set_prepared_statement_cache_capacity(48);
        let columns = "start,end,eventType,globalTid,textId,domainId,rangeId,category,color,endGlobalTid,uint64Value,int64Value,doubleValue,
            uint32Value,jsonText,text,spanId,callId,parentId";
        connection.execute_batch(&format!("CREATE TABLE NVTX_EVENTS({columns})")).unwrap();
        let (mut rows, mut all, mut expected) = (Rows::new(), 0_i64, Vec::<Option<i64>>::new());
        let plain = |at| {
            let (number, category, color, end_thread, payload, numbers, json) =
                (None, None, None, None, None, None, None);
            let (start, end, thread, text, domain) = (at, at + 1, 2, at + 3, 4);
            RangeRow { start, end, thread, text, domain, number, category, color, end_thread, payload, numbers, json }
        };
        // Of every column that a range can have, by the bits of `which`; those of more than one shape are alike in
        // nothing.
        let with = |rows: &mut Rows, at: i64, which: i64| {
            let has = |bit: i64, value: i64| (which >> bit & 1 == 1).then_some(value);
            let payload = match which >> 4 & 7 {
                1 => Some(Payload::Unsigned(at)),
                2 => Some(Payload::Integer(-at)),
                3 => Some(Payload::Float(at as f64 / 2.0)),
                4 => Some(Payload::Truth(at % 2 == 0)),
                _ => None,
            };
            let from = rows.json().len();
            rows.json().extend(has(7, at).map(|at| at.to_string()).unwrap_or_default().bytes());
            let json = has(7, 0).map(|_| from..rows.json().len());
            let color = has(2, at).map(|at| at as u32);
            let (thread, domain) = (2 + has(8, 1).unwrap_or(0), 4 + has(9, 1).unwrap_or(0));
            let (number, category, end_thread) = (has(0, at), has(1, at + 1), has(3, at + 2));
            let parent = (at % 3 > 0).then_some(at + 5);
            let numbers = has(10, 0).map(|_| Numbers { span: at + 3, call: at + 4, parent });
            RangeRow { thread, domain, number, category, color, end_thread, payload, numbers, json, ..plain(at) }
        };
        let mut add = |rows: &mut Rows, which: Option<i64>| {
            let row = match which {
                Some(which) => Row::Range(with(rows, all, which)),
                None => {
                    let text = all.to_string().into();
                    Row::Text { start: all, kind: 34, category: None, text, thread: 2, domain: 4, json: None }
                }
            };
            if rows.add(row) {
                assert_eq!(rows.len(), WAITING);
                rows.write(&connection).unwrap();
            }
            expected.push(which);
            all += 1;
        };
        for length in (0..150).chain([0, 500, 0, 1]) {
            (0..length).for_each(|_| add(&mut rows, Some(0)));
            add(&mut rows, Some(length % 2048));
            add(&mut rows, None);
        }
        for shape in 0..2048 {
            (0..shape % 21).for_each(|_| add(&mut rows, Some(shape)));
        }
        // Of one shape that has statements of its own, but of two threads and two domains in turn.
        for turn in 0..40 {
            let either = [0, 1, 3, 2][turn as usize % 4]; // one of them changes at a time
            (0..turn).for_each(|_| add(&mut rows, Some(either << 8)));
        }
        for mixed in 0..5_000 {
            add(&mut rows, Some(mixed * 7 % 2048));
        }
        rows.write(&connection).unwrap();
        assert_eq!(rows.len(), 0);
        let columns = "SELECT start, end, eventType, globalTid, textId, domainId, rangeId, category, color, endGlobalTid, uint64Value,
            int64Value, doubleValue, uint32Value, jsonText, text, spanId, callId, parentId FROM NVTX_EVENTS ORDER BY rowid";
        let mut statement = connection.prepare(columns).unwrap();
        let mut found = statement.query([]).unwrap();
        for (at, which) in expected.iter().enumerate() {
            let (at, row) = (at as i64, found.next().unwrap().unwrap());
            let integer = |column: usize| row.get::<_, Option<i64>>(column).unwrap();
            let has = |bit: i64| which.is_some_and(|which| which >> bit & 1 == 1);
            let payload = which.map_or(0, |which| which >> 4 & 7);
            let kind = if which.is_none() { 34 } else { 59 + i64::from(has(0)) };
            let (range, domain) = (which.map(|_| at), 4 + i64::from(has(9)));
            let common = [integer(0), integer(1), integer(2), integer(3), integer(4), integer(5)];
            let thread = 2 + i64::from(has(8));
            let wanted =
                [Some(at), range.map(|at| at + 1), Some(kind), Some(thread), range.map(|at| at + 3), Some(domain)];
            assert_eq!(common, wanted, "{at}: {which:?}");
            let others = [integer(6), integer(7), integer(8), integer(9), integer(10), integer(11), integer(13)];
            let if_has = |bit, value| has(bit).then_some(value);
            let of_payload = |number, value| (payload == number).then_some(value);
            let wanted = [
                if_has(0, at),
                if_has(1, at + 1),
                if_has(2, at),
                if_has(3, at + 2),
                of_payload(1, at),
                of_payload(2, -at),
                of_payload(4, i64::from(at % 2 == 0)),
            ];
            assert_eq!(others, wanted, "{at}: {which:?}");
            assert_eq!(row.get::<_, Option<f64>>(12).unwrap(), (payload == 3).then_some(at as f64 / 2.0));
            assert_eq!(row.get::<_, Option<String>>(14).unwrap(), has(7).then(|| at.to_string()), "{at}: {which:?}");
            assert_eq!(row.get::<_, Option<String>>(15).unwrap(), which.is_none().then(|| at.to_string()));
            let numbers = [if_has(10, at + 3), if_has(10, at + 4), if_has(10, at + 5).filter(|_| at % 3 > 0)];
            assert_eq!([integer(16), integer(17), integer(18)], numbers, "{at}: {which:?}");
        }
        assert!(found.next().unwrap().is_none());
    }
}

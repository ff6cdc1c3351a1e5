//! Rows of `NVTX_EVENTS`, written many by one statement.
//!
//! A statement costs as much as what it does for one row: with 64 rows a statement, a range takes half the time. So rows wait here, at most [`WAITING`], and are
//! written in the order in which they came. Ranges with nothing but a name go by 64 and by 8; what else there is goes one by one, with statements that are looked up
//! once for all that wait.

use rusqlite::{CachedStatement, Connection, params};

/// Rows that wait at most.
pub(super) const WAITING: usize = 256;

/// Columns of a range with nothing but a name, and its values of them.
const PLAIN: &str = "start,end,eventType,globalTid,textId,domainId";
const PLAIN_VALUES: &str = "(?,?,59,?,?,?)";
/// Rows a statement. Without `OR FAIL` one with many would have a journal of its own, for the case that it fails in the middle; then all is rolled back anyway.
const SIZES: [usize; 3] = [64, 8, 1];

const RICH: &str =
    "INSERT INTO NVTX_EVENTS(start,end,eventType,globalTid,textId,domainId,rangeId,category,color,endGlobalTid,
    uint64Value,int64Value,doubleValue,uint32Value,jsonText)VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
const TEXT: &str = "INSERT INTO NVTX_EVENTS(start,eventType,category,text,globalTid,domainId)VALUES(?,?,?,?,?,?)";

/// A row.
#[derive(Clone, Debug)]
pub(super) enum Row {
    /// A push/pop range with nothing but a name.
    Plain(Plain),
    Rich(Box<Rich>),
    /// A mark, or the name of a domain or category.
    Text {
        start: i64,
        kind: i64,
        category: Option<i64>,
        text: Box<str>,
        thread: i64,
        domain: i64,
    },
}

/// What every range has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) thread: i64,
    pub(super) text: i64,
    pub(super) domain: i64,
}

/// A range with more than that.
#[derive(Clone, Debug)]
pub(super) struct Rich {
    pub(super) plain: Plain,
    pub(super) kind: i64,
    pub(super) number: Option<i64>,
    pub(super) category: Option<i64>,
    pub(super) color: Option<u32>,
    pub(super) end_thread: Option<i64>,
    pub(super) unsigned: Option<i64>,
    pub(super) integer: Option<i64>,
    pub(super) float: Option<f64>,
    pub(super) truth: Option<bool>,
    pub(super) json: Option<String>,
}

/// The rows that wait, and how they are written.
#[derive(Debug)]
pub(super) struct Rows {
    waiting: Vec<Row>,
    /// By size.
    plain: [String; SIZES.len()],
}

impl Rows {
    pub(super) fn new() -> Self {
        let of = |rows| format!("INSERT OR FAIL INTO NVTX_EVENTS({PLAIN})VALUES{}", vec![PLAIN_VALUES; rows].join(","));
        Self { waiting: Vec::with_capacity(WAITING), plain: SIZES.map(of) }
    }

    /// Whether it is time to write them.
    pub(super) fn add(&mut self, row: Row) -> bool {
        self.waiting.push(row);
        self.waiting.len() >= WAITING
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Writes all that wait. After an error none waits, and the transaction is to be rolled back.
    pub(super) fn write(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let written = self.write_all(connection);
        self.waiting.clear();
        written
    }

    fn write_all(&self, connection: &Connection) -> rusqlite::Result<()> {
        let prepared = |sql: &'_ str| connection.prepare_cached(sql);
        let (mut rich, mut text) = (prepared(RICH)?, prepared(TEXT)?);
        let [first, second, third] = self.plain.each_ref();
        let mut plain = [prepared(first)?, prepared(second)?, prepared(third)?];
        let mut rest = self.waiting.as_slice();
        while let Some(first) = rest.first() {
            let alike = rest.iter().take_while(|row| matches!(row, Row::Plain(_))).count();
            let (run, after) = rest.split_at(alike.max(1));
            rest = after;
            match first {
                Row::Plain(_) => write_plain(run, &mut plain)?,
                Row::Rich(row) => execute_rich(&mut rich, row)?,
                Row::Text { start, kind, category, text: words, thread, domain } => {
                    text.execute(params![start, kind, category, words, thread, domain])?;
                }
            }
        }
        Ok(())
    }
}

/// `statements` by size.
fn write_plain(mut run: &[Row], statements: &mut [CachedStatement<'_>; SIZES.len()]) -> rusqlite::Result<()> {
    while let Some((rows, statement)) =
        SIZES.into_iter().zip(statements.iter_mut()).find(|(rows, _)| *rows <= run.len())
    {
        let (these, rest) = run.split_at(rows);
        run = rest;
        let mut parameter = 0;
        for row in these {
            let Row::Plain(Plain { start, end, thread, text, domain }) = row else { continue };
            for value in [start, end, thread, text, domain] {
                parameter += 1;
                statement.raw_bind_parameter(parameter, value)?;
            }
        }
        statement.raw_execute()?;
    }
    Ok(())
}

fn execute_rich(statement: &mut CachedStatement<'_>, row: &Rich) -> rusqlite::Result<()> {
    let Plain { start, end, thread, text, domain } = row.plain;
    statement.execute(params![
        start,
        end,
        row.kind,
        thread,
        text,
        domain,
        row.number,
        row.category,
        row.color,
        row.end_thread,
        row.unsigned,
        row.integer,
        row.float,
        row.truth,
        row.json
    ])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever runs of plain ranges come between others, and however many wait: all are written, in their order.
    #[test]
    fn rows_are_in_the_order_in_which_they_came() {
        let connection = Connection::open_in_memory().unwrap();
        connection.set_prepared_statement_cache_capacity(32);
        let columns = "start,end,eventType,globalTid,textId,domainId,rangeId,category,color,endGlobalTid,uint64Value,int64Value,doubleValue,
            uint32Value,jsonText,text";
        connection.execute_batch(&format!("CREATE TABLE NVTX_EVENTS({columns})")).unwrap();
        let (mut rows, mut all) = (Rows::new(), 0);
        let mut waits = |rows: &mut Rows, row: &dyn Fn(i64) -> Row| {
            if rows.add(row(all)) {
                assert_eq!(rows.len(), WAITING);
                rows.write(&connection).unwrap();
            }
            all += 1;
        };
        let plain = |at| Plain { start: at, end: at + 1, thread: at + 2, text: at + 3, domain: at + 4 };
        for length in (0..150).chain([0, 500, 0, 1]) {
            (0..length).for_each(|_| waits(&mut rows, &|at| Row::Plain(plain(at))));
            waits(&mut rows, &|at| {
                let (number, category) = (Some(at), None);
                let (color, end_thread, unsigned, integer, float) = (Some(7), None, None, Some(at), Some(0.5));
                let (truth, json) = (Some(true), Some("{}".to_owned()));
                let plain = plain(at);
                let kind = 60;
                Row::Rich(Box::new(Rich {
                    plain,
                    kind,
                    number,
                    category,
                    color,
                    end_thread,
                    unsigned,
                    integer,
                    float,
                    truth,
                    json,
                }))
            });
            waits(&mut rows, &|at| {
                let text = at.to_string().into();
                Row::Text { start: at, kind: 34, category: None, text, thread: at + 2, domain: at + 4 }
            });
        }
        rows.write(&connection).unwrap();
        assert_eq!(rows.len(), 0);
        let wrong = "SELECT count(*) FROM NVTX_EVENTS WHERE start <> rowid - 1 OR globalTid <> start + 2 OR domainId <> start + 4
            OR eventType = 59 AND (end <> start + 1 OR textId <> start + 3 OR rangeId IS NOT NULL)
            OR eventType = 60 AND (end <> start + 1 OR textId <> start + 3 OR rangeId <> start OR int64Value <> start OR jsonText <> '{}')
            OR eventType = 34 AND text <> CAST(start AS TEXT)";
        let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!((count(wrong), count("SELECT count(*) FROM NVTX_EVENTS")), (0, all));
        assert_eq!(count("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59"), (0..150).sum::<i64>() + 501);
    }
}

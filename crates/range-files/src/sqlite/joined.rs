//! Databases of several processes as one: that of the process that began first, with the rows of the others.

use std::fs::File;
use std::io;
use std::path::Path;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Result};

use crate::part::{Part, unreadable};

/// The numbers of spans and calls of two neighbouring processes differ by two to this power.
const APART: u32 = 40;

const BEGIN: &str = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
    PRAGMA temp_store = MEMORY; CREATE TEMP TABLE strings (old INTEGER PRIMARY KEY, new INTEGER NOT NULL);
    CREATE UNIQUE INDEX joinedStrings ON StringIds (value)";
/// Tables that are alike in all databases, or are joined in another way than row by row.
const APART_TABLES: &str = "name LIKE 'ENUM_%' OR name LIKE 'META_DATA_%' OR name = 'StringIds'";
/// What is known of a process, except for the moment from which all times count.
const OF_PROCESS: &str = "name LIKE 'TRACING_GPU:%' AND name <> 'TRACING_GPU:STARTED_UNIX_NS'";
const STRINGS: &str = "INSERT OR IGNORE INTO main.StringIds (value) SELECT value FROM part.StringIds ORDER BY id;
    DELETE FROM temp.strings;
    INSERT INTO temp.strings SELECT old.id, new.id FROM part.StringIds AS old JOIN main.StringIds AS new USING (value);";
/// A device that several processes used has one row, because reports double its operations otherwise.
const END: &str = "DROP INDEX joinedStrings;
    DELETE FROM TARGET_INFO_GPU WHERE rowid NOT IN (SELECT MIN(rowid) FROM TARGET_INFO_GPU GROUP BY id);
    INSERT INTO ANALYSIS_DETAILS SELECT globalVid, MAX(duration), 0, MAX(stopTime) FROM ANALYSIS_DETAILS GROUP BY 1;
    DELETE FROM ANALYSIS_DETAILS WHERE rowid < (SELECT MAX(rowid) FROM ANALYSIS_DETAILS)";

/// Opens a database. If its process was killed during a commit, SQLite undoes that.
fn open(path: &Path) -> Result<Connection> {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
}

fn failed(error: rusqlite::Error) -> io::Error {
    io::Error::other(error)
}

/// Who wrote a database, and when that process began. None if there are no tables yet.
pub(crate) fn began(path: &Path) -> io::Result<Option<(u32, u64)>> {
    let began = || {
        let connection = open(path)?;
        if connection.query_row("SELECT COUNT(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0))? == 0 {
            return Ok(None);
        }
        let query = "SELECT pid, (SELECT CAST(value AS INTEGER) FROM META_DATA_CAPTURE
            WHERE name = 'TRACING_GPU:STARTED_UNIX_NS') FROM PROCESSES";
        let began = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<i64>>(1)?.unwrap_or(0) as u64));
        connection.query_row(query, [], began).optional()
    };
    began().map_err(failed)
}

/// Writes all rows of all databases.
pub(crate) fn join(parts: &[Part<'_>], to: &Path) -> io::Result<()> {
    let Some((first, others)) = parts.split_first() else { return Ok(()) };
    io::copy(&mut File::open(first.path)?, &mut File::create_new(to)?)?;
    let connection = open(to).map_err(failed)?;
    let names = format!("UPDATE META_DATA_CAPTURE SET name = name || ':{}' WHERE {OF_PROCESS}", first.pid);
    connection.execute_batch(BEGIN).and_then(|()| connection.execute_batch(&names)).map_err(failed)?;
    let tables = tables(&connection).map_err(failed)?;
    for part in others {
        add(&connection, &tables, part).map_err(|error| unreadable(part.path, &error))?;
    }
    connection.execute_batch(END).map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))
}

/// The tables whose rows are copied, with their columns.
fn tables(connection: &Connection) -> Result<Vec<(String, Vec<String>)>> {
    let list =
        |query: &str| connection.prepare(query)?.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>>>();
    let tables = list(&format!("SELECT name FROM sqlite_master WHERE type = 'table' AND NOT ({APART_TABLES})"))?;
    let columns = |table: &String| list(&format!("SELECT name FROM pragma_table_info('{table}')"));
    tables.into_iter().map(|table| columns(&table).map(|columns| (table, columns))).collect()
}

/// Adds the rows of a database.
fn add(connection: &Connection, tables: &[(String, Vec<String>)], part: &Part<'_>) -> Result<()> {
    let path = part.path.as_os_str().as_encoded_bytes();
    connection.execute("ATTACH ? AS part", [ToSqlOutput::Borrowed(ValueRef::Text(path))])?;
    let mut copies = format!("BEGIN; {STRINGS}");
    for (table, columns) in tables {
        let values: Vec<String> = columns.iter().map(|column| value(column, part)).collect();
        let (columns, values) = (columns.join(","), values.join(","));
        copies += &format!("INSERT INTO main.{table} ({columns}) SELECT {values} FROM part.{table} ORDER BY rowid;");
    }
    copies += &format!(
        "INSERT INTO main.META_DATA_CAPTURE SELECT name || ':{}', value FROM part.META_DATA_CAPTURE WHERE {OF_PROCESS};
        COMMIT; DETACH part",
        part.pid
    );
    connection.execute_batch(&copies)
}

/// A value of a row in the joined database: by its clock, its strings, and its numbers of spans and calls.
fn value(column: &str, part: &Part<'_>) -> String {
    match column {
        "start" | "end" | "duration" | "stopTime" => format!("{column} + {}", part.later_ns),
        "textId" | "nameId" | "demangledName" | "shortName" | "mangledName" => {
            format!("(SELECT new FROM temp.strings WHERE old = {column})")
        }
        "spanId" | "callId" | "parentId" | "rangeId" => {
            format!("CASE WHEN {column} > 0 THEN {column} + {} ELSE {column} END", u64::from(part.place) << APART)
        }
        _ => column.to_owned(),
    }
}

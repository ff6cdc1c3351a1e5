//! A database that is written from its first row to its last: opened over what was there, in large transactions, and
//! errors that say what is in the way.
//!
//! The journal is a rollback journal on disk. Rows are appended, so it holds the few old pages that a transaction
//! changes, and costs nothing that can be measured (as with the journal in memory or none; a write-ahead log is
//! slower). Without one, some kills left a database that was beyond repair; and what is in a write-ahead log is not
//! seen by `nsys stats`, which opens files as immutable.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Params};

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
use super::descriptors;
use super::rows::{Row, Rows};
use rustc_hash::FxHashMap;

/// Rows after which a transaction is committed, if nobody asks for it before.
const ROWS: usize = 100_000;

/// Pages of a transaction that are kept in memory, in KiB. Those beyond are written before the commit, which is the
/// shorter for it: they are pages that nothing in the file refers to yet.
const CACHE: u32 = 2000;

/// Bytes of a page: with larger ones, less is done for each, and an eighth of the time goes; but each of the tables has
/// one, and a commit writes some anew.
const PAGE: u32 = 16 * 1024;

/// `SQLITE_READONLY_DIRECTORY`.
const READONLY_DIRECTORY: i32 = 8 | 6 << 8;

#[derive(Debug)]
pub(super) struct File {
    path: PathBuf,
    connection: Connection,
    /// Rows since the last commit; `None` outside of a transaction.
    rows: Option<usize>,
    waiting: Rows,
}

impl File {
    /// Makes the database, or empties the one that is there, and locks it until it is closed.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        // Absolute: SQLite has names of its own that are no files, such as `:memory:`.
        let path = std::path::absolute(path).map_err(|error| because(error.kind(), &error))?;
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => return Err(because(io::ErrorKind::IsADirectory, "is a directory")),
            Ok(found) if !found.is_file() => {
                return Err(because(io::ErrorKind::InvalidInput, "is no ordinary file"));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(because(error.kind(), &error)),
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = connect(&path, flags).map_err(|error| failure(&path, &error))?;
        prepare(&connection).map_err(|error| failure(&path, &error))?;
        Ok(Self { path, connection, rows: Some(0), waiting: Rows::new() })
    }

    /// Executes a statement that is used again and again.
    pub(super) fn run(&mut self, sql: &str, values: impl Params) -> io::Result<()> {
        self.begin()?;
        let run = self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
        run.map_err(|error| failure(&self.path, &error))?;
        self.count(1)
    }

    /// Adds a row to `NVTX_EVENTS`. It waits for others, at most until the next commit.
    pub(super) fn add(&mut self, row: Row) -> io::Result<()> {
        if self.waiting.add(row) { self.write_waiting() } else { Ok(()) }
    }

    /// Where the JSON of the row goes that is added next.
    pub(super) const fn json(&mut self) -> &mut Vec<u8> {
        self.waiting.json()
    }

    fn write_waiting(&mut self) -> io::Result<()> {
        let rows = self.waiting.len();
        if rows == 0 {
            return Ok(());
        }
        self.begin()?;
        self.waiting.write(&self.connection).map_err(|error| failure(&self.path, &error))?;
        self.count(rows)
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.rows.is_none() {
            self.batch("BEGIN EXCLUSIVE")?;
            self.rows = Some(0);
        }
        Ok(())
    }

    fn count(&mut self, rows: usize) -> io::Result<()> {
        let rows = self.rows.unwrap_or(0) + rows;
        self.rows = Some(rows);
        if rows >= ROWS { self.commit() } else { Ok(()) }
    }

    /// Executes statements that are used once, within the transaction that is open.
    pub(super) fn batch(&mut self, sql: &str) -> io::Result<()> {
        self.connection.execute_batch(sql).map_err(|error| failure(&self.path, &error))
    }

    pub(super) fn commit(&mut self) -> io::Result<()> {
        self.write_waiting()?;
        if self.rows.take().is_some() { self.batch("COMMIT") } else { Ok(()) }
    }

    pub(super) fn close(self) -> io::Result<()> {
        self.connection.close().map_err(|(_, error)| failure(&self.path, &error))
    }
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    Connection::open_with_flags_and_vfs(path, flags, descriptors::vfs())
}

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, flags)
}

/// Takes the lock, throws away what the file held, and begins the first transaction. What happens between is safe from
/// other processes that do the same: one of them gets the lock, and keeps it.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::ZERO)?;
    connection.set_prepared_statement_cache_capacity(48);
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "page_size", PAGE)?; // of the file that begins
    // Emptied by SQLite, whatever it was: nothing is read of it but its locks.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
    let emptied = connection.execute_batch("VACUUM");
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
    emptied?;
    connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "cache_size", -i64::from(CACHE))?;
    connection.execute_batch("BEGIN EXCLUSIVE")
}

/// Without the path, which whoever opens the sink names.
fn because(kind: io::ErrorKind, what: impl std::fmt::Display) -> io::Error {
    io::Error::new(kind, what.to_string())
}

fn failure(path: &Path, error: &rusqlite::Error) -> io::Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            because(io::ErrorKind::ResourceBusy, "is open elsewhere, maybe in another process")
        }
        Some(ErrorCode::DiskFull) => because(io::ErrorKind::StorageFull, "the disk is full"),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            let no_journal = error.sqlite_error().is_some_and(|error| error.extended_code == READONLY_DIRECTORY);
            let what =
                if no_journal { "its folder cannot be written, where the journal goes" } else { "cannot be written" };
            because(io::ErrorKind::PermissionDenied, what)
        }
        // SQLite does not say why. The same attempt does; the file is not open here, so no lock of this process is on
        // it.
        Some(ErrorCode::CannotOpen) => match fs::OpenOptions::new().append(true).create(true).open(path) {
            Err(error) => because(error.kind(), &error),
            Ok(_) => because(io::ErrorKind::Other, error),
        },
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        Some(ErrorCode::SystemIoFailure) if descriptors::any_was_closed() => {
            because(io::ErrorKind::Other, "the program has closed its descriptor")
        }
        _ => because(io::ErrorKind::Other, error),
    }
}

/// `StringIds`: texts that are met again and again are in the file once. Bounded by what comes: names of ranges,
/// threads, kernels and functions, which the profiler bounds. Texts of marks are not kept here.
#[derive(Debug, Default)]
pub(super) struct Strings(FxHashMap<Box<str>, i64>);

impl Strings {
    pub(super) fn id(&mut self, file: &mut File, text: &str) -> io::Result<i64> {
        if let Some(&id) = self.0.get(text) {
            return Ok(id);
        }
        // From 1: importers of Nsight Systems give 0 to what they cannot find.
        let id = self.0.len() as i64 + 1;
        file.run("INSERT INTO StringIds VALUES (?, ?)", (id, text))?;
        self.0.insert(text.into(), id);
        Ok(id)
    }
}

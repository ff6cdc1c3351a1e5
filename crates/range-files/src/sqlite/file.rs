//! A database that is written from its first row to its last. It replaces any existing contents, uses large
//! transactions, and has errors that name the obstacle.
//!
//! The journal is a rollback journal on disk. Rows are appended, so the journal holds only the few old pages that a
//! transaction changes. Its cost is too small to be measured; a write-ahead log is slower. Without a journal, some
//! kills left a database beyond repair. And `nsys stats` opens files as immutable, so it does not read a write-ahead
//! log.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Params};

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
use super::descriptors;
use super::ids::Ids;
use super::rows::{Row, Rows};
use rustc_hash::FxHashMap;

/// Number of rows after which a transaction is committed, unless a flush commits it earlier.
const ROWS: usize = 100_000;

/// Memory for pages of a transaction, in KiB. Further pages are written before the commit, which is then shorter.
/// Nothing in the file refers to these pages yet.
const CACHE: u32 = 2000;

/// Bytes of a page. Larger pages need less work, an eighth of the time. But each table has at least one page, and a
/// commit writes some pages again.
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
    pub(super) ids: Ids,
    /// `StringIds`: repeated texts are in the file once. The profiler bounds their number: they are names of ranges,
    /// threads, kernels and functions. Texts of marks are not kept here.
    strings: FxHashMap<Box<str>, i64>,
}

impl File {
    /// Makes the database, or empties the one that is there, and locks it until it is closed.
    pub(super) fn create(path: &Path, ids: Ids) -> io::Result<Self> {
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
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        let connection = Connection::open_with_flags_and_vfs(&path, flags, descriptors::vfs());
        #[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
        let connection = Connection::open_with_flags(&path, flags);
        let connection = connection.map_err(|error| failure(&path, &error))?;
        prepare(&connection).map_err(|error| failure(&path, &error))?;
        Ok(Self { path, connection, rows: Some(0), waiting: Rows::new(), ids, strings: FxHashMap::default() })
    }

    /// Executes a statement that is used again and again.
    pub(super) fn run(&mut self, sql: &str, values: impl Params) -> io::Result<()> {
        self.begin()?;
        let run = self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
        run.map_err(|error| failure(&self.path, &error))?;
        self.count(1)
    }

    /// The number of a text in `StringIds`.
    pub(super) fn string(&mut self, text: &str) -> io::Result<i64> {
        if let Some(&id) = self.strings.get(text) {
            return Ok(id);
        }
        // Numbers begin at 1, because importers of Nsight Systems use 0 for an unknown text.
        let id = self.strings.len() as i64 + 1;
        self.run("INSERT INTO StringIds VALUES (?, ?)", (id, text))?;
        self.strings.insert(text.into(), id);
        Ok(id)
    }

    /// Adds a row to `NVTX_EVENTS`. It waits for others, at most until the next commit.
    pub(super) fn add(&mut self, row: Row) -> io::Result<()> {
        if self.waiting.add(row) { self.write_waiting() } else { Ok(()) }
    }

    /// The buffer for the JSON of the next row.
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

    /// Executes statements that are used once, in the open transaction.
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

/// Takes the lock, discards the contents of the file, and begins the first transaction. Several processes may do this
/// at once: one of them gets the lock, and keeps it.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::ZERO)?;
    connection.set_prepared_statement_cache_capacity(48);
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "page_size", PAGE)?; // of the new file
    // SQLite empties the file whatever it contains, and reads nothing of it except its locks.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, true)?;
    let emptied = connection.execute_batch("VACUUM");
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_RESET_DATABASE, false)?;
    emptied?;
    connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "cache_size", -i64::from(CACHE))?;
    connection.execute_batch("BEGIN EXCLUSIVE")
}

/// An error without the path: the caller that opens the sink adds it.
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
        // SQLite gives no reason, so the system is asked for one. The file is not open here, so closing it releases no
        // lock of this process.
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

//! The database file: obstacles to opening it, existing contents, and what remains after a kill.

use super::*;

/// A killed process leaves all flushed rows. Of the other rows it loses at most the last 100,000, and the few hundred
/// that wait for one statement.
#[test]
fn what_was_committed_stays_without_an_end() {
    let place = Place::new("committed");
    let count = |at_least: u64| {
        let found = rows(&place.file(), "SELECT count(*) FROM NVTX_EVENTS")[0].parse::<u64>().unwrap();
        assert!((at_least..at_least + 10).contains(&found), "{found} rows, {at_least} committed");
        assert_eq!(rows(&place.file(), "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE '%COMPLETE'"), ["false"]);
    };
    for (flushed, more, kept) in [(3, 2, 3), (0, 100_261, 100_090), (0, 99_000, 0)] {
        let mut sink = Sqlite::new(place.file());
        sink.begin(&process()).unwrap();
        let range = |at: u64| Item::Range(range("r", 10 * at, 10 * at + 5, 0));
        (0..flushed).for_each(|at| sink.item(&range(at)).unwrap());
        if flushed > 0 {
            sink.flush().unwrap();
        }
        (0..more).for_each(|at| sink.item(&range(flushed + at)).unwrap());
        drop(sink);
        count(kept);
    }
}

fn refused(path: &Path) -> io::Error {
    let error = Sqlite::new(path).begin(&process()).unwrap_err();
    assert!(!error.to_string().contains('/'), "whoever asked names the file: {error}");
    error
}

#[test]
fn a_file_that_cannot_be_written_is_one_error() {
    let place = Place::new("errors");
    for (path, kind, said) in [
        (place.0.clone(), io::ErrorKind::IsADirectory, "is a directory"),
        (PathBuf::from("/dev/full"), io::ErrorKind::InvalidInput, "is no ordinary file"),
        (place.0.join("none/run.sqlite"), io::ErrorKind::NotFound, "No such file or directory (os error 2)"),
        (PathBuf::from("/proc/run.sqlite"), io::ErrorKind::NotFound, "No such file or directory (os error 2)"),
    ] {
        let error = refused(&path);
        assert_eq!((error.kind(), error.to_string()), (kind, said.to_owned()));
    }
    fs::write(place.file(), "text").unwrap();
    let error = refused(&place.file().join("run.sqlite"));
    assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{error}");
}

#[test]
fn a_file_that_is_open_elsewhere_is_left_alone() {
    let place = Place::new("locked");
    let mut first = Sqlite::new(place.file());
    first.begin(&process()).unwrap();
    first.item(&Item::Range(range("kept", 1, 2, 0))).unwrap();
    first.flush().unwrap();
    let error = refused(&place.file());
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "{error}");
    first.item(&Item::Range(range("kept", 3, 4, 0))).unwrap();
    first.end(&Summary::default(), 0).unwrap();
    assert_eq!(rows(&place.file(), "SELECT count(*) FROM NVTX_EVENTS"), ["2"]);

    let reader = Connection::open(place.file()).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM NVTX_EVENTS").unwrap();
    assert_eq!(refused(&place.file()).kind(), io::ErrorKind::ResourceBusy);
}

#[test]
fn what_was_there_is_overwritten() {
    let place = Place::new("overwrite");
    let write = || {
        let mut sink = Sqlite::new(place.file());
        sink.begin(&process()).unwrap();
        sink.item(&Item::Range(range("new", 1, 2, 0))).unwrap();
        sink.end(&Summary::default(), 0).unwrap();
        assert_eq!(rows(&place.file(), "SELECT count(*) FROM NVTX_EVENTS"), ["1"]);
        assert_eq!(rows(&place.file(), "PRAGMA integrity_check"), ["ok"]);
        assert_eq!(rows(&place.file(), "PRAGMA journal_mode"), ["delete"]);
        assert_eq!(place.left(), ["run.sqlite"]);
    };
    write();
    let size = fs::metadata(place.file()).unwrap().len();
    write(); // one of our own
    assert_eq!(fs::metadata(place.file()).unwrap().len(), size);
    for text in ["text, and no database".repeat(10_000), String::new(), "SQLite format 3\0 but not really".to_owned()] {
        fs::write(place.file(), text).unwrap();
        write();
        assert_eq!(fs::metadata(place.file()).unwrap().len(), size);
    }
    // Another database, as a process that was killed leaves it: with a log.
    let other = Connection::open(place.file()).unwrap();
    other
        .execute_batch(
            "PRAGMA page_size=8192; PRAGMA journal_mode=WAL; CREATE TABLE other (x); INSERT INTO other VALUES (1)",
        )
        .unwrap();
    let log = place.0.join("run.sqlite-wal");
    let (database, kept) = (fs::read(place.file()).unwrap(), fs::read(&log).unwrap());
    assert!(!kept.is_empty());
    drop(other);
    fs::write(place.file(), database).unwrap();
    fs::write(&log, kept).unwrap();
    write();
    assert_eq!(rows(&place.file(), "SELECT count(*) FROM sqlite_master WHERE name = 'other'"), ["0"]);
}

#[test]
fn nothing_is_written_after_the_end_or_an_error() {
    let place = Place::new("ended");
    let mut sink = Sqlite::new(place.file());
    assert!(sink.item(&Item::Range(range("early", 1, 2, 0))).is_err());
    sink.begin(&process()).unwrap();
    sink.end(&Summary::default(), 0).unwrap();
    let error = sink.flush().unwrap_err().to_string();
    assert!(error.contains("not open"), "{error}");
}

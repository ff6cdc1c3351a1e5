//! A file with the rows of this process and their names, which survives `_exit`, a crash and SIGKILL, because writes to
//! a mapped file remain.
//!
//! Rows lie in the file unchanged, in blocks that are mapped where a thread would have them in memory. So counting an
//! instance costs the same as in memory. The constant part of a row is logged once, when the row is new. Rows of calls
//! lie in separate pages, and the log has the place of each.
//!
//! ```text
//! file:  log block | rows of thread 0 | rows of thread 1 | log block | more rows of thread 0 | ...
//! log:   words written, then records: kind and length, words. The first is of the process; the last of a full block
//!        says where the next block is.
//! ```
//!
//! All room is taken from the file system before it is mapped, so that a full disk ends no program. If a file system
//! cannot promise room, or the file cannot be reopened, further rows are in memory alone, and the file records that.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

use parking_lot::Mutex;

/// Words of the first block of the log, and of later ones.
const FIRST_LOG: usize = (16 << 10) / 8;
const NEXT_LOG: usize = (64 << 10) / 8;
/// The smallest number of words mapped at once for durations.
const SPARE: usize = (16 << 10) / 8;
/// Words at the start of the first block: its fill count, the losses, and the system's first error.
const HEAD: usize = 6;
const ERROR: usize = 5;
/// Words of a record with the place of the next block.
const LINK: usize = 2;
/// The kind of that record. The caller defines the other kinds.
const NEXT: u64 = 0;
/// Blocks of rows begin at a page boundary.
const PAGE: usize = 4096;

/// Losses that the file counts, by their place in it.
#[derive(Clone, Copy)]
pub(crate) enum Lost {
    /// Rows and records that are not in the file.
    Rows = 1,
    /// Ranges that were not followed.
    Spans = 2,
    /// Ends of ranges that were not open.
    Exits = 3,
    /// Measurements other than ranges.
    Others = 4,
}

/// The row file of one process, open for writing.
#[derive(Debug)]
pub(crate) struct RowFile {
    path: PathBuf,
    /// The same file, and its number in the file system.
    kept: Option<(File, (u64, u64))>,
    /// Called when the first row is not in the file. The caller may hold locks.
    missed: fn(),
    /// The first words of the file.
    head: &'static [AtomicU64],
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    /// The current block; its first word is its fill count.
    block: &'static [AtomicU64],
    /// Bytes of the file.
    length: u64,
    /// Which numbers the caller has logged: see [`RowFile::log_once`].
    once: Vec<bool>,
    /// The caller's mapped bytes: addresses in memory, and offset in the file.
    mapped: Vec<(Range<usize>, u64)>,
    /// Unused words for durations, and their offset in the file.
    spare: (&'static [AtomicU64], u64),
}

/// A record under construction.
#[derive(Default)]
pub(crate) struct Words(Vec<u64>);

impl Words {
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.0.push(number);
        self
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.0.push(text.len() as u64);
        let words = text.as_bytes().chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
            u64::from_ne_bytes(word)
        });
        self.0.extend(words);
        self
    }
}

impl RowFile {
    /// A new file of this name.
    ///
    /// # Errors
    /// If the file exists, or the file system cannot promise room.
    pub(crate) fn create(path: &Path, missed: fn()) -> io::Result<Self> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        let kept = || {
            may_be_mapped(&file)?;
            take_room(&file, 0, FIRST_LOG * 8)?;
            // SAFETY: no place is requested.
            let block = words(unsafe { map(&file, 0, FIRST_LOG * 8, None)? }, FIRST_LOG);
            Ok(block)
        };
        match kept() {
            Ok(block) => {
                block[0].store(HEAD as u64, Relaxed);
                let log = Log {
                    block,
                    length: (FIRST_LOG * 8) as u64,
                    once: Vec::new(),
                    mapped: Vec::new(),
                    spare: (&[], 0),
                };
                let kept = crate::process::out_of_the_way(&file);
                let kept = kept.and_then(|kept| number_of(&kept).ok().map(|number| (kept, number)));
                Ok(Self { path: path.to_owned(), kept, missed, head: &block[..HEAD], log: Mutex::new(log) })
            }
            Err(error) => {
                let _stays_empty = std::fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Removes the file; its contents are elsewhere.
    pub(crate) fn remove(&self) {
        let _gone_already = std::fs::remove_file(&self.path);
    }

    /// Counts a loss.
    pub(crate) fn count(&self, what: Lost) {
        let before = self.head[what as usize].fetch_add(1, Relaxed);
        if matches!(what, Lost::Rows) && before == 0 {
            (self.missed)();
        }
    }

    /// Length of the file.
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.log.lock().length).unwrap_or(usize::MAX)
    }

    /// Whether the file has all rows so far.
    pub(crate) fn is_whole(&self) -> bool {
        self.head[Lost::Rows as usize].load(Relaxed) == 0
    }

    /// Maps new zeroed bytes of the file, to this place or to one of the system's choice. Returns their offset in the
    /// file and their address; `None` on failure, which leaves the place unchanged.
    ///
    /// # Safety
    /// `place` has this many bytes, in whole pages, and nobody uses them yet.
    pub(crate) unsafe fn map_more(&self, bytes: usize, place: Option<*mut u8>) -> Option<(u64, *mut u8)> {
        if place.is_some_and(|place| !place.addr().is_multiple_of(PAGE)) || !bytes.is_multiple_of(PAGE) {
            return None;
        }
        let mut log = self.log.lock();
        // SAFETY: the caller vouches for the place.
        let (offset, memory) = unsafe { self.map_under(&mut log, bytes, place) }.ok()?;
        log.mapped.push((memory.addr()..memory.addr() + bytes, offset));
        Some((offset, memory))
    }

    /// The offset in the file of this address, if it is in the file.
    pub(crate) fn offset_of(&self, address: usize) -> Option<u64> {
        self.log.lock().offset_of(address)
    }

    /// Takes zeroed words outside of the rows, for the part of a row at this address. Returns the offset of the row's
    /// part, the offset of the words, and the words.
    pub(crate) fn take_words(&self, owner: usize, length: usize) -> Option<(u64, u64, &'static [AtomicU64])> {
        let mut log = self.log.lock();
        let owner = log.offset_of(owner)?;
        if log.spare.0.len() < length {
            let new = length.max(SPARE).next_multiple_of(PAGE / 8);
            // SAFETY: no place is requested.
            let (offset, memory) = unsafe { self.map_under(&mut log, new * 8, None) }.ok()?;
            log.spare = (words(memory, new), offset);
        }
        let (spare, offset) = log.spare;
        let (taken, rest) = spare.split_at(length);
        log.spare = (rest, offset + length as u64 * 8);
        Some((owner, offset, taken))
    }

    /// # Safety
    /// As for [`map_more`](Self::map_more).
    unsafe fn map_under(&self, log: &mut Log, bytes: usize, place: Option<*mut u8>) -> io::Result<(u64, *mut u8)> {
        let offset = log.length;
        let map = |file: &File| {
            take_room(file, offset, bytes)?;
            // SAFETY: the caller vouches for the place.
            unsafe { map(file, offset, bytes, place) }
        };
        let mapped = match File::options().read(true).write(true).open(&self.path) {
            Ok(file) => map(&file),
            Err(error) => self.kept().map_or(Err(error), map),
        };
        let memory = mapped.inspect_err(|error| {
            let number = error.raw_os_error().unwrap_or(libc::ENOSPC);
            let _first = self.head[ERROR].compare_exchange(0, u64::from(number.unsigned_abs()), Relaxed, Relaxed);
        })?;
        log.length += bytes as u64;
        Ok((offset, memory))
    }

    /// The file where it cannot be opened by its name: no descriptor is left, or the process has become another user,
    /// or is in a sandbox. `None` if the program has closed the descriptor, whose number may be another file's.
    fn kept(&self) -> Option<&File> {
        let (file, number) = self.kept.as_ref()?;
        number_of(file).is_ok_and(|now| now == *number).then_some(file)
    }

    pub(crate) fn log(&self, kind: u64, record: &Words) {
        self.log_under(&mut self.log.lock(), kind, record);
    }

    /// Logs a record with this number, which is made only the first time.
    pub(crate) fn log_once(&self, kind: u64, number: u32, record: impl FnOnce() -> Words) {
        let mut log = self.log.lock();
        let number = number as usize;
        if log.once.len() <= number {
            log.once.resize(number + 1, false);
        }
        if !std::mem::replace(&mut log.once[number], true) {
            self.log_under(&mut log, kind, &record());
        }
    }

    fn log_under(&self, log: &mut Log, kind: u64, Words(record): &Words) {
        let needed = 1 + record.len();
        if log.block.len() < log.written() + needed + LINK && !self.next_block(log, needed) {
            return self.count(Lost::Rows);
        }
        log.append(kind, record);
    }

    #[cold]
    fn next_block(&self, log: &mut Log, needed: usize) -> bool {
        let length = NEXT_LOG.max((1 + needed + LINK).next_multiple_of(PAGE / 8));
        // SAFETY: no place is requested.
        let Ok((offset, memory)) = (unsafe { self.map_under(log, length * 8, None) }) else { return false };
        let block = words(memory, length);
        block[0].store(1, Relaxed);
        log.append(NEXT, &[offset]);
        log.block = block;
        true
    }
}

impl Log {
    fn offset_of(&self, address: usize) -> Option<u64> {
        let (range, offset) = self.mapped.iter().find(|(range, _)| range.contains(&address))?;
        Some(offset + (address - range.start) as u64)
    }

    fn written(&self) -> usize {
        usize::try_from(self.block[0].load(Relaxed)).unwrap_or(usize::MAX)
    }

    /// The block must have room.
    fn append(&self, kind: u64, record: &[u64]) {
        let written = self.written();
        let words = std::iter::once((record.len() as u64) << 32 | kind).chain(record.iter().copied());
        let to = self.block.get(written..).unwrap_or_default();
        to.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
        self.block[0].store((written + 1 + record.len()) as u64, Release); // publishes the whole record
    }
}

/// Whether room taken from this file system stays writable. If a file system moves a write to another place of the
/// disk, there may be no room, and the program would end by SIGBUS.
fn may_be_mapped(file: &File) -> io::Result<()> {
    const EXT: i64 = 0xEF53;
    const XFS: i64 = 0x5846_5342;
    const OVERLAY: i64 = 0x794C_7630;
    let kind = kind_of_system(file)?;
    // SAFETY: reads a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    match [EXT, XFS, TMPFS, OVERLAY].contains(&kind) && usize::try_from(page) == Ok(PAGE) {
        true => Ok(()),
        false => Err(io::ErrorKind::Unsupported.into()),
    }
}

const TMPFS: i64 = 0x0102_1994;

fn number_of(file: &File) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    file.metadata().map(|there| (there.dev(), there.ino()))
}

fn kind_of_system(file: &File) -> io::Result<i64> {
    Ok(rustix::fs::fstatfs(file)?.f_type as i64)
}

fn is_in_memory(file: &File) -> io::Result<bool> {
    Ok(kind_of_system(file)? == TMPFS)
}

/// Leaves half of the file system to others: in a container `/dev/shm` has 64 MiB, and a program that finds no room
/// there ends by SIGBUS.
fn take_room(file: &File, offset: u64, bytes: usize) -> io::Result<()> {
    let system = rustix::fs::fstatvfs(file)?;
    let left = system.f_bavail.saturating_sub((bytes as u64).div_ceil(system.f_frsize.max(1)));
    if left < system.f_blocks / 2 && is_in_memory(file)? {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let mode = rustix::fs::FallocateFlags::empty();
    crate::process::without_file_limit_signal(|| Ok(rustix::fs::fallocate(file, mode, offset, bytes as u64)?))
}

/// # Safety
/// As for [`RowFile::map_more`].
unsafe fn map(file: &File, offset: u64, bytes: usize, place: Option<*mut u8>) -> io::Result<*mut u8> {
    use std::os::fd::AsRawFd as _;
    let flags = libc::MAP_SHARED | if place.is_some() { libc::MAP_FIXED } else { 0 };
    let (place, access) = (place.unwrap_or(std::ptr::null_mut()), libc::PROT_READ | libc::PROT_WRITE);
    let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the caller vouches for the place; without one, the memory is new.
    let memory = unsafe { libc::mmap(place.cast(), bytes, access, flags, file.as_raw_fd(), offset) };
    if memory == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(memory.cast()) }
}

/// The same words as counters, two in each word.
pub(crate) fn counters(words: &'static [AtomicU64]) -> &'static [AtomicU32] {
    // SAFETY: each word holds two of the smaller counters, which need no larger alignment; nobody uses the words any
    // more.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<AtomicU32>(), words.len() * 2) }
}

/// Memory of a file as words.
fn words(memory: *mut u8, length: usize) -> &'static [AtomicU64] {
    // SAFETY: these bytes were mapped just now, in whole pages and for good, and are all zero.
    unsafe { std::slice::from_raw_parts(memory.cast::<AtomicU64>(), length) }
}

/// The contents of a row file, read after the end of its process.
#[derive(Debug, Default)]
pub(crate) struct RowFileReader {
    words: Vec<u64>,
}

/// A record, and the position of the reader in it.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) kind: u64,
    words: &'a [u64],
}

impl Record<'_> {
    /// The next number; 0 beyond the end.
    pub(crate) fn number(&mut self) -> u64 {
        let Some((first, rest)) = self.words.split_first() else { return 0 };
        self.words = rest;
        *first
    }

    /// The next text.
    pub(crate) fn text(&mut self) -> String {
        let length = usize::try_from(self.number()).unwrap_or(usize::MAX);
        let (text, rest) = self.words.split_at(length.div_ceil(8).min(self.words.len()));
        self.words = rest;
        let bytes: Vec<u8> = text.iter().flat_map(|word| word.to_ne_bytes()).take(length).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl RowFileReader {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let bytes = std::fs::read(path)?;
        Ok(Self {
            words: bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or([0; 8]))).collect(),
        })
    }

    /// The number of losses of this kind.
    pub(crate) fn lost(&self, what: Lost) -> u64 {
        self.words.get(what as usize).copied().unwrap_or(0)
    }

    /// The first error that kept rows or durations out of the file.
    pub(crate) fn error(&self) -> Option<i32> {
        self.words.get(ERROR).and_then(|number| i32::try_from(*number).ok()).filter(|number| *number > 0)
    }

    /// Words of the file from this byte on.
    pub(crate) fn at(&self, offset: u64, length: usize) -> Option<&[u64]> {
        let start = usize::try_from(offset / 8).ok()?;
        self.words.get(start..start.checked_add(length)?)
    }

    /// All records, in the order in which they were logged.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let (mut block, mut at, mut blocks) = (&self.words[..], HEAD, 0);
        std::iter::from_fn(move || {
            loop {
                let written = usize::try_from(*block.first()?).ok()?;
                let head = *block.get(at).filter(|_| at < written)?;
                let (kind, length) = (head & u64::from(u32::MAX), usize::try_from(head >> 32).ok()?);
                let words = block.get(at + 1..(at + 1).checked_add(length)?)?;
                at += 1 + length;
                if kind != NEXT {
                    return Some(Record { kind, words });
                }
                let next = usize::try_from(words.first()? / 8).ok()?;
                (block, at, blocks) = (self.words.get(next..)?, 1, blocks + 1);
                if blocks > self.words.len() / NEXT_LOG {
                    return None; // a forged file
                }
            }
        })
    }
}

/// The records of a row file, read while its process writes it.
#[derive(Debug)]
pub(crate) struct RowFileTail {
    file: File,
    /// The offset of the current block, and the words of it that were read.
    block: u64,
    read: u64,
}

impl RowFileTail {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, block: 0, read: HEAD as u64 })
    }

    /// Passes the next record on. `None` if there is none yet.
    pub(crate) fn next(&mut self, take: impl FnOnce(Record<'_>)) -> Option<()> {
        loop {
            let mut word = [0];
            self.words(self.block, &mut word)?;
            if self.read >= word[0] {
                return None;
            }
            self.words(self.block.checked_add(8 * self.read)?, &mut word)?;
            let (kind, length) = (word[0] & u64::from(u32::MAX), word[0] >> 32);
            let mut words = vec![0; usize::try_from(length).ok().filter(|length| *length <= NEXT_LOG)?];
            self.words(self.block + 8 * self.read + 8, &mut words)?;
            self.read += 1 + length;
            if kind != NEXT {
                take(Record { kind, words: &words });
                return Some(());
            }
            (self.block, self.read) = (*words.first()?, 1);
        }
    }

    /// Reads words of the file from this byte on.
    pub(crate) fn words(&self, offset: u64, words: &mut [u64]) -> Option<()> {
        use std::os::unix::fs::FileExt as _;
        const AT_ONCE: usize = PAGE / 8;
        let mut bytes = [0; PAGE];
        for (number, part) in words.chunks_mut(AT_ONCE).enumerate() {
            let bytes = bytes.get_mut(..8 * part.len())?;
            self.file.read_exact_at(bytes, offset.checked_add((PAGE * number) as u64)?).ok()?;
            let read = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap_or([0; 8])));
            part.iter_mut().zip(read).for_each(|(to, word)| *to = word);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of this name in the test's own folder.
    fn path(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tracing-gpu-row-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(name);
        let _there_is_none = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn what_is_logged_is_read_again_however_many_blocks_it_takes() {
        let path = path("log");
        let file = RowFile::create(&path, || {}).unwrap();
        let mut tail = RowFileTail::open(&path).unwrap();
        assert_eq!(tail.next(|_| {}), None);
        assert!(RowFile::create(&path, || {}).is_err(), "a file of another process stays");
        let texts: Vec<String> = (0..3_000).map(|number| "é1 ".repeat(number % 90)).collect();
        for (number, text) in (0..).zip(&texts) {
            let mut record = Words::default();
            record.number(number).text(text).number(7);
            file.log(2, &record);
        }
        (0..4).for_each(|_| {
            file.log_once(3, 5, || {
                let mut record = Words::default();
                record.text("once");
                record
            });
        });
        file.count(Lost::Spans);
        let reader = RowFileReader::open(&path).unwrap();
        let mut records = reader.records();
        for (number, text) in (0..).zip(&texts) {
            let mut record = records.next().unwrap();
            assert_eq!((record.kind, record.number(), record.text(), record.number()), (2, number, text.clone(), 7));
            assert_eq!((record.number(), record.text()), (0, String::new()), "beyond its end");
            tail.next(|mut record| assert_eq!((record.number(), record.text()), (number, text.clone()))).unwrap();
        }
        let last: Vec<_> = records.map(|mut record| (record.kind, record.text())).collect();
        assert_eq!(last, [(3, "once".to_owned())]);
        assert_eq!((reader.lost(Lost::Spans), reader.lost(Lost::Rows)), (1, 0));
        file.remove();
        assert!(!path.exists());
    }

    #[test]
    fn words_for_durations_are_found_by_what_has_them() {
        let path = path("words");
        let file = RowFile::create(&path, || {}).unwrap();
        // SAFETY: no place is requested.
        let (offset, memory) = unsafe { file.map_more(2 * PAGE, None) }.unwrap();
        assert!(file.take_words(memory.addr() - 1, 8).is_none(), "not in the file");
        for (owner, length) in [(100, 16), (PAGE + 8, 3 * SPARE), (0, 256)] {
            let (of, at, words) = file.take_words(memory.addr() + owner, length).unwrap();
            assert_eq!((of, words.len()), (offset + owner as u64, length));
            words.iter().for_each(|word| word.store(owner as u64 + 1, Relaxed));
            let reader = RowFileReader::open(&path).unwrap();
            assert_eq!(reader.at(at, length).unwrap(), vec![owner as u64 + 1; length]);
        }
        // SAFETY: as above.
        assert!(unsafe { file.map_more(PAGE + 1, None) }.is_none(), "no whole page");
        file.remove();
    }

    #[test]
    fn a_file_that_somebody_else_has_made_ends_no_reading() {
        let path = path("other");
        for words in [vec![], vec![u64::MAX; 9_000], (0..9_000).map(|word| word << 32).collect::<Vec<u64>>()] {
            std::fs::write(&path, words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>()).unwrap();
            let reader = RowFileReader::open(&path).unwrap();
            assert!(reader.records().count() < 9_000 && reader.at(u64::MAX - 7, 2).is_none());
        }
        // A block that follows itself.
        let mut words = vec![0; 2 * NEXT_LOG];
        (words[0], words[HEAD], words[HEAD + 1]) = (9, 1 << 32 | NEXT, 8 * 100);
        (words[100], words[101], words[102]) = (9, 1 << 32 | NEXT, 8 * 100);
        std::fs::write(&path, words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>()).unwrap();
        assert_eq!(RowFileReader::open(&path).unwrap().records().count(), 0);
        std::fs::remove_file(&path).unwrap();
    }
}

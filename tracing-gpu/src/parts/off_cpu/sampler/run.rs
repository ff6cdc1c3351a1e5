//! The threads of other processes that keep their open ranges in row files: those of a run of the command.
//!
//! All is read from outside: the file, by offsets; and `/proc`, which the system lets a parent read. A process that it
//! may not look at has no samples.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use range_model::summary::OffCpuStats;

use crate::clock::{Ticks, rate_since, read_counter};
use crate::core::session::catalog::Limits;
use crate::parts::off_cpu::look::{Moment, Pace, Samples, look, state_file};
use crate::parts::row_file::file::RowFileTail;
use crate::parts::row_file::session::reading::RowLog;
use crate::parts::row_file::thread::state::{OPEN_BYTES, innermost_in_file};
use crate::process::monotonic_ns;

/// The longest pause between two searches for new files: two changes of the folder may have the same time.
const SEARCH: Duration = Duration::from_millis(500);
/// The largest number of descriptors that are kept for threads.
const MOST_KEPT: usize = 512;

/// Looks at the threads of a run.
#[doc(hidden)]
#[derive(Debug)]
pub struct RunSampler {
    /// The folder of the row files.
    folder: PathBuf,
    /// When it was searched, and its last change then. `None` if a file had no contents yet.
    searched: Option<(Instant, SystemTime)>,
    /// The processes by the names of their files.
    processes: BTreeMap<String, Watched>,
    pace: Pace,
}

impl RunSampler {
    /// Looks at processes with row files in this folder. To be called on the thread that looks.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, searched: None, processes: BTreeMap::new(), pace: Pace::new() }
    }

    /// Looks once at all threads that are inside of a range. Returns the pause until the next look.
    pub fn look(&mut self) -> Duration {
        let changed = fs::metadata(&self.folder).and_then(|folder| folder.modified());
        let changed = changed.unwrap_or(SystemTime::UNIX_EPOCH);
        if self.searched.is_none_or(|(searched, then)| then != changed || searched.elapsed() >= SEARCH) {
            self.searched = self.search().then(|| (Instant::now(), changed));
        }
        let moment = self.pace.begin();
        let open = self.processes.values().flat_map(|process| &process.threads);
        let mut kept = open.filter(|thread| thread.state.is_some()).count();
        for process in self.processes.values_mut() {
            process.look(moment, &mut kept);
        }
        self.pace.end()
    }

    /// The samples of each process, by the name of its file.
    #[must_use]
    pub fn finish(self) -> BTreeMap<String, Vec<OffCpuStats>> {
        let of = |process: Watched| process.samples.stats(|label| process.log.names.text_of(label));
        self.processes.into_iter().map(|(name, process)| (name, of(process))).collect()
    }

    /// Searches for the files of new processes. Returns whether all of them have contents.
    fn search(&mut self) -> bool {
        let mut is_whole = true;
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if self.processes.contains_key(&name) {
                continue;
            }
            match Watched::new(&entry.path(), &name) {
                Some(process) => _ = self.processes.insert(name, process),
                None => is_whole = false,
            }
        }
        is_whole
    }
}

/// A process that is looked at.
#[derive(Debug)]
struct Watched {
    folder: PathBuf,
    log: RowLog,
    threads: Vec<Thread>,
    samples: Samples,
    /// `None` once there is nothing to look at: an open file keeps its room on the disk.
    file: Option<RowFileTail>,
    /// When it was last seen running.
    seen: Instant,
    /// The map of its memory. It is empty once the process has ended, or executes another program under the same
    /// number. `None` once there is nothing to look at.
    maps: Option<File>,
}

#[derive(Debug)]
struct Thread {
    number: u32,
    id: u32,
    /// The offset of its state in the file.
    offset: u64,
    state: Option<File>,
}

impl Watched {
    /// The process whose file has this name: `4711`, `4711-2`. `None` if it has logged nothing yet.
    fn new(path: &Path, name: &str) -> Option<Self> {
        let mut file = RowFileTail::open(path).ok()?;
        let mut log = RowLog::new(Limits { nodes: usize::MAX, run_time_names: usize::MAX });
        file.next(|record| log.read_record(record))?;
        let folder = Path::new("/proc").join(name.split('-').next().unwrap_or_default());
        let maps = maps_with(path, &folder).ok();
        Some(Self {
            folder,
            log,
            threads: Vec::new(),
            samples: Samples::default(),
            file: Some(file),
            seen: Instant::now(),
            maps,
        })
    }

    /// Looks at its threads.
    fn look(&mut self, moment: Moment, kept: &mut usize) {
        let Some(file) = self.file.as_mut() else { return };
        let mut has_news = false;
        while file.next(|record| self.log.read_record(record)).is_some() {
            has_news = true;
        }
        if self.seen.elapsed() >= SEARCH && !self.is_running() {
            return self.give_up();
        }
        if has_news {
            self.find_threads();
        }
        let (mut is_seen, mut threads) = (false, std::mem::take(&mut self.threads));
        let mut words = [0; (OPEN_BYTES.end - OPEN_BYTES.start) as usize / 8];
        for thread in &mut threads {
            let words_at = |at| self.file.as_ref().and_then(|file| file.words(at, &mut words));
            let open = thread.offset.checked_add(OPEN_BYTES.start).and_then(words_at);
            let Some((place, start)) = open.and_then(|()| innermost_in_file(&words)) else { continue };
            if !is_seen && !self.is_running() {
                return self.give_up();
            }
            is_seen = true;
            let before = thread.state.take();
            *kept -= usize::from(before.is_some());
            let state = before.map_or_else(|| state_file(&self.folder, thread.id), Ok);
            let seen = state.and_then(|state| Ok((look(&self.folder, &state)?, state)));
            let Ok((wait, state)) = seen else { continue };
            if *kept < MOST_KEPT {
                *kept += 1;
                thread.state = Some(state);
            }
            let Some(wait) = wait else { continue };
            let label = self.log.names.catalog.nodes().get(self.log.node(place.node()) as usize);
            let Some(label) = label.map(|node| node.label) else { continue };
            self.samples.add(label, wait, moment.charge(|| open_ns(&self.log, start)));
        }
        self.threads = threads;
    }

    fn is_running(&mut self) -> bool {
        self.seen = Instant::now();
        self.maps.as_ref().is_some_and(|maps| maps.read_at(&mut [0], 0).is_ok_and(|read| read > 0))
    }

    /// The process has ended: its names and samples are all that is left of it.
    fn give_up(&mut self) {
        (self.file, self.maps, self.threads) = (None, None, Vec::new());
    }

    /// The threads with a state in the file. A new thread may have the state of one that has ended.
    fn find_threads(&mut self) {
        let mut before = std::mem::take(&mut self.threads);
        for (number, id, offset) in self.log.places_of_open() {
            let known = before.iter().position(|thread| (thread.number, thread.id) == (number, id));
            let known = known.map(|known| before.swap_remove(known));
            self.threads.push(known.unwrap_or(Thread { number, id, offset, state: None }));
        }
    }
}

/// How long a range has been open.
fn open_ns(log: &RowLog, start: Ticks) -> u64 {
    let now = if log.is_counter { read_counter() } else { monotonic_ns().saturating_sub(log.origin_ns) };
    rate_since(log.is_counter, log.origin, log.origin_ns).ns(now.saturating_sub(start).into())
}

/// The map of the memory of the process with this folder in `/proc`.
///
/// # Errors
/// If it has not mapped this file: then it is another process, because one in a container of its own has other numbers.
fn maps_with(path: &Path, process: &Path) -> io::Result<File> {
    let path = path.canonicalize()?;
    let mut maps = File::open(process.join("maps"))?;
    let mut text = Vec::new();
    maps.read_to_end(&mut text)?;
    let is_its = text.split(|byte| *byte == b'\n').any(|line| line.ends_with(path.as_os_str().as_bytes()));
    if is_its { Ok(maps) } else { Err(io::ErrorKind::NotFound.into()) }
}

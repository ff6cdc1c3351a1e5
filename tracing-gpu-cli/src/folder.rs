//! The private folder of a run: settings for the processes, and their results.
//!
//! Each process takes a name of its own: `PID`, or `PID-2` if that is taken. A process that replaces itself by `exec`
//! keeps its id, and processes of different namespaces may have the same id.

mod ended;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nvtx_rs::environment::variable;
use tracing_gpu::{RowFileSummary, Summary, SummaryExt as _, read_row_file};

/// The variable that names the folder in the environment of measured processes.
pub(crate) const VARIABLE: &str = "TRACING_GPU_RUN";
/// The variable with the former value of `CUDA_INJECTION64_PATH`.
pub(crate) const NEXT_CUDA: &str = "TRACING_GPU_NEXT_CUDA";

/// The prefix of each folder's name; the command's id and a random number follow.
const PREFIX: &str = "tracing-gpu-";
/// The settings of the measured processes.
const SETTINGS: &str = "settings";
/// The folder of the row files, or a link to it.
const ROWS: &str = "rows";
/// The files that the processes write.
const FILES: &str = "files";
/// A byte that occurs in no environment variable and no path.
const SEPARATOR: char = '\0';

/// The largest number of names with one process id in a run.
const MOST_NAMES: usize = 10_000;

/// The folder of a run.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// In the command: the settings file, locked while the command lives, see `ended`.
    lock: Option<Arc<File>>,
}

/// The part of a process that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaptureRange {
    /// All of it.
    None,
    /// From `cudaProfilerStart` to `cudaProfilerStop`.
    Cuda,
    /// The first NVTX range of this name.
    Nvtx(String),
}

impl std::str::FromStr for CaptureRange {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word.split_once(':') {
            None if word == "none" => Ok(Self::None),
            None if word == "cuda" => Ok(Self::Cuda),
            Some(("nvtx", name)) if !name.is_empty() => Ok(Self::Nvtx(name.to_owned())),
            _ => Err("expected none, cuda, or nvtx:NAME with the name of a range".to_owned()),
        }
    }
}

impl std::fmt::Display for CaptureRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Cuda => f.write_str("cuda"),
            Self::Nvtx(name) => write!(f, "nvtx:{name}"),
        }
    }
}

/// How the processes are measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) captured: CaptureRange,
    /// Texts in the grammar of `TRACING_GPU`. Later ones win. Their settings of files are ignored.
    pub(crate) texts: Vec<String>,
    /// The files by their keys in that grammar.
    pub(crate) files: BTreeMap<String, PathBuf>,
}

/// The results of one measured process.
#[derive(Debug)]
pub(crate) struct Left {
    /// Its name in the folder.
    pub(crate) name: String,
    /// The program's name and arguments.
    pub(crate) command: String,
    /// Its measurements; `None` if it wrote nothing readable.
    pub(crate) summary: Option<Summary>,
    /// What is missing, if the process ended without its final summary.
    pub(crate) cut: Option<Cut>,
}

/// The results of a process without a final summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Its rows, so that counts and totals of ranges are exact.
    Exact,
    /// A snapshot, one second old at most while it could write.
    Snapshot,
    /// Its rows up to this error of the system, and to the end what they count.
    Refused(i32),
    /// It has not ended.
    Running,
}

impl Folder {
    /// Creates a folder that nobody else can read, in the first of these places where that works and files can be
    /// written.
    pub(crate) fn create(places: &[PathBuf]) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut first_error = None;
        for place in places {
            let path = place.join(format!("{PREFIX}{}-{:016x}", std::process::id(), nonce()));
            let made = fs::DirBuilder::new().mode(0o700).create(&path);
            match made.and_then(|()| probe(&path)) {
                Ok(()) => {
                    let folder = Self { path, lock: None };
                    folder.place_rows();
                    return Ok(folder);
                }
                Err(error) => {
                    let _gone = fs::remove_dir_all(&path);
                    let said = io::Error::new(error.kind(), format!("`{}`: {error}", place.display()));
                    first_error.get_or_insert(said);
                }
            }
        }
        Err(first_error.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    /// The folder named in the environment of this process.
    pub(crate) fn of_environment() -> Option<Self> {
        variable(VARIABLE).map(|path| Self { path: path.into(), lock: None })
    }

    /// This folder, if it belongs to a run.
    pub(crate) fn of_run(path: &Path) -> Option<Self> {
        path.join(SETTINGS).is_file().then(|| Self { path: path.to_owned(), lock: None })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the folder of row files: in memory, where removing such a file takes no time, else in this folder.
    fn place_rows(&self) {
        use std::os::unix::fs::{DirBuilderExt as _, symlink};
        let (rows, in_memory) = (self.path.join(ROWS), self.rows_in_memory());
        let made = fs::DirBuilder::new().mode(0o700).create(&in_memory);
        if made.and_then(|()| symlink(&in_memory, &rows)).is_err() {
            let _without_files_of_rows = fs::create_dir(rows);
        }
    }

    /// The place of the row files if they are in memory.
    fn rows_in_memory(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().as_bytes();
        Path::new("/dev/shm").join(path_of([name, b"-rows"].concat()))
    }

    /// Removes the folder with its contents.
    pub(crate) fn remove(self) {
        // Looking into folders takes longer than removing what is there if nothing was measured.
        let remove = |folder: &Path| fs::remove_dir(folder).or_else(|_| fs::remove_dir_all(folder));
        if fs::read_link(self.path.join(ROWS)).is_ok_and(|rows| rows == self.rows_in_memory()) {
            let _stays = remove(&self.rows_in_memory());
        }
        for file in [ROWS, FILES, SETTINGS] {
            let _stays = fs::remove_file(self.path.join(file));
        }
        let _stays = remove(&self.path);
    }

    /// Writes the settings, and locks the folder as one in use, if possible.
    pub(crate) fn write_settings(&mut self, settings: &Settings) -> io::Result<()> {
        let mut all = vec![settings.captured.to_string()];
        all.extend_from_slice(&settings.texts);
        let mut file = OpenOptions::new().write(true).create_new(true).open(self.path.join(SETTINGS))?;
        let is_locked = lock(&file).is_ok();
        file.write_all(all.join(&SEPARATOR.to_string()).as_bytes())?;
        self.lock = is_locked.then(|| Arc::new(file));
        let files: Vec<&[u8]> =
            settings.files.iter().flat_map(|(key, path)| [key.as_bytes(), path.as_os_str().as_bytes()]).collect();
        fs::write(self.path.join(FILES), files.join(&(SEPARATOR as u8)))
    }

    pub(crate) fn read_settings(&self) -> io::Result<Settings> {
        let text = fs::read_to_string(self.path.join(SETTINGS))?;
        let mut all = text.split(SEPARATOR).map(str::to_owned);
        let captured = all.next().and_then(|word| word.parse().ok()).unwrap_or(CaptureRange::None);
        let files = fs::read(self.path.join(FILES))?;
        let files: Vec<&[u8]> = files.split(|byte| *byte == SEPARATOR as u8).collect();
        let file = |pair: &[&[u8]]| (String::from_utf8_lossy(pair[0]).into_owned(), path_of(pair[1].to_vec()));
        Ok(Settings { captured, texts: all.collect(), files: files.chunks_exact(2).map(file).collect() })
    }

    /// Registers this process as measured, and returns its name.
    pub(crate) fn begin(&self) -> io::Result<String> {
        let pid = std::process::id();
        for number in 1..MOST_NAMES {
            let name = if number == 1 { pid.to_string() } else { format!("{pid}-{number}") };
            match OpenOptions::new().write(true).create_new(true).open(self.file(&name, "begun")) {
                Ok(mut file) => {
                    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
                    file.write_all(words.collect::<Vec<_>>().join(" ").as_bytes())?;
                    return Ok(name);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The file for a process's final summary.
    pub(crate) fn summary(&self, name: &str) -> PathBuf {
        self.file(name, "json")
    }

    /// The folder of the row files.
    pub(crate) fn all_rows(&self) -> PathBuf {
        self.path.join(ROWS)
    }

    /// The row file of a process, which survives a crash.
    pub(crate) fn rows(&self, name: &str) -> PathBuf {
        self.all_rows().join(name)
    }

    /// Where each process lists its operations on GPUs, with `%p` in the name.
    pub(crate) fn gpu_trace(&self, is_csv: bool) -> PathBuf {
        literal(&self.path).join(if is_csv { "gpu-trace-%p.csv" } else { "gpu-trace-%p.txt" })
    }

    /// Keeps what a process has measured so far, in place of what it kept before.
    pub(crate) fn write_snapshot(&self, name: &str, summary: &Summary) -> io::Result<()> {
        let new = self.file(name, "new");
        let mut text = Vec::new();
        summary.write_json(&mut text)?;
        fs::write(&new, text)?;
        fs::rename(new, self.file(name, "snapshot"))
    }

    /// The results of all processes, in the order in which they began.
    pub(crate) fn read(&self, mut each: impl FnMut(usize, usize)) -> io::Result<Vec<Left>> {
        let mut begun = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let file = entry.file_name().to_string_lossy().into_owned();
            if let Some(name) = file.strip_suffix(".begun").filter(|_| entry.path().is_file()) {
                begun.push((entry.metadata()?.modified()?, name.to_owned()));
            }
        }
        begun.sort();
        let count = begun.len();
        let read = |(index, (_, name)): (usize, (_, String))| {
            each(index, count);
            let command = fs::read_to_string(self.file(&name, "begun")).unwrap_or_default();
            if let Some(last) = summary_of(&self.file(&name, "json")) {
                return Left { command, summary: Some(last), cut: None, name };
            }
            let snapshot = summary_of(&self.file(&name, "snapshot"));
            let rows = self.rows(&name);
            let kept = if rows.is_file() {
                read_row_file(&rows, snapshot.clone())
            } else {
                Err(io::ErrorKind::NotFound.into())
            };
            match kept {
                Ok(RowFileSummary { summary, is_whole, has_more, error }) => {
                    let cut = match (is_whole, has_more) {
                        _ if is_alive(&self.file(&name, "begun")) => Some(Cut::Running),
                        (true, false) => None,
                        (true, true) => Some(Cut::Exact),
                        (false, _) => Some(error.map_or(Cut::Snapshot, Cut::Refused)),
                    };
                    Left { command, summary: Some(summary), cut, name }
                }
                // It may have ended in order just now, and removed them.
                Err(_) => match summary_of(&self.file(&name, "json")) {
                    Some(last) => Left { command, summary: Some(last), cut: None, name },
                    None => {
                        let goes_on = is_alive(&self.file(&name, "begun"));
                        let cut = Some(if goes_on { Cut::Running } else { Cut::Snapshot });
                        Left { command, summary: snapshot, cut, name }
                    }
                },
            }
        };
        Ok(begun.into_iter().enumerate().map(read).collect())
    }

    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.path.join(format!("{name}.{kind}"))
    }
}

/// A path as a file name in which nothing is a placeholder.
pub(crate) fn literal(path: &Path) -> PathBuf {
    let between: Vec<&[u8]> = path.as_os_str().as_bytes().split(|byte| *byte == b'%').collect();
    path_of(between.join(&b"%%"[..]))
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

fn summary_of(file: &Path) -> Option<Summary> {
    // Opening a pipe would wait.
    if file.is_file() { Summary::read_json(File::open(file).ok()?).ok() } else { None }
}

/// Checks that files can be written: on a full disk a folder can still be created.
fn probe(folder: &Path) -> io::Result<()> {
    static BYTES: [u8; 64 << 10] = [1; 64 << 10];
    let file = folder.join("probe");
    fs::write(&file, BYTES.as_slice())?;
    fs::remove_file(file)
}

/// An unpredictable number: the standard library seeds its hashes from the system's random numbers.
fn nonce() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::time::SystemTime::now())
}

/// Locks the settings; other runs lock them only for a moment.
fn lock(settings: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(settings, rustix::fs::FlockOperation::LockExclusive)?)
}

/// Whether the process of this file exists: `4711.begun`, `4711-2.begun`.
fn is_alive(file: &Path) -> bool {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let process = Path::new("/proc").join(name.split('-').next().unwrap_or_default());
    // A zombie no longer has an `exe` link.
    name.starts_with(|first: char| first.is_ascii_digit()) && process.join("exe").read_link().is_ok()
}

//! Runs programs under the command `tracing-gpu` of this workspace.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing_gpu::{Summary, SummaryExt as _};

/// The command, built with the workspace's profile.
///
/// # Panics
/// If cargo cannot build it.
pub fn binary() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build(&[]))
}

/// The command, built as for users.
///
/// # Panics
/// If cargo cannot build it.
pub fn optimized() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build(&["--release"]))
}

fn build(options: &[&str]) -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--locked", "--workspace", "--bin", "tracing-gpu", "--message-format=json-render-diagnostics"])
        .args(options);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo can be started");
    assert!(output.status.success(), "{cargo:?}\n{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8_lossy(&output.stdout);
    let mut messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let built = messages.find_map(|message| message["executable"].as_str().map(PathBuf::from));
    linked(&built.unwrap_or_else(|| panic!("{cargo:?} built no program")))
}

/// Another name of the program, which stays while another build replaces the first one.
fn linked(built: &Path) -> PathBuf {
    let folder = built.with_file_name("for-tests");
    std::fs::create_dir_all(&folder).expect("a folder");
    let (name, new) = (folder.join("tracing-gpu"), folder.join(std::process::id().to_string()));
    let _left_by_another_process = std::fs::remove_file(&new);
    std::fs::hard_link(built, &new).expect("the same file system");
    // Where both are one file, this does nothing.
    std::fs::rename(&new, &name).expect("a name");
    if new.exists() {
        std::fs::remove_file(&new).expect("a second name");
    }
    name
}

/// The command's message for a program without calls, as far as it can know.
pub const NOTHING: &str = "nothing was measured: the program used neither NVTX nor CUDA nor OpenACC, or did so where \
                           that cannot be seen (linked statically or with musl; under env -i, sudo, ssh or another \
                           tracing-gpu; in a container or a sandbox, as another user or in another root)";

/// A folder of its own, which the destructor removes.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// An empty one.
    ///
    /// # Panics
    /// If none can be made.
    #[must_use]
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("launcher-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(path)
    }

    /// Names of the files in it, sorted.
    ///
    /// # Panics
    /// If it cannot be read.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("a folder can be read").file_name();
        let all = std::fs::read_dir(&self.0).expect("a folder").map(|entry| name(entry).to_string_lossy().into_owned());
        let mut all: Vec<String> = all.collect();
        all.sort();
        all
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// `tracing-gpu` with these options, without this process's own settings in the environment.
///
/// # Panics
/// If it cannot be built.
#[must_use]
pub fn command(options: &[&str]) -> Command {
    command_by(binary(), options)
}

fn command_by(binary: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command.args(options).stdin(Stdio::null());
    for variable in ["NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "ACC_PROFLIB", "NVTX_RS_NEXT_TOOL"] {
        command.env_remove(variable);
    }
    for variable in ["TRACING_GPU", "TRACING_GPU_FILTER", "TRACING_GPU_RUN", "RANK", "SLURM_PROCID", "SLURM_JOB_ID"] {
        command.env_remove(variable);
    }
    command.env_remove("TRACING_GPU_RUN_ID");
    command
}

/// The output and the files of a run.
#[derive(Debug)]
pub struct Ran {
    /// How the command ended.
    pub status: ExitStatus,
    /// What the program printed.
    pub stdout: String,
    /// The reports and complaints.
    pub stderr: String,
    /// The summaries of the processes that did something, by process id.
    pub summaries: Vec<Summary>,
}

/// Runs the command to its end, with `--json` into a folder for the summaries: `make` adds the program.
///
/// # Panics
/// If it cannot be started, or leaves a file that is no summary.
pub fn run(options: &[&str], make: impl FnOnce(&mut Command) -> &mut Command) -> Ran {
    run_by(binary(), options, make)
}

/// The same with another build of the command.
///
/// # Panics
/// As for [`run`].
pub fn run_by(binary: &Path, options: &[&str], make: impl FnOnce(&mut Command) -> &mut Command) -> Ran {
    // Remains of other runs are not beside the folder of this one.
    let (folder, temporary) = (Folder::new(), Folder::new());
    let json = folder.0.join("run-%p.json").display().to_string();
    let mut command = command_by(binary, &[options, &["--json", &json]].concat());
    command.env("TMPDIR", &temporary.0);
    let output = make(&mut command).output().unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    Ran::new(output, &folder)
}

impl Ran {
    /// From the output, and from the summaries in a folder.
    ///
    /// # Panics
    /// If there is a file that is no summary.
    #[must_use]
    pub fn new(output: Output, folder: &Folder) -> Self {
        let read = |name: String| {
            let file = std::fs::File::open(folder.0.join(&name)).expect("a file that is there");
            Summary::read_json(file).unwrap_or_else(|error| panic!("{name}: {error}"))
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let mut summaries: Vec<Summary> = folder.names().into_iter().map(read).collect();
        summaries.sort_by_key(|summary| summary.process.pid);
        Self { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr), summaries }
    }

    /// Names and instances of the ranges of all processes, sorted: `child 3, step 3`.
    #[must_use]
    pub fn ranges(&self) -> String {
        let all = self.summaries.iter().flat_map(|summary| &summary.ranges);
        let mut rows: Vec<String> = all.map(|row| format!("{} {}", row.label(), row.times.instances)).collect();
        rows.sort();
        rows.join(", ")
    }

    /// The lines of the command itself, without `tracing-gpu: `.
    #[must_use]
    pub fn said(&self) -> Vec<&str> {
        self.stderr.lines().filter_map(|line| line.strip_prefix("tracing-gpu: ")).collect()
    }

    /// Whether a note marks this as a snapshot.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.summaries.iter().any(|summary| summary.notes_as_text().iter().any(|note| note.contains("ended at once")))
    }
}

/// A C program, compiled with these arguments.
///
/// # Panics
/// If there is no compiler, or it fails.
#[must_use]
pub fn compiled(folder: &Path, source: &Path, arguments: &[&str]) -> PathBuf {
    let program = folder.join(source.file_stem().expect("a name"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(source).args(arguments);
    let output = compiler.output().expect("cc, with which Rust links");
    assert!(output.status.success(), "{compiler:?}\n{}", String::from_utf8_lossy(&output.stderr));
    program
}

//! Programs in C and Python that make NVTX calls through NVIDIA's packages.

use crate::installed;
use crate::recorder::{TemporaryFile, example};
use std::path::{Path, PathBuf};
use std::process::Command;
use tracing_gpu::{Summary, SummaryExt as _};

/// A part of what `tests/install` fetches: `headers`, `v2` or `python`.
///
/// # Panics
/// If it is missing.
pub fn folder(part: &str) -> PathBuf {
    let all = installed::folder("nvtx");
    let entries = std::fs::read_dir(&all).into_iter().flatten().filter_map(Result::ok);
    let found = entries.map(|entry| entry.path()).find(|path| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&format!("{part}-")))
    });
    found.unwrap_or_else(|| panic!("no {part}-* in {}: run tests/install", all.display()))
}

/// NVIDIA's headers of NVTX 3, with all extensions: the argument of `-I`.
pub fn headers() -> PathBuf {
    folder("headers").join("nvidia/cu13/include")
}

/// Compiles the C program at `source`, a path relative to the folder of this package.
///
/// # Panics
/// If that fails.
pub fn compile(source: &str, arguments: &[&str]) -> TemporaryFile {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let stem = source.file_stem().expect("a file");
    let program = TemporaryFile::new(&stem.display().to_string());
    let mut compiler = Command::new("gcc");
    compiler.args(["-std=gnu11", "-Wall", "-Werror", "-O2", "-o"]).arg(&program.0).arg(&source).args(arguments);
    let output = compiler.output().unwrap_or_else(|error| panic!("{compiler:?}: {error}: run tests/install"));
    assert!(output.status.success(), "{compiler:?}\n{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The summary that a profiler in `examples/foreign_tool.rs` writes.
#[derive(Debug)]
pub struct Summarised(TemporaryFile);

impl Summarised {
    /// Makes the profiler that is injected into this command write it, with these settings.
    pub fn new(command: &mut Command, settings: &str) -> Self {
        let json = TemporaryFile::new("summary.json");
        command.env("TRACING_GPU", format!("{settings},json={}", json.0.display()));
        Self(json)
    }

    /// What was written.
    ///
    /// # Panics
    /// If it is not there, or is no summary.
    pub fn summary(&self) -> Summary {
        let file = std::fs::File::open(&self.0.0).unwrap_or_else(|error| panic!("{}: {error}", self.0.0.display()));
        Summary::read_json(file).expect("a summary")
    }
}

/// Runs a command with a profiler injected, with these settings.
///
/// # Panics
/// If the command fails, or nothing is written.
pub fn measured(command: &mut Command, settings: &str) -> Summary {
    let json = Summarised::new(command, settings);
    let output = command.env("NVTX_INJECTION64_PATH", example("libforeign_tool.so")).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    json.summary()
}

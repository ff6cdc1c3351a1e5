//! Properties of the program that decide whether it can be measured.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nvtx_rs::abi;

use crate::system;

/// The reason why nothing in a program can be measured, whatever it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// A static glibc loads libraries, but does not set up their thread-local storage.
    Static,
    /// The system removes variables from its environment.
    Privileged,
    /// A library for another machine cannot be loaded into it.
    ThirtyTwoBit,
    /// A library for another C library cannot be loaded into it.
    Musl,
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Static => "it is linked statically, and the library that measures needs the dynamic loader",
            Self::Privileged => "it is a setuid, setgid or privileged program, and the system keeps libraries from it",
            Self::ThirtyTwoBit => "it is a 32-bit program, and this command is for 64-bit programs",
            Self::Musl => "it is linked with musl, and the library of this command needs glibc",
        })
    }
}

/// The program of a run. Its file is read once, when it is found.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    /// The first line, unless it is a binary. The system reads no more of a script.
    line: Option<Vec<u8>>,
    /// The file that the system executes: the program, or its interpreter, if it is a script.
    executed: PathBuf,
    /// The reason why libraries cannot be loaded into that file.
    obstacle: Option<Obstacle>,
}

impl Program {
    /// The file that this name starts: the name itself if it contains a slash, else the first match in `PATH`.
    pub(super) fn find(name: &OsStr) -> Option<Self> {
        let path = Path::new(name);
        if name.as_bytes().contains(&b'/') {
            return Some(Self::read(path.to_owned(), &path.metadata().ok()?));
        }
        let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
        std::env::split_paths(&folders).map(|folder| folder.join(path)).find_map(|file| {
            let there = file.metadata().ok()?;
            (there.is_file() && there.permissions().mode() & 0o111 != 0).then(|| Self::read(file, &there))
        })
    }

    fn read(path: PathBuf, there: &Metadata) -> Self {
        let mut file = open(&path, there);
        let line = file.as_mut().and_then(|file| first_line(file).ok()).filter(|line| !line.contains(&0));
        if let Some(interpreter) = line.as_deref().and_then(interpreter) {
            let there = interpreter.metadata().ok();
            let file = there.as_ref().and_then(|there| open(&interpreter, there));
            let obstacle = there.and_then(|there| obstacle(&there, file.as_ref()));
            return Self { path, line, executed: interpreter, obstacle };
        }
        let obstacle = obstacle(there, file.as_ref());
        Self { executed: path.clone(), path, line, obstacle }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether shells take the file for text: its first line has no zero byte.
    pub(super) fn is_text(&self) -> bool {
        self.line.is_some()
    }

    /// The interpreter that the first line of a script names.
    pub(super) fn interpreter(&self) -> Option<&Path> {
        (self.executed != self.path).then_some(&self.executed)
    }

    /// Whether a static program, or the static interpreter of a script, contains NVTX. It would load a library that it
    /// does not survive. Other static programs, such as `tini` and `busybox`, start programs that can be measured.
    pub(super) fn is_static_with_nvtx(&self) -> bool {
        self.obstacle == Some(Obstacle::Static) && self.mentions(abi::INJECTION_PATH.as_bytes())
    }

    /// Whether the executed file contains this text.
    fn mentions(&self, text: &[u8]) -> bool {
        File::open(&self.executed).and_then(|file| mentions(file, text)).unwrap_or(false)
    }

    /// Whether it is this command, or another version of it.
    fn is_this_command(&self) -> bool {
        let place = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino())).ok();
        let same = || place(&self.path).is_some_and(|own| Some(own) == place(Path::new("/proc/self/exe")));
        self.path.file_name().is_some_and(|name| name == "tracing-gpu") || same()
    }
}

/// Opens a regular file: opening a pipe would wait.
fn open(path: &Path, there: &Metadata) -> Option<File> {
    if there.is_file() { File::open(path).ok() } else { None }
}

fn first_line(file: &mut File) -> io::Result<Vec<u8>> {
    const LONGEST: usize = 256;
    let mut line = Vec::with_capacity(LONGEST);
    file.take(LONGEST as u64).read_to_end(&mut line)?;
    line.truncate(line.iter().position(|byte| *byte == b'\n').unwrap_or(line.len()));
    Ok(line)
}

fn interpreter(line: &[u8]) -> Option<PathBuf> {
    // The system parses the line like this: the \r of a file from Windows is part of the name.
    let mut words = line.strip_prefix(b"#!")?.split(|byte| matches!(byte, b' ' | b'\t'));
    Some(OsStr::from_bytes(words.find(|word| !word.is_empty())?).into())
}

/// Whether the file contains this text.
fn mentions(mut file: impl io::Read, text: &[u8]) -> io::Result<bool> {
    const PART: usize = 1 << 16;
    let mut bytes = Vec::with_capacity(PART + text.len());
    while file.by_ref().take(PART as u64).read_to_end(&mut bytes)? > 0 {
        if system::contains(&bytes, text) {
            return Ok(true);
        }
        // The text may begin in this part and end in the next.
        bytes.drain(..bytes.len().saturating_sub(text.len() - 1));
    }
    Ok(false)
}

/// `file` is none if it cannot be read: its mode is known all the same.
fn obstacle(there: &Metadata, file: Option<&File>) -> Option<Obstacle> {
    // A mode or a capability that gives rights beyond the user's own makes the program privileged.
    if there.is_file() && there.mode() & 0o6000 != 0 && !is_own(there) {
        return Some(Obstacle::Privileged);
    }
    elf_obstacle(file?).ok().flatten()
}

/// Whether the mode bits give the caller no further rights: then the system removes nothing from its environment.
fn is_own(there: &Metadata) -> bool {
    let own = std::fs::metadata("/proc/self");
    own.is_ok_and(|own| {
        (there.mode() & 0o4000 == 0 || there.uid() == own.uid())
            && (there.mode() & 0o2000 == 0 || there.gid() == own.gid())
    })
}

/// Programs that start others without this command's variables, or where its files do not exist.
const WRAPPERS: [&str; 18] = [
    "apptainer",
    "bwrap",
    "chroot",
    "doas",
    "docker",
    "env",
    "firejail",
    "flatpak",
    "nsenter",
    "podman",
    "runuser",
    "singularity",
    "snap",
    "ssh",
    "su",
    "sudo",
    "systemd-run",
    "unshare",
];
/// Tools that inject a library in the same way as this command.
const TOOLS: [&str; 3] = ["compute-sanitizer", "ncu", "nsys"];

/// Why no call of a program was seen, as far as that can be known from outside. Where it may just lack names, also how
/// phases are named in its language.
pub(super) fn unseen(program: Option<&Program>) -> (String, Option<&'static str>) {
    const UNSEEN: &str = "the program used neither NVTX nor CUDA nor OpenACC, or";
    let name = program.and_then(|program| program.path.file_name()).unwrap_or_default().to_string_lossy();
    let name = &*name;
    let why = if program.is_some_and(Program::is_this_command) {
        format!("`{name}` measures the program that it starts, and reports it itself")
    } else if TOOLS.contains(&name) {
        format!("{UNSEEN} `{name}` has put its own library there. For both: {name} ... tracing-gpu ./app")
    } else if WRAPPERS.contains(&name) {
        format!("{UNSEEN} `{name}` keeps variables or files of this command from it: {name} ... tracing-gpu ./app")
    } else if let Some(obstacle) = program.and_then(|program| program.obstacle) {
        obstacle.to_string()
    } else if std::env::current_exe().is_ok_and(|own| own.as_os_str().as_bytes().ends_with(b" (deleted)")) {
        format!("{UNSEEN} could not load the file of this command, which was removed or replaced meanwhile")
    } else {
        let why = format!(
            "{UNSEEN} did so where that cannot be seen (linked statically or with musl; under env -i, sudo, ssh or \
             another tracing-gpu; in a container or a sandbox, as another user or in another root)"
        );
        return (why, program.and_then(naming));
    };
    (why, None)
}

/// How phases are named in the language of a program. `None` if its file is gone.
fn naming(program: &Program) -> Option<&'static str> {
    const SHELLS: [&str; 7] = ["bash", "busybox", "dash", "env", "ksh", "sh", "zsh"];
    let file = program.executed.canonicalize().ok()?;
    let (name, starter) = (program.path.file_name()?.to_str()?, file.file_name()?.to_str()?);
    // `#!/usr/bin/env python3`
    let line = program.line.as_deref().filter(|line| line.starts_with(b"#!")).unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut names = [name, starter].into_iter().chain(line.split(['/', ' ', '\t']));
    if names.any(|name| name.starts_with("python")) {
        return Some("in Python with `with nvtx.annotate(\"load\"):` (pip install nvtx)");
    }
    let mut start = [0; 4];
    let is_elf = File::open(&file).is_ok_and(|mut file| file.read_exact(&mut start).is_ok()) && start == *b"\x7fELF";
    if SHELLS.contains(&starter) || !is_elf {
        return Some("with `nvtx.annotate` in Python, <nvtx3/nvtx3.hpp> in C++, `tracing` spans in Rust");
    }
    // Rust's standard library names its sources.
    if program.mentions(b"/rustc/") {
        return Some("in Rust with spans of `tracing`, and `tracing_gpu::init()` in main");
    }
    Some("in C++ with `nvtx3::scoped_range part{\"load\"};` of <nvtx3/nvtx3.hpp>, in C with <nvtx3/nvToolsExt.h>")
}

fn elf_obstacle(file: &File) -> io::Result<Option<Obstacle>> {
    const INTERPRETER: u64 = 3;
    /// Part of the name of its dynamic loader.
    const MUSL: &[u8] = b"ld-musl";
    const LONGEST_PATH: u64 = 4_096;
    let bytes = |start: u64, length: u64| {
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut bytes, start).map(|()| bytes)
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let head = bytes(0, 64)?;
    if !head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    if head[4] != 2 {
        return Ok(Some(Obstacle::ThirtyTwoBit));
    }
    let (table, size, count) = (number(&head[32..40]), number(&head[54..56]), number(&head[56..58]));
    let entries = bytes(table, size * count)?;
    let mut entries = entries.chunks_exact(usize::try_from(size.max(40)).unwrap_or(40));
    let Some(entry) = entries.find(|entry| number(&entry[..4]) == INTERPRETER) else {
        return Ok(Some(Obstacle::Static));
    };
    let loader = bytes(number(&entry[8..16]), number(&entry[32..40]).min(LONGEST_PATH))?;
    Ok(system::contains(&loader, MUSL).then_some(Obstacle::Musl))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with this dynamic loader: a header, one entry and a name.
    fn program(loader: &str) -> Vec<u8> {
        let mut file = vec![0; 64 + 56];
        file[..5].copy_from_slice(b"\x7fELF\x02");
        (file[32], file[54], file[56]) = (64, 56, 1);
        (file[64], file[64 + 8], file[64 + 32]) = (3, 64 + 56, loader.len() as u8);
        file.extend(loader.bytes());
        file
    }

    #[test]
    fn a_text_is_found_wherever_it_is() {
        let text = abi::INJECTION_PATH.as_bytes();
        let (part, almost) = (1 << 20, &text[..text.len() - 1]);
        for before in (0..3 * text.len()).chain(part - 2 * text.len()..part + 2 * text.len()) {
            let file = [&vec![b'_'; before][..], text].concat();
            assert!(mentions(&file[..], text).expect("memory can be read"), "after {before} bytes");
            assert!(!mentions(&file[..file.len() - 1], text).expect("memory can be read"), "after {before} bytes");
        }
        assert!(!mentions(almost, text).expect("memory can be read") && !mentions(&[][..], text).expect("memory"));
    }

    #[test]
    fn phases_are_named_in_the_language_of_the_program() {
        let folder = std::env::temp_dir().join(format!("tracing-gpu-naming-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let elf = program("/lib64/ld-linux-x86-64.so.2\0");
        let short = [&b"\x7fELF\x01"[..], &[0; 64]].concat();
        let rust = [&elf[..], b"/rustc/4a5b6c/library/std/src/panicking.rs"].concat();
        for (name, text, expected) in [
            ("python3.12", &elf[..], "in Python"),
            ("train.py", b"#!/usr/bin/env python3\nimport nvtx\n", "in Python"),
            ("python", b"#!/bin/sh\nexec real-python\n", "in Python"),
            ("run", b"#!/bin/sh\n./app\n", "with `nvtx.annotate` in Python, "),
            ("plain", b"./app\n", "with `nvtx.annotate` in Python, "),
            ("app", &elf, "in C++"),
            ("server", &rust, "in Rust"),
            ("ncu", &elf, ""),
            ("sudo", &elf, ""),
            ("32-bit", &short, ""),
        ] {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            let naming = unseen(Program::find(path.as_os_str()).as_ref()).1.unwrap_or_default();
            assert!(naming.starts_with(expected) && naming.is_empty() == expected.is_empty(), "{name}: {naming}");
        }
        assert_eq!(unseen(None).1, None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_dynamic_loader_tells_which_c_library_it_is() {
        let path = std::env::temp_dir().join(format!("tracing-gpu-loader-{}", std::process::id()));
        for (loader, expected) in
            [("/lib/ld-musl-x86_64.so.1\0", Some(Obstacle::Musl)), ("/lib64/ld-linux-x86-64.so.2\0", None)]
        {
            std::fs::write(&path, program(loader)).unwrap();
            assert_eq!(elf_obstacle(&File::open(&path).unwrap()).unwrap(), expected, "{loader}");
        }
        std::fs::remove_file(path).unwrap();
    }
}

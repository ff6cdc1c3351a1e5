//! What the program is, as far as it decides whether it can be measured.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Why nothing in a program is measured, whatever it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Nothing can be loaded into it.
    Static,
    /// The system takes variables from its environment.
    Privileged,
    /// A library for another machine cannot be loaded into it.
    ThirtyTwoBit,
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Static => "it is linked statically, so that no library can be loaded into it",
            Self::Privileged => "it is a setuid, setgid or privileged program, and the system keeps libraries from it",
            Self::ThirtyTwoBit => "it is a 32-bit program, and this command is for 64-bit programs",
        })
    }
}

/// The file that this name starts: as it is if there is a slash in it, else the first in `PATH`.
pub(super) fn find(name: &Path) -> Option<PathBuf> {
    if name.as_os_str().as_encoded_bytes().contains(&b'/') {
        return name.exists().then(|| name.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let is_program =
        |file: &PathBuf| file.metadata().is_ok_and(|there| there.is_file() && there.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(is_program)
}

/// The program that a script names in its first line, and that runs it.
pub(super) fn interpreter(script: &Path) -> Option<PathBuf> {
    let line = first_line(script)?;
    // As the system reads it: the \r of a file from Windows is a part of the name.
    let mut words = line.strip_prefix(b"#!")?.split(|byte| matches!(byte, b' ' | b'\t'));
    Some(OsStr::from_bytes(words.find(|word| !word.is_empty())?).into())
}

/// Whether a file is text, as shells judge it: there is no zero byte in its first line.
pub(super) fn is_text(file: &Path) -> bool {
    first_line(file).is_some_and(|line| !line.contains(&0))
}

/// As much of it as the system reads of a script.
fn first_line(file: &Path) -> Option<Vec<u8>> {
    if !file.is_file() {
        return None; // a pipe would be waited for
    }
    let mut start = Vec::new();
    File::open(file).ok()?.take(256).read_to_end(&mut start).ok()?;
    start.truncate(start.iter().position(|byte| *byte == b'\n').unwrap_or(start.len()));
    Some(start)
}

/// What keeps libraries from this program; from its interpreter, if it is a script.
pub(super) fn obstacle(program: &Path) -> Option<Obstacle> {
    let file = interpreter(program).unwrap_or_else(|| program.to_owned());
    let there = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    // SAFETY is the system's: a mode or a capability that its user does not have anyway makes it privileged.
    if there.mode() & 0o6000 != 0 && !is_own(&there) {
        return Some(Obstacle::Privileged);
    }
    elf_obstacle(&file).ok().flatten()
}

/// Whether the bits give the caller nothing: then the system takes nothing from its environment.
fn is_own(there: &std::fs::Metadata) -> bool {
    let own = std::fs::metadata("/proc/self");
    own.is_ok_and(|own| {
        (there.mode() & 0o4000 == 0 || there.uid() == own.uid())
            && (there.mode() & 0o2000 == 0 || there.gid() == own.gid())
    })
}

fn elf_obstacle(file: &Path) -> io::Result<Option<Obstacle>> {
    const INTERPRETER: u32 = 3;
    let mut file = File::open(file)?;
    let mut head = [0; 64];
    file.read_exact(&mut head)?;
    if !head.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    if head[4] != 2 {
        return Ok(Some(Obstacle::ThirtyTwoBit));
    }
    let number = |at: usize, bytes: usize| {
        head[at..at + bytes].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    for entry in 0..count {
        file.seek(SeekFrom::Start(table.saturating_add(entry * size)))?;
        let mut kind = [0; 4];
        file.read_exact(&mut kind)?;
        if u32::from_le_bytes(kind) == INTERPRETER {
            return Ok(None);
        }
    }
    Ok(Some(Obstacle::Static))
}

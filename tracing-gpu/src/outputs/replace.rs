//! Files that are written whole or not at all, and pipes whose readers are awaited for a second at most.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::shared;

/// Number of names that are tried for a temporary file: killed runs may have left files of some names.
const MOST_NAMES: usize = 8;
/// Letters of the target's name in that of the temporary file. They have four bytes at most, and a file name 255.
const MOST_LETTERS: usize = 56;

/// Opens a file to be written anew. If nobody reads a pipe within a second, that is an error.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let path = shared::resolved(path)?;
    if fs::metadata(&path).is_ok_and(|there| pipe::is_one(&there)) {
        return pipe::open(&path);
    }
    let file = shared::open(&path, OpenOptions::new().create(true), 0)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Writes a file. An existing file stays as it is until a temporary file beside it has all of the text on the disk;
/// then the temporary file replaces it. A device or a pipe is written directly. So is a file that cannot be replaced:
/// one of another owner, one with several names, one in a folder where no file can be created.
pub(crate) fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let target = shared::resolved(path)?;
    let overwrite = || create(&target)?.write_all(text);
    if !is_a_file(&target) {
        return overwrite();
    }
    let before = match shared::open(&target, OpenOptions::new().append(true), 0) {
        Ok(file) => Some(file.metadata()?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let Some((beside, file)) = create_beside(&target, before.is_some()) else { return overwrite() };
    match fill(file, text, before.as_ref()) {
        Ok(true) if fs::rename(&beside, &target).is_ok() => Ok(()),
        Ok(_) => {
            let _gone = fs::remove_file(&beside);
            overwrite()
        }
        Err(error) => {
            let _gone = fs::remove_file(&beside);
            Err(error)
        }
    }
}

/// Writes the temporary file. Returns false if it must not replace the existing file.
fn fill(mut file: File, text: &[u8], before: Option<&fs::Metadata>) -> io::Result<bool> {
    if let Some(before) = before
        && (!is_alike(&file.metadata()?, before) || file.set_permissions(before.permissions()).is_err())
    {
        return Ok(false);
    }
    file.write_all(text)?;
    if before.is_some() {
        file.sync_all()?; // some disks report only now that they are full
    }
    Ok(true)
}

/// Whether both have the same owner, and the older one has a single name.
#[cfg(unix)]
fn is_alike(new: &fs::Metadata, before: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (new.uid(), new.gid(), 1) == (before.uid(), before.gid(), before.nlink())
}

#[cfg(not(unix))]
fn is_alike(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

/// Whether a path without links is that of a file, existing or not. A path through a descriptor of the process does not
/// count: whoever holds the descriptor would not see a new file of that name.
fn is_a_file(path: &Path) -> bool {
    !shared::is_of_system(path)
        && match fs::symlink_metadata(path) {
            Ok(there) => there.is_file(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
}

/// A new file in the folder of `target`. With `is_closed`, nobody else can open it before it has the permissions of
/// `target`.
fn create_beside(target: &Path, is_closed: bool) -> Option<(PathBuf, File)> {
    let name: String = target.file_name()?.to_string_lossy().chars().take(MOST_LETTERS).collect();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if is_closed {
        close_to_others(&mut options);
    }
    (0..MOST_NAMES).find_map(|number| {
        let beside = target.with_file_name(format!(".{name}.{}-{number}", std::process::id()));
        let file = options.open(&beside).ok()?;
        Some((beside, file))
    })
}

#[cfg(unix)]
fn close_to_others(options: &mut OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

#[cfg(not(unix))]
fn close_to_others(_: &mut OpenOptions) {}

#[cfg(unix)]
mod pipe {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::FileTypeExt as _;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use crate::outputs::shared;
    use crate::process;

    /// How long to wait for a pipe's reader, which may be about to open it.
    const PATIENCE: Duration = Duration::from_secs(1);

    pub(super) fn is_one(there: &Metadata) -> bool {
        there.file_type().is_fifo()
    }

    /// Opens a pipe. An ordinary open would wait for a reader for ever.
    pub(super) fn open(path: &Path) -> io::Result<File> {
        let began = Instant::now();
        loop {
            match shared::open(path, &mut OpenOptions::new(), libc::O_NONBLOCK) {
                Ok(file) => return process::wait_for_room(&file).map(|()| file),
                Err(error) if error.raw_os_error() != Some(libc::ENXIO) => return Err(error),
                Err(_) if began.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(10)),
                Err(_) => return Err(io::Error::new(io::ErrorKind::BrokenPipe, "nobody reads this pipe")),
            }
        }
    }
}

#[cfg(not(unix))]
mod pipe {
    use std::fs::{File, Metadata};
    use std::io;
    use std::path::Path;

    pub(super) fn is_one(_: &Metadata) -> bool {
        false
    }

    pub(super) fn open(path: &Path) -> io::Result<File> {
        File::create(path)
    }
}

#[cfg(all(test, unix))]
mod tests;

//! Files written whole or not at all, and pipes that are not waited for.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::shared;

/// Names that are tried for a file beside another one: a run that was killed may have left some.
const MOST_NAMES: usize = 8;
/// Letters of the other's name in it, of four bytes at most: a name of a file has 255 bytes.
const MOST_LETTERS: usize = 56;

/// Opens a file to be written anew. A pipe that nobody reads is an error, soon.
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

/// Writes a file: what is there stays as it is until all of the text is on the disk beside it, and then gives way to
/// it. What is no file (a device, a pipe) is written to as it is, and so is one that would not be the same afterwards:
/// another's, one with several names, one in a folder where none can be made.
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

/// Writes it. False where it may not take the place of what is there.
fn fill(mut file: File, text: &[u8], before: Option<&fs::Metadata>) -> io::Result<bool> {
    if let Some(before) = before
        && (!is_alike(&file.metadata()?, before) || file.set_permissions(before.permissions()).is_err())
    {
        return Ok(false);
    }
    file.write_all(text)?;
    if before.is_some() {
        file.sync_all()?; // some disks say only now that they are full
    }
    Ok(true)
}

/// Whether they have one owner, and the older has no other name.
#[cfg(unix)]
fn is_alike(new: &fs::Metadata, before: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (new.uid(), new.gid(), 1) == (before.uid(), before.gid(), before.nlink())
}

#[cfg(not(unix))]
fn is_alike(_: &fs::Metadata, _: &fs::Metadata) -> bool {
    true
}

/// Whether a path without links is that of a file, there or not. One that is named by a descriptor of the process is
/// none: who holds that would not see another file of the name.
fn is_a_file(path: &Path) -> bool {
    !shared::is_of_system(path)
        && match fs::symlink_metadata(path) {
            Ok(there) => there.is_file(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
}

/// A new file in the folder of another. Where it is to have the permissions of that, nobody else opens it before it has
/// them.
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

    /// How long a pipe is waited for whose reader may be about to open it.
    const PATIENCE: Duration = Duration::from_secs(1);

    pub(super) fn is_one(there: &Metadata) -> bool {
        there.file_type().is_fifo()
    }

    /// Opened as usual, that would wait for a reader for ever.
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

//! Files written whole or not at all, and pipes that are not waited for.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Links that are followed, as many as Linux does.
const MOST_LINKS: usize = 40;
/// Names that are tried for a file beside another one: a run that was killed may have left some.
const MOST_NAMES: usize = 8;

/// Opens a file to be written anew. A pipe that nobody reads is an error, soon.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    match fs::metadata(path) {
        Ok(there) if pipe::is_one(&there) => pipe::open(path),
        _ => File::create(path),
    }
}

/// Writes a file: what is there stays as it is until all of the text is on the disk beside it, and then gives way to
/// it. What is no file (a device, a pipe) is written to as it is, and so is one that would not be the same afterwards:
/// another's, one with several names, one in a folder where none can be made.
pub(crate) fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let Some(target) = file_behind(path) else { return create(path)?.write_all(text) };
    let before = match OpenOptions::new().append(true).open(&target) {
        Ok(file) => Some(file.metadata()?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let Some((beside, file)) = create_beside(&target, before.is_some()) else { return fs::write(&target, text) };
    match fill(file, text, before.as_ref()) {
        Ok(true) if fs::rename(&beside, &target).is_ok() => Ok(()),
        Ok(_) => {
            let _gone = fs::remove_file(&beside);
            fs::write(&target, text)
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

/// The file that a path stands for, there or not, all links followed. `None` where it is none, or is named by a
/// descriptor of the process: who holds that would not see another file of the name.
fn file_behind(path: &Path) -> Option<PathBuf> {
    let mut path = std::path::absolute(path).ok()?;
    for _ in 0..MOST_LINKS {
        if path.starts_with("/dev") || path.starts_with("/proc") {
            return None;
        }
        match fs::symlink_metadata(&path) {
            Ok(there) if there.is_symlink() => path = path.parent()?.join(fs::read_link(&path).ok()?),
            Ok(there) => return there.is_file().then_some(path),
            Err(error) => return (error.kind() == io::ErrorKind::NotFound).then_some(path),
        }
    }
    None
}

/// A new file in the folder of another. Where it is to have the permissions of that, nobody else opens it before it has
/// them.
fn create_beside(target: &Path, is_closed: bool) -> Option<(PathBuf, File)> {
    let name = target.file_name()?.to_string_lossy().into_owned();
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
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
    use std::path::Path;
    use std::time::{Duration, Instant};

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
            match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
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

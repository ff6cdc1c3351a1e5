//! Folders in which every user may make files, such as `/tmp`. The profiler follows no link and writes to no file that
//! another user put there. Linux can do the same, depending on its settings (`fs.protected_symlinks` and others).

use range_model::stats::Lean;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The largest number of links that are followed: as many as Linux follows.
const MOST_LINKS: usize = 40;

/// The path after all links were followed. Its target need not exist.
pub(super) fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut ahead = parts(&std::path::absolute(path)?);
    let (mut at, mut links) = (PathBuf::new(), 0);
    while let Some(part) = ahead.pop() {
        match part.to_str() {
            Some(".") => continue,
            Some("..") => drop(at.pop()),
            _ => at.push(part), // the root replaces the path so far
        }
        if is_of_system(&at) {
            at.extend(ahead.into_iter().rev());
            return Ok(at);
        }
        let Ok(there) = fs::symlink_metadata(&at) else { continue }; // opening it reports the reason
        judge(&at, &there)?;
        if there.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(io::Error::other("too many links"));
            }
            let target = fs::read_link(&at)?;
            at.pop();
            ahead.extend(parts(&target));
        }
    }
    Ok(at)
}

/// The components of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).in_vec()
}

/// Whether a path is that of a system file: a device, or a descriptor of the process, which is a link to no file.
pub(super) fn is_of_system(path: &Path) -> bool {
    let devices = Path::new("/dev");
    path.starts_with("/proc") || path.starts_with(devices) && path != devices && !path.starts_with("/dev/shm")
}

/// Opens a path without links for writing. Checks the file again, because another user may have replaced it since.
pub(super) fn open(path: &Path, options: &mut OpenOptions, flags: i32) -> io::Result<File> {
    let file = system::with_flags(options.write(true), flags, is_of_system(path)).open(path)?;
    judge(path, &file.metadata()?)?;
    Ok(system::out_of_the_way(file))
}

/// Refuses an entry that another user put into a shared folder. Also refuses an ordinary file with several names there,
/// because another name may be that of a file of ours elsewhere.
fn judge(path: &Path, there: &Metadata) -> io::Result<()> {
    match path.parent().map(fs::metadata) {
        Some(Ok(folder)) if !there.is_dir() && system::is_shared(&folder) && !system::is_own(there, &folder) => {
            let what = "another user may have put it into this folder, to which all users may write";
            Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
        }
        _ => Ok(()),
    }
}

/// The path for a database. SQLite opens files by their names, so in a shared folder the file is made here: then nobody
/// else can put another file in its place.
#[cfg(feature = "sqlite")]
pub(super) fn for_database(path: &Path) -> io::Result<PathBuf> {
    let path = resolved(path)?;
    if path.parent().map(fs::metadata).is_some_and(|folder| folder.is_ok_and(|folder| system::is_shared(&folder))) {
        open(&path, OpenOptions::new().create(true), 0)?;
        for beside in ["-journal", "-wal", "-shm"] {
            let mut name = path.clone().into_os_string();
            name.push(beside);
            resolved(Path::new(&name))?;
        }
    }
    Ok(path)
}

#[cfg(unix)]
mod system {
    use std::fs::{File, Metadata, OpenOptions};
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

    use crate::process;

    pub(super) fn is_shared(folder: &Metadata) -> bool {
        // All users may write, and only owners may remove. Where anyone may remove, our own files are not safe, either.
        const SHARED: u32 = 0o1002;
        folder.mode() & SHARED == SHARED
    }

    pub(super) fn is_own(there: &Metadata, folder: &Metadata) -> bool {
        [process::effective_user(), folder.uid()].contains(&there.uid()) && !(there.is_file() && there.nlink() > 1)
    }

    pub(super) fn with_flags(options: &mut OpenOptions, flags: i32, follows: bool) -> &OpenOptions {
        options.custom_flags(if follows { flags } else { flags | libc::O_NOFOLLOW })
    }

    pub(super) fn out_of_the_way(file: File) -> File {
        process::out_of_the_way(&file).unwrap_or(file)
    }
}

/// This system has no such folders.
#[cfg(not(unix))]
mod system {
    use std::fs::{File, Metadata, OpenOptions};

    pub(super) fn is_shared(_: &Metadata) -> bool {
        false
    }

    pub(super) fn is_own(_: &Metadata, _: &Metadata) -> bool {
        true
    }

    pub(super) fn with_flags(options: &mut OpenOptions, _: i32, _: bool) -> &OpenOptions {
        options
    }

    pub(super) fn out_of_the_way(file: File) -> File {
        file
    }
}

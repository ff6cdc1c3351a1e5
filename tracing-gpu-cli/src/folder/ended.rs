//! Folders of runs whose command was killed, so that nobody has read and removed them.
//!
//! Each command locks a file in the folder of its run, and the system unlocks it however the command ends. A process id
//! would say less: other containers and other hosts that share the folder have the same ids.
//!
//! Everybody may write to `/tmp`. So a folder is looked at only if it belongs to the user of this run and nobody else
//! can enter it; no link is followed.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::{Folder, PREFIX};

/// What is locked.
const LOCK: &str = "lock";
/// The same file once a run has named the folder.
const NAMED: &str = "named";
/// So long after it was named a folder is removed.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Locks a new folder. It has the file from the moment on when that is locked.
pub(super) fn lock(folder: &Path) -> io::Result<File> {
    let new = folder.join("new");
    let file = OpenOptions::new().write(true).create_new(true).open(&new)?;
    let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    locked.map_err(io::Error::from).and_then(|()| fs::rename(&new, folder.join(LOCK))).inspect_err(|_| {
        let _stays = fs::remove_file(&new);
    })?;
    Ok(file)
}

/// The folder of a run that has ended, which no other run looks at meanwhile.
#[derive(Debug)]
pub(crate) struct EndedRun {
    path: PathBuf,
    folder: File,
    is_named: bool,
    _lock: File,
}

impl Folder {
    /// The folders beside this one, of the same user, of runs that have ended.
    pub(crate) fn ended_runs(&self) -> Vec<EndedRun> {
        let Some(place) = self.path.parent() else { return Vec::new() };
        let is_ended = |entry: fs::DirEntry| {
            let path = entry.path();
            (is_of_run(&entry.file_name()) && path != self.path).then(|| self.ended_run(path).ok()).flatten()
        };
        fs::read_dir(place).into_iter().flatten().flatten().filter_map(is_ended).collect()
    }

    fn ended_run(&self, path: PathBuf) -> io::Result<EndedRun> {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let no_link = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let folder = File::from(rustix::fs::open(&path, no_link | OFlags::DIRECTORY, Mode::empty())?);
        let there = folder.metadata()?;
        if there.uid() != fs::metadata(&self.path)?.uid() || there.permissions().mode() & 0o077 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let open = |name| rustix::fs::openat(&folder, name, no_link | OFlags::RDWR, Mode::empty());
        let (lock, is_named) = match open(LOCK) {
            Ok(lock) => (lock, false),
            Err(_) => (open(NAMED)?, true),
        };
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(EndedRun { path, folder, is_named, _lock: lock.into() })
    }
}

impl EndedRun {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is to be named: it was not before, and a process was measured. The next run does not name it.
    pub(crate) fn take_name(&mut self) -> bool {
        let is_begun = |entry: fs::DirEntry| entry.path().extension() == Some(OsStr::new("begun"));
        let has_any = || fs::read_dir(&self.path).into_iter().flatten().flatten().any(is_begun);
        let is_new = !self.is_named && has_any();
        // Its time begins when it is named: the folder changes.
        self.is_named |= is_new && rustix::fs::renameat(&self.folder, LOCK, &self.folder, NAMED).is_ok();
        is_new && self.is_named
    }

    /// Whether nothing has changed in it for so long that it can go.
    pub(crate) fn is_old(&self) -> bool {
        let changed = self.folder.metadata().and_then(|there| there.modified());
        let age = changed.ok().and_then(|changed| SystemTime::now().duration_since(changed).ok());
        age.is_some_and(|age| age > KEPT)
    }

    /// Removes it with all in it.
    pub(crate) fn remove(self) {
        let _stays = fs::remove_dir_all(&self.path); // follows no link
    }
}

/// Whether this may be the name of a run's folder.
fn is_of_run(name: &OsStr) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
    rest.and_then(|rest| rest.split_once('-')).is_some_and(|(process, random)| {
        let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
        is_number && random.len() == 16 && random.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_runs_are_taken_for_such() {
        let is = |name: &str| is_of_run(OsStr::new(name));
        assert!(is("tracing-gpu-1-0123456789abcdef"));
        for other in [
            "tracing-gpu-1-0123456789abcde",
            "tracing-gpu-1-0123456789abcdef0",
            "tracing-gpu-1-0123456789abcdeF",
            "tracing-gpu--0123456789abcdef",
            "tracing-gpu-x-0123456789abcdef",
            "tracing-gpu-1-2-0123456789abcdef",
            "tracing-gpu-tests",
            "other-1-0123456789abcdef",
        ] {
            assert!(!is(other), "{other}");
        }
    }
}

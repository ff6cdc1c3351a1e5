//! Folders of runs whose command was killed before it could read and remove them.
//!
//! Each command locks the settings in its run's folder, and the system unlocks them however the command ends. A process
//! id would be ambiguous: containers and hosts that share the folder may have the same ids.
//!
//! Everybody may write to `/tmp`. So a folder is used only if it belongs to the user of this run and nobody else can
//! enter it; no link is followed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::{Folder, PREFIX, SETTINGS, is_alive};

/// A file that exists once a run has named the folder.
const NAMED: &str = "named";
/// A folder is removed this long after it was named.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The folder of an ended run, locked against other runs.
#[derive(Debug)]
pub(crate) struct EndedRun {
    path: PathBuf,
    folder: File,
    _lock: File,
}

impl Folder {
    /// Folders beside this one that have the name of a run's folder.
    pub(crate) fn other_runs(&self) -> Vec<PathBuf> {
        let beside = self.path.parent().and_then(|place| fs::read_dir(place).ok());
        let is_other = |entry: &fs::DirEntry| is_of_run(&entry.file_name()) && entry.path() != self.path;
        beside.into_iter().flatten().flatten().filter(is_other).map(|entry| entry.path()).collect()
    }

    /// Those of ended runs of the same user.
    pub(crate) fn ended_runs(&self, others: Vec<PathBuf>) -> impl Iterator<Item = EndedRun> {
        others.into_iter().filter_map(|path| self.ended_run(path).ok())
    }

    fn ended_run(&self, path: PathBuf) -> io::Result<EndedRun> {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let no_link = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let folder = File::from(rustix::fs::open(&path, no_link | OFlags::DIRECTORY, Mode::empty())?);
        let there = folder.metadata()?;
        if there.uid() != fs::metadata(&self.path)?.uid() || there.permissions().mode() & 0o077 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let lock = File::from(rustix::fs::openat(&folder, SETTINGS, no_link | OFlags::RDWR, Mode::empty())?);
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(EndedRun { path, folder, _lock: lock })
    }
}

impl EndedRun {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it should be named: it was not named before, and a process was measured. The next run does not name it
    /// again. Naming changes the folder, which starts its time.
    pub(crate) fn take_name(&self) -> io::Result<bool> {
        let is_begun = |entry: fs::DirEntry| entry.path().extension() == Some(OsStr::new("begun"));
        if !fs::read_dir(&self.path)?.flatten().any(is_begun) {
            return Ok(false);
        }
        let new = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.folder, NAMED, new, Mode::RUSR) {
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether nothing has changed in it for so long that it can be removed.
    pub(crate) fn is_old(&self) -> bool {
        if self.has_live_process() {
            return false;
        }
        let changed = self.folder.metadata().and_then(|there| there.modified());
        let age = changed.ok().and_then(|changed| SystemTime::now().duration_since(changed).ok());
        age.is_some_and(|age| age > KEPT)
    }

    /// Whether a process may still measure into it: it began, has not ended in order, and its id is in use.
    fn has_live_process(&self) -> bool {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut begun = entries.map(|entry| entry.path()).filter(|path| path.extension() == Some(OsStr::new("begun")));
        begun.any(|begun| !begun.with_extension("json").exists() && is_alive(&begun))
    }

    /// Removes it with its contents.
    pub(crate) fn remove(self) {
        Folder { path: self.path, lock: None }.remove();
    }
}

/// Whether a run's folder may have this name.
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

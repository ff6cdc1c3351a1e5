//! A file that is open as long as the program runs. The program may close its descriptor, as daemons close all, and
//! open a file of its own under the same number: that is neither written to nor closed.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};

pub(super) struct LastingFile {
    /// `None` once it is dropped.
    file: Option<File>,
    identity: Identity,
}

impl LastingFile {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let identity = identity(&file)?;
        Ok(Self { file: Some(file), identity })
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let Self { file, identity: known } = self;
        let there = file.as_mut().filter(|file| identity(file).is_ok_and(|found| found == *known));
        there.ok_or_else(|| io::Error::other("the program has closed its descriptor"))
    }
}

impl Write for LastingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file()?.flush()
    }
}

impl Seek for LastingFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file()?.seek(to)
    }
}

impl Drop for LastingFile {
    fn drop(&mut self) {
        if self.file().is_err() {
            std::mem::forget(self.file.take());
        }
    }
}

/// Device and number of a file.
#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(file: &File) -> io::Result<Identity> {
    use std::os::unix::fs::MetadataExt as _;
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

/// Not known here.
#[cfg(not(unix))]
type Identity = ();

#[cfg(not(unix))]
fn identity(_: &File) -> io::Result<Identity> {
    Ok(())
}

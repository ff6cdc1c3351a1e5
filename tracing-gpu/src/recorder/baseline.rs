//! Reads the summary that a page compares its run with.

use std::io;
use std::path::Path;

use crate::report::escaped;
use crate::summary::Summary;

/// Reads it. An error names the file.
pub(super) fn read(path: &Path) -> io::Result<Summary> {
    summary(path).map_err(|error| {
        let path = path.to_string_lossy();
        io::Error::new(error.kind(), format!("cannot read the baseline `{}`: {error}", escaped(&path)))
    })
}

/// What the page calls it: the name of the file, without what says that it is JSON.
pub(super) fn name(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(feature = "json")]
fn summary(path: &Path) -> io::Result<Summary> {
    // A pipe or a device might keep the program waiting, or never end.
    let found = std::fs::metadata(path)?;
    if !found.is_file() && !found.is_dir() {
        return Err(io::Error::other("it is no ordinary file"));
    }
    Summary::from_json(&mut std::fs::File::open(path)?).map_err(|error| match error {
        crate::JsonError::Io(error) => error,
        other => io::Error::other(other),
    })
}

/// Never asked for: no setting gets here without the feature.
#[cfg(not(feature = "json"))]
fn summary(_: &Path) -> io::Result<Summary> {
    Err(io::Error::other("it needs the feature `json` of the crate tracing-gpu"))
}

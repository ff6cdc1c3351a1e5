//! Where `tests/install` puts the files that it fetches.

use std::path::PathBuf;

/// The folder of one of the things that it fetches: `cupti`, `nvtx`, `perfetto`.
///
/// # Panics
/// If there is no home to look in.
#[must_use]
pub fn folder(of: &str) -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()).map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    cache.or_else(home).expect("XDG_CACHE_HOME or HOME").join("tracing-gpu-tests").join(of)
}

//! Loading a tool's library, and the result.

#![allow(unsafe_code)]

use crate::abi;
use std::error::Error as _;
use std::path::PathBuf;

/// Whether a tool receives the calls, and if not, why.
///
/// ```
/// use nvtx_rs::client::{State, state};
/// match state() {
///     State::Attached => println!("a tool is attached"),
///     State::NotSet => println!("start the program with `nsys profile`"),
///     other => println!("no tool: {other:?}"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// `NVTX_INJECTION64_PATH` is not set: the program runs without a profiler.
    NotSet,
    /// The library cannot be loaded. The empty path is the program itself.
    MissingLibrary {
        /// The path in the variable.
        path: PathBuf,
        /// The message of the dynamic linker.
        reason: String,
    },
    /// The library has no `InitializeInjectionNvtx2`.
    NoEntryPoint {
        /// The path in the variable.
        path: PathBuf,
    },
    /// The library's `InitializeInjectionNvtx2` reported a failure.
    EntryFailed {
        /// The path in the variable.
        path: PathBuf,
    },
    /// A tool is attached.
    Attached,
    /// The tool is being loaded; only code that runs inside its entry point sees this.
    Loading,
}

/// A loaded tool; closed when dropped.
pub(crate) struct ToolLibrary {
    pub(crate) path: PathBuf,
    library: Library,
}

#[cfg(unix)]
type Library = libloading::os::unix::Library;
#[cfg(not(unix))]
type Library = libloading::Library;

impl ToolLibrary {
    /// Leaves the library loaded for the life of the process, as slots point into it.
    pub(crate) fn keep(self) {
        std::mem::forget(self.library);
    }

    /// The tool's entry point for extensions, if it has one.
    #[cfg(feature = "tool")]
    pub(crate) fn extension_entry(&self) -> Option<abi::ExtensionEntry> {
        // SAFETY: in a tool's library the name stands for a function of this type.
        unsafe { self.library.get::<abi::ExtensionEntry>(abi::EXTENSION_ENTRY_POINT.as_bytes()) }
            .ok()
            .map(|entry| *entry)
    }
}

/// Loads a tool's library and finds its entry point.
pub(crate) fn load_library(path: PathBuf) -> Result<(ToolLibrary, abi::Entry), State> {
    #[cfg(unix)]
    // SAFETY: the user named the library as a tool, so its initialisers are meant to run here.
    let opened = unsafe { Library::open(Some(&path), libloading::os::unix::RTLD_LAZY) };
    #[cfg(not(unix))]
    // SAFETY: as above.
    let opened = unsafe { Library::new(&path) };
    let library = match opened {
        Ok(library) => library,
        Err(error) => {
            // The loader's message is the source. The error itself names the function that failed.
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            return Err(State::MissingLibrary { path, reason });
        }
    };
    // SAFETY: in a tool's library the name stands for a function of this type.
    let entry = unsafe { library.get::<abi::Entry>(abi::ENTRY_POINT.as_bytes()) }.map(|entry| *entry);
    match entry {
        Ok(entry) => Ok((ToolLibrary { path, library }, entry)),
        Err(_) => Err(State::NoEntryPoint { path }),
    }
}

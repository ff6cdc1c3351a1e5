//! Why there are no records from CUPTI: one sentence each, for the footer.

use std::fmt;

/// Why CUPTI cannot be used.
#[allow(missing_docs)] // `Display` names the fields
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unavailable {
    /// The CUDA driver is missing or lacks functions: the reason.
    Driver(String),
    /// The driver is there, but returned this code from this function.
    NoDevice { function: &'static str, code: i32 },
    /// No libcupti was found: the places that were searched.
    NotFound { looked: String },
    /// A file exists, but the system does not load it.
    NotLoadable { path: String, reason: String },
    /// The library lacks a function that every CUPTI since 11.8 has.
    Lacks { path: String, function: &'static str },
    /// The library is older than the oldest tested one.
    TooOld { path: String, version: u32 },
    /// Records of this kind do not have the size that the reader needs.
    UnknownLayout { path: String, kind: &'static str },
    /// Another profiler uses CUPTI, which serves one profiler per process: its name, if known.
    OtherTool(Option<String>),
    /// The library works neither with a driver older than itself nor without a GPU.
    NewerThanDriver { library: String, driver: i32 },
    /// Users are not allowed to profile, on this machine or on this virtual device.
    NotPermitted { code: i32 },
    /// A function returned a code with another meaning.
    Refused { function: &'static str, code: i32, meaning: String },
    /// A session of this process has not been finished.
    Running,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver(reason) => f.write_str(reason),
            Self::NoDevice { function, code: 0 } => write!(f, "the CUDA driver has no device ({function} counts none)"),
            Self::NoDevice { function, code: 100 } => {
                write!(f, "this machine has no CUDA device (CUDA error 100 of {function})")
            }
            Self::NoDevice { function, code } => write!(f, "the CUDA driver answered CUDA error {code} to {function}"),
            Self::NotFound { looked } => {
                write!(f, "libcupti was not found ({looked}); TRACING_GPU_CUPTI=PATH names it")
            }
            Self::NotLoadable { path, reason } => write!(f, "{path} cannot be loaded: {reason}"),
            Self::Lacks { path, function } => {
                write!(f, "{path} has no `{function}`: it is no CUPTI of CUDA 11.8 or later")
            }
            Self::TooOld { path, version } => {
                write!(f, "{path} is CUPTI of API version {version}, older than CUDA 11.8")
            }
            Self::UnknownLayout { path, kind } => {
                write!(f, "{path} writes records of {kind} in a layout that is not known")
            }
            Self::OtherTool(Some(name)) => write!(f, "{name} is using CUPTI, which serves one profiler at a time"),
            Self::OtherTool(None) => {
                f.write_str("another profiler of this process is using CUPTI, which serves one at a time")
            }
            Self::NewerThanDriver { library, driver } => write!(
                f,
                "{library} does not work with the driver, which is for CUDA {}: it is newer, or there is no GPU",
                cuda_version(*driver)
            ),
            Self::NotPermitted { code } => write!(
                f,
                "profiling is not permitted here (CUPTI error {code}): an administrator may allow it, see NVIDIA's ERR_NVGPUCTRPERM"
            ),
            Self::Refused { function, code, meaning } if meaning.is_empty() => {
                write!(f, "{function} answered CUPTI error {code}")
            }
            Self::Refused { function, code, meaning } => {
                write!(f, "{function} answered CUPTI error {code} ({meaning})")
            }
            Self::Running => f.write_str("another profiler of this program is using CUPTI"),
        }
    }
}

impl std::error::Error for Unavailable {}

/// `13.0` for 13000.
pub(super) fn cuda_version(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

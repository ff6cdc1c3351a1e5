//! Finds the tool, lets it fill the slots, and calls the functions in them.
//!
//! At the first NVTX call of the process the library named by the environment variable `NVTX_INJECTION64_PATH` is
//! loaded and its `InitializeInjectionNvtx2` called, once. Profilers such as Nsight Systems set that variable. Without
//! it nothing is loaded, and every call is one load and one branch from then on.
//!
//! If the variable is not set, the C headers look for a tool linked into the program (the weak symbol
//! `InitializeInjectionNvtx2_fnptr`). Stable Rust has no weak symbols; use [`tool::attach`](crate::tool::attach) to
//! receive the calls inside the process.

pub(crate) mod attributes;
mod calls;
pub(crate) mod category;
pub(crate) mod domain;
pub(crate) mod domain_calls;
mod lazy;
pub(crate) mod mark;
#[doc(hidden)]
pub mod naming;
pub(crate) mod range;
pub(crate) mod registered;
pub(crate) mod resource;
pub(crate) mod sync;
#[doc(hidden)]
pub mod text;
#[cfg(feature = "nvidia")]
#[doc(hidden)]
pub mod transport;

pub use crate::abi::loading::State;
pub use crate::abi::program::{is_tool_absent, is_tool_attached, state};

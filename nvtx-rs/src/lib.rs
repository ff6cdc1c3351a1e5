//! NVTX v3: annotate a program for NVIDIA's tools, with cargo alone.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod abi;
mod attributes;
mod calls;
mod category;
pub mod client;
mod color;
mod domain;
mod error;
mod lazy;
mod mark;
pub mod naming;
mod panics;
mod payload;
mod range;
mod registered;
mod resource;
mod slots;
mod sync;
pub mod text;
pub mod tool;
#[cfg(feature = "nvidia")]
pub mod transport;

pub use attributes::Attributes;
pub use category::Category;
pub use client::{is_tool_absent, is_tool_attached};
pub use color::Color;
pub use domain::{Domain, RangeId};
pub use error::{AttachError, DomainError, ParseColorError};
#[doc(hidden)]
pub use mark::CallSite;
pub use payload::Payload;
pub use range::{PushRange, StartRange};
pub use registered::RegisteredString;
pub use resource::{Resource, ResourceKind};
pub use sync::SyncObject;

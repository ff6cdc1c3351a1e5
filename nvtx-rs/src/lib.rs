//! NVTX v3 for Rust: name what a program does, so that NVIDIA's tools show it; or receive those names in a tool of
//! one's own.
//!
//! ```
//! use nvtx_rs::{Color, Domain, mark, range};
//!
//! let solver = Domain::named("solver")?;
//! let _solve = range!(domain: solver, "solve");
//! for step in 0..3u32 {
//!     let _step = range!(domain: solver, "step", payload: step, color: Color::rgb(0, 128, 255));
//! }
//! mark!("solved");
//! # Ok::<(), nvtx_rs::DomainError>(())
//! ```
//!
//! Run the program under `nsys profile -t nvtx` or any other tool that sets `NVTX_INJECTION64_PATH`, and the ranges are
//! in its timeline. Without a tool a range costs about a nanosecond: one load and one branch to open it.
//!
//! # What it needs
//!
//! Cargo alone. The crate speaks the binary interface itself: no C compiler, no libclang, no CUDA, no library of
//! NVIDIA's at build time or run time. NVIDIA's own crate `nvtx` makes its bindings while it is built and so needs
//! libclang on every machine; the feature `nvidia` sends this crate's calls through it, see the module `transport`.
//!
//! # Two kinds of range
//!
//! | | law | guard | bare calls |
//! |---|---|---|---|
//! | push/pop | nested, on one thread | [`PushRange`], [`range!`] | [`Domain::push`], [`Domain::pop`] |
//! | start/end | any thread, any order | [`StartRange`] | [`Domain::start`], [`Domain::end`] |
//!
//! Both carry [`Attributes`]: a message, a [`Color`], a [`Category`] and a [`Payload`]. Moments are marked with
//! [`mark!`] or [`Domain::mark`]. [`naming`] names threads and CUDA objects, [`Resource`] other objects; [`SyncObject`]
//! announces locks of one's own. [`tool`] is the other side of the interface.
//!
//! # Limits
//!
//! - A tool is searched for once, at the first call; [`client::state`] has the result.
//! - Names are adapted to the interface: NUL becomes `␀`, and names longer than 32 KiB are cut ([`text::sanitize`]).
//! - Named domains, registered strings and categories are kept for the life of the process. There may be
//!   [`Domain::LIMIT`] domains; strings and categories are not limited, so do not register texts that are different
//!   each time.
//! - Names are given on Linux and elsewhere alike, but [`naming::name_current_thread`] needs Linux's `/proc`.
//! - The interface's extensions for extended payloads, counters and memory naming are not offered. A tool of this crate
//!   receives extended payloads; it passes counters and memory naming on to the tool behind it.
//! - Nothing here panics or prints, whatever the tool or the environment.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_debug_implementations, clippy::missing_errors_doc, clippy::must_use_candidate)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod abi;
pub mod client;
#[cfg(feature = "tool")]
pub mod tool;

pub use abi::color::{Color, ParseColorError};
#[doc(hidden)]
pub use abi::environment;
pub use abi::number::Payload;
pub use abi::resource_kind::ResourceKind;
pub use client::attributes::Attributes;
pub use client::category::Category;
pub use client::domain::{Domain, DomainError};
pub use client::domain_calls::RangeId;
#[doc(hidden)]
pub use client::mark::CallSite;
#[doc(inline)]
pub use client::naming;
pub use client::range::{PushRange, StartRange};
pub use client::registered::RegisteredString;
pub use client::resource::Resource;
pub use client::sync::SyncObject;
#[doc(inline)]
pub use client::text;
#[cfg(feature = "nvidia")]
#[doc(inline)]
pub use client::transport;
pub use client::{is_tool_absent, is_tool_attached};
#[cfg(feature = "tool")]
pub use tool::install::AttachError;

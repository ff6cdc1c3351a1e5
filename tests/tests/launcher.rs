//! The command `tracing-gpu` on programs that were not built with this crate: its file, its options, bad input; and,
//! with NVIDIA's headers of NVTX, every way in which processes end.

#[cfg(feature = "foreign")]
#[path = "launcher/descriptors.rs"]
mod descriptors;
#[path = "launcher/elf.rs"]
mod elf;
#[cfg(feature = "foreign")]
#[path = "launcher/ends.rs"]
mod ends;
#[path = "launcher/input.rs"]
mod input;
#[cfg(feature = "foreign")]
#[path = "launcher/joined.rs"]
mod joined;
#[cfg(feature = "foreign")]
#[path = "launcher/killed.rs"]
mod killed;
#[cfg(feature = "foreign")]
#[path = "launcher/options.rs"]
mod options;
#[cfg(feature = "foreign")]
#[path = "launcher/python.rs"]
mod python;
#[cfg(feature = "foreign")]
#[path = "launcher/stacks.rs"]
mod stacks;
#[cfg(feature = "foreign")]
#[path = "launcher/static.rs"]
mod statically_linked;
#[path = "launcher/summaries.rs"]
mod summaries;
#[cfg(feature = "foreign")]
#[path = "launcher/waits.rs"]
mod waits;

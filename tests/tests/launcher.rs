//! The command `tracing-gpu` on programs that were not built with us: its file, its options, bad input.

#[path = "launcher/elf.rs"]
mod elf;
#[path = "launcher/input.rs"]
mod input;

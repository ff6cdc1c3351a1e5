//! The same program through NVIDIA's crate.

//! NVTX.

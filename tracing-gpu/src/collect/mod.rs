//! Paths of before, while others still use them.

pub(crate) use crate::chunked;
pub(crate) use crate::session::catalog;
pub(crate) use crate::span::fields;
pub(crate) use crate::thread::{lifetimes, notes, row, tape};
pub(crate) mod core {
    pub(crate) use crate::session::{Names, Session as Core};
}
pub(crate) mod samples {
    pub(crate) use crate::thread::samples::KEPT;
}
pub(crate) mod threads {
    pub(crate) use crate::thread::engine::look_again;
}
pub(crate) mod stream_times;

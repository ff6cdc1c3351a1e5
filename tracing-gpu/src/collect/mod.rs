//! Paths of before, while others still use them.

pub(crate) use crate::session::catalog;
pub(crate) use crate::span::fields;
pub(crate) use crate::thread::{lifetimes, notes, row, tape};
pub(crate) mod core {
    pub(crate) use crate::session::{Names, Session as Core};
}

//! Files made from a [`Summary`](crate::Summary), for other programs.

#[cfg(feature = "json")]
pub(crate) mod json;
mod path;

pub(crate) use path::expand;

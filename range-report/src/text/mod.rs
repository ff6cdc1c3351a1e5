//! Names, numbers and their widths in readable form, for tables, sentences and pages.

pub(crate) mod emphasis;
pub(crate) mod kernels;
pub(crate) mod names;
pub(crate) mod number;
pub(crate) mod width;
pub(crate) mod wording;

pub use names::escaped;
pub(crate) use names::label;

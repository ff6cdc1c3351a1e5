//! Names, numbers and their widths in readable form, for tables, sentences and pages.

pub(crate) mod emphasis;
pub(crate) mod kernels;
pub(crate) mod number;
pub(crate) mod width;
pub(crate) mod wording;

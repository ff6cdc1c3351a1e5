//! Names, numbers and their widths in readable form, for tables, sentences and pages.

pub(crate) mod emphasis;
pub(crate) mod kernels;
pub(crate) mod names;
pub(crate) mod number;
mod unknown_name;
pub(crate) mod width;
pub(crate) mod wording;

pub use names::escaped;
pub use unknown_name::UnknownName;

/// The parts, with `between` after each but the last. The compiler makes ten times as much of `join` for a slice.
pub fn joined<T: AsRef<str>>(parts: impl IntoIterator<Item = T>, between: &str) -> String {
    let mut all = String::new();
    for (at, part) in parts.into_iter().enumerate() {
        if at > 0 {
            all.push_str(between);
        }
        all.push_str(part.as_ref());
    }
    all
}

pub(crate) use names::label;

//! The types of fields that are no struct of a summary, or hold some.

use super::schema::{Declared, Part};
use super::{CallKind, MemoryKind, Note, RangeStyle};

macro_rules! plain {
    ($($Plain:ty),+) => { $(impl Part for $Plain {})+ };
}
plain!(u64, u32, f64, bool, String, CallKind, RangeStyle, MemoryKind, Note, (Option<String>, String), (u32, u64));

impl<T: Part> Part for Option<T> {
    fn declared() -> Option<&'static Declared> {
        T::declared()
    }
}

impl<T: Part> Part for Vec<T> {
    fn declared() -> Option<&'static Declared> {
        T::declared()
    }
}

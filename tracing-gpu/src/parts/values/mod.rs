//! Values that fields give a span: its name, colour, payload, category, stream, ...

pub(crate) mod span;
pub(crate) mod tier;

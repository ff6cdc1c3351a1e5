//! Properties of a span: its call site, name, fields and values.

pub(crate) mod codes;
pub(crate) mod fields;
pub(crate) mod misread;
pub(crate) mod site;
pub(crate) mod values;

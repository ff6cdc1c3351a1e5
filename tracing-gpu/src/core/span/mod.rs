//! Properties of a span: its call site, name, fields and values.

pub(crate) mod site;

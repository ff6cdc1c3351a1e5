//! Names as reports show them.

use crate::core::session::Names;

/// The shown name, and a number that distinguishes rows of that name. All rows by name use this key type: see
/// [`Keyed`].
pub(crate) type Shown = (String, u32);

#[inline(never)]
pub(crate) fn label_text(names: &Names, label: u32) -> Option<(Option<String>, String)> {
    names.text_of(label)
}

/// The name as [`RangeStats::label`] gives it.
#[inline(never)]
pub(crate) fn label_shown(names: &Names, label: u32) -> String {
    match label_text(names, label) {
        Some((Some(domain), name)) => format!("{domain}:{name}"),
        Some((None, name)) => name,
        None => String::new(),
    }
}

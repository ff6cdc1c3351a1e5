//! Writing a struct to its place, field by field, so that it is never on a stack.

/// Writes the fields of a struct to its place, one by one. The fields named first are written elsewhere, or keep the
/// zeros of the memory. The compiler reports a forgotten field.
macro_rules! write_fields {
    ($place:expr, $type:ident without ($($other:ident),*), {
        $($(#[$condition:meta])? $field:ident: $value:expr,)*
    }) => {{
        let place: *mut $type = $place;
        let _all_fields = |whole: &$type| {
            let $type { $($(#[$condition])? $field: _,)* $($other: _,)* } = whole;
        };
        $($(#[$condition])? (&raw mut (*place).$field).write($value);)*
    }};
}

pub(crate) use write_fields;

//! Rows of a summary, declared once.
//!
//! `figures!` takes a struct and, in the line of each field, the rules for everything else that is made from the field:
//!
//! ```text
//! /// Longest instance; 0 where it is not known.     the documentation, and the description in the JSON schema
//! #[serde(default)]                                  whether JSON may lack it
//! max_ns: u64 = most => "Max (ns)" if known;         its name in JSON, how parts are joined, and its header
//! ```
//!
//! The rules determine how the parts of several processes, or of several windows, are joined: `sum`, `most`, `least`,
//! `deviation`, `joined` (the part has its own rules), `listed` (lists are appended), `key` (equal in all parts) and
//! `apart` (unknown for several parts). A header includes the unit, as in Nsight Systems. `if known` means that 0
//! stands for unknown.
//!
//! The same rules determine what is left of a figure if an earlier state of it is taken away: a `sum` is subtracted; of
//! `most` and `least` only a new extreme is known; a `joined` part has its own rules; `listed` and `key` stay as they
//! are; the rest is unknown.
//!
//! A row with labels gets a second struct of its figures alone, for several processes together. A `nested` row gets a
//! flat form for JSON.

use std::hash::Hash;

use crate::stats::{Keyed, Lean};

/// Joins parts.
pub trait Join: Sized {
    /// All of these as one.
    fn join(parts: &[&Self]) -> Self;

    /// Rows of several parts in one list, as the rows of one.
    #[must_use]
    fn joined(self) -> Self {
        Self::join(&[&self])
    }
}

/// Takes an earlier state away.
pub trait Since {
    /// What came since `before`.
    #[must_use]
    fn since(&self, before: &Self) -> Self;
}

impl<T: Since + Clone> Since for Option<T> {
    fn since(&self, before: &Self) -> Self {
        match (self, before) {
            (Some(now), Some(before)) => Some(now.since(before)),
            (now, _) => now.clone(),
        }
    }
}

/// The rows of a list since an earlier state of it. Rows to which nothing was added are left out.
pub(crate) fn since_by_key<T: Since + Clone + PartialEq, K: Ord + Hash>(
    now: &[T],
    before: &[T],
    key: fn(&T) -> K,
) -> Vec<T> {
    let mut old: Keyed<K, &T> = Keyed::default();
    for row in before {
        old.row_or(key(row), || row);
    }
    let mut rows = Vec::new();
    for row in now {
        match old.get(&key(row)) {
            Some(before) if *before == row => {}
            Some(before) => rows.push(row.since(before)),
            None => rows.push(row.clone()),
        }
    }
    rows
}

/// Numbers that are taken away by the rule of their name.
pub(crate) mod since {
    use super::Figure;

    pub(crate) fn sum<F: Figure>(now: F, before: F) -> F {
        let before = before.known().unwrap_or(0);
        F::of(now.known().map(|now| now.saturating_sub(before)))
    }

    pub(crate) use sum as total;

    pub(crate) fn most<F: Figure>(now: F, before: F) -> F {
        let before = before.known().unwrap_or(0);
        F::of(now.known().filter(|now| *now > before))
    }

    pub(crate) fn least<F: Figure>(now: F, before: F) -> F {
        let before = before.known().filter(|before| *before > 0).unwrap_or(u64::MAX);
        F::of(now.known().filter(|now| *now < before))
    }
}

/// The deviation of what was added: from number, sum and deviation of all, and of those before.
pub(crate) fn deviation_since(now: (u64, u64, f64), before: (u64, u64, f64)) -> f64 {
    let squares = |(count, total, deviation): (u64, u64, f64)| {
        let (count, total) = (count as f64, total as f64);
        if count == 0.0 { 0.0 } else { (count - 1.0) * deviation * deviation + total * total / count }
    };
    let count = now.0.saturating_sub(before.0) as f64;
    let total = now.1.saturating_sub(before.1) as f64;
    if count <= 1.0 {
        return 0.0;
    }
    ((squares(now) - squares(before) - total * total / count) / (count - 1.0)).max(0.0).sqrt()
}

/// The known parts, joined; `None` if none is known.
impl<T: Join> Join for Option<T> {
    fn join(parts: &[&Self]) -> Self {
        let known: Vec<&T> = parts.iter().filter_map(|part| part.as_ref()).in_vec();
        (!known.is_empty()).then(|| T::join(&known))
    }
}

/// The rows of several lists, joined if their keys are equal, in order of keys.
pub(crate) fn by_key<T: Join, K: Ord + Hash>(lists: &[&Vec<T>], key: fn(&T) -> K) -> Vec<T> {
    let mut rows: Keyed<K, Vec<&T>> = Keyed::default();
    for row in lists.iter().copied().flatten() {
        rows.row(key(row)).push(row);
    }
    rows.values().map(|parts| T::join(parts)).in_vec()
}

/// A number of a row, which may be unknown.
pub(crate) trait Figure: Sized {
    fn known(self) -> Option<u64>;
    fn of(known: Option<u64>) -> Self;
}

impl Figure for u64 {
    fn known(self) -> Option<u64> {
        Some(self)
    }

    fn of(known: Option<u64>) -> Self {
        known.unwrap_or(0)
    }
}

impl Figure for Option<u64> {
    fn known(self) -> Option<u64> {
        self
    }

    fn of(known: Self) -> Self {
        known
    }
}

/// The sum of a figure's known parts. `of` is no closure type of its own, so this is compiled once for each row.
pub(crate) fn sum<R, F: Figure>(parts: &[&R], of: fn(&R) -> F) -> F {
    known(parts, of, u64::saturating_add)
}

/// The sum of a figure's parts; unknown if one of them is.
pub(crate) fn total<R, F: Figure>(parts: &[&R], of: fn(&R) -> F) -> F {
    let is_known = parts.iter().all(|part| of(part).known().is_some());
    if is_known { sum(parts, of) } else { F::of(None) }
}

pub(crate) fn most<R, F: Figure>(parts: &[&R], of: fn(&R) -> F) -> F {
    known(parts, of, u64::max)
}

pub(crate) fn least<R, F: Figure>(parts: &[&R], of: fn(&R) -> F) -> F {
    known(parts, of, u64::min)
}

fn known<R, F: Figure>(parts: &[&R], of: fn(&R) -> F, join: fn(u64, u64) -> u64) -> F {
    let mut all = None;
    for more in parts.iter().filter_map(|part| of(part).known()) {
        all = Some(all.map_or(more, |all| join(all, more)));
    }
    F::of(all)
}

/// A part of a row, joined by its own rules.
pub(crate) fn joined<R, T: Join>(parts: &[&R], of: fn(&R) -> &T) -> T {
    T::join(&parts.iter().map(|part| of(part)).in_vec())
}

/// The deviation of all instances, from number, sum and deviation of each part: converts squares around each part's
/// mean to squares around the common mean.
pub(crate) fn deviation(parts: &[(u64, u64, f64)]) -> f64 {
    let instances = parts.iter().fold(0, |sum: u64, (count, ..)| sum.saturating_add(*count)) as f64;
    if instances <= 1.0 {
        return 0.0;
    }
    let mean = parts.iter().map(|(_, total, _)| *total as f64).sum::<f64>() / instances;
    let squares = parts.iter().map(|&(count, total, deviation)| {
        let (count, off) = (count as f64, total as f64 / count as f64 - mean);
        (count - 1.0) * deviation * deviation + count * off * off
    });
    (squares.sum::<f64>() / (instances - 1.0)).sqrt()
}

/// The numbers that a field shows in tables, one for each header.
pub trait Shown {
    fn show(&self, figures: &mut Vec<Option<u64>>);
}

impl<F: Figure + Copy> Shown for F {
    fn show(&self, figures: &mut Vec<Option<u64>>) {
        figures.push(self.known());
    }
}

/// The figures of a row that tables show.
pub trait Figures {
    const HEADERS: &'static [&'static str];

    /// A number for each header; `None` if unknown.
    fn shown(&self) -> Vec<Option<u64>>;
}

/// Whether JSON leaves a value out.
#[cfg(feature = "serde")]
pub(crate) trait Absent {
    fn is_absent(&self) -> bool;
}

#[cfg(feature = "serde")]
impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

#[cfg(feature = "serde")]
impl<T> Absent for Vec<T> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

#[cfg(feature = "serde")]
impl<T: Absent> Absent for &T {
    fn is_absent(&self) -> bool {
        (**self).is_absent()
    }
}

#[cfg(feature = "serde")]
pub(crate) fn absent(value: &impl Absent) -> bool {
    value.is_absent()
}

/// Lists whose rows have keys: how they are joined, what came since an earlier state of them, and their order.
macro_rules! lists {
    ($($Row:ty: $key:expr $(, $order:expr)?;)+) => {$(
        impl crate::summary::schema::Join for Vec<$Row> {
            #[inline]
            #[allow(unused_mut)] // for a list in the order of its keys
            fn join(parts: &[&Self]) -> Self {
                let mut rows = crate::summary::schema::by_key(parts, $key);
                $(let order: fn(&mut Self) = $order; order(&mut rows);)?
                rows
            }
        }

        impl crate::summary::schema::Since for Vec<$Row> {
            #[inline]
            #[allow(unused_mut)]
            fn since(&self, before: &Self) -> Self {
                let mut rows = crate::summary::schema::since_by_key(self, before, $key);
                $(let order: fn(&mut Self) = $order; order(&mut rows);)?
                rows
            }
        }
    )+};
}
pub(crate) use lists;

/// A struct's declaration: its name and documentation, and those of its fields, with type and serde's attribute.
#[cfg(feature = "_schema")]
#[derive(Debug)]
#[non_exhaustive]
pub struct Declared {
    pub name: &'static str,
    pub about: &'static str,
    pub fields: &'static [[&'static str; 4]],
    /// The structs that its fields are made of.
    pub parts: &'static [fn() -> Option<&'static Self>],
}

/// What a field is made of, if that is a struct of a summary.
#[cfg(feature = "_schema")]
pub trait Part {
    #[must_use]
    fn declared() -> Option<&'static Declared> {
        None
    }
}

macro_rules! figures {
    // A row with labels, and its figures alone.
    (
        $(#[doc = $about:literal])+
        #[derive($($derive:ident),+)]
        pub struct $Row:ident {
            $($(#[doc = $label_about:literal])+ $label:ident: $Label:ty;)*
        }
        $(#[doc = $totals_about:literal])+
        #[derive($($totals_derive:ident),+)]
        figures $Totals:ident {
            $(
                $(#[doc = $figure_about:literal])+ $(#[serde($($figure_serde:tt)+)])?
                $figure:ident: $Figure:ty = $rule:ident $(=> $($header:literal),+ $(if $known:ident)?)?;
            )*
        }
        $(apart { $(
            $(#[doc = $apart_about:literal])+ $(#[serde($($apart_serde:tt)+)])?
            $apart:ident: $Apart:ty;
        )* })?
        $(nested {
            $(#[doc = $children_about:literal])+ $(#[serde($($children_serde:tt)+)])?
            $children:ident: $Children:ty => $Written:ident, $Read:ident;
        })?
    ) => {
        figures! {
            $(#[doc = $about])+
            #[derive($($derive),+)]
            pub struct $Row {
                $($(#[doc = $label_about])+ $label: $Label;)*
                $($(#[doc = $figure_about])+ $(#[serde($($figure_serde)+)])? $figure: $Figure;)*
                $($($(#[doc = $apart_about])+ $(#[serde($($apart_serde)+)])? $apart: $Apart;)*)?
                $($(#[doc = $children_about])+ $(#[serde($($children_serde)+)])? $children: $Children;)?
            }
        }

        $(#[doc = $totals_about])+
        #[derive($($totals_derive),+)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[cfg_attr(not(feature = "_literals"), non_exhaustive)]
        pub struct $Totals {
            $(
                $(#[doc = $figure_about])+
                $(#[cfg_attr(feature = "serde", serde($($figure_serde)+))])?
                pub $figure: $Figure,
            )*
        }

        figures!(@join $Totals { $($figure = $rule;)* });

        figures!(@shown $Totals { $($($figure => $($header),+ $(if $known)?;)?)* });
        figures!(@shown $Row { $($($figure => $($header),+ $(if $known)?;)?)* });

        #[cfg_attr(not(feature = "merge"), allow(dead_code))]
        impl $Row {
            /// The figures alone.
            #[doc(hidden)] // for the crates of this workspace
            #[must_use]
            pub fn totals(&self) -> $Totals {
                $Totals { $($figure: self.$figure.clone(),)* }
            }

            /// A row of these figures, without labels.
            #[doc(hidden)] // for the crates of this workspace
            #[must_use]
            pub fn of_totals(totals: &$Totals) -> Self {
                Self { $($figure: totals.$figure.clone(),)* ..Self::default() }
            }
        }

        figures!(@flat $Row {
            $($label: $Label;)*
            $($(#[serde($($figure_serde)+)])? $figure: $Figure;)*
            $($($(#[serde($($apart_serde)+)])? $apart: $Apart;)*)?
        } $($children $Written $Read)?);
    };
    // Figures that are joined.
    (
        $(#[doc = $about:literal])+
        #[derive($($derive:ident),+)]
        pub struct $Row:ident {
            $(
                $(#[doc = $field_about:literal])+ $(#[serde($($serde:tt)+)])?
                $field:ident: $Field:ty = $rule:ident $(($($of:ident),+))?;
            )*
        }
    ) => {
        figures! {
            $(#[doc = $about])+
            #[derive($($derive),+)]
            pub struct $Row { $($(#[doc = $field_about])+ $(#[serde($($serde)+)])? $field: $Field;)* }
        }
        figures!(@join $Row { $($field = $rule $(($($of),+))?;)* });
    };
    // A row that is not joined.
    (
        $(#[doc = $about:literal])+
        #[derive($($derive:ident),+)]
        pub struct $Row:ident {
            $($(#[doc = $field_about:literal])+ $(#[serde($($serde:tt)+)])? $field:ident: $Field:ty;)*
        }
    ) => {
        $(#[doc = $about])+
        #[derive($($derive),+)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(not(feature = "_literals"), non_exhaustive)]
        pub struct $Row {
            $(
                $(#[doc = $field_about])+
                $(#[cfg_attr(feature = "serde", serde($($serde)+))])?
                pub $field: $Field,
            )*
        }

        #[cfg(feature = "_schema")]
        impl $Row {
            #[doc(hidden)]
            pub const DECLARED: crate::summary::schema::Declared = crate::summary::schema::Declared {
                name: stringify!($Row),
                about: concat!($($about),+),
                fields: &[$([
                    stringify!($field),
                    concat!($($field_about),+),
                    stringify!($Field),
                    concat!($($(stringify!($serde)),+)?),
                ],)*],
                parts: &[$(<$Field as crate::summary::schema::Part>::declared,)*],
            };
        }

        #[cfg(feature = "_schema")]
        impl crate::summary::schema::Part for $Row {
            fn declared() -> Option<&'static crate::summary::schema::Declared> {
                Some(&Self::DECLARED)
            }
        }
    };
    (@flat $Row:ident $fields:tt) => {};
    (@flat $Row:ident {
        $($(#[serde($($serde:tt)+)])? $field:ident: $Field:ty;)*
    } $children:ident $Written:ident $Read:ident) => {
        /// A row without its children, as written to a file. Depth 0 is a root.
        #[cfg(feature = "serde")]
        #[derive(serde::Serialize)]
        pub(crate) struct $Written<'a> {
            depth: usize,
            $($(#[serde($($serde)+)])? $field: &'a $Field,)*
        }

        #[cfg(feature = "serde")]
        impl<'a> $Written<'a> {
            pub(crate) fn of(depth: usize, row: &'a $Row) -> Self {
                let $Row { $($field,)* $children: _ } = row;
                Self { depth, $($field,)* }
            }
        }

        /// The same row as read from a file. (One flattened struct could do both, but takes three times as long to
        /// read.)
        #[cfg(feature = "serde")]
        #[derive(serde::Deserialize)]
        pub(crate) struct $Read {
            pub(crate) depth: usize,
            $($(#[serde($($serde)+)])? $field: $Field,)*
        }

        #[cfg(feature = "serde")]
        impl From<$Read> for $Row {
            fn from(read: $Read) -> Self {
                let $Read { depth: _, $($field,)* } = read;
                Self { $($field,)* $children: Default::default() }
            }
        }
    };
    (@join $Row:ident { $($field:ident = $rule:ident $(($($of:ident),+))?;)* }) => {
        impl crate::summary::schema::Join for $Row {
            #[inline] // compiled where it is used, mostly with the feature `merge`
            fn join(parts: &[&Self]) -> Self {
                Self { $($field: figures!(@rule parts, $field, $rule $($($of),+)?),)* }
            }
        }

        impl crate::summary::schema::Since for $Row {
            #[inline]
            fn since(&self, before: &Self) -> Self {
                Self { $($field: figures!(@since self, before, $field, $rule $($($of),+)?),)* }
            }
        }
    };
    (@since $now:ident, $before:ident, $field:ident, joined) => {
        crate::summary::schema::Since::since(&$now.$field, &$before.$field)
    };
    (@since $now:ident, $before:ident, $field:ident, listed) => {
        $now.$field.clone()
    };
    (@since $now:ident, $before:ident, $field:ident, key) => {
        $now.$field.clone()
    };
    (@since $now:ident, $before:ident, $field:ident, apart) => {
        Default::default()
    };
    (@since $now:ident, $before:ident, $field:ident, deviation $count:ident, $total:ident) => {
        crate::summary::schema::deviation_since(
            ($now.$count, $now.$total, $now.$field),
            ($before.$count, $before.$total, $before.$field),
        )
    };
    (@since $now:ident, $before:ident, $field:ident, $rule:ident) => {
        crate::summary::schema::since::$rule($now.$field, $before.$field)
    };
    (@rule $parts:ident, $field:ident, joined) => {
        crate::summary::schema::joined($parts, |part| &part.$field)
    };
    (@rule $parts:ident, $field:ident, listed) => {
        $parts.iter().flat_map(|part| part.$field.iter().cloned()).collect()
    };
    (@rule $parts:ident, $field:ident, key) => {
        $parts.first().map(|part| part.$field.clone()).unwrap_or_default()
    };
    (@rule $parts:ident, $field:ident, apart) => {
        Default::default()
    };
    (@rule $parts:ident, $field:ident, deviation $count:ident, $total:ident) => {
        crate::summary::schema::deviation(
            &$parts.iter().map(|part| (part.$count, part.$total, part.$field)).collect::<Vec<_>>(),
        )
    };
    (@rule $parts:ident, $field:ident, $rule:ident) => {
        crate::summary::schema::$rule($parts, |part| part.$field)
    };
    (@shown $Row:ident { $($figure:ident => $($header:literal),+ $(if $known:ident)?;)* }) => {
        impl crate::summary::schema::Figures for $Row {
            const HEADERS: &'static [&'static str] = &[$($($header,)+)*];

            #[allow(unused_mut)] // for a row without headers
            fn shown(&self) -> Vec<Option<u64>> {
                let mut all = Vec::new();
                $(figures!(@show self, all, $figure, $($header)+ $(if $known)?);)*
                all
            }
        }
    };
    (@show $row:ident, $all:ident, $field:ident, $($header:literal)+) => {
        crate::summary::schema::Shown::show(&$row.$field, &mut $all)
    };
    (@show $row:ident, $all:ident, $field:ident, $header:literal if known) => {
        $all.push(Some($row.$field).filter(|&figure| figure > 0))
    };
}
pub(crate) use figures;

#[cfg(all(test, feature = "serde"))]
mod tests;

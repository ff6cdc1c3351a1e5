//! Decoded payloads.

use std::fmt;

/// One value of a payload.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// Its name in the schema, after the names of the structs around it: `outer.inner`.
    pub name: String,
    /// Its value.
    pub value: FieldValue,
}

/// The value of a field. [`Display`](fmt::Display) formats it for people.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldValue {
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// Text, or an integer of 128 bits. After 4,096 bytes it is cut, and ends in `…`.
    Text(String),
    /// A value of an enumeration, or several bits of it joined by `|`.
    Named {
        /// What the enumeration calls it.
        name: String,
        /// The value.
        value: u64,
    },
    /// A pointer or a handle.
    Address(u64),
    /// An array.
    List {
        /// Its first elements, at most 64.
        elements: Vec<FieldValue>,
        /// How many it has.
        length: usize,
    },
    /// This many bytes without a schema.
    Bytes(usize),
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(value) => write!(f, "{value}"),
            Self::Unsigned(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) | Self::Named { name: text, .. } => f.write_str(text),
            Self::Address(value) => write!(f, "{value:#x}"),
            Self::List { elements, length } => {
                f.write_str("[")?;
                for (index, element) in elements.iter().enumerate() {
                    write!(f, "{}{element}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str(if elements.len() < *length { ", …]" } else { "]" })
            }
            Self::Bytes(count) => write!(f, "{count} bytes"),
        }
    }
}

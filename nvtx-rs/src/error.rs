//! What can go wrong: one small enum per operation.

use std::error::Error;
use std::fmt;

/// Why a domain could not be made.
///
/// ```
/// use nvtx_rs::{Domain, DomainError};
/// assert_eq!(Domain::named(""), Err(DomainError::EmptyName));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DomainError {
    /// The name is empty: Nsight Systems cannot import a recording that has such a domain.
    EmptyName,
    /// The process has [`Domain::LIMIT`](crate::Domain::LIMIT) domains already.
    TooMany,
}

impl fmt::Display for DomainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyName => f.write_str("the name of an NVTX domain must not be empty"),
            Self::TooMany => write!(f, "more than {} NVTX domains", crate::Domain::LIMIT),
        }
    }
}

impl Error for DomainError {}

/// A text that is no colour.
///
/// ```
/// use nvtx_rs::Color;
/// let error = "greenish".parse::<Color>().unwrap_err();
/// assert!(error.to_string().contains("greenish"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseColorError {
    text: String,
}

impl ParseColorError {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }
}

impl fmt::Display for ParseColorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text } = self;
        write!(f, "{text:?} is no colour: use a CSS name, #rgb, #rrggbb, #aarrggbb, 0xRRGGBB or 0xAARRGGBB")
    }
}

impl Error for ParseColorError {}

/// Why a tool could not be attached in the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttachError {
    /// An NVTX call was made before, or another tool or transport was chosen: the choice is made once.
    TooLate,
}

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLate => f.write_str("a tool can be attached only before the first NVTX call of the process"),
        }
    }
}

impl Error for AttachError {}

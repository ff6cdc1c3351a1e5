//! The error of a word that is no setting.

use std::fmt;

use crate::names;

/// A word that is no setting. The message lists the words that are.
///
/// ```
/// let error = "old".parse::<range_model::timeline::Graphs>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown level of graphs `old`: expected whole, nodes or off");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    kind: &'static str,
    name: String,
    expected: String,
}

impl UnknownName {
    /// The error of a parser of `kind` that was given `name`.
    #[must_use]
    pub fn new(kind: &'static str, name: &str, expected: &str) -> Self {
        Self { kind, name: name.to_owned(), expected: expected.to_owned() }
    }

    /// The allowed words: `current or legacy`.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.expected
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`: expected {}", self.kind, names::escaped(&self.name), self.expected)
    }
}

impl std::error::Error for UnknownName {}

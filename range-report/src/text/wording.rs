//! How names and numbers stand in sentences.

use super::names::{self, escaped};
use super::number::integer;

/// What a reader chose of the sentences; the fields of [`RenderOptions`](crate::RenderOptions) by these names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wording {
    pub(crate) thousands: bool,
    pub(crate) raw_names: bool,
    pub(crate) of_command: bool,
}

impl Default for Wording {
    fn default() -> Self {
        Self { thousands: true, raw_names: false, of_command: false }
    }
}

impl Wording {
    /// The sentence for a program that measures itself, or that for a user of the command.
    pub(crate) const fn of<'a>(self, of_program: &'a str, of_command: &'a str) -> &'a str {
        if self.of_command { of_command } else { of_program }
    }

    pub(crate) fn count(self, count: u64) -> String {
        integer(count, self.thousands)
    }

    /// The name of a range with its domain.
    pub(crate) fn label(self, domain: Option<&str>, name: &str) -> String {
        let label = names::label(domain, name).unwrap_or_else(|| "None".to_owned());
        if self.raw_names { label } else { escaped(&label).into_owned() }
    }
}

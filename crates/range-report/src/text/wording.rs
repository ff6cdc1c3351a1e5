//! The form of names and numbers in sentences.

use super::number::integer;
use range_model::names::{self, escaped};

/// A reader's choices for sentences; they are fields of [`RenderOptions`](crate::RenderOptions) with the same names.
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
    /// The sentence for a program that measures itself, or the one for a user of the command.
    pub(crate) const fn of<'a>(self, of_program: &'a str, of_command: &'a str) -> &'a str {
        if self.of_command { of_command } else { of_program }
    }

    pub(crate) fn count(self, count: u64) -> String {
        integer(count, self.thousands)
    }

    /// The name of a range with its domain.
    pub(crate) fn label(self, domain: Option<&str>, name: &str) -> String {
        let label = names::label_or_none(domain, name);
        if self.raw_names { label } else { escaped(&label).into_owned() }
    }
}

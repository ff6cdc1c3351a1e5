//! Texts of a page: stored once each, within a limit, safe to show.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use range_model::names::escaped;
use range_model::summary::Process;

/// The largest length of a command line in bytes.
pub(super) const LONGEST_COMMAND: usize = 2_000;

/// The largest length of a name in bytes.
pub(super) const LONGEST: usize = 4_096;
/// Stands for texts beyond the limit.
const LEFT_OUT: &str = "(text left out: too much for this page)";
/// Memory of a text besides its bytes.
const OVERHEAD: usize = 64;

/// Texts and their numbers. 0 is the empty text; 1 stands for texts that arrived after the limit was reached.
#[derive(Debug)]
pub(super) struct Texts {
    numbers: HashMap<Arc<str>, u32>,
    list: Vec<Arc<str>>,
    left: usize,
    pub(super) left_out: u64,
}

/// No room for any text.
impl Default for Texts {
    fn default() -> Self {
        Self::new(0)
    }
}

impl Texts {
    pub(super) fn new(budget: usize) -> Self {
        let mut texts = Self { numbers: HashMap::new(), list: Vec::new(), left: usize::MAX, left_out: 0 };
        texts.number("");
        texts.number(LEFT_OUT);
        texts.left = budget;
        texts
    }

    /// A name or a message, clipped and escaped.
    pub(super) fn shown(&mut self, text: &str) -> u32 {
        match self.numbers.get(text) {
            Some(&number) => number,
            None => {
                let text = presentable(text, LONGEST);
                self.number(&text)
            }
        }
    }

    /// The number of an unchanged text, if the text is known or fits into `share`, which is a part of the limit.
    pub(super) fn number_within(&mut self, text: &str, share: &mut usize) -> u32 {
        if self.numbers.contains_key(text) {
            return self.number(text);
        }
        match share.checked_sub(text.len() + OVERHEAD) {
            Some(left) => {
                *share = left;
                self.number(text)
            }
            None => {
                self.left_out = self.left_out.saturating_add(1);
                1
            }
        }
    }

    /// The number of an unchanged text.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let size = text.len() + OVERHEAD;
        let Some((left, number)) = self.left.checked_sub(size).zip(u32::try_from(self.list.len()).ok()) else {
            self.left_out = self.left_out.saturating_add(1);
            return 1;
        };
        self.left = left;
        let text: Arc<str> = text.into();
        self.list.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    pub(super) fn into_list(self) -> Vec<Arc<str>> {
        self.list
    }
}

/// A text with control characters escaped. If it is longer than `longest` bytes, it is cut and its whole length added.
pub(super) fn presentable(text: &str, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest {
        return escaped(text);
    }
    let end = (0..=longest).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let kept = text.get(..end).unwrap_or_default();
    Cow::Owned(format!("{}... ({} bytes)", escaped(kept), text.len()))
}

/// The title, which the head of the page shows, too.
pub(super) fn title(process: &Process) -> String {
    let program = process.command.split(' ').next().unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default();
    if program.is_empty() { "run".to_owned() } else { presentable(program, 200).into_owned() }
}

/// The process in words: host, rank and process id.
pub(super) fn identity(process: &Process) -> Vec<(&'static str, String)> {
    let host = (!process.host.is_empty()).then(|| ("host", presentable(&process.host, LONGEST_COMMAND).into_owned()));
    let rank = process.rank.map(|rank| ("rank", rank.to_string()));
    [host, rank, Some(("process", process.pid.to_string()))].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_one_number() {
        let mut texts = Texts::new(1_000);
        let (a, b) = (texts.shown("a\n"), texts.shown("b"));
        assert_eq!([a, b, texts.shown("a\n"), texts.shown("a\\n"), texts.shown("")], [2, 3, 2, 2, 0]);
        let list: Vec<String> = texts.into_list().iter().map(|text| text.to_string()).collect();
        assert_eq!(list, ["", LEFT_OUT, "a\\n", "b"]);
    }

    #[test]
    fn long_texts_are_clipped_and_say_so() {
        let long = "é".repeat(500_000);
        let mut texts = Texts::new(1 << 20);
        let number = texts.shown(&long) as usize;
        let list = texts.into_list();
        assert_eq!(list[number].len(), LONGEST + "... (1000000 bytes)".len());
        assert!(list[number].ends_with("é... (1000000 bytes)"));
    }

    #[test]
    fn a_spent_budget_is_counted() {
        let mut texts = Texts::new(OVERHEAD + 3);
        assert_eq!([texts.shown("abc"), texts.shown("d"), texts.shown("abc"), texts.shown("e")], [2, 1, 2, 1]);
        assert_eq!(texts.left_out, 2);
    }
}

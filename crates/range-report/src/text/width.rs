//! Text of a given width: its columns on a terminal, shortening, and line breaks in sentences.
//!
//! Two rules, and [`Measure`] names them:
//!
//! * **Columns**, the default, for people: `日本` and most emoji take two columns each, combining marks none (Unicode's
//!   UAX #11, by the crate `unicode-width`). Lines of a table are then equally wide on a terminal. A character, as a
//!   reader sees it, is never cut in two: if it does not fit, a blank takes its place.
//! * **Code points** in the tables of Nsight Systems with [`raw_names`](crate::RenderOptions::raw_names), which are the
//!   tool's byte for byte: the tool counts code points, so such names misalign its tables.

use std::ops::RangeInclusive;

use unicode_width::UnicodeWidthStr as _;

/// Stands for the omitted part of a text.
const ELLIPSIS: &str = "…";
/// Joins the characters on both sides to one, as in 👩‍🔬.
const JOINER: char = '\u{200d}';
/// Two of these are a flag.
const FLAG_LETTERS: RangeInclusive<char> = '\u{1f1e6}'..='\u{1f1ff}';

/// The unit in which lengths of texts are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Measure {
    #[default]
    Columns,
    CodePoints,
}

impl Measure {
    pub(crate) fn of(self, text: &str) -> usize {
        match self {
            Self::Columns => text.width(),
            Self::CodePoints => text.chars().count(),
        }
    }

    /// The blanks that fill `text` up to `width`.
    pub(crate) fn blanks(self, text: &str, width: usize) -> String {
        " ".repeat(width.saturating_sub(self.of(text)))
    }

    /// `text`, or as much of its beginning as fits, then `…`, then as much of its end as fits into `tail`.
    pub(crate) fn shorten(self, text: &str, width: usize, tail: usize) -> String {
        if self.of(text) <= width {
            return text.to_owned();
        }
        if width == 0 {
            return String::new();
        }
        let tail = tail.min(width - 1);
        let characters = self.characters(text);
        let head = self.fitting(characters.iter(), width - 1 - tail);
        let tail = self.fitting(characters.iter().rev(), tail);
        format!("{}{ELLIPSIS}{}", &text[..head], &text[text.len() - tail..])
    }

    /// Bytes of the first of these that fit into `room`.
    fn fitting<'a>(self, characters: impl Iterator<Item = &'a &'a str>, room: usize) -> usize {
        let (mut bytes, mut used) = (0, 0);
        for character in characters {
            used += self.of(character);
            if used > room {
                break;
            }
            bytes += character.len();
        }
        bytes
    }

    /// The units that must not be cut: code points or, if columns count, characters with everything that combines with
    /// them. A character combines with the previous one if it takes no column itself, or if both together take another
    /// number of columns than separately.
    fn characters(self, text: &str) -> Vec<&str> {
        let mut characters = Vec::new();
        let (mut start, mut joins) = (0, false);
        for (at, c) in text.char_indices() {
            let next = at + c.len_utf8();
            let alone = self.of(&text[at..next]);
            let begins = match self {
                Self::CodePoints => true,
                Self::Columns => {
                    !joins && alone > 0 && self.of(&text[start..next]) == self.of(&text[start..at]) + alone
                }
            };
            if begins && at > start {
                characters.push(&text[start..at]);
                start = at;
            }
            joins = c == JOINER || at == start && FLAG_LETTERS.contains(&c);
        }
        characters.push(&text[start..]);
        characters
    }
}

/// Columns that `text` takes on a terminal.
pub(crate) fn width_of(text: &str) -> usize {
    Measure::Columns.of(text)
}

/// The blanks that fill `text` up to `width` columns.
pub(crate) fn blanks(text: &str, width: usize) -> String {
    Measure::Columns.blanks(text, width)
}

/// [`Measure::shorten`], by columns.
pub(crate) fn shorten(text: &str, width: usize, tail: usize) -> String {
    Measure::Columns.shorten(text, width, tail)
}

/// The beginning of `text` that fits into `width` columns.
pub(crate) fn cut(text: &str, width: usize) -> &str {
    &text[..Measure::Columns.fitting(Measure::Columns.characters(text).iter(), width)]
}

/// `lead` and the sentence, broken between words if it is longer than `width`; further lines begin below the first
/// word.
pub(crate) fn wrapped(lead: &str, sentence: &str, width: usize) -> String {
    let mut out = lead.to_owned();
    let indent = width_of(lead);
    let mut used = indent;
    for word in sentence.split(' ') {
        let length = width_of(word) + 1;
        if used + length > width && used > indent {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            used = indent;
        }
        out.push(' ');
        out.push_str(word);
        used += length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAMILY: &str = "👩‍👩‍👧";
    const SCIENTIST: &str = "👩🏽‍🔬";
    const FLAG: &str = "🇩🇪";

    #[test]
    fn columns_of_a_terminal() {
        let widths = [
            ("", 0),
            ("load", 4),
            ("größe", 5),
            ("日本語", 6),
            ("모듈", 4),
            ("😀", 2),
            (FAMILY, 2),
            (SCIENTIST, 2),
            (FLAG, 2),
            ("❤\u{fe0f}", 2),
            ("e\u{301}", 1),
            ("a\u{200b}b", 2),
            ("ﾃﾞｰﾀ", 4),
            ("مرحبا", 5),
            ("…", 1),
        ];
        for (text, width) in widths {
            assert_eq!(width_of(text), width, "{text:?}");
        }
        assert_eq!(Measure::CodePoints.of("日本語 😀 e\u{301}"), 8);
    }

    #[test]
    fn shortening() {
        assert_eq!(shorten("abcdef", 4, 0), "abc…");
        assert_eq!(shorten("abcd", 4, 0), "abcd");
        assert_eq!(shorten("ab", 0, 0), "");
        assert_eq!(shorten("abcdefgh", 5, 2), "ab…gh");
        assert_eq!(shorten("abcdefgh", 2, 5), "…h");
        assert_eq!(cut("abcdef", 4), "abcd");
        assert_eq!(Measure::CodePoints.shorten("日本語モデル", 4, 1), "日本…ル");
    }

    /// If only half of it would fit, a blank remains.
    #[test]
    fn a_character_is_never_cut_in_two() {
        assert_eq!(shorten("日本語", 6, 0), "日本語");
        assert_eq!(shorten("日本語", 5, 0), "日本…");
        assert_eq!(shorten("日本語", 4, 0), "日…");
        assert_eq!(shorten("日本語", 1, 0), "…");
        assert_eq!(shorten("日本語モデル", 7, 3), "日…ル");
        assert_eq!(cut("日本語", 5), "日本");
        for whole in [FAMILY, SCIENTIST, FLAG, "❤\u{fe0f}", "👨\u{200d}❤\u{fe0f}\u{200d}👨", "1\u{fe0f}\u{20e3}"]
        {
            assert_eq!(shorten(&format!("{whole}{whole}."), 4, 0), format!("{whole}…"), "{whole}");
            assert_eq!(shorten(&format!("{whole}{whole}."), 2, 0), "…", "{whole}");
            assert_eq!(shorten(&format!("..{whole}{whole}"), 5, 4), format!("…{whole}{whole}"), "{whole}");
        }
        assert_eq!(shorten("e\u{301}e\u{301}e\u{301}", 2, 0), "e\u{301}…");
        assert_eq!(shorten("e\u{301}e\u{301}e\u{301}", 2, 1), "…e\u{301}");
    }

    #[test]
    fn long_names_take_no_long_time() {
        for text in ["e\u{301}".repeat(30_000), format!("e{}", "\u{301}".repeat(60_000)), FAMILY.repeat(4_000)] {
            assert!(width_of(&shorten(&format!("{text}12345"), 4, 2)) <= 4);
        }
    }

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrapped(" -", "one two three", 10), " - one two\n   three\n");
        assert_eq!(wrapped(" -", "one two three", 9), " - one\n   two\n   three\n");
        assert_eq!(wrapped(" * ", "a word that-is-too-long b", 10), " *  a word\n    that-is-too-long\n    b\n");
        assert_eq!(wrapped(" * ", "that-is-too-long", 10), " *  that-is-too-long\n");
        assert_eq!(wrapped(" -", "日本 語 x", 10), " - 日本 語\n   x\n");
    }

    proptest! {
        #[test]
        fn what_is_shortened_fits(
            text in "([a-z]|[日本語é]|\u{301}|\u{200b}|\u{200d}|\u{fe0f}|👩|🏽|🔬|❤|🇩|🇪|ﾞ|\\PC){0,20}",
            width in 0_usize..24,
            tail in 0_usize..24,
        ) {
            for measure in [Measure::Columns, Measure::CodePoints] {
                let short = measure.shorten(&text, width, tail);
                prop_assert!(measure.of(&short) <= width, "{:?} {:?}", text, short);
                prop_assert_eq!(measure.characters(&text).concat(), text.as_str());
                prop_assert!(short == text || measure.of(&text) > width);
            }
        }
    }
}

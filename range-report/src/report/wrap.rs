//! Sentences within the width of the terminal.

use super::table::chars;

/// `lead` and the sentence, broken between words where it is longer than `width`; what follows stands below the first word.
pub(super) fn wrapped(lead: &str, sentence: &str, width: usize) -> String {
    let mut out = lead.to_owned();
    let mut used = chars(lead);
    for word in sentence.split(' ') {
        let length = chars(word) + 1;
        if used + length > width && used > chars(lead) {
            out.push('\n');
            out.push_str(&" ".repeat(chars(lead)));
            used = chars(lead);
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

    #[test]
    fn words_stay_whole() {
        assert_eq!(wrapped(" -", "one two three", 10), " - one two\n   three\n");
        assert_eq!(wrapped(" -", "one two three", 9), " - one\n   two\n   three\n");
        assert_eq!(wrapped(" * ", "a word that-is-too-long b", 10), " *  a word\n    that-is-too-long\n    b\n");
        assert_eq!(wrapped(" * ", "that-is-too-long", 10), " *  that-is-too-long\n");
    }
}

//! Converts any string to the form of the interface: NUL-terminated text of limited length.

use std::borrow::Cow;
use std::ffi::{CStr, CString};

/// The longest text, in bytes, that is passed unchanged. Nsight Systems drops events with names of 65,400 bytes or
/// more.
pub const MAX_BYTES: usize = 32_768;

const CUT: char = '…';
const STACK: usize = 256;

/// The text as a tool gets it: NUL becomes `␀` (U+2400), and a text longer than [`MAX_BYTES`] is cut at a character
/// boundary and ends in `…`, which counts towards [`MAX_BYTES`]. Every string given to this crate goes through here;
/// call it to show the same name elsewhere. An empty text stays empty: Nsight Systems prints such a range as `None`.
///
/// ```
/// use nvtx_rs::text::sanitize;
/// assert_eq!(sanitize("plain"), "plain");
/// assert_eq!(sanitize("a\0b"), "a\u{2400}b");
/// assert_eq!(sanitize(&"x".repeat(40_000)).len(), nvtx_rs::text::MAX_BYTES);
/// ```
pub fn sanitize(text: &str) -> Cow<'_, str> {
    if !text.as_bytes().contains(&0) {
        return match cut(text) {
            Some(kept) => Cow::Owned(with_ellipsis(kept)),
            None => Cow::Borrowed(text),
        };
    }
    let visible = text.replace('\0', "\u{2400}");
    Cow::Owned(cut(&visible).map(with_ellipsis).unwrap_or(visible))
}

/// Runs `call` with the text as a C string; texts of usual length are not copied to the heap.
pub(crate) fn with_c_str<R>(text: &str, call: impl FnOnce(&CStr) -> R) -> R {
    if text.len() < STACK {
        let mut buffer = [0; STACK];
        buffer[..text.len()].copy_from_slice(text.as_bytes());
        if let Ok(c_text) = CStr::from_bytes_with_nul(&buffer[..=text.len()]) {
            return call(c_text);
        }
    }
    call(&c_string(text))
}

/// The text as an owned C string.
pub(crate) fn c_string(text: &str) -> CString {
    // Never fails: `sanitize` leaves no NUL.
    CString::new(sanitize(text).into_owned()).unwrap_or_default()
}

/// The part of a text that is too long, up to the cut.
fn cut(text: &str) -> Option<&str> {
    (text.len() > MAX_BYTES).then(|| &text[..floor_char_boundary(text, MAX_BYTES - CUT.len_utf8())])
}

fn with_ellipsis(kept: &str) -> String {
    let mut text = String::with_capacity(kept.len() + CUT.len_utf8());
    text.push_str(kept);
    text.push(CUT);
    text
}

fn floor_char_boundary(text: &str, index: usize) -> usize {
    if index >= text.len() {
        return text.len();
    }
    (0..=index).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_borrowed() {
        for text in ["", "a", "größer", "😀"] {
            assert!(matches!(sanitize(text), Cow::Borrowed(same) if same == text));
        }
        let longest = "x".repeat(MAX_BYTES);
        assert_eq!(sanitize(&longest), longest);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        for (pad, width) in [(0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3), (0, 4), (1, 4), (2, 4), (3, 4)] {
            let unit = ["x", "é", "€", "😀"][width - 1];
            let text = "p".repeat(pad) + &unit.repeat(1_000_000 / width);
            let clean = sanitize(&text);
            assert!(clean.len() <= MAX_BYTES && clean.len() > MAX_BYTES - 4, "{pad} {width} {}", clean.len());
            let kept = clean.strip_suffix('…').unwrap();
            assert!(text.starts_with(kept));
            assert_eq!(sanitize(&clean), clean);
        }
    }

    #[test]
    fn nul_is_made_visible() {
        assert_eq!(sanitize("\0"), "␀");
        assert_eq!(sanitize("a\0\0b"), "a␀␀b");
        for length in [10_922, 10_923, 20_000, 32_768, 32_769, 1_000_000] {
            let nuls = "\0".repeat(length);
            let clean = sanitize(&nuls);
            assert!(clean.len() <= MAX_BYTES);
            assert_eq!(clean.ends_with('…'), length > 10_922, "{length}");
            assert!(!clean.contains('\0'));
            assert_eq!(sanitize(&clean), clean);
        }
        let text = "\0".to_owned() + &"x".repeat(MAX_BYTES);
        assert!(sanitize(&text).ends_with("x…"));
    }

    #[test]
    fn c_strings_hold_the_clean_text() {
        for text in ["", "a\0b", "größer", &"x".repeat(255), &"x".repeat(256), &"y".repeat(40_000)] {
            let expected = sanitize(text).into_owned();
            assert_eq!(with_c_str(text, |c| c.to_str().unwrap().to_owned()), expected);
            assert_eq!(c_string(text).to_str().unwrap(), expected);
        }
    }
}

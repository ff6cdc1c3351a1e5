//! Numbers and strings in JSON, without an allocation for each.

/// The two digits of each number below 100.
const PAIRS: [u8; 200] = {
    let (mut pairs, mut number) = ([0; 200], 0);
    while number < 100 {
        pairs[2 * number] = b'0' + (number / 10) as u8;
        pairs[2 * number + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};
pub(super) const HEX: &[u8; 16] = b"0123456789abcdef";
/// Bytes that a JSON string must escape, and DEL, which some readers of the format cannot read.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escaped[byte] = true;
        byte += 1;
    }
    escaped[b'"' as usize] = true;
    escaped[b'\\' as usize] = true;
    escaped[0x7f] = true;
    escaped
};

/// The digits of a number.
pub(crate) fn integer(bytes: &mut Vec<u8>, value: u64) {
    let mut text = [0; 20];
    let from = digits(&mut text, value);
    bytes.extend_from_slice(&text[from..]);
}

/// Nanoseconds as microseconds with three decimals.
pub(super) fn microseconds(bytes: &mut Vec<u8>, ns: u64) {
    let mut text = [0; 24];
    let rest = 2 * (ns % 100) as usize;
    text[22..].copy_from_slice(&PAIRS[rest..rest + 2]);
    text[21] = b'0' + (ns / 100 % 10) as u8;
    text[20] = b'.';
    let from = digits(&mut text[..20], ns / 1000);
    bytes.extend_from_slice(&text[from..]);
}

/// Writes the digits at the end of `text`, which has room for 20. Returns the index of the first digit.
fn digits(text: &mut [u8], mut value: u64) -> usize {
    let mut at = text.len();
    while value >= 100 {
        let pair = 2 * (value % 100) as usize;
        value /= 100;
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    let pair = 2 * value as usize;
    at -= 1;
    text[at] = PAIRS[pair + 1];
    if value >= 10 {
        at -= 1;
        text[at] = PAIRS[pair];
    }
    at
}

/// Whether no byte of a text needs an escape. Examines all bytes, so that the compiler can examine many at once.
pub(crate) fn is_plain(text: &[u8]) -> bool {
    let is_escaped = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\') | (byte == 0x7f);
    !text.iter().fold(false, |any, &byte| any | is_escaped(byte))
}

/// Writes the parts as one JSON string.
pub(crate) fn string(bytes: &mut Vec<u8>, parts: &[&str]) {
    bytes.push(b'"');
    for part in parts {
        let mut rest = part.as_bytes();
        if is_plain(rest) {
            bytes.extend_from_slice(rest);
            continue;
        }
        while let Some(place) = rest.iter().position(|&byte| ESCAPED[usize::from(byte)]) {
            bytes.extend_from_slice(&rest[..place]);
            if &rest[place..] == b"\\" {
                // Perfetto 52 takes a quotation mark behind `\\` as part of the text, and then reads nothing of the
                // file (google/perfetto#3361).
                bytes.extend_from_slice(b"\\u005c");
            } else {
                escape(bytes, rest[place]);
            }
            rest = &rest[place + 1..];
        }
        bytes.extend_from_slice(rest);
    }
    bytes.push(b'"');
}

#[cold]
fn escape(bytes: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' | b'\\' => bytes.extend_from_slice(&[b'\\', byte]),
        b'\n' => bytes.extend_from_slice(b"\\n"),
        b'\r' => bytes.extend_from_slice(b"\\r"),
        b'\t' => bytes.extend_from_slice(b"\\t"),
        _ => {
            let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
            bytes.extend_from_slice(b"\\u00");
            bytes.extend_from_slice(&digits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_with_two_backslashes() {
        for parts in [&["\\"][..], &["C:\\"], &["a\\\\"], &["\\", ",", "b\\"], &["\\\"", "\n\\"], &["\\a"]] {
            let mut bytes = Vec::new();
            string(&mut bytes, parts);
            assert_eq!(serde_json::from_slice::<String>(&bytes).unwrap(), parts.concat());
            assert!(!bytes.ends_with(b"\\\\\""), "{}", String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn what_is_escaped_is_found_wherever_it_is() {
        for byte in 0..=255_u8 {
            for length in 1..40 {
                for place in 0..length {
                    let mut text = vec![b'~'; length];
                    text[place] = byte;
                    assert_eq!(is_plain(&text), !ESCAPED[usize::from(byte)], "{byte} at {place} of {length}");
                }
            }
        }
        assert!(is_plain(b"") && is_plain("zeit λ 時間 \u{80}".as_bytes()));
    }
}

//! Base64 without padding: for bytes whose number is a multiple of three.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text for `bytes`.
///
/// # Panics
/// If the number of bytes is not a multiple of three.
pub fn encode(bytes: &[u8]) -> String {
    assert_eq!(bytes.len() % 3, 0, "{} bytes", bytes.len());
    let groups = bytes.chunks_exact(3).map(|group| u32::from_be_bytes([0, group[0], group[1], group[2]]));
    let sextets = groups.flat_map(|group| [18, 12, 6, 0].map(|shift| (group >> shift & 63) as usize));
    sextets.map(|sextet| char::from(ALPHABET[sextet])).collect()
}

/// Adds the bytes that `text` stands for to `bytes`; `None` if it is not base64 in groups of four.
pub fn decode(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    for group in text.as_bytes().chunks(4) {
        let [a, b, c, d] = *group else { return None };
        let word = sextet(a)? << 18 | sextet(b)? << 12 | sextet(c)? << 6 | sextet(d)?;
        bytes.extend(&word.to_be_bytes()[1..]);
    }
    Some(())
}

fn sextet(character: u8) -> Option<u32> {
    let sextet = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(sextet))
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};

    #[test]
    fn known_text() {
        assert_eq!(encode(b"light wor"), "bGlnaHQgd29y");
        assert_eq!(encode(&[0, 0, 62, 255, 255, 255]), "AAA+////");
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let bytes: Vec<u8> = (0..=254).collect();
        let mut decoded = Vec::new();
        assert_eq!(decode(&encode(&bytes), &mut decoded), Some(()));
        assert_eq!(decoded, bytes);
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["AAA", "AA=A", "A AA", "AAAAA"] {
            assert_eq!(decode(text, &mut Vec::new()), None, "{text}");
        }
    }
}

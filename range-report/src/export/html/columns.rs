//! A compact form for millions of numbers: columns of LEB128, in base 64.

use std::io::{self, Write};

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;

/// Writes a column as text. Each byte has seven bits of a number, the lowest first, and the high bit if more follow;
/// all bytes are in base 64.
pub(super) fn write(numbers: impl Iterator<Item = u64>, out: &mut impl Write) -> io::Result<()> {
    let mut encoder = EncoderWriter::new(out, &STANDARD);
    let mut block = Vec::with_capacity(BLOCK + 10);
    for number in numbers {
        push(&mut block, number);
        if block.len() >= BLOCK {
            encoder.write_all(&block)?;
            block.clear();
        }
    }
    encoder.write_all(&block)?;
    encoder.finish()?;
    Ok(())
}

const BLOCK: usize = 3 << 10;

fn push(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A signed number as an unsigned one: 0, -1, 1, -2, ... become 0, 1, 2, 3, ...
pub(super) fn folded(number: i128) -> u64 {
    let doubled = if number < 0 { number.saturating_mul(-2) - 1 } else { number.saturating_mul(2) };
    u64::try_from(doubled).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;

    #[test]
    fn numbers_are_in_base_128_and_then_64() {
        let mut text = Vec::new();
        write([0, 127, 128, u64::MAX].into_iter(), &mut text).unwrap();
        let bytes = STANDARD.decode(&text).unwrap();
        assert_eq!(bytes, [0, 127, 0x80, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
    }

    #[test]
    fn blocks_follow_each_other() {
        let mut text = Vec::new();
        write(0..100_000, &mut text).unwrap();
        let bytes = STANDARD.decode(&text).unwrap();
        assert_eq!(bytes.iter().filter(|byte| **byte < 0x80).count(), 100_000);
    }

    #[test]
    fn signs_are_folded() {
        assert_eq!([0, -1, 1, -2, 2].map(folded), [0, 1, 2, 3, 4]);
        assert_eq!(folded(i128::MIN), u64::MAX);
    }
}

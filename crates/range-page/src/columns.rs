//! A compact form for millions of numbers: columns of LEB128, in base 64.

use std::io::{self, Write};
use std::slice;

use base64::Engine as _;
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

/// Reads a column of so many numbers. Where the text is empty, all are 0. `None` if it is no such column.
pub(super) fn read(text: &[u8], count: usize) -> Option<Vec<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    if bytes.is_empty() {
        return Some(vec![0; count]);
    }
    let mut rest = bytes.iter();
    let numbers: Option<Vec<u64>> = (0..count).map(|_| pop(&mut rest)).collect();
    numbers.filter(|_| rest.len() == 0)
}

fn pop(bytes: &mut slice::Iter<'_, u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = *bytes.next()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The signed number that [`folded`] has made an unsigned one.
pub(super) fn unfolded(number: u64) -> i64 {
    let half = i64::try_from(number / 2).unwrap_or(i64::MAX);
    if number % 2 == 1 { -half - 1 } else { half }
}

/// Numbers from their differences, as unsigned numbers.
pub(super) fn summed(differences: Vec<u64>) -> Vec<u64> {
    let mut sum = 0_u64;
    let sums = differences.into_iter().map(|difference| {
        sum = sum.saturating_add_signed(unfolded(difference));
        sum
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_written_is_read() {
        let numbers = [0, 127, 128, 1 << 40, u64::MAX, 5];
        let mut text = Vec::new();
        write(numbers.into_iter(), &mut text).unwrap();
        assert_eq!(read(&text, 6).unwrap(), numbers);
        assert_eq!((read(&text, 5), read(&text, 7), read(b"", 2)), (None, None, Some(vec![0, 0])));
        assert_eq!((read(b"gICA", 1), read(b"<", 1)), (None, None)); // a number that does not end; no base 64
        let signed = [0, -1, 1, -2, i64::MAX, i64::MIN + 1];
        assert_eq!(signed.map(|number| unfolded(folded(number.into()))), signed);
        let differences =
            [7, 3, 3, 900].iter().scan(0, |before, &number| Some(folded(number - std::mem::replace(before, number))));
        assert_eq!(summed(differences.collect()), [7, 3, 3, 900]);
    }

    #[test]
    fn signs_are_folded() {
        assert_eq!([0, -1, 1, -2, 2].map(folded), [0, 1, 2, 3, 4]);
        assert_eq!(folded(i128::MIN), u64::MAX);
    }
}

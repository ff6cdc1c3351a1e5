//! The file format of a network's weights.
//!
//! All numbers are little-endian.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `NETWGHT1` |
//! | 4 | number of entries, `u32` |
//! | | for each entry: |
//! | 2 | length of the name, `u16` |
//! | | the name, UTF-8 |
//! | 1 | number of dimensions, `u8` |
//! | 4 each | dimensions, `u32` |
//! | 4 each | numbers, `f32`, the last dimension running fastest |
//! | 8 | FNV-1a checksum of everything before, `u64` |

use std::collections::BTreeMap;
use std::fmt;

const MAGIC: &[u8; 8] = b"NETWGHT1";
const CHECKSUM_LEN: usize = 8;

/// Named arrays of numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Weights {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    dimensions: Vec<usize>,
    numbers: Vec<f32>,
}

/// Why a file has no valid network.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file does not have the expected first bytes.
    NotWeights,
    /// The file or an entry ends too early, at this byte.
    Truncated(usize),
    /// The bytes have changed since they were written.
    Checksum {
        /// The checksum in the file.
        stored: u64,
        /// The checksum of its bytes.
        computed: u64,
    },
    /// The name of an entry is not UTF-8.
    Name,
    /// The network needs an entry that the file does not have.
    Missing(String),
    /// An entry does not have the extent that the network needs.
    Dimensions {
        /// The entry.
        name: String,
        /// Its extent in the file.
        found: Vec<usize>,
        /// The expected extent.
        expected: Vec<usize>,
    },
}

impl fmt::Display for WeightsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWeights => f.write_str("not a file of weights"),
            Self::Truncated(byte) => write!(f, "cut off at byte {byte}"),
            Self::Checksum { stored, computed } => write!(f, "damaged: checksum {computed:016x}, not {stored:016x}"),
            Self::Name => f.write_str("the name of an entry is not UTF-8"),
            Self::Missing(name) => write!(f, "no entry {name:?}"),
            Self::Dimensions { name, found, expected } => write!(f, "{name:?} is {found:?}, not {expected:?}"),
        }
    }
}

impl std::error::Error for WeightsError {}

impl Weights {
    /// Adds an array, or replaces the one with this name.
    ///
    /// # Panics
    /// If the dimensions do not match the number of values, or if they or the name are too large for the file format.
    pub fn insert(&mut self, name: impl Into<String>, dimensions: &[usize], numbers: Vec<f32>) {
        let name = name.into();
        assert_eq!(dimensions.iter().product::<usize>(), numbers.len(), "{name}");
        assert!(name.len() <= usize::from(u16::MAX) && dimensions.len() <= usize::from(u8::MAX), "{name}");
        assert!(dimensions.iter().all(|&dimension| u32::try_from(dimension).is_ok()), "{name}");
        self.entries.insert(name, Entry { dimensions: dimensions.to_vec(), numbers });
    }

    /// The numbers of the array with this name.
    ///
    /// # Errors
    /// If there is no such array, or it has another extent.
    pub fn get(&self, name: &str, dimensions: &[usize]) -> Result<&[f32], WeightsError> {
        let entry = self.entries.get(name).ok_or_else(|| WeightsError::Missing(name.to_owned()))?;
        if entry.dimensions == dimensions {
            Ok(&entry.numbers)
        } else {
            let (found, expected) = (entry.dimensions.clone(), dimensions.to_vec());
            Err(WeightsError::Dimensions { name: name.to_owned(), found, expected })
        }
    }

    /// The number of all parameters.
    pub fn parameters(&self) -> usize {
        self.entries.values().map(|entry| entry.numbers.len()).sum()
    }

    /// The contents of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.entries.len() as u32).to_le_bytes());
        for (name, entry) in &self.entries {
            bytes.extend((name.len() as u16).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.push(entry.dimensions.len() as u8);
            bytes.extend(entry.dimensions.iter().flat_map(|&dimension| (dimension as u32).to_le_bytes()));
            bytes.extend(entry.numbers.iter().flat_map(|number| number.to_le_bytes()));
        }
        bytes.extend(fnv1a(&bytes).to_le_bytes());
        bytes
    }

    /// Reads the contents of a file.
    ///
    /// # Errors
    /// If they are damaged, incomplete or in another format.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WeightsError> {
        if !bytes.starts_with(MAGIC) {
            return Err(WeightsError::NotWeights);
        }
        let (body, stored) = bytes.split_last_chunk::<CHECKSUM_LEN>().ok_or(WeightsError::Truncated(bytes.len()))?;
        let (stored, computed) = (u64::from_le_bytes(*stored), fnv1a(body));
        if stored != computed {
            return Err(WeightsError::Checksum { stored, computed });
        }
        let mut reader = Reader { bytes: body, position: MAGIC.len() };
        let mut weights = Self::default();
        for _ in 0..reader.u32()? {
            let name_len = u16::from_le_bytes(reader.array()?);
            let name = std::str::from_utf8(reader.take(usize::from(name_len))?).map_err(|_| WeightsError::Name)?;
            let [rank] = reader.array()?;
            let dimensions = (0..rank).map(|_| Ok(reader.u32()? as usize)).collect::<Result<Vec<_>, _>>()?;
            let size = dimensions.iter().try_fold(size_of::<f32>(), |size, &dimension| size.checked_mul(dimension));
            let numbers = reader.take(size.ok_or(WeightsError::Truncated(reader.position))?)?;
            let numbers = numbers.chunks_exact(4).map(|n| f32::from_le_bytes([n[0], n[1], n[2], n[3]])).collect();
            weights.insert(name, &dimensions, numbers);
        }
        Ok(weights)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], WeightsError> {
        let taken = self.bytes[self.position..].get(..length).ok_or(WeightsError::Truncated(self.position))?;
        self.position += length;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WeightsError> {
        let taken = self.bytes[self.position..].first_chunk().ok_or(WeightsError::Truncated(self.position))?;
        self.position += N;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, WeightsError> {
        Ok(u32::from_le_bytes(self.array()?))
    }
}

/// The 64-bit FNV-1a hash.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::{CHECKSUM_LEN, Weights, WeightsError, fnv1a};

    fn weights() -> Weights {
        let mut weights = Weights::default();
        weights.insert("fc.weight", &[2, 3], vec![1.0, -2.0, 0.5, f32::MIN_POSITIVE, 0.0, 1e30]);
        weights.insert("größe", &[], vec![4.0]);
        weights
    }

    /// `body` with its checksum.
    fn sealed(body: &[u8]) -> Vec<u8> {
        [body, &fnv1a(body).to_le_bytes()].concat()
    }

    #[test]
    fn what_is_written_is_read() {
        let read = Weights::from_bytes(&weights().to_bytes()).unwrap();
        assert_eq!(read, weights());
        assert_eq!(read.parameters(), 7);
        assert_eq!(read.get("fc.weight", &[2, 3]).unwrap()[1], -2.0);
    }

    #[test]
    fn the_checksum_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = weights().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Weights::from_bytes(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_file_cut_off_anywhere_is_refused_even_with_a_good_checksum() {
        let bytes = weights().to_bytes();
        for length in 8..bytes.len() - CHECKSUM_LEN {
            let error = Weights::from_bytes(&sealed(&bytes[..length])).unwrap_err();
            assert!(matches!(error, WeightsError::Truncated(_)), "{length} bytes: {error}");
        }
    }

    #[test]
    fn an_entry_larger_than_memory_is_refused() {
        let mut body = b"NETWGHT1\x01\0\0\0\x01\0w\x03".to_vec();
        body.extend([0xff; 12]);
        assert!(matches!(Weights::from_bytes(&sealed(&body)), Err(WeightsError::Truncated(_))));
    }

    #[test]
    fn a_wrong_entry_is_named() {
        let error = weights().get("fc.weight", &[3, 2]).unwrap_err();
        assert_eq!(error.to_string(), r#""fc.weight" is [2, 3], not [3, 2]"#);
        assert_eq!(weights().get("fc.bias", &[2]), Err(WeightsError::Missing("fc.bias".to_owned())));
    }
}

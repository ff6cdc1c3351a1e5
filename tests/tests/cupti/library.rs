//! Queries of a real libcupti: the lengths of its records, their places in made-up buffers, and the names of functions.

use std::path::Path;

use range_model::timeline::{Api, Work};
use serde_json::{Value, json};
use tests::cupti::{Cupti, Decoded, known_functions};

/// Some decoded kinds of records, and some other kinds.
const KINDS: [u32; 12] = [10, 1, 38, 2, 5, 4, 22, 37, 9, 17, 36, 49];

pub(crate) fn look(path: &Path) -> Value {
    let cupti = match Cupti::open(path) {
        Ok(cupti) => cupti,
        Err(reason) => return json!({ "error": reason }),
    };
    let strides: Vec<(u32, usize)> = (0..70).filter_map(|kind| Some((kind, cupti.stride(kind)?))).collect();
    check_places(&cupti);
    check_values(&cupti);
    let named: Vec<(u32, &str, Option<String>)> =
        known_functions().map(|(number, name)| (number, name, cupti.function_name(Api::Driver, number))).collect();
    let all = |api| -> Vec<(u32, String)> {
        (1..1024).filter_map(|number| Some((number, cupti.function_name(api, number)?))).collect()
    };
    json!({
        "path": cupti.path(), "version": cupti.version().0, "version_name": cupti.version().1,
        "strides": strides, "named": named, "all": all(Api::Driver), "runtime": all(Api::Runtime),
        "records_functions": cupti.records_functions(),
    })
}

/// A buffer of records of these kinds, each filled with small numbers that are valid kinds, too.
fn buffer(cupti: &Cupti, kinds: impl Iterator<Item = u32>) -> (Vec<u64>, Vec<usize>) {
    let (mut words, mut places) = (Vec::new(), Vec::new());
    for kind in kinds {
        let Some(bytes) = cupti.stride(kind) else { continue };
        places.push(words.len() * 8);
        words.push(u64::from(kind));
        words.extend(std::iter::repeat_n(u64::from(kind % 7 + 1), bytes / 8 - 1));
    }
    (words, places)
}

/// The library and the decoder agree on every record's place, in any order of kinds.
fn check_places(cupti: &Cupti) {
    for rotation in 0..KINDS.len() {
        let order = KINDS.iter().copied().cycle().skip(rotation).step_by(rotation % 3 + 1).take(200);
        let (words, expected) = buffer(cupti, order);
        let mut bytes: Vec<u8> = words.iter().copied().flat_map(u64::to_le_bytes).collect();
        let (places, code) = cupti.places(&mut bytes);
        assert_eq!((places.as_slice(), code), (expected.as_slice(), 12), "the library's walk");
        let (decoded, whole) = cupti.decode(&bytes);
        assert!(whole);
        assert_eq!(decoded.iter().map(|(place, _)| *place).collect::<Vec<_>>(), places, "the decoder's walk");
    }
}

/// Each kind is decoded correctly, with its correlation id from the right place.
fn check_values(cupti: &Cupti) {
    let kinds =
        [(10, 92), (1, 44), (2, 44), (22, 60), (4, 32), (5, 32), (36, 4), (37, 20), (38, 24), (49, 12), (17, 40)];
    for (kind, correlation) in kinds {
        if cupti.stride(kind).is_some_and(|bytes| bytes < correlation + 4) {
            continue; // overheads of CUDA 11.8
        }
        let (words, _) = buffer(cupti, [kind, kind].into_iter());
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        let second = bytes.len() / 2;
        bytes[second + correlation..second + correlation + 4].copy_from_slice(&0xabcdu32.to_le_bytes());
        let (decoded, _) = cupti.decode(&bytes);
        let [_, (_, second)] = decoded.as_slice() else { panic!("two records: {decoded:?}") };
        let (is_expected, found) = match second {
            Decoded::Op(op, _) => (matches!(op.work, Work::Kernel(_)) == (kind == 10), op.correlation),
            Decoded::Detail(detail) => (kind > 10 && kind != 22, detail.correlation()),
            Decoded::Call(call) => ((call.api == Api::Driver) == (kind == 4), call.correlation),
            Decoded::Other => (false, 0),
        };
        assert!(is_expected && found == 0xabcd, "kind {kind}: {second:?}");
    }
}

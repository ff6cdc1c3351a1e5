//! Names of kernels: interned when CUPTI delivers them, demangled on demand.
//!
//! A name arrives as an address that is valid while its module is loaded; later it may mean another kernel. So a known
//! address is compared with the name that it meant.

use std::fmt;
use std::sync::Arc;

use cpp_demangle::{BorrowedSymbol, DemangleOptions, ParseOptions};
use parking_lot::Mutex;
use range_model::stats::{Keyed, Named};

/// The largest number of names; further kernels share [`REST`].
const MOST: usize = 65_536;

/// The largest length of a demangled name, in characters; longer ones are cut.
const LONGEST: usize = 4096;

const NONE: u32 = 0;
const REST: u32 = 1;

/// Interned names. A number is valid as long as this value.
pub(crate) struct Names(Mutex<Interned>);

struct Interned {
    by_address: Keyed<u64, u32>,
    by_symbol: Named<Arc<[u8]>, u32>,
    names: Vec<Name>,
}

struct Name {
    symbol: Arc<[u8]>,
    shown: Option<Arc<str>>,
}

impl Names {
    pub(crate) fn new() -> Self {
        let fixed = |text: &str| Name { symbol: Arc::from(text.as_bytes()), shown: Some(Arc::from(text)) };
        let names = vec![fixed("(unnamed kernel)"), fixed("(more kernels)")];
        Self(Mutex::new(Interned { by_address: Keyed::default(), by_symbol: Named::default(), names }))
    }

    /// Number of the kernel with the mangled `symbol`, found at `address`.
    pub(crate) fn intern(&self, address: u64, symbol: &[u8]) -> u32 {
        if symbol.is_empty() {
            return NONE;
        }
        let mut interned = self.0.lock();
        if let Some(number) = interned.by_address.get(&address)
            && interned.names.get(*number as usize).is_some_and(|name| *name.symbol == *symbol)
        {
            return *number;
        }
        let number = match interned.by_symbol.get(symbol) {
            Some(number) => *number,
            None => match u32::try_from(interned.names.len()) {
                Ok(number) if interned.names.len() < MOST => {
                    let symbol: Arc<[u8]> = Arc::from(symbol);
                    interned.by_symbol.insert(Arc::clone(&symbol), number);
                    interned.names.push(Name { symbol, shown: None });
                    number
                }
                _ => return REST,
            },
        };
        if interned.by_address.len() >= 2 * MOST {
            interned.by_address.clear(); // modules come and go: drops addresses that may be stale
        }
        interned.by_address.insert(address, number);
        number
    }

    /// The readable name, and the symbol.
    pub(crate) fn both(&self, number: u32) -> Option<(Arc<str>, Arc<str>)> {
        let shown = self.shown(number)?;
        let symbol = Arc::clone(&self.0.lock().names.get(number as usize)?.symbol);
        Some((shown, String::from_utf8_lossy(&symbol).into()))
    }

    /// The readable name; `None` for an unknown number.
    pub(crate) fn shown(&self, number: u32) -> Option<Arc<str>> {
        let symbol = {
            let interned = self.0.lock();
            let name = interned.names.get(number as usize)?;
            if let Some(shown) = &name.shown {
                return Some(Arc::clone(shown));
            }
            Arc::clone(&name.symbol)
        };
        let shown: Arc<str> = Arc::from(demangle(&symbol)); // without the lock: it may take a while
        let mut interned = self.0.lock();
        let name = interned.names.get_mut(number as usize)?;
        Some(Arc::clone(name.shown.get_or_insert(shown)))
    }
}

/// A kernel's symbol in readable form; unchanged if it is not a mangled name.
pub(crate) fn demangle(symbol: &[u8]) -> String {
    cpp(symbol).map_or_else(|| String::from_utf8_lossy(symbol).into_owned(), without_hash)
}

/// Without the hash at the end of a Rust path.
fn without_hash(mut name: String) -> String {
    let path = name.len().saturating_sub("::h0123456789abcdef".len());
    let hash = name.get(path..).and_then(|end| end.strip_prefix("::h"));
    if hash.is_some_and(|hash| hash.len() == 16 && hash.bytes().all(|each| each.is_ascii_hexdigit())) {
        name.truncate(path);
    }
    name
}

fn cpp(symbol: &[u8]) -> Option<String> {
    // Names nest as deep as templates do. The limits keep a hostile name within a small thread's stack.
    let parse = ParseOptions::default().recursion_limit(160);
    let options = DemangleOptions::new().recursion_limit(160);
    let symbol = BorrowedSymbol::new_with_options(symbol, &parse).ok()?;
    cut(|out| symbol.structured_demangle(out, &options))
}

/// The output of `write`, cut at [`LONGEST`] characters; `None` if `write` fails for another reason.
fn cut(write: impl FnOnce(&mut Cut) -> fmt::Result) -> Option<String> {
    let mut out = Cut { text: String::new(), full: false };
    match write(&mut out) {
        _ if out.full => Some(out.text + "..."),
        Ok(()) => Some(out.text),
        Err(fmt::Error) => None,
    }
}

struct Cut {
    text: String,
    full: bool,
}

impl fmt::Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LONGEST.saturating_sub(self.text.len());
        if text.len() <= room {
            self.text.push_str(text);
            return Ok(());
        }
        let end = (0..=room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.text.push_str(&text[..end]);
        self.full = true;
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_they_are_written() {
        for (symbol, expected) in [
            ("spin", "spin"),
            ("_Z6squarePfi", "square(float*, int)"),
            ("_Z5scaleIfEvPT_S0_i", "void scale<float>(float*, float, int)"),
            ("_Z3addIfLi4EEvPKfPf", "void add<float, 4>(float const*, float*)"),
            ("_ZN4nsys4test1kEv", "nsys::test::k()"),
            ("_ZN7kernels6square17h0123456789abcdefE", "kernels::square"),
            ("_ZN7kernels4hashE", "kernels::hash"),
            ("_Znonsense", "_Znonsense"),
            ("a \u{00e4} b", "a \u{00e4} b"),
        ] {
            assert_eq!(demangle(symbol.as_bytes()), expected);
        }
        assert_eq!(demangle(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn what_grows_without_end_is_cut() {
        // Each template argument contains the previous argument twice.
        let mut symbol = String::from("_Z1fI1AIiiE");
        for level in 0..30 {
            let before = if level == 0 { "S0_".to_owned() } else { format!("S{}_", level) };
            symbol.push_str(&format!("1AI{before}{before}E"));
        }
        symbol.push_str("Evv");
        assert!(demangle(symbol.as_bytes()).len() <= LONGEST + 3);
        assert!(
            cpp(&[b"_Z".as_slice(), &b"P".repeat(100_000), b"i"].concat()).is_none_or(|name| name.len() <= LONGEST + 3)
        );
    }

    #[test]
    fn an_address_that_means_another_kernel_is_noticed() {
        let names = Names::new();
        let first = names.intern(0x1000, b"first");
        assert_eq!((names.intern(0x1000, b"first"), names.intern(0x2000, b"first")), (first, first));
        let second = names.intern(0x1000, b"second");
        assert_ne!(first, second);
        assert_eq!(names.intern(0x2000, b"first"), first);
        assert_eq!(names.shown(first).as_deref(), Some("first"));
        assert_eq!(names.shown(second).as_deref(), Some("second"));
        assert_eq!(names.shown(second + 1), None);
        assert_eq!(names.shown(names.intern(0, b"")).as_deref(), Some("(unnamed kernel)"));
    }

    #[test]
    fn names_are_bounded() {
        let names = Names::new();
        let numbers: Vec<u32> = (0..70_000u64).map(|each| names.intern(each, each.to_string().as_bytes())).collect();
        assert_eq!(numbers.iter().filter(|number| **number == REST).count(), 70_000 - (MOST - 2));
        assert_eq!(names.shown(REST).as_deref(), Some("(more kernels)"));
        assert_eq!(names.shown(numbers[5]).as_deref(), Some("5"));
    }
}

//! The place of an event in the program: converts an address to a line of source, a function, or an offset in a file.
//!
//! An event stores an address. A summary resolves each address once.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ops::Range;
use std::path::Path;

use parking_lot::Mutex;

/// Resolved addresses. One thread at a time resolves them, for a summary.
static KNOWN: Mutex<Option<HashMap<usize, Option<String>>>> = Mutex::new(None);

/// The printed form of each return address.
pub(crate) fn places(addresses: impl Iterator<Item = usize>) -> HashMap<usize, Option<String>> {
    let mut known = KNOWN.lock();
    let known = known.get_or_insert_default();
    let mut looked_again = false;
    let places = addresses.map(|address| {
        let place = known.entry(address).or_insert_with(|| {
            if !std::mem::replace(&mut looked_again, true) {
                backtrace::clear_symbol_cache(); // it lacks libraries that were loaded since
            }
            resolve(address)
        });
        (address, place.clone())
    });
    places.collect()
}

fn resolve(address: usize) -> Option<String> {
    let mut found = None;
    // The resolver examines the call before a return address, and reports inlined functions first.
    backtrace::resolve(address as *mut c_void, |symbol| {
        if found.is_none() {
            let line =
                symbol.filename().and_then(file_name).zip(symbol.lineno()).map(|(file, line)| format!("{file}:{line}"));
            found = line.or_else(|| symbol.name().map(|name| name.to_string()));
        }
    });
    found.or_else(|| {
        let object = Object::at(address)?;
        Some(format!("{}+{:#x}", object.name(), address.checked_sub(object.range.start)?))
    })
}

/// The last part of a path, as nvprof prints it.
fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

/// A place that the runtime names.
pub(crate) fn line(file: &[u8], line: u32) -> String {
    let file = String::from_utf8_lossy(file);
    format!("{}:{line}", file_name(Path::new(&*file)).unwrap_or(&file))
}

/// A program or library in memory.
#[derive(PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) range: Range<usize>,
    pub(crate) path: String,
}

impl Object {
    /// The object at this address.
    pub(crate) fn at(address: usize) -> Option<Self> {
        Self::find(&std::fs::read_to_string("/proc/self/maps").ok()?, address)
    }

    /// The same, with `maps` as the text of `/proc/self/maps`.
    fn find(maps: &str, address: usize) -> Option<Self> {
        let mapped = || maps.lines().filter_map(mapping);
        let (_, path) = mapped().find(|(range, _)| range.contains(&address))?;
        let of_it = || mapped().filter(|(_, other)| *other == path).map(|(range, _)| range);
        let (start, end) = (of_it().map(|range| range.start).min()?, of_it().map(|range| range.end).max()?);
        Some(Self { range: start..end, path: path.to_owned() })
    }

    fn name(&self) -> &str {
        file_name(Path::new(&self.path)).unwrap_or(&self.path)
    }
}

/// Addresses and file of a line; `None` for memory without a file.
fn mapping(line: &str) -> Option<(Range<usize>, &str)> {
    let mut words = line.splitn(6, ' '); // addresses, rights, offset, device, inode, path
    let (start, end) = words.next()?.split_once('-')?;
    let path = words.nth(4)?.trim_start();
    let address = |digits| usize::from_str_radix(digits, 16).ok();
    path.starts_with('/').then_some((address(start)?..address(end)?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_all_that_is_mapped_of_its_file() {
        let maps = "\
55d0c2a00000-55d0c2a01000 r--p 00000000 08:01 131    /tmp/a program
55d0c2a01000-55d0c2a02000 r-xp 00001000 08:01 131    /tmp/a program
55d0c4000000-55d0c4021000 rw-p 00000000 00:00 0      [heap]
7f0000000000-7f0000008000 r--p 00000000 08:01 977    /lib/libgomp.so.1
7f0000008000-7f0000030000 r-xp 00008000 08:01 977    /lib/libgomp.so.1
7f0000040000-7f0000041000 rw-p 00000000 00:00 0
";
        let found = |address| Object::find(maps, address).map(|object| (object.name().to_owned(), object.range));
        assert_eq!(found(0x55d0_c2a0_1234), Some(("a program".to_owned(), 0x55d0_c2a0_0000..0x55d0_c2a0_2000)));
        assert_eq!(found(0x7f00_0000_0000), Some(("libgomp.so.1".to_owned(), 0x7f00_0000_0000..0x7f00_0003_0000)));
        assert_eq!((found(0x55d0_c400_0000), found(0x7f00_0004_0000), found(8)), (None, None, None));
    }

    #[test]
    fn an_address_of_code_with_debugging_information_is_a_line() {
        let mut here = None;
        backtrace::trace(|frame| {
            here = Some(frame.ip() as usize);
            false // the innermost one, in the other crate
        });
        let address = here.unwrap();
        let place = places([address, 8].into_iter());
        assert!(place[&address].as_deref().is_some_and(|place| place.contains(".rs:")), "{place:?}");
        assert_eq!(place[&8], None);
    }
}

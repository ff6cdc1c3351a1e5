//! The data that programs pass through the payload extension.

#![allow(unsafe_code)]

use super::decode::{self, Blob, Decoded, MAX_TEXT, World};
use super::field::Field;
use super::handles::STRINGS;
use super::schema::{self, Type};
use crate::abi::{Handle, PayloadData};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::{null, null_mut};

/// The largest number of payloads of one call that are examined.
const MAX_PAYLOADS: usize = 64;

/// Data that a program passes through the payload extension, with the schemas that it registered for them. Nothing is
/// decoded before [`fields`](Self::fields) is called.
///
/// ```
/// use nvtx_rs::tool::{Call, Tool};
///
/// struct ShowFields;
///
/// impl Tool for ShowFields {
///     fn call(&self, call: &Call<'_>) {
///         let extended = match call {
///             Call::Push { event, .. } | Call::Start { event, .. } | Call::Mark { event, .. } => event.extended,
///             Call::Pop { extended, .. } | Call::End { extended, .. } => *extended,
///             _ => return,
///         };
///         for field in extended.fields() {
///             eprintln!("{} = {}", field.name, field.value);
///         }
///     }
/// }
/// # let _ = ShowFields;
/// ```
#[derive(Clone, Copy)]
pub struct Extended<'a> {
    domain: Handle,
    data: *const PayloadData,
    count: usize,
    call: PhantomData<&'a [u8]>,
}

// SAFETY: any thread may read the data during the call, which outlives `'a`; the handle is a number.
unsafe impl Send for Extended<'_> {}
// SAFETY: as above; nothing is written.
unsafe impl Sync for Extended<'_> {}

impl Default for Extended<'_> {
    fn default() -> Self {
        Self { domain: null_mut(), data: null(), count: 0, call: PhantomData }
    }
}

impl fmt::Debug for Extended<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.fields()).finish()
    }
}

/// Whether both have equal contents.
impl PartialEq for Extended<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.fields() == other.fields()
    }
}

impl<'a> Extended<'a> {
    /// # Safety
    /// For `'a`, the array is null or has `count` elements, and each describes its data correctly: its pointer is null,
    /// or leads to that many bytes or to NUL-terminated text.
    pub(super) unsafe fn new(domain: Handle, data: *const PayloadData, count: usize) -> Self {
        Self { domain, data, count, call: PhantomData }
    }

    /// Whether the program passed nothing.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0 || self.data.is_null()
    }

    /// The data, decoded at each call: at most 256 fields, and one named `…` if there may be more. Data without a
    /// schema become a field `payload` with their size.
    #[must_use]
    pub fn fields(&self) -> Vec<Field> {
        self.decode().fields
    }

    pub(super) fn decode(&self) -> Decoded {
        if self.is_empty() {
            return Decoded::default();
        }
        let blobs: Vec<Blob<'a>> = (0..self.count.min(MAX_PAYLOADS)).filter_map(|index| self.blob(index)).collect();
        decode::decode(&blobs, self)
    }

    fn blob(&self, index: usize) -> Option<Blob<'a>> {
        // SAFETY: `new` was promised an array of `count` elements, and `index` is less.
        let PayloadData { schema, size, data } = unsafe { self.data.add(index).read_unaligned() };
        if data.is_null() {
            return None;
        }
        let size = match (size, schema) {
            (usize::MAX, 75 | 76) => text_length(data.addr(), 1),
            (usize::MAX, 77) => text_length(data.addr(), 2) * 2,
            (usize::MAX, 78) => text_length(data.addr(), 4) * 4,
            (size, _) => size,
        };
        // No object is longer than `isize::MAX`.
        isize::try_from(size).ok().filter(|size| *size > 0)?;
        // SAFETY: the caller of `new` vouches for the size of the data.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast(), size) };
        Some(Blob { schema, address: data.addr(), bytes })
    }
}

impl World for Extended<'_> {
    fn lookup(&self, id: u64) -> Option<Type> {
        schema::lookup(self.domain, id)
    }

    fn registered_string(&self, handle: usize) -> Option<&str> {
        STRINGS.get(std::ptr::without_provenance_mut(handle))
    }

    /// By the interface a tool must copy the target of such an entry, which exists during the call.
    fn text_at(&self, address: usize, unit: usize, length: Option<usize>) -> Option<String> {
        let length = length.unwrap_or_else(|| text_length(address, unit)).min(MAX_TEXT / unit.max(1));
        // SAFETY: the program marked the address as one of text of this length.
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address), length * unit) };
        Some(decode::text(bytes, unit).0)
    }
}

/// The number of units before NUL, up to the limit for shown text.
fn text_length(address: usize, unit: usize) -> usize {
    let is_nul = |index: usize| {
        let start = std::ptr::with_exposed_provenance::<u8>(address + index * unit);
        // SAFETY: the program vouches for a final NUL, and no earlier unit was NUL.
        (0..unit).all(|byte| unsafe { start.add(byte).read() } == 0)
    };
    (0..MAX_TEXT / unit).find(|index| is_nul(*index)).unwrap_or(MAX_TEXT / unit)
}

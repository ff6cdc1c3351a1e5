//! The arguments of programs to the functions in their slots, read as Rust data.
//!
//! Each type here has the layout of the pointer that it wraps, and occurs in the signature of a function that only
//! programs call. By the interface the pointer is null or points to a value of its type, for the call.

#![allow(unsafe_code)]

use super::call::Event;
use super::extended::Extended;
use super::handles::STRINGS;
use super::schema::{Enumeration, Registered, RegisteredEntry};
use crate::abi::color::Color;
use crate::abi::number::Payload;
use crate::abi::resource_kind::ResourceKind;
use crate::abi::{
    self, EnumAttributes, EnumEntry, EventAttributes, Handle, PayloadData, ResourceAttributes, SchemaAttributes,
    SchemaEntry, SyncUserAttributes, WideChar,
};
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};

/// Types for these pointers.
macro_rules! pointers {
    ($($(#[doc = $declared:literal])+ $Name:ident($Pointer:ty);)+) => {
        $(
            $(#[doc = $declared])+
            #[repr(transparent)]
            #[derive(Clone, Copy)]
            pub(super) struct $Name($Pointer);
        )+
    };
}

pointers! {
    /// `const char*`.
    Narrow(*const c_char);
    /// `const wchar_t*`.
    Wide(*const WideChar);
    /// `const nvtxEventAttributes_t*`.
    EventPointer(*const EventAttributes);
    /// `nvtxResourceAttributes_t*`.
    ResourcePointer(*mut ResourceAttributes);
    /// `const nvtxSyncUserAttributes_t*`.
    SyncPointer(*const SyncUserAttributes);
    /// `const nvtxPayloadData_t*`.
    PayloadPointer(*const PayloadData);
    /// `const nvtxPayloadSchemaAttr_t*`.
    SchemaPointer(*const SchemaAttributes);
    /// `const nvtxPayloadEnumAttr_t*`.
    EnumPointer(*const EnumAttributes);
}

impl Narrow {
    /// The text; none for null.
    pub(super) fn message(&self) -> Option<Cow<'_, str>> {
        // SAFETY: by the interface null or a string that lives as long as the call, which `self` does not outlive.
        unsafe { narrow(self.0) }
    }

    /// The text; empty for null.
    pub(super) fn text(&self) -> Cow<'_, str> {
        self.message().unwrap_or_default()
    }
}

impl Wide {
    /// The text; none for null.
    pub(super) fn message(&self) -> Option<Cow<'_, str>> {
        // SAFETY: as for narrow strings.
        unsafe { wide(self.0) }.map(Cow::Owned)
    }

    /// The text; empty for null.
    pub(super) fn text(&self) -> Cow<'_, str> {
        self.message().unwrap_or_default()
    }
}

/// # Safety
/// The pointer is null or points to a string that ends in NUL and lives for `'a`.
unsafe fn narrow<'a>(pointer: *const c_char) -> Option<Cow<'a, str>> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: not null, so the caller vouches for it.
    let text = unsafe { CStr::from_ptr(pointer) };
    Some(if text.to_bytes().is_ascii() {
        // SAFETY: ASCII is UTF-8.
        Cow::Borrowed(unsafe { std::str::from_utf8_unchecked(text.to_bytes()) })
    } else {
        text.to_string_lossy()
    })
}

/// # Safety
/// The pointer is null or points to a string that ends in NUL.
unsafe fn wide(pointer: *const WideChar) -> Option<String> {
    if pointer.is_null() {
        return None;
    }
    let mut length = 0;
    // SAFETY: not null, so the caller vouches for a string; nothing behind its end is read.
    let units = unsafe {
        while *pointer.add(length) != 0 {
            length += 1;
        }
        std::slice::from_raw_parts(pointer, length)
    };
    Some(decode_wide(units))
}

#[cfg(windows)]
fn decode_wide(units: &[u16]) -> String {
    String::from_utf16_lossy(units)
}

#[cfg(not(windows))]
fn decode_wide(units: &[u32]) -> String {
    units.iter().map(|&unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// The message of a struct.
///
/// # Safety
/// The struct describes its message correctly for `'a`.
unsafe fn message<'a>(kind: i32, pointer: *const c_void) -> Option<Cow<'a, str>> {
    // SAFETY: by its type the pointer is null or points to a string of this kind; the caller vouches for that.
    unsafe {
        match kind {
            abi::message_type::ASCII => narrow(pointer.cast()),
            abi::message_type::UNICODE => wide(pointer.cast()).map(Cow::Owned),
            abi::message_type::REGISTERED => STRINGS.get(pointer.cast_mut()).map(Cow::Borrowed),
            _ => None,
        }
    }
}

/// A copy of a struct that states its own size at offset 2, with zeros from there on; all zeros for null. A word that
/// is only partly inside is zero, too, because a part of a pointer is no pointer.
///
/// # Safety
/// `T` is one of the attribute structs, for which all zeros are a value. The pointer is null or points to one that has
/// its stated size.
unsafe fn copy<T: Copy>(pointer: *const T) -> T {
    // SAFETY: every version of these structs has at least the two numbers that make up the first four bytes.
    let size = if pointer.is_null() { 0 } else { unsafe { pointer.cast::<u16>().add(1).read_unaligned() }.into() };
    if size >= size_of::<T>() {
        // SAFETY: the source has its stated size.
        return unsafe { pointer.read_unaligned() };
    }
    // SAFETY: the caller vouches that all zeros are a value of `T`.
    let mut copy = unsafe { std::mem::zeroed::<T>() };
    let size = size - size % size_of::<usize>();
    if size > 0 {
        // SAFETY: the source has `size` bytes or more, and the copy has more; any bytes are a valid `T`.
        unsafe {
            std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), std::ptr::from_mut(&mut copy).cast::<u8>(), size);
        }
    }
    copy
}

impl EventPointer {
    /// Runs `call` with the description; an empty one for null.
    #[inline]
    pub(super) fn read<R>(&self, domain: Handle, call: impl FnOnce(Event<'_>) -> R) -> R {
        // SAFETY: an attribute struct, which by the interface is as long as it says.
        let attributes = unsafe { copy(self.0) };
        // SAFETY: by the interface the message is what the struct says, for the call.
        let text = unsafe { message(attributes.message_type, attributes.message) };
        let event = Event {
            message: text.as_deref(),
            registered: attributes.message_type == abi::message_type::REGISTERED,
            category: attributes.category,
            color: (attributes.color_type == abi::color_type::ARGB).then(|| Color::argb(attributes.color)),
            payload: payload(&attributes),
            extended: Extended::default(),
        };
        if attributes.payload_type != abi::payload_type::EXTENDED {
            return call(event);
        }
        // SAFETY: the copy has all eight bytes set.
        let data = std::ptr::with_exposed_provenance(unsafe { attributes.payload.u64 } as usize);
        let count = usize::try_from(attributes.reserved0).unwrap_or(0);
        // SAFETY: by the interface these are the address and the length of an array, for the call.
        let extended = unsafe { Extended::new(domain, data, count) };
        if event.message.is_none() { described(extended, call) } else { call(Event { extended, ..event }) }
    }
}

/// Runs `call` with an event that consists only of its payload.
pub(super) fn described<R>(extended: Extended<'_>, call: impl FnOnce(Event<'_>) -> R) -> R {
    let decoded = extended.decode();
    call(Event {
        message: decoded.message.as_deref(),
        category: decoded.category.unwrap_or(0),
        color: decoded.color,
        extended,
        ..Event::default()
    })
}

impl PayloadPointer {
    /// The payloads of a call, `count` in number.
    pub(super) fn read(&self, domain: Handle, count: usize) -> Extended<'_> {
        // SAFETY: by the interface null or an array of this length for the call, which `self` does not outlive.
        unsafe { Extended::new(domain, self.0, count) }
    }
}

/// The largest number of characters and entries; longer ones are ignored.
const MAX_ENTRIES: usize = 4_096;

/// The elements of a registered array; empty if there are too many, or if not all fields are set.
///
/// # Safety
/// The pointer is null or leads to `count` elements, which may be copied.
unsafe fn elements<T>(is_set: bool, pointer: *const T, count: usize) -> Vec<T> {
    let count = if is_set && !pointer.is_null() && count <= MAX_ENTRIES { count } else { 0 };
    // SAFETY: the caller vouches for the pointer, and the index is less than the count.
    (0..count).map(|index| unsafe { pointer.add(index).read_unaligned() }).collect()
}

/// # Safety
/// The pointer is null or leads to a string that ends in NUL.
unsafe fn owned(pointer: *const c_char) -> String {
    // SAFETY: the caller vouches for the pointer.
    unsafe { narrow(pointer) }.unwrap_or_default().into_owned()
}

/// A field of a registration, which may end before it: the field exists if its bit is set.
macro_rules! set_field {
    ($pointer:expr, $mask:expr, $bit:literal, $field:ident) => {
        // SAFETY: a field whose bit is set exists.
        ($mask & 1 << $bit != 0).then(|| unsafe { (&raw const (*$pointer).$field).read_unaligned() })
    };
}

impl SchemaPointer {
    /// The schema and the id that the program chose.
    pub(super) fn read(&self) -> (Registered, Option<u64>) {
        let pointer = self.0;
        if pointer.is_null() {
            return (Registered::default(), None);
        }
        // SAFETY: by the interface a registration, which begins with its mask.
        let mask = unsafe { pointer.cast::<u64>().read_unaligned() };
        let count = set_field!(pointer, mask, 5, entry_count);
        let entries = set_field!(pointer, mask, 4, entries).unwrap_or(std::ptr::null());
        // SAFETY: by the interface an array of this length, for the call.
        let entries = unsafe { elements(count.is_some(), entries, count.unwrap_or(0)) };
        let read = |entry: SchemaEntry| RegisteredEntry {
            // SAFETY: by the interface null or a string.
            name: unsafe { owned(entry.name) },
            flags: entry.flags,
            kind: entry.kind,
            detail: entry.detail,
            offset: entry.offset,
        };
        let name = set_field!(pointer, mask, 1, name).unwrap_or(std::ptr::null());
        let schema = Registered {
            // SAFETY: by the interface null or a string.
            name: unsafe { owned(name) },
            kind: set_field!(pointer, mask, 2, kind).unwrap_or(0),
            entries: entries.into_iter().map(read).collect(),
            static_size: set_field!(pointer, mask, 6, static_size).filter(|size| *size > 0),
            pack: set_field!(pointer, mask, 7, pack_alignment).unwrap_or(0),
        };
        (schema, set_field!(pointer, mask, 8, id).filter(|id| *id != 0))
    }
}

impl EnumPointer {
    /// The enumeration and the id that the program chose.
    pub(super) fn read(&self) -> (Enumeration, Option<u64>) {
        let pointer = self.0;
        if pointer.is_null() {
            return (Enumeration { size: 0, values: Vec::new() }, None);
        }
        // SAFETY: by the interface a registration, which begins with its mask.
        let mask = unsafe { pointer.cast::<u64>().read_unaligned() };
        let count = set_field!(pointer, mask, 3, entry_count);
        let entries = set_field!(pointer, mask, 2, entries).unwrap_or(std::ptr::null());
        // SAFETY: by the interface an array of this length, for the call.
        let entries = unsafe { elements(count.is_some(), entries, count.unwrap_or(0)) };
        // SAFETY: by the interface null or a string.
        let read = |entry: EnumEntry| (entry.value, unsafe { owned(entry.name) }, entry.is_flag != 0);
        let enumeration = Enumeration {
            size: set_field!(pointer, mask, 4, size).unwrap_or(0),
            values: entries.into_iter().map(read).collect(),
        };
        (enumeration, set_field!(pointer, mask, 5, id).filter(|id| *id != 0))
    }
}

fn payload(attributes: &EventAttributes) -> Option<Payload> {
    use abi::payload_type as kind;
    let value = attributes.payload;
    // SAFETY: the copy has all eight bytes set, and every pattern of them is a value of each of these types.
    unsafe {
        match attributes.payload_type {
            kind::U64 => Some(Payload::U64(value.u64)),
            kind::I64 => Some(Payload::I64(value.i64)),
            kind::F64 => Some(Payload::F64(value.f64)),
            kind::U32 => Some(Payload::U32(value.u32)),
            kind::I32 => Some(Payload::I32(value.i32)),
            kind::F32 => Some(Payload::F32(value.f32)),
            _ => None,
        }
    }
}

impl ResourcePointer {
    /// The kind of the resource, its address or number, and its name.
    pub(super) fn read(&self) -> (ResourceKind, u64, Option<String>) {
        // SAFETY: an attribute struct, which by the interface is as long as it says.
        let attributes = unsafe { copy(self.0) };
        // SAFETY: by the interface the message is what the struct says, for the call.
        let name = unsafe { message(attributes.message_type, attributes.message) }.map(Cow::into_owned);
        let kind = attributes.identifier_type;
        (ResourceKind::new((kind >> 16) as u16, kind as u16), attributes.identifier, name)
    }
}

impl SyncPointer {
    /// The object's name.
    pub(super) fn read(&self) -> Option<String> {
        // SAFETY: an attribute struct, which by the interface is as long as it says.
        let attributes = unsafe { copy(self.0) };
        // SAFETY: by the interface the message is what the struct says, for the call.
        unsafe { message(attributes.message_type, attributes.message) }.map(Cow::into_owned)
    }
}

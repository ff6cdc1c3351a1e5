//! What programs pass to the functions in their slots, read as Rust data.
//!
//! Each type here is laid out as the pointer that it wraps and stands in the signature of a function that only a
//! program calls. That program keeps to the interface: a pointer is null or points to what its type says, for the call.

#![allow(unsafe_code)]

use super::Event;
use super::handles::STRINGS;
use crate::abi::{self, EventAttributes, ResourceAttributes, SyncUserAttributes, WideChar};
use crate::{Color, Payload, ResourceKind};
use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_void};

/// `const char*`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Narrow(*const c_char);

/// `const wchar_t*`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Wide(*const WideChar);

/// `const nvtxEventAttributes_t*`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct EventPointer(*const EventAttributes);

/// `nvtxResourceAttributes_t*`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct ResourcePointer(*mut ResourceAttributes);

/// `const nvtxSyncUserAttributes_t*`.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct SyncPointer(*const SyncUserAttributes);

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
    // SAFETY: not null, so the caller vouches for it.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy())
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
/// What the struct says of its message is true for `'a`.
unsafe fn message<'a>(kind: i32, pointer: *const c_void) -> Option<Cow<'a, str>> {
    // SAFETY: the type says that the pointer is null or one to a string of this kind, and the caller that it is true.
    unsafe {
        match kind {
            abi::message_type::ASCII => narrow(pointer.cast()),
            abi::message_type::UNICODE => wide(pointer.cast()).map(Cow::Owned),
            abi::message_type::REGISTERED => STRINGS.get(pointer.cast_mut()).map(Cow::Borrowed),
            _ => None,
        }
    }
}

/// A copy of a struct that says its own size at offset 2, zero from there on; all zero for null.
///
/// # Safety
/// `T` is one of the attribute structs, for which all zeroes are a value. The pointer is null or points to one that is
/// as long as it says.
unsafe fn copy<T: Copy>(pointer: *const T) -> T {
    // SAFETY: all zeroes are a value of `T`, says the caller.
    let mut copy = unsafe { std::mem::zeroed::<T>() };
    if !pointer.is_null() {
        // SAFETY: every version of these structs has at least the two numbers that make up the first four bytes.
        let size = usize::from(unsafe { pointer.cast::<u16>().add(1).read_unaligned() });
        // SAFETY: the source has `size` bytes and the copy `size_of::<T>()`; any bytes make a `T`.
        unsafe {
            std::ptr::copy_nonoverlapping(
                pointer.cast::<u8>(),
                std::ptr::from_mut(&mut copy).cast::<u8>(),
                size.min(size_of::<T>()),
            );
        }
    }
    copy
}

impl EventPointer {
    /// Runs `call` with the description; an empty one for null.
    pub(super) fn read<R>(&self, call: impl FnOnce(Event<'_>) -> R) -> R {
        // SAFETY: an attribute struct, which by the interface is as long as it says.
        let attributes = unsafe { copy(self.0) };
        // SAFETY: by the interface the message is what the struct says, for the call.
        let text = unsafe { message(attributes.message_type, attributes.message) };
        call(Event {
            message: text.as_deref(),
            registered: attributes.message_type == abi::message_type::REGISTERED,
            category: attributes.category,
            color: (attributes.color_type == abi::color_type::ARGB).then(|| Color::argb(attributes.color)),
            payload: payload(&attributes),
        })
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
    /// What the resource is, its address or number, and its name.
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

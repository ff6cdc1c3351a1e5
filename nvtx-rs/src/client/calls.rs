//! One function for each call of the interface by a program: it does nothing, or calls the tool.

#![allow(unsafe_code)]

use crate::abi::color::Color;
use crate::abi::number::Payload;
use crate::abi::program::{SLOTS, function};
use crate::abi::{self, EventAttributes, Handle};
use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::mem::transmute;
use std::ptr::null_mut;

/// The message of an event.
pub(crate) enum MessageRef<'a> {
    None,
    Text(&'a CStr),
    Registered(Handle),
}

impl MessageRef<'_> {
    fn encode(&self) -> (i32, *const c_void) {
        match *self {
            Self::None => (abi::message_type::UNKNOWN, std::ptr::null()),
            Self::Text(text) => (abi::message_type::ASCII, text.as_ptr().cast()),
            Self::Registered(handle) => (abi::message_type::REGISTERED, handle.cast_const()),
        }
    }
}

/// The description of a range or a mark, valid as long as the message: only this module reads or makes its pointer.
pub(crate) struct Event<'a>(EventAttributes, PhantomData<&'a CStr>);

impl<'a> Event<'a> {
    pub(crate) fn new(message: MessageRef<'a>, category: u32, color: Option<Color>, payload: Option<Payload>) -> Self {
        let (message_type, message) = message.encode();
        let (payload_type, value) = encode_payload(payload);
        let attributes = EventAttributes {
            version: abi::VERSION,
            size: size_of::<EventAttributes>() as u16,
            category,
            color_type: if color.is_some() { abi::color_type::ARGB } else { abi::color_type::UNKNOWN },
            color: color.map_or(0, Color::to_argb),
            payload_type,
            reserved0: 0,
            payload: value,
            message_type,
            padding: 0,
            message,
        };
        Self(attributes, PhantomData)
    }
}

fn encode_payload(payload: Option<Payload>) -> (i32, abi::PayloadValue) {
    use abi::payload_type as kind;
    // Sets all eight bytes, whatever the width of the number. Tools exist for little-endian machines only.
    let (kind, bits) = match payload {
        None => (kind::UNKNOWN, 0),
        Some(Payload::U64(number)) => (kind::U64, number),
        Some(Payload::I64(number)) => (kind::I64, number.cast_unsigned()),
        Some(Payload::F64(number)) => (kind::F64, number.to_bits()),
        Some(Payload::U32(number)) => (kind::U32, number.into()),
        Some(Payload::I32(number)) => (kind::I32, number.cast_unsigned().into()),
        Some(Payload::F32(number)) => (kind::F32, number.to_bits().into()),
    };
    (kind, abi::PayloadValue { u64: bits })
}

/// A resource's description, valid while its name is.
pub(crate) struct Resource<'a>(abi::ResourceAttributes, PhantomData<&'a CStr>);

impl<'a> Resource<'a> {
    pub(crate) fn new(identifier_type: i32, identifier: u64, name: &'a CStr) -> Self {
        let (message_type, message) = MessageRef::Text(name).encode();
        let attributes = abi::ResourceAttributes {
            version: abi::VERSION,
            size: size_of::<abi::ResourceAttributes>() as u16,
            identifier_type,
            identifier,
            message_type,
            padding: 0,
            message,
        };
        Self(attributes, PhantomData)
    }
}

/// A synchronisation object's description, valid while its name is.
pub(crate) struct SyncUser<'a>(abi::SyncUserAttributes, PhantomData<&'a CStr>);

impl<'a> SyncUser<'a> {
    pub(crate) fn new(name: &'a CStr) -> Self {
        let (message_type, message) = MessageRef::Text(name).encode();
        let size = size_of::<abi::SyncUserAttributes>() as u16;
        Self(abi::SyncUserAttributes { version: abi::VERSION, size, message_type, message }, PhantomData)
    }
}

/// Defines `fn name(arguments) -> result`, which calls the function in `module[ID]` with `passed`, or returns the value
/// after `else`.
macro_rules! calls {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? {
        $module:ident[$id:ident] as $function:ident, ($($passed:expr),*) $(else $none:expr)?
    })*) => { $(
        pub(crate) fn $name($($argument: $type),*) $(-> $result)? {
            let Some(function) = function(&SLOTS.$module[abi::$module::$id]) else { return $($none)? };
            // SAFETY: by the interface the slot of this id holds a function of this type, and a loaded tool stays
            // loaded. Strings and structs are borrowed for the call, and the tool reads them only during it; handles
            // are the tool's own values.
            unsafe { transmute::<*mut c_void, abi::$function>(function)($($passed),*) }
        }
    )* };
}

/// Opens a range. `clock` runs last: only the jump into the tool follows. Never inlined, so that all kinds of messages
/// share one such jump, which earlier messages keep warm.
#[inline(never)]
pub(crate) fn push<T>(domain: Handle, event: &Event<'_>, clock: impl FnOnce() -> T) -> T {
    let Some(function) = function(&SLOTS.core2[abi::core2::RANGE_PUSH_EX]) else { return clock() };
    // SAFETY: this slot holds a function of this type by the interface's definition.
    let function = unsafe { transmute::<*mut c_void, abi::PushEx>(function) };
    let moment = clock();
    // SAFETY: a loaded tool stays loaded, whatever the clock did. The tool reads the event during the call, for which
    // it is borrowed; the handle is the tool's own, or null.
    unsafe { function(domain, &event.0) };
    moment
}

/// Closes the latest range; like [`push`].
pub(crate) fn pop<T>(domain: Handle, clock: impl FnOnce() -> T) -> T {
    let Some(function) = function(&SLOTS.core2[abi::core2::RANGE_POP]) else { return clock() };
    // SAFETY: this slot holds a function of this type by the interface's definition.
    let function = unsafe { transmute::<*mut c_void, abi::Pop>(function) };
    let moment = clock();
    // SAFETY: a loaded tool stays loaded, whatever the clock did. The handle is one that the tool made itself, or null.
    unsafe { function(domain) };
    moment
}

calls! {
    fn mark(domain: Handle, event: &Event<'_>) { core2[MARK_EX] as MarkEx, (domain, &event.0) }
    fn start(domain: Handle, event: &Event<'_>) -> u64 { core2[RANGE_START_EX] as StartEx, (domain, &event.0) else 0 }
    fn end(domain: Handle, id: u64) { core2[RANGE_END] as End, (domain, id) }
    fn create_domain(name: &CStr) -> Handle { core2[DOMAIN_CREATE_A] as DomainCreate, (name.as_ptr()) else null_mut() }
    fn register_string(domain: Handle, text: &CStr) -> Handle {
        core2[REGISTER_STRING_A] as RegisterString, (domain, text.as_ptr()) else null_mut()
    }
    fn name_category(domain: Handle, id: u32, name: &CStr) {
        core2[NAME_CATEGORY_A] as NameCategory, (domain, id, name.as_ptr())
    }
    fn create_resource(domain: Handle, resource: &Resource<'_>) -> Handle {
        core2[RESOURCE_CREATE] as ResourceCreate, (domain, &resource.0) else null_mut()
    }
    fn destroy_resource(resource: Handle) { core2[RESOURCE_DESTROY] as WithHandle, (resource) }
    fn name_thread(id: u32, name: &CStr) { core[NAME_OS_THREAD_A] as NameThread, (id, name.as_ptr()) }
    fn name_cu_device(id: c_int, name: &CStr) { cuda[DEVICE_A] as NameDevice, (id, name.as_ptr()) }
    fn name_cu_context(object: Handle, name: &CStr) { cuda[CONTEXT_A] as NameObject, (object, name.as_ptr()) }
    fn name_cu_stream(object: Handle, name: &CStr) { cuda[STREAM_A] as NameObject, (object, name.as_ptr()) }
    fn name_cu_event(object: Handle, name: &CStr) { cuda[EVENT_A] as NameObject, (object, name.as_ptr()) }
    fn name_cuda_device(id: c_int, name: &CStr) { cudart[DEVICE_A] as NameDevice, (id, name.as_ptr()) }
    fn name_cuda_stream(object: Handle, name: &CStr) {
        cudart[STREAM_A] as NameObject, (object, name.as_ptr())
    }
    fn name_cuda_event(object: Handle, name: &CStr) { cudart[EVENT_A] as NameObject, (object, name.as_ptr()) }
    fn create_sync(domain: Handle, sync: &SyncUser<'_>) -> Handle {
        sync[CREATE] as SyncCreate, (domain, &sync.0) else null_mut()
    }
    fn destroy_sync(object: Handle) { sync[DESTROY] as WithHandle, (object) }
    fn acquire_start(object: Handle) { sync[ACQUIRE_START] as WithHandle, (object) }
    fn acquire_failed(object: Handle) { sync[ACQUIRE_FAILED] as WithHandle, (object) }
    fn acquire_success(object: Handle) { sync[ACQUIRE_SUCCESS] as WithHandle, (object) }
    fn releasing(object: Handle) { sync[RELEASING] as WithHandle, (object) }
}

//! The functions in a program's slots: each passes its call to the tool, then to the next tool.

#![allow(unsafe_code)]

use super::arguments::{
    EnumPointer, EventPointer, Narrow, PayloadPointer, ResourcePointer, SchemaPointer, SyncPointer, Wide, described,
};
use super::call::{Call, Event, NamedObject, SyncAction};
use super::deliver::{NEXT_PAYLOAD_SLOTS, NEXT_SLOTS, deliver};
use super::extended::Extended;
use super::handles::{self, DOMAINS, Names, OBJECTS, Object, STRINGS, domain_name};
use super::schema;
use super::thread::{Thread, inside};
use crate::abi::{self, Handle};
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// The next tool's function in a slot.
macro_rules! next_slot {
    (payload[$id:ident]) => {
        NEXT_PAYLOAD_SLOTS[abi::payload::$id]
    };
    ($module:ident[$id:ident]) => {
        NEXT_SLOTS.$module[abi::$module::$id]
    };
}

/// A function, and the module and callback id of its slot.
pub(super) type Receiver = (i32, usize, *mut c_void);

/// A receiver for `module[ID]`. In the body `next` calls the next tool with the same arguments, or returns `None` if
/// that tool did not fill the slot. `thread` is the calling one. A call made by a tool while it is being called gets
/// the value after `->`.
macro_rules! receiver {
    (
        $module:ident[$id:ident]($($argument:ident: $type:ty),*) $(-> $result:ty, $none:expr;)?
        |$next:ident $(, $thread:ident)?| $body:expr
    ) => {{
        unsafe extern "system" fn receive($($argument: $type),*) $(-> $result)? {
            let received = inside(|_thread| {
                let pointer = next_slot!($module[$id]).load(Ordering::Acquire);
                let $next = || {
                    // SAFETY: the next tool filled this slot, so by the interface it is a function of this type; the
                    // arguments are the caller's own.
                    (!pointer.is_null()).then(|| unsafe {
                        type Receiver = unsafe extern "system" fn($($type),*) $(-> $result)?;
                        transmute::<*mut c_void, Receiver>(pointer)($($argument),*)
                    })
                };
                $(let $thread = _thread;)?
                $body
            });
            received.unwrap_or(($($none)?))
        }
        (abi::$module::MODULE, abi::$module::$id, receive as *mut c_void)
    }};
}

/// Two receivers that differ in the type of their `Text`: `char` or `wchar_t`.
macro_rules! pair {
    ($module:ident[$narrow:ident, $wide:ident] $($rest:tt)*) => {
        [
            {
                type Text = Narrow;
                receiver!($module[$narrow] $($rest)*)
            },
            {
                type Text = Wide;
                receiver!($module[$wide] $($rest)*)
            },
        ]
    };
}

/// Two receivers for the name of an object that is passed as `$type`.
macro_rules! object {
    ($module:ident[$narrow:ident, $wide:ident] $object:ident: $type:ty, $to_number:expr) => {
        pair!($module[$narrow, $wide](object: $type, name: Text) |next| {
            let name = name.text();
            tell(&Call::NameObject { object: NamedObject::$object, handle: $to_number(object), name: &name }, next)
        })
    };
}

pub(super) fn receivers() -> Vec<Receiver> {
    const FAILED: c_int = abi::NO_PUSH_POP_TRACKING;
    let mut all = vec![
        receiver!(core[MARK_EX](event: EventPointer) |next| {
            event.read(null_mut(), |event| mark(null_mut(), event, next))
        }),
        receiver!(core[RANGE_START_EX](event: EventPointer) -> u64, 0; |next| {
            event.read(null_mut(), |event| start(null_mut(), event, next))
        }),
        receiver!(core[RANGE_PUSH_EX](event: EventPointer) -> c_int, FAILED; |next, thread| {
            event.read(null_mut(), |event| push(thread, null_mut(), event, next))
        }),
        receiver!(core[RANGE_END](id: u64) |next| end(null_mut(), id, Extended::default(), next)),
        receiver!(core[RANGE_POP]() -> c_int, FAILED; |next, thread| {
            pop(thread, null_mut(), Extended::default(), next)
        }),
        receiver!(core2[MARK_EX](domain: Handle, event: EventPointer) |next| {
            event.read(domain, |event| mark(domain, event, next))
        }),
        receiver!(core2[RANGE_START_EX](domain: Handle, event: EventPointer) -> u64, 0; |next| {
            event.read(domain, |event| start(domain, event, next))
        }),
        receiver!(core2[RANGE_PUSH_EX](domain: Handle, event: EventPointer) -> c_int, FAILED; |next, thread| {
            event.read(domain, |event| push(thread, domain, event, next))
        }),
        receiver!(core2[RANGE_END](domain: Handle, id: u64) |next| end(domain, id, Extended::default(), next)),
        receiver!(core2[RANGE_POP](domain: Handle) -> c_int, FAILED; |next, thread| {
            pop(thread, domain, Extended::default(), next)
        }),
        receiver!(core2[DOMAIN_DESTROY](domain: Handle) |next| {
            tell(&Call::DestroyDomain { domain: domain_name(domain) }, next)
        }),
        receiver!(core2[INITIALIZE](reserved: *const c_void) |next| tell(&Call::Initialize, next)),
        receiver!(core2[RESOURCE_CREATE](domain: Handle, resource: ResourcePointer) -> Handle, null_mut(); |next| {
            create_resource(domain, resource, next)
        }),
        receiver!(core2[RESOURCE_DESTROY](resource: Handle) |next| destroy_resource(resource, next)),
        receiver!(sync[CREATE](domain: Handle, object: SyncPointer) -> Handle, null_mut(); |next| {
            create_sync(domain, object, next)
        }),
        receiver!(sync[DESTROY](object: Handle) |next| sync(object, SyncAction::Destroy, next)),
        receiver!(sync[ACQUIRE_START](object: Handle) |next| sync(object, SyncAction::AcquireStart, next)),
        receiver!(sync[ACQUIRE_FAILED](object: Handle) |next| sync(object, SyncAction::AcquireFailed, next)),
        receiver!(sync[ACQUIRE_SUCCESS](object: Handle) |next| sync(object, SyncAction::AcquireSuccess, next)),
        receiver!(sync[RELEASING](object: Handle) |next| sync(object, SyncAction::Releasing, next)),
    ];
    all.extend(pair!(core[MARK_A, MARK_W](text: Text) |next| {
        mark(null_mut(), unnamed(text.message().as_deref()), next)
    }));
    all.extend(pair!(core[RANGE_START_A, RANGE_START_W](text: Text) -> u64, 0; |next| {
        start(null_mut(), unnamed(text.message().as_deref()), next)
    }));
    all.extend(pair!(core[RANGE_PUSH_A, RANGE_PUSH_W](text: Text) -> c_int, FAILED; |next, thread| {
        push(thread, null_mut(), unnamed(text.message().as_deref()), next)
    }));
    all.extend(pair!(core[NAME_CATEGORY_A, NAME_CATEGORY_W](id: u32, name: Text) |next| {
        tell(&Call::NameCategory { domain: None, id, name: &name.text() }, next)
    }));
    all.extend(pair!(core[NAME_OS_THREAD_A, NAME_OS_THREAD_W](id: u32, name: Text) |next| {
        tell(&Call::NameThread { id, name: &name.text() }, next)
    }));
    all.extend(pair!(core2[NAME_CATEGORY_A, NAME_CATEGORY_W](domain: Handle, id: u32, name: Text) |next| {
        tell(&Call::NameCategory { domain: domain_name(domain), id, name: &name.text() }, next)
    }));
    all.extend(pair!(core2[REGISTER_STRING_A, REGISTER_STRING_W](domain: Handle, text: Text) -> Handle, null_mut();
        |next| register_string(domain, &text.text(), next)));
    all.extend(pair!(core2[DOMAIN_CREATE_A, DOMAIN_CREATE_W](name: Text) -> Handle, null_mut(); |next| {
        create_domain(&name.text(), next)
    }));
    for objects in named_objects() {
        all.extend(objects);
    }
    all
}

/// The receivers of the payload extension.
pub(super) fn payload_receivers() -> [Receiver; 8] {
    const FAILED: c_int = abi::NO_PUSH_POP_TRACKING;
    [
        receiver!(payload[SCHEMA_REGISTER](domain: Handle, schema: SchemaPointer) -> u64, 0; |next| {
            let (registered, chosen) = schema.read();
            let given = next();
            let id = chosen.or(given).unwrap_or_else(schema::new_id);
            schema::register(domain, id, registered);
            given.unwrap_or(id)
        }),
        receiver!(payload[ENUM_REGISTER](domain: Handle, enumeration: EnumPointer) -> u64, 0; |next| {
            let (registered, chosen) = enumeration.read();
            let given = next();
            let id = chosen.or(given).unwrap_or_else(schema::new_id);
            schema::register_enumeration(domain, id, registered);
            given.unwrap_or(id)
        }),
        receiver!(payload[MARK](domain: Handle, data: PayloadPointer, count: usize) |next| {
            described(data.read(domain, count), |event| mark(domain, event, next))
        }),
        receiver!(payload[RANGE_PUSH](domain: Handle, data: PayloadPointer, count: usize) -> c_int, FAILED;
            |next, thread| described(data.read(domain, count), |event| push(thread, domain, event, next))),
        receiver!(payload[RANGE_POP](domain: Handle, data: PayloadPointer, count: usize) -> c_int, FAILED;
            |next, thread| pop(thread, domain, data.read(domain, count), next)),
        receiver!(payload[RANGE_START](domain: Handle, data: PayloadPointer, count: usize) -> u64, 0; |next| {
            described(data.read(domain, count), |event| start(domain, event, next))
        }),
        receiver!(payload[RANGE_END](domain: Handle, id: u64, data: PayloadPointer, count: usize) |next| {
            end(domain, id, data.read(domain, count), next)
        }),
        // All domains are enabled: a tool behind this one that wants fewer ignores the rest.
        receiver!(payload[DOMAIN_IS_ENABLED](_domain: Handle) -> u8, 1; |_next| 1),
    ]
}

fn named_objects() -> [[Receiver; 2]; 14] {
    [
        object!(cuda[DEVICE_A, DEVICE_W] CuDevice: c_int, number),
        object!(cuda[CONTEXT_A, CONTEXT_W] CuContext: Handle, address),
        object!(cuda[STREAM_A, STREAM_W] CuStream: Handle, address),
        object!(cuda[EVENT_A, EVENT_W] CuEvent: Handle, address),
        object!(cudart[DEVICE_A, DEVICE_W] CudaDevice: c_int, number),
        object!(cudart[STREAM_A, STREAM_W] CudaStream: Handle, address),
        object!(cudart[EVENT_A, EVENT_W] CudaEvent: Handle, address),
        object!(opencl[DEVICE_A, DEVICE_W] ClDevice: Handle, address),
        object!(opencl[CONTEXT_A, CONTEXT_W] ClContext: Handle, address),
        object!(opencl[COMMAND_QUEUE_A, COMMAND_QUEUE_W] ClCommandQueue: Handle, address),
        object!(opencl[MEM_OBJECT_A, MEM_OBJECT_W] ClMemObject: Handle, address),
        object!(opencl[SAMPLER_A, SAMPLER_W] ClSampler: Handle, address),
        object!(opencl[PROGRAM_A, PROGRAM_W] ClProgram: Handle, address),
        object!(opencl[EVENT_A, EVENT_W] ClEvent: Handle, address),
    ]
}

/// A device's number; a negative one, which no device has, wraps.
fn number(device: c_int) -> u64 {
    i64::from(device) as u64
}

fn address(object: Handle) -> u64 {
    object.addr() as u64
}

fn unnamed(message: Option<&str>) -> Event<'_> {
    Event { message, ..Event::default() }
}

fn tell(call: &Call<'_>, next: impl FnOnce() -> Option<()>) {
    deliver(call);
    next();
}

fn mark(domain: Handle, event: Event<'_>, next: impl FnOnce() -> Option<()>) {
    tell(&Call::Mark { domain: domain_name(domain), event }, next);
}

#[inline]
fn push(thread: &Thread, domain: Handle, event: Event<'_>, next: impl FnOnce() -> Option<c_int>) -> c_int {
    let depth = thread.depths.deepen(domain);
    deliver(&Call::Push { domain: domain_name(domain), event, depth });
    next().unwrap_or(depth)
}

#[inline]
fn pop(thread: &Thread, domain: Handle, extended: Extended<'_>, next: impl FnOnce() -> Option<c_int>) -> c_int {
    let depth = thread.depths.rise(domain);
    deliver(&Call::Pop { domain: domain_name(domain), depth, extended });
    next().unwrap_or(depth.unwrap_or(-1))
}

fn start(domain: Handle, event: Event<'_>, next: impl FnOnce() -> Option<u64>) -> u64 {
    let id = next().unwrap_or_else(handles::new_range_id);
    deliver(&Call::Start { domain: domain_name(domain), event, id });
    id
}

fn end(domain: Handle, id: u64, extended: Extended<'_>, next: impl FnOnce() -> Option<()>) {
    tell(&Call::End { domain: domain_name(domain), id, extended }, next);
}

/// The next tool's handle, whose name is noted, or one of our own.
fn handle_of(names: &Names, scope: Handle, name: &str, next: impl FnOnce() -> Option<Handle>) -> Handle {
    next().inspect(|handle| names.note(*handle, name)).unwrap_or_else(|| names.make(scope, name))
}

fn create_domain(name: &str, next: impl FnOnce() -> Option<Handle>) -> Handle {
    let handle = handle_of(&DOMAINS, null_mut(), name, next);
    deliver(&Call::CreateDomain { name });
    handle
}

fn register_string(domain: Handle, text: &str, next: impl FnOnce() -> Option<Handle>) -> Handle {
    let handle = handle_of(&STRINGS, domain, text, next);
    deliver(&Call::RegisterString { domain: domain_name(domain), text });
    handle
}

fn create_resource(domain: Handle, resource: ResourcePointer, next: impl FnOnce() -> Option<Handle>) -> Handle {
    let (kind, identifier, name) = resource.read();
    let domain = domain_name(domain);
    deliver(&Call::CreateResource { domain, kind, identifier, name: name.as_deref() });
    keep(Object { domain, name }, next().unwrap_or_else(handles::new_handle))
}

fn destroy_resource(resource: Handle, next: impl FnOnce() -> Option<()>) {
    let object = OBJECTS.write().remove(&resource.addr()).unwrap_or_default();
    tell(&Call::DestroyResource { domain: object.domain, name: object.name.as_deref() }, next);
}

fn create_sync(domain: Handle, object: SyncPointer, next: impl FnOnce() -> Option<Handle>) -> Handle {
    let name = object.read();
    let domain = domain_name(domain);
    deliver(&Call::Sync { domain, name: name.as_deref(), action: SyncAction::Create });
    keep(Object { domain, name }, next().unwrap_or_else(handles::new_handle))
}

fn sync(handle: Handle, action: SyncAction, next: impl FnOnce() -> Option<()>) {
    let object = if action == SyncAction::Destroy {
        OBJECTS.write().remove(&handle.addr())
    } else {
        OBJECTS.read().get(&handle.addr()).cloned()
    };
    let object = object.unwrap_or_default();
    tell(&Call::Sync { domain: object.domain, name: object.name.as_deref(), action }, next);
}

fn keep(object: Object, handle: Handle) -> Handle {
    handles::keep(&OBJECTS, handle.addr(), object);
    handle
}

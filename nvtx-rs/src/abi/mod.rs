//! The NVTX v3 binary interface: constants, C structs and callback ids.
//!
//! Everything here is data that crosses between a program and a tool, laid out as the C headers lay it out. Programs
//! have no use for this module; it is public so that tools and tests can compare it with other implementations.
//!
//! ```
//! use nvtx_rs::abi;
//! assert_eq!(size_of::<abi::EventAttributes>(), 48);
//! assert_eq!(abi::core2::RANGE_PUSH_EX, 4);
//! ```

pub(crate) mod color;
#[doc(hidden)]
pub mod environment;
pub(crate) mod loading;
pub(crate) mod number;
pub(crate) mod program;
pub(crate) mod resource_kind;
pub(crate) mod slots;

use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::mem::{offset_of, size_of};

/// The interface's version, sent in every attribute struct.
pub const VERSION: u16 = 3;
/// The result of a push or a pop that nobody handles.
pub const NO_PUSH_POP_TRACKING: c_int = -2;
/// The environment variable that names the tool's library.
pub const INJECTION_PATH: &str =
    if cfg!(target_pointer_width = "64") { "NVTX_INJECTION64_PATH" } else { "NVTX_INJECTION32_PATH" };
/// The tool's entry point.
pub const ENTRY_POINT: &str = "InitializeInjectionNvtx2";
/// The tool's entry point for extension modules (payload schemas, counters, memory).
pub const EXTENSION_ENTRY_POINT: &str = "InitializeInjectionNvtxExtension";

/// Export table ids, the argument of [`GetExportTable`].
pub mod export_table {
    /// [`ExportTableCallbacks`](super::ExportTableCallbacks).
    pub const CALLBACKS: u32 = 1;
    /// [`ExportTableVersionInfo`](super::ExportTableVersionInfo).
    pub const VERSION_INFO: u32 = 3;
}

/// Module ids, the first argument of [`ExportTableCallbacks::get_module_function_table`].
pub mod module {
    /// Default-domain calls and names of threads and categories.
    pub const CORE: i32 = 1;
    /// Names of objects of the CUDA driver.
    pub const CUDA: i32 = 2;
    /// Names of OpenCL objects.
    pub const OPENCL: i32 = 3;
    /// Names of objects of the CUDA runtime.
    pub const CUDART: i32 = 4;
    /// Calls with a domain.
    pub const CORE2: i32 = 5;
    /// User-defined synchronisation objects.
    pub const SYNC: i32 = 6;
}

macro_rules! callback_ids {
    ($(#[$doc:meta])* $module:ident, $number:ident, size $size:literal: $($name:ident = $id:literal,)*) => {
        $(#[$doc])*
        pub mod $module {
            $(
                #[doc = concat!("Callback id ", stringify!($id), ".")]
                pub const $name: usize = $id;
            )*
            /// The module's id.
            pub const MODULE: i32 = super::module::$number;
            /// One more than the highest id: the size that the client reports for its table.
            pub const SIZE: usize = $size;
        }
    };
}

callback_ids! {
    /// Callback ids of [`module::CORE`].
    core, CORE, size 16:
    MARK_EX = 1, MARK_A = 2, MARK_W = 3, RANGE_START_EX = 4, RANGE_START_A = 5, RANGE_START_W = 6, RANGE_END = 7,
    RANGE_PUSH_EX = 8, RANGE_PUSH_A = 9, RANGE_PUSH_W = 10, RANGE_POP = 11, NAME_CATEGORY_A = 12,
    NAME_CATEGORY_W = 13, NAME_OS_THREAD_A = 14, NAME_OS_THREAD_W = 15,
}
callback_ids! {
    /// Callback ids of [`module::CORE2`].
    core2, CORE2, size 16:
    MARK_EX = 1, RANGE_START_EX = 2, RANGE_END = 3, RANGE_PUSH_EX = 4, RANGE_POP = 5, RESOURCE_CREATE = 6,
    RESOURCE_DESTROY = 7, NAME_CATEGORY_A = 8, NAME_CATEGORY_W = 9, REGISTER_STRING_A = 10, REGISTER_STRING_W = 11,
    DOMAIN_CREATE_A = 12, DOMAIN_CREATE_W = 13, DOMAIN_DESTROY = 14, INITIALIZE = 15,
}
callback_ids! {
    /// Callback ids of [`module::CUDA`].
    cuda, CUDA, size 9:
    DEVICE_A = 1, DEVICE_W = 2, CONTEXT_A = 3, CONTEXT_W = 4, STREAM_A = 5, STREAM_W = 6, EVENT_A = 7, EVENT_W = 8,
}
callback_ids! {
    /// Callback ids of [`module::CUDART`].
    cudart, CUDART, size 7:
    DEVICE_A = 1, DEVICE_W = 2, STREAM_A = 3, STREAM_W = 4, EVENT_A = 5, EVENT_W = 6,
}
callback_ids! {
    /// Callback ids of [`module::OPENCL`].
    opencl, OPENCL, size 15:
    DEVICE_A = 1, DEVICE_W = 2, CONTEXT_A = 3, CONTEXT_W = 4, COMMAND_QUEUE_A = 5, COMMAND_QUEUE_W = 6,
    MEM_OBJECT_A = 7, MEM_OBJECT_W = 8, SAMPLER_A = 9, SAMPLER_W = 10, PROGRAM_A = 11, PROGRAM_W = 12, EVENT_A = 13,
    EVENT_W = 14,
}
callback_ids! {
    /// Callback ids of [`module::SYNC`].
    sync, SYNC, size 7:
    CREATE = 1, DESTROY = 2, ACQUIRE_START = 3, ACQUIRE_FAILED = 4, ACQUIRE_SUCCESS = 5, RELEASING = 6,
}

/// Values of [`EventAttributes::message_type`] and of the other structs that carry a message.
pub mod message_type {
    /// No message.
    pub const UNKNOWN: i32 = 0;
    /// A NUL-terminated string; UTF-8 in practice.
    pub const ASCII: i32 = 1;
    /// A NUL-terminated string of `wchar_t`.
    pub const UNICODE: i32 = 2;
    /// A handle returned by a string registration.
    pub const REGISTERED: i32 = 3;
}

/// Values of [`EventAttributes::payload_type`].
pub mod payload_type {
    /// No payload.
    pub const UNKNOWN: i32 = 0;
    /// `uint64_t`.
    pub const U64: i32 = 1;
    /// `int64_t`.
    pub const I64: i32 = 2;
    /// `double`.
    pub const F64: i32 = 3;
    /// `uint32_t`.
    pub const U32: i32 = 4;
    /// `int32_t`.
    pub const I32: i32 = 5;
    /// `float`.
    pub const F32: i32 = 6;
    /// The address of an array of [`PayloadData`](super::PayloadData), whose length is in
    /// [`EventAttributes::reserved0`](super::EventAttributes::reserved0).
    pub const EXTENDED: i32 = 0xDFBD_0009_u32 as i32;
}

/// Callback ids of the payload extension.
pub mod payload {
    /// The extension's module id.
    pub const MODULE: i32 = 2;
    /// How many slots its segment has.
    pub const SIZE: usize = 63;
    /// `nvtxPayloadSchemaRegister`.
    pub const SCHEMA_REGISTER: usize = 0;
    /// `nvtxPayloadEnumRegister`.
    pub const ENUM_REGISTER: usize = 1;
    /// `nvtxMarkPayload`.
    pub const MARK: usize = 2;
    /// `nvtxRangePushPayload`.
    pub const RANGE_PUSH: usize = 3;
    /// `nvtxRangePopPayload`.
    pub const RANGE_POP: usize = 4;
    /// `nvtxRangeStartPayload`.
    pub const RANGE_START: usize = 5;
    /// `nvtxRangeEndPayload`.
    pub const RANGE_END: usize = 6;
    /// `nvtxDomainIsEnabled`.
    pub const DOMAIN_IS_ENABLED: usize = 7;
    /// What a client puts into slots that a tool leaves empty.
    pub const DISABLED: usize = 1;
    /// The lowest schema id that a tool chooses.
    pub const FIRST_DYNAMIC_ID: u64 = 1 << 32;
}

/// Values of [`EventAttributes::color_type`].
pub mod color_type {
    /// No colour.
    pub const UNKNOWN: i32 = 0;
    /// `0xAARRGGBB`.
    pub const ARGB: i32 = 1;
}

/// `wchar_t`.
#[cfg(windows)]
pub type WideChar = u16;
/// `wchar_t`.
#[cfg(not(windows))]
pub type WideChar = u32;

/// The number of an event, read according to [`EventAttributes::payload_type`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union PayloadValue {
    /// `uint64_t`.
    pub u64: u64,
    /// `int64_t`.
    pub i64: i64,
    /// `double`.
    pub f64: f64,
    /// `uint32_t`.
    pub u32: u32,
    /// `int32_t`.
    pub i32: i32,
    /// `float`.
    pub f32: f32,
}

/// The struct does not know which field is valid.
impl fmt::Debug for PayloadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PayloadValue")
    }
}

/// The description of a range or a mark (`nvtxEventAttributes_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EventAttributes {
    /// [`VERSION`].
    pub version: u16,
    /// The size of this struct.
    pub size: u16,
    /// The category, 0 for none.
    pub category: u32,
    /// One of [`color_type`].
    pub color_type: i32,
    /// `0xAARRGGBB`.
    pub color: u32,
    /// One of [`payload_type`].
    pub payload_type: i32,
    /// Zero, or the number of extended payloads.
    pub reserved0: i32,
    /// The payload.
    pub payload: PayloadValue,
    /// One of [`message_type`].
    pub message_type: i32,
    /// Zero.
    pub padding: u32,
    /// A string or the handle of one.
    pub message: *const c_void,
}

/// The description of a named resource (`nvtxResourceAttributes_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ResourceAttributes {
    /// [`VERSION`].
    pub version: u16,
    /// The size of this struct.
    pub size: u16,
    /// `(class << 16) | index`.
    pub identifier_type: i32,
    /// The object's pointer or number.
    pub identifier: u64,
    /// One of [`message_type`].
    pub message_type: i32,
    /// Zero.
    pub padding: u32,
    /// A string or the handle of one.
    pub message: *const c_void,
}

/// The description of a synchronisation object (`nvtxSyncUserAttributes_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SyncUserAttributes {
    /// [`VERSION`].
    pub version: u16,
    /// The size of this struct.
    pub size: u16,
    /// One of [`message_type`].
    pub message_type: i32,
    /// A string or the handle of one.
    pub message: *const c_void,
}

/// The table through which a tool finds a client's slots.
#[repr(C)]
#[derive(Debug)]
pub struct ExportTableCallbacks {
    /// The size of this struct.
    pub struct_size: usize,
    /// Stores the address of a module's table and its size; returns 0 for an unknown module.
    pub get_module_function_table: unsafe extern "system" fn(i32, *mut *const c_void, *mut u32) -> c_int,
}

/// The table through which client and tool exchange versions.
#[repr(C)]
#[derive(Debug)]
pub struct ExportTableVersionInfo {
    /// The size of this struct.
    pub struct_size: usize,
    /// [`VERSION`] of the client.
    pub version: u32,
    /// Zero.
    pub reserved0: u32,
    /// Called by the tool with its version.
    pub set_injection_version: unsafe extern "system" fn(u32),
}

/// Some slots of an extension (`nvtxExtModuleSegment_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExtensionSegment {
    /// Zero for the payload extension.
    pub id: usize,
    /// How many slots there are.
    pub slot_count: usize,
    /// The first slot.
    pub slots: *mut *mut c_void,
}

/// A client's description of an extension (`nvtxExtModuleInfo_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExtensionInfo {
    /// [`VERSION`].
    pub version: u16,
    /// The size of this struct.
    pub size: u16,
    /// The extension: [`payload::MODULE`] or another.
    pub module: u16,
    /// The extension's own version.
    pub compatibility: u16,
    /// How many segments there are.
    pub segment_count: usize,
    /// The segments.
    pub segments: *mut ExtensionSegment,
    /// Null.
    pub get_export_function: *const c_void,
    /// For payloads, sizes and alignments of C's types.
    pub extra: *const c_void,
}

/// Data of an event, and its schema (`nvtxPayloadData_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PayloadData {
    /// A predefined type or the id of a schema.
    pub schema: u64,
    /// How many bytes there are; the highest number for text that ends in NUL.
    pub size: usize,
    /// The data.
    pub data: *const c_void,
}

/// A field of a schema (`nvtxPayloadSchemaEntry_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SchemaEntry {
    /// How the value is stored.
    pub flags: u64,
    /// A predefined type, or the id of a schema or an enumeration.
    pub kind: u64,
    /// The field's name, or null.
    pub name: *const c_char,
    /// A description, or null.
    pub description: *const c_char,
    /// The length of an array or a string, or the place of that length, or the selector of a union's member.
    pub detail: u64,
    /// The place of the value; zero if it follows the previous one.
    pub offset: u64,
    /// Further meaning, or null.
    pub semantics: *const c_void,
    /// Null.
    pub reserved: *const c_void,
}

/// A schema that a program registers (`nvtxPayloadSchemaAttr_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SchemaAttributes {
    /// Which fields are set: bit 1 for the name, and so on in order.
    pub field_mask: u64,
    /// Its name, or null.
    pub name: *const c_char,
    /// 1 for a struct, 2 for one of variable length, 3 for a union, 4 for one that selects its member itself.
    pub kind: u64,
    /// What it is used for.
    pub flags: u64,
    /// Its fields.
    pub entries: *const SchemaEntry,
    /// How many.
    pub entry_count: usize,
    /// The bytes of a struct.
    pub static_size: usize,
    /// The highest alignment of a field, zero for any.
    pub pack_alignment: usize,
    /// The id that the program chose.
    pub id: u64,
    /// Null.
    pub extension: *const c_void,
}

/// A value of an enumeration (`nvtxPayloadEnum_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EnumEntry {
    /// Its name.
    pub name: *const c_char,
    /// The value.
    pub value: u64,
    /// Not zero for a bit that may be set with others.
    pub is_flag: i8,
}

/// An enumeration that a program registers (`nvtxPayloadEnumAttr_t`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct EnumAttributes {
    /// Which fields are set: bit 1 for the name, and so on in order.
    pub field_mask: u64,
    /// Its name, or null.
    pub name: *const c_char,
    /// Its values.
    pub entries: *const EnumEntry,
    /// How many.
    pub entry_count: usize,
    /// The bytes that a value takes.
    pub size: usize,
    /// The id that the program chose.
    pub id: u64,
    /// Null.
    pub extension: *const c_void,
}

/// Gives a tool one of a client's export tables, or null.
pub type GetExportTable = unsafe extern "system" fn(u32) -> *const c_void;
/// [`ENTRY_POINT`]: non-zero means success.
pub type Entry = unsafe extern "system" fn(Option<GetExportTable>) -> c_int;
/// [`EXTENSION_ENTRY_POINT`]: takes the address of a module info struct; non-zero means success.
pub type ExtensionEntry = unsafe extern "system" fn(*mut c_void) -> c_int;

/// The handle of a domain, string, resource or synchronisation object: a tool's pointer, never dereferenced.
pub(crate) type Handle = *mut c_void;
pub(crate) type MarkEx = unsafe extern "system" fn(Handle, *const EventAttributes);
pub(crate) type StartEx = unsafe extern "system" fn(Handle, *const EventAttributes) -> u64;
pub(crate) type End = unsafe extern "system" fn(Handle, u64);
pub(crate) type PushEx = unsafe extern "system" fn(Handle, *const EventAttributes) -> c_int;
pub(crate) type Pop = unsafe extern "system" fn(Handle) -> c_int;
pub(crate) type NameCategory = unsafe extern "system" fn(Handle, u32, *const c_char);
pub(crate) type NameThread = unsafe extern "system" fn(u32, *const c_char);
pub(crate) type NameDevice = unsafe extern "system" fn(c_int, *const c_char);
pub(crate) type NameObject = unsafe extern "system" fn(Handle, *const c_char);
pub(crate) type RegisterString = unsafe extern "system" fn(Handle, *const c_char) -> Handle;
pub(crate) type DomainCreate = unsafe extern "system" fn(*const c_char) -> Handle;
pub(crate) type ResourceCreate = unsafe extern "system" fn(Handle, *const ResourceAttributes) -> Handle;
pub(crate) type SyncCreate = unsafe extern "system" fn(Handle, *const SyncUserAttributes) -> Handle;
pub(crate) type WithHandle = unsafe extern "system" fn(Handle);

// The test `conformance` compares the other structs with NVIDIA's.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<ExtensionSegment>() == 24);
    assert!(size_of::<ExtensionInfo>() == 40);
    assert!(offset_of!(ExtensionInfo, segments) == 16);
    assert!(size_of::<PayloadData>() == 24);
    assert!(size_of::<SchemaEntry>() == 64);
    assert!(size_of::<SchemaAttributes>() == 80);
    assert!(offset_of!(SchemaAttributes, entries) == 32);
    assert!(offset_of!(SchemaAttributes, id) == 64);
    assert!(size_of::<EnumEntry>() == 24);
    assert!(size_of::<EnumAttributes>() == 56);
    assert!(offset_of!(EnumAttributes, id) == 40);
};

//! NVTX calls as data, and their receiver.

use super::extended::Extended;
use super::field::Field;
use crate::abi::color::Color;
use crate::abi::number::Payload;
use crate::abi::resource_kind::ResourceKind;

/// Receives NVTX calls, on the calling threads. A closure over [`Call`] implements it.
///
/// ```
/// use nvtx_rs::tool::{Call, Tool};
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// #[derive(Default)]
/// struct CountMarks(AtomicUsize);
///
/// impl Tool for CountMarks {
///     fn call(&self, call: &Call<'_>) {
///         if let Call::Mark { .. } = call {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
/// # let _ = CountMarks::default();
/// ```
pub trait Tool: Send + Sync {
    /// Called at every NVTX call, before the call is passed on; for calls that make a handle, afterwards.
    fn call(&self, call: &Call<'_>);
}

impl<F: Fn(&Call<'_>) + Send + Sync> Tool for F {
    fn call(&self, call: &Call<'_>) {
        self(call);
    }
}

/// One NVTX call. `domain` is `None` for the default domain, and `<unknown>` for a handle without a domain. The name of
/// a domain does not move, so a tool may identify domains by its address.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Call<'a> {
    /// A part of the process, such as the program or a shared library, made its first NVTX call; its later calls are
    /// received.
    Attach,
    /// A range opened on this thread.
    Push {
        /// The domain's name.
        domain: Option<&'static str>,
        /// The description of the range.
        event: Event<'a>,
        /// How many ranges of this thread and domain were open before.
        depth: i32,
    },
    /// This thread's latest range closed.
    Pop {
        /// The domain's name.
        domain: Option<&'static str>,
        /// The depth of the range closed; none if no range was open.
        depth: Option<i32>,
        /// Data that the program adds to the range.
        extended: Extended<'a>,
    },
    /// A moment marked.
    Mark {
        /// The domain's name.
        domain: Option<&'static str>,
        /// The description of the mark.
        event: Event<'a>,
    },
    /// A range of the process started.
    Start {
        /// The domain's name.
        domain: Option<&'static str>,
        /// The description of the range.
        event: Event<'a>,
        /// Its number, which the end has, too.
        id: u64,
    },
    /// A range of the process ended.
    End {
        /// The domain's name at the end, which may differ from that at the start.
        domain: Option<&'static str>,
        /// Its number.
        id: u64,
        /// Data that the program adds to the range.
        extended: Extended<'a>,
    },
    /// A domain made; again at every call with the same name.
    CreateDomain {
        /// The domain's name.
        name: &'a str,
    },
    /// A domain is destroyed. Its handle still stands for the name.
    DestroyDomain {
        /// The domain's name.
        domain: Option<&'static str>,
    },
    /// A string registered; again at every call with the same text.
    RegisterString {
        /// The domain's name.
        domain: Option<&'static str>,
        /// The string.
        text: &'a str,
    },
    /// A category named.
    NameCategory {
        /// The domain's name.
        domain: Option<&'static str>,
        /// The category's number.
        id: u32,
        /// Its name.
        name: &'a str,
    },
    /// A thread of the operating system named.
    NameThread {
        /// The thread's number.
        id: u32,
        /// Its name.
        name: &'a str,
    },
    /// An object of CUDA or OpenCL named.
    NameObject {
        /// What it is.
        object: NamedObject,
        /// Its handle, or a device's number.
        handle: u64,
        /// Its name.
        name: &'a str,
    },
    /// A resource named.
    CreateResource {
        /// The domain's name.
        domain: Option<&'static str>,
        /// What it is.
        kind: ResourceKind,
        /// Its address or number.
        identifier: u64,
        /// Its name.
        name: Option<&'a str>,
    },
    /// The name of a resource is removed.
    DestroyResource {
        /// The domain's name.
        domain: Option<&'static str>,
        /// The resource's name.
        name: Option<&'a str>,
    },
    /// Something done with a synchronisation object.
    Sync {
        /// The domain's name.
        domain: Option<&'static str>,
        /// The object's name.
        name: Option<&'a str>,
        /// What was done.
        action: SyncAction,
    },
    /// The program asked for tools to be loaded early.
    Initialize,
}

/// The description of a range or a mark.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The message, if there is one. Invalid UTF-8 is replaced by U+FFFD.
    ///
    /// Narrow text that is valid UTF-8 is not copied. So a tool can cache data of a message by the text's address, if
    /// it compares the bytes each time.
    pub message: Option<&'a str>,
    /// Whether the message was given as a registered string.
    pub registered: bool,
    /// The category, 0 for none.
    pub category: u32,
    /// The colour.
    pub color: Option<Color>,
    /// The number.
    pub payload: Option<Payload>,
    /// The data of the payload extension.
    pub extended: Extended<'a>,
}

impl Event<'_> {
    /// A number for the message if that is a registered string: no other text ever has the same one. One text may have
    /// several.
    #[inline]
    #[must_use]
    pub fn registered_id(&self) -> Option<usize> {
        // The text of a registered string is kept for the life of the process.
        self.message.filter(|_| self.registered).map(|text| text.as_ptr().addr())
    }

    /// The data of the payload extension, decoded at each call; empty if there is none.
    #[must_use]
    pub fn fields(&self) -> Vec<Field> {
        self.extended.fields()
    }
}

/// The kind of a named object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NamedObject {
    /// `CUdevice`.
    CuDevice,
    /// `CUcontext`.
    CuContext,
    /// `CUstream`.
    CuStream,
    /// `CUevent`.
    CuEvent,
    /// A device's ordinal in the CUDA runtime.
    CudaDevice,
    /// `cudaStream_t`.
    CudaStream,
    /// `cudaEvent_t`.
    CudaEvent,
    /// `cl_device_id`.
    ClDevice,
    /// `cl_context`.
    ClContext,
    /// `cl_command_queue`.
    ClCommandQueue,
    /// `cl_mem`.
    ClMemObject,
    /// `cl_sampler`.
    ClSampler,
    /// `cl_program`.
    ClProgram,
    /// `cl_event`.
    ClEvent,
}

/// An action on a synchronisation object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncAction {
    /// It was made.
    Create,
    /// It was given up.
    Destroy,
    /// A thread waits for it.
    AcquireStart,
    /// A thread gave up waiting.
    AcquireFailed,
    /// A thread has it.
    AcquireSuccess,
    /// A thread is about to let it go.
    Releasing,
}

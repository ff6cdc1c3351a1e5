//! Streams of any CUDA binding: the argument of the public functions, and the owner that keeps a stream alive.

use gpu_activity::driver::Handle;
use std::ffi::c_void;

use super::naming;
use crate::parts::streams::StreamId;

/// A CUDA stream, as an argument of [`with_stream`](crate::with_stream), [`stream_id`](crate::stream_id) and
/// [`on_stream`](crate::OnStream::on_stream).
///
/// It is implemented for the `Arc<CudaStream>` of cudarc 0.19 (feature `cudarc`), which candle also uses, and for
/// [`RawStream`], which stands for the stream of any other binding. Functions with a stream name no type of cudarc, so
/// that a later version can be supported beside this one. The trait cannot be implemented elsewhere.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no stream that tracing-gpu takes",
    label = "expected an `Arc<CudaStream>` of cudarc 0.19 (feature `cudarc`), or a `RawStream`",
    note = "a stream of another version of cudarc, or of another binding, is passed by its handles: \
            `tracing_gpu::RawStream::new(context, stream)`"
)]
pub trait AsStream: Named {}

impl<S: AsStream + ?Sized> AsStream for &S {}

/// Seals [`AsStream`].
pub trait Named {
    /// The number of the stream.
    fn name(&self) -> StreamId;
}

impl<S: Named + ?Sized> Named for &S {
    fn name(&self) -> StreamId {
        S::name(self)
    }
}

/// A stream that cudarc 0.19 did not create, by the raw handles of any binding.
///
/// ```no_run
/// use std::ffi::c_void;
///
/// use tracing_gpu::RawStream;
///
/// # fn current_context() -> *mut c_void { std::ptr::null_mut() }
/// # fn create_stream() -> *mut c_void { std::ptr::null_mut() }
/// let (context, stream): (*mut c_void, *mut c_void) = (current_context(), create_stream());
/// // SAFETY: both live until the program ends.
/// let stream = unsafe { RawStream::new(context, stream) };
/// tracing_gpu::with_stream(&stream, || tracing::info_span!("step").in_scope(|| { /* enqueue */ }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawStream {
    context: Handle,
    stream: Handle,
}

impl RawStream {
    /// A stream of a context, from a `CUcontext` and a `CUstream` cast to untyped pointers.
    ///
    /// # Safety
    ///
    /// `stream` must be a stream of `context`. Both must stay alive while spans are timed on the stream, and after the
    /// last such span until a summary is taken. The same holds for copies of this value, and for numbers from
    /// [`stream_id`](crate::stream_id).
    #[allow(unsafe_code)]
    pub unsafe fn new(context: *mut c_void, stream: *mut c_void) -> Self {
        Self { context: context.expose_provenance(), stream: stream.expose_provenance() }
    }
}

impl AsStream for RawStream {}

impl Named for RawStream {
    fn name(&self) -> StreamId {
        naming::name_raw(self.context, self.stream)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::named;
    use super::*;

    /// A stream of a binding that this crate does not know.
    #[derive(Debug)]
    struct Stream {
        context: Arc<Handle>,
        handle: Handle,
    }

    impl AsStream for Arc<Stream> {}

    impl Named for Arc<Stream> {
        fn name(&self) -> StreamId {
            naming::name((*self.context, &self.context), (self.handle, self))
        }
    }

    #[test]
    fn a_stream_of_any_binding_has_its_number_until_its_last_arc_is_gone() {
        let context = Arc::new(0xb1d);
        let new = |handle| Arc::new(Stream { context: context.clone(), handle });
        let (first, other) = (new(0x100), new(0x200));
        let id = first.name();
        assert_eq!([Named::name(&&first), first.clone().name()], [id; 2]);
        let by_trait: [&dyn AsStream; 2] = [&first, &other];
        assert_eq!(crate::stream_id(by_trait[0]), u64::from(id));
        assert_ne!(crate::stream_id(by_trait[1]), u64::from(id));

        let known = &named::get(id).unwrap().owner;
        let held = known.hold();
        drop(first);
        assert!(held.is_some() && known.hold().is_some(), "it is held");
        drop(held);
        assert!(known.hold().is_none());
        assert_ne!(new(0x100).name(), id, "the driver gives a handle again");
    }

    #[test]
    fn a_default_stream_lives_as_long_as_its_context() {
        let context = Arc::new(0xdef);
        let id = Arc::new(Stream { context: context.clone(), handle: 0 }).name();
        let known = &named::get(id).unwrap().owner;
        let held = known.hold();
        assert!(held.is_some() && known.holders().is_none());
        drop(context);
        assert!(known.hold().is_some(), "the context is held");
        drop(held);
        assert!(known.hold().is_none());
    }

    #[test]
    #[allow(unsafe_code)]
    fn raw_handles_are_a_stream() {
        let at = std::ptr::without_provenance_mut;
        // SAFETY: nothing is timed on these streams.
        let [a, b] = [0x10, 0x20].map(|stream| unsafe { RawStream::new(at(0x4a3), at(stream)) });
        assert_eq!(Named::name(&&a), a.name());
        assert_ne!(a.name(), b.name());
        assert_eq!(crate::with_stream(&b, super::super::current), b.name());
    }
}

//! A program that names a stream by handles on a machine where there can be none; a child of `tests/gpu_absent.rs`.
//!
//! Prints its summary as JSON. The handles are made up: without a device no driver looks at them.

use tracing::info_span;
use tracing_gpu::{Output, Profiler, RawStream, stream_id};

fn main() {
    let profiler = Profiler::builder().output(Output::Stderr).build().expect("a profiler");
    tracing::subscriber::set_global_default(profiler.subscriber()).expect("no other subscriber");
    let (context, stream) = (std::ptr::without_provenance_mut(0x1000), std::ptr::without_provenance_mut(0x2000));
    #[allow(unsafe_code)]
    // SAFETY: invalid on purpose: there is no device, so no driver ever uses a handle.
    let stream = stream_id(&unsafe { RawStream::new(context, stream) });
    for _ in 0..3 {
        info_span!("on a stream", gpu.stream = stream).in_scope(|| info_span!("below").in_scope(|| ()));
    }
    info_span!("plain").in_scope(|| ());
    println!("{}", serde_json::to_string(&profiler.summary()).expect("json"));
}

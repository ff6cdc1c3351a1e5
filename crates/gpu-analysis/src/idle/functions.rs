//! What a CUDA API call tells about an idle device.

use range_model::summary::CallKind;
use range_model::timeline::{Api, is_slight};

/// Code that runs between two calls for less than this time, in nanoseconds, is part of launching.
pub(super) const BETWEEN_LAUNCHES: u64 = 100_000;

/// An asynchronous copy that takes at least this time, in nanoseconds, has blocked the host.
pub(super) const BLOCKING_COPY: u64 = 20_000;

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It enqueues a kernel, a graph or a set.
    Launch,
    /// It enqueues a copy and returns before that is over, except from pageable memory.
    CopyLater,
    /// It copies before it returns.
    Copy,
    /// It waits for the device.
    Wait,
    /// It asks whether work has finished, and returns at once.
    Poll,
    Allocate,
    Load,
    /// It needs the code of a kernel, and loads that if it is not there yet.
    MayLoad,
    /// It is about a graph, and is no launch.
    BuildGraph,
    /// Work of a stream is captured into a graph from here on.
    BeginCapture,
    /// Until here.
    EndCapture,
    /// The runtime's first step of a launch, before the launch's own CUPTI record begins. Nsight Systems lists it, too.
    /// Without records of it, a launch takes 0.1 us less under this profiler, 0.4 us with CUPTI alone (an H100).
    Prepare,
    /// It only queries or sets something in no time, and is not always recorded: code of the program.
    Slight,
    Other,
}

/// Prefixes of names, without the API's `cu` or `cuda`. The first match decides.
const BEGINNINGS: &[(&str, Purpose)] = &[
    ("StreamSynchronize", Purpose::Wait),
    ("DeviceSynchronize", Purpose::Wait),
    ("ThreadSynchronize", Purpose::Wait),
    ("CtxSynchronize", Purpose::Wait),
    ("EventSynchronize", Purpose::Wait),
    ("StreamQuery", Purpose::Poll),
    ("EventQuery", Purpose::Poll),
    ("Launch", Purpose::Launch),
    ("GraphLaunch", Purpose::Launch),
    ("MemAlloc", Purpose::Allocate),
    ("MemFree", Purpose::Allocate),
    ("MemHost", Purpose::Allocate),
    ("MemCreate", Purpose::Allocate),
    ("MemMap", Purpose::Allocate),
    ("MemUnmap", Purpose::Allocate),
    ("MemRelease", Purpose::Allocate),
    ("MemSetAccess", Purpose::Allocate),
    ("MemAddress", Purpose::Allocate),
    ("MemPool", Purpose::Allocate),
    ("Malloc", Purpose::Allocate),
    ("Free", Purpose::Allocate),
    ("Host", Purpose::Allocate),
    ("Array", Purpose::Allocate),
    ("MipmappedArray", Purpose::Allocate),
    ("Memset", Purpose::Launch),
    ("Module", Purpose::Load),
    ("Library", Purpose::Load),
    ("Link", Purpose::Load),
    ("CtxCreate", Purpose::Load),
    ("CtxDestroy", Purpose::Load),
    ("DevicePrimaryCtx", Purpose::Load),
    ("SetDevice", Purpose::Load),
    ("InitDevice", Purpose::Load),
    ("DeviceReset", Purpose::Load),
    ("Init", Purpose::Load),
    ("Graphics", Purpose::Other),
    ("GraphDebugDotPrint", Purpose::Other),
    ("Graph", Purpose::BuildGraph),
    ("StreamBeginCapture", Purpose::BeginCapture),
    ("StreamBeginRecapture", Purpose::BeginCapture),
    ("StreamEndCapture", Purpose::EndCapture),
    ("FuncGetAttributes", Purpose::MayLoad),
    ("FuncSetAttribute", Purpose::MayLoad),
    ("FuncLoad", Purpose::Load),
    ("KernelGetFunction", Purpose::MayLoad),
    ("KernelGetName", Purpose::Prepare),
];

/// The purpose of a function by CUPTI's name (`cudaMemcpyAsync_v3020`, `cuMemAlloc_v2`).
pub(super) fn purpose(api: Api, name: &str) -> Purpose {
    if is_slight(api, name) {
        return Purpose::Slight;
    }
    let name = name.strip_prefix("cuda").or_else(|| name.strip_prefix("cu")).unwrap_or(name);
    if name.starts_with("Memcpy") {
        return if name.contains("Async") { Purpose::CopyLater } else { Purpose::Copy };
    }
    let known = BEGINNINGS.iter().find(|(beginning, _)| name.starts_with(beginning));
    known.map_or(Purpose::Other, |(_, purpose)| *purpose)
}

/// The kind of a call that costs more than a launch, or that failed; `None` for any other call. A query whether work
/// has finished is no such call, whatever it returns: a program may poll a device again and again.
pub(super) fn kind(purpose: Purpose, result: u32) -> Option<CallKind> {
    /// Codes that are no failures: the runtime is being unloaded, the work has not finished, memory is registered
    /// already, memory is not registered.
    const ANSWERS: [u32; 4] = [4, 600, 712, 713];
    match (purpose, result) {
        (Purpose::Launch | Purpose::CopyLater | Purpose::Copy | Purpose::Wait | Purpose::Allocate, 1..) => {
            (!ANSWERS.contains(&result)).then_some(CallKind::Failed)
        }
        (Purpose::Wait, 0) => Some(CallKind::Wait),
        (Purpose::Allocate, 0) => Some(CallKind::Allocate),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_and_their_answers_are_no_failures() {
        let of = |name: &str, result| kind(purpose(Api::Runtime, name), result);
        assert_eq!(of("cudaEventQuery_v3020", 0), None);
        assert_eq!(of("cudaEventQuery_v3020", 700), None, "the call that failed is another one");
        assert_eq!(of("cudaStreamSynchronize_v3020", 0), Some(CallKind::Wait));
        assert_eq!(of("cudaStreamSynchronize_v3020", 700), Some(CallKind::Failed));
        assert_eq!(of("cuMemAlloc_v2", 2), Some(CallKind::Failed));
        assert_eq!(of("cudaFree_v3020", 4), None, "at the exit");
        assert_eq!(of("cudaHostRegister_v4000", 712), None);
        assert_eq!(of("cudaLaunchKernel_v7000", 0), None);
        assert_eq!(of("cudaLaunchKernel_v7000", 98), Some(CallKind::Failed));
        for name in ["cuModuleGetGlobal_v2", "cudaGetLastError_v3020", "cuPointerGetAttribute", "cudaGetDeviceCount"] {
            assert_eq!(of(name, 1), None, "{name}");
        }
    }

    #[test]
    fn both_interfaces_and_their_versions_are_known() {
        for (names, expected) in [
            (
                &["cudaLaunchKernel_v7000", "cuLaunchKernelEx", "cuGraphLaunch", "cudaMemsetAsync_v3020"][..],
                Purpose::Launch,
            ),
            (&["cudaMemcpyAsync_v3020", "cuMemcpyHtoDAsync_v2"], Purpose::CopyLater),
            (&["cudaMemcpy_v3020", "cuMemcpyDtoH_v2", "cudaMemcpyToSymbol_v3020"], Purpose::Copy),
            (&["cudaStreamSynchronize_v3020", "cuCtxSynchronize", "cudaEventSynchronize_v3020"], Purpose::Wait),
            (&["cudaEventQuery_v3020", "cuStreamQuery"], Purpose::Poll),
            (&["cuMemAlloc_v2", "cudaMallocAsync_v11020", "cudaFree_v3020", "cuMemHostAlloc"], Purpose::Allocate),
            (&["cuModuleLoadData", "cuLibraryLoadData", "cuCtxCreate_v4", "cuInit"], Purpose::Load),
            (
                &["cudaGraphInstantiate_v12000", "cuGraphExecUpdate_v2", "cudaGraphMemcpyNodeSetParams_v10000"],
                Purpose::BuildGraph,
            ),
            (
                &["cudaStreamBeginCapture_v10000", "cuStreamBeginCapture_v2", "cudaStreamBeginRecaptureToGraph_v13030"],
                Purpose::BeginCapture,
            ),
            (&["cudaStreamEndCapture_v10000", "cuStreamEndCapture"], Purpose::EndCapture),
            (
                &["cudaGetDeviceCount_v3020", "cuStreamWaitEvent", "cudaEventRecord_v3020", "cuGraphicsMapResources"],
                Purpose::Other,
            ),
            (&["cudaGetDevice_v3020", "cuCtxGetCurrent"], Purpose::Slight),
        ] {
            for name in names {
                assert_eq!(purpose(Api::Runtime, name), expected, "{name}");
            }
        }
    }
}

//! Functions of the CUDA API that only query or set something, by their names.

use super::gpu::Api;

/// Functions that only query or set something, in well under a microsecond, by their names without the API's `cu` or
/// `cuda` and without a version. A framework may make twenty such calls for each launch, and they explain nothing. A
/// function that may begin to use the device or load code is not among them, and neither is one that a program polls.
#[doc(hidden)]
pub const SLIGHT: &[&str] = &[
    "CtxGetApiVersion",
    "CtxGetCurrent",
    "CtxGetDevice",
    "CtxGetFlags",
    "CtxGetId",
    "CtxPopCurrent",
    "CtxPushCurrent",
    "CtxSetCurrent",
    "DeviceGet",
    "DevicePrimaryCtxGetState",
    "DriverGetVersion",
    "EventElapsedTime",
    "FuncGetAttribute",
    "GetDevice",
    "GetDriverEntryPoint",
    "GetDriverEntryPointByVersion",
    "GetErrorName",
    "GetErrorString",
    "GetLastError",
    "GetProcAddress",
    "OccupancyMaxActiveBlocksPerMultiprocessor",
    "OccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "PeekAtLastError",
    "PopCallConfiguration",
    "PushCallConfiguration",
    "RuntimeGetVersion",
    "StreamGetCaptureInfo",
    "StreamGetCtx",
    "StreamGetDevice",
    "StreamGetFlags",
    "StreamGetId",
    "StreamGetPriority",
    "StreamIsCapturing",
    "ThreadExchangeStreamCaptureMode",
];

/// Further functions of the driver like these, whose counterparts in the runtime may take long.
const SLIGHT_IN_DRIVER: &[&str] =
    &["DeviceGetAttribute", "DeviceGetCount", "PointerGetAttribute", "PointerGetAttributes"];

/// Whether the function of this name (`cudaGetDevice_v3020`, `cuCtxPopCurrent_v2`) only queries or sets something.
#[must_use]
pub fn is_slight(api: Api, name: &str) -> bool {
    let name = plain_function(name);
    SLIGHT.contains(&name) || api == Api::Driver && SLIGHT_IN_DRIVER.contains(&name)
}

/// The name of a function without its API, its version, and the mark of per-thread default streams.
#[doc(hidden)]
#[must_use]
pub fn plain_function(name: &str) -> &str {
    let mut name = name.trim_start_matches('_');
    name = name.strip_prefix("cuda").or_else(|| name.strip_prefix("cu")).unwrap_or(name);
    while let Some((before, end)) = name.rsplit_once('_')
        && (matches!(end, "ptsz" | "ptds") || end.strip_prefix('v').is_some_and(is_number))
    {
        name = before;
    }
    name
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slight_functions_are_known_in_all_versions() {
        for name in
            ["cudaGetDevice_v3020", "cudaStreamGetCaptureInfo_v3_ptsz_v12030", "__cudaPushCallConfiguration_v7000"]
        {
            assert!(is_slight(Api::Runtime, name), "{name}");
        }
        for name in ["cuCtxPopCurrent_v2", "cuStreamIsCapturing_ptsz", "cuDeviceGetAttribute"] {
            assert!(is_slight(Api::Driver, name), "{name}");
        }
        for name in
            ["cudaSetDevice_v3020", "cudaDeviceGetAttribute_v5000", "cudaGetDeviceCount_v3020", "cudaGetDevice_v"]
        {
            assert!(!is_slight(Api::Runtime, name), "{name}");
        }
    }
}

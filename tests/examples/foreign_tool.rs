//! A profiler as an NVTX tool: a library that `NVTX_INJECTION64_PATH` names. `TRACING_GPU` says what it writes.

use std::sync::OnceLock;

use nvtx_rs::export_tool;
use tracing_gpu::{NvtxTool, Output, Profiler};

export_tool!(make);

/// The exit hook of the profiler, which is never dropped, writes the files.
fn make() -> NvtxTool {
    static PROFILER: OnceLock<Profiler> = OnceLock::new();
    let build = || Profiler::builder().nvtx(false).output(Output::None).build().expect("settings that can be used");
    PROFILER.get_or_init(build).nvtx_tool()
}

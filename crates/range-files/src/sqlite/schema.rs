//! The tables, as Nsight Systems 2025.3 exports them, and the rows of those that describe the file. Reports of this
//! version and of 2022.4 need no other tables. They ignore our columns with numbers of spans and calls.

use std::io;

use range_model::summary::Process;

use super::file::File;
use super::ids::MACHINE;

/// The version of the export schema that has these columns.
const VERSION: [&str; 3] = ["3", "20", "3"];

const TABLES: &str = "
    CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT);
    CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT);
    CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
    CREATE TABLE ThreadNames (nameId INTEGER NOT NULL, priority INTEGER, globalTid INTEGER);
    CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER, color INTEGER,
        text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER, int64Value INTEGER,
        doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT,
        spanId INTEGER, callId INTEGER, parentId INTEGER);
    CREATE TABLE TRACING_GPU_CALLS (callId INTEGER NOT NULL, spanId INTEGER, parentId INTEGER, start INTEGER NOT NULL, end INTEGER NOT NULL,
        textId INTEGER NOT NULL, domainId INTEGER NOT NULL, globalTid INTEGER NOT NULL, ending TEXT NOT NULL, jsonText TEXT);
    CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER,
        correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL,
        shortName INTEGER NOT NULL, mangledName INTEGER, launchType INTEGER, cacheConfig INTEGER, registersPerThread INTEGER NOT NULL,
        gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL, blockX INTEGER NOT NULL, blockY INTEGER NOT NULL,
        blockZ INTEGER NOT NULL, staticSharedMemory INTEGER NOT NULL, dynamicSharedMemory INTEGER NOT NULL, localMemoryPerThread INTEGER,
        localMemoryTotal INTEGER, gridId INTEGER, sharedMemoryExecuted INTEGER, graphNodeId INTEGER, sharedMemoryLimitConfig INTEGER, callId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL,
        deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, srcDeviceId INTEGER, srcContextId INTEGER, dstDeviceId INTEGER,
        dstContextId INTEGER, migrationCause INTEGER, graphNodeId INTEGER, virtualAddress INTEGER, copyCount INTEGER, callId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, value INTEGER NOT NULL, bytes INTEGER NOT NULL,
        graphNodeId INTEGER, memKind INTEGER, callId INTEGER);
    CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
        greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, graphId INTEGER NOT NULL,
        graphExecId INTEGER NOT NULL, callId INTEGER);
    CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, busLocation TEXT, isDiscrete INTEGER, l2CacheSize INTEGER,
        totalMemory INTEGER, memoryBandwidth INTEGER, clockRate INTEGER, smCount INTEGER, pwGpuId INTEGER, uuid TEXT, luid INTEGER, chipName TEXT,
        cuDevice INTEGER, ctxswDevPath TEXT, ctrlDevPath TEXT, revision INTEGER, nodeMask INTEGER, constantMemory INTEGER, maxIPC INTEGER,
        maxRegistersPerBlock INTEGER, maxShmemPerBlock INTEGER, maxShmemPerBlockOptin INTEGER, maxShmemPerSm INTEGER, maxRegistersPerSm INTEGER,
        threadsPerWarp INTEGER, asyncEngines INTEGER, maxWarpsPerSm INTEGER, maxBlocksPerSm INTEGER, maxThreadsPerBlock INTEGER, maxBlockDimX INTEGER,
        maxBlockDimY INTEGER, maxBlockDimZ INTEGER, maxGridDimX INTEGER, maxGridDimY INTEGER, maxGridDimZ INTEGER, computeMajor INTEGER,
        computeMinor INTEGER, smMajor INTEGER, smMinor INTEGER);
    CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL);
    CREATE TABLE ANALYSIS_DETAILS (globalVid INTEGER NOT NULL, duration INTEGER NOT NULL, startTime INTEGER NOT NULL, stopTime INTEGER NOT NULL);
    CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    CREATE TABLE ENUM_NSYS_EVENT_CLASS (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);
    CREATE TABLE ENUM_CUDA_KERNEL_LAUNCH_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);";

/// The names that reports look up by number.
const ENUMS: &str = "
    INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES (33, 'NvtxCategory', 'NvtxCategory'), (34, 'NvtxMark', 'NvtxMark'),
        (59, 'NvtxPushPopRange', 'NvtxPushPopRange'), (60, 'NvtxStartEndRange', 'NvtxStartEndRange'), (75, 'NvtxDomainCreate', 'NvtxDomainCreate');
    INSERT INTO ENUM_NSYS_EVENT_CLASS VALUES (0, 'TRACE_PROCESS_EVENT_CUDA_RUNTIME', 'CUDA runtime'), (1, 'TRACE_PROCESS_EVENT_CUDA_DRIVER', 'CUDA driver');
    INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (0, 'CUDA_MEMCPY_KIND_UNKNOWN', 'Unknown'), (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device'),
        (2, 'CUDA_MEMCPY_KIND_DTOH', 'Device-to-Host'), (3, 'CUDA_MEMCPY_KIND_HTOA', 'Host-to-Array'), (4, 'CUDA_MEMCPY_KIND_ATOH', 'Array-to-Host'),
        (5, 'CUDA_MEMCPY_KIND_ATOA', 'Array-to-Array'), (6, 'CUDA_MEMCPY_KIND_ATOD', 'Array-to-Device'), (7, 'CUDA_MEMCPY_KIND_DTOA', 'Device-to-Array'),
        (8, 'CUDA_MEMCPY_KIND_DTOD', 'Device-to-Device'), (9, 'CUDA_MEMCPY_KIND_HTOH', 'Host-to-Host'), (10, 'CUDA_MEMCPY_KIND_PTOP', 'Peer-to-Peer'),
        (11, 'CUDA_MEMCPY_KIND_UVM_HTOD', 'Unified Host-to-Device'), (12, 'CUDA_MEMCPY_KIND_UVM_DTOH', 'Unified Device-to-Host'),
        (13, 'CUDA_MEMCPY_KIND_UVM_DTOD', 'Unified Device-to-Device');
    INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'), (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'),
        (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device'), (3, 'CUDA_MEMOPR_MEMORY_KIND_ARRAY', 'Array'), (4, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED', 'Managed'),
        (5, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE_STATIC', 'Device Static'), (6, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC', 'Managed Static'),
        (7, 'CUDA_MEMOPR_MEMORY_KIND_UNKNOWN', 'Unknown');
    INSERT INTO ENUM_CUDA_KERNEL_LAUNCH_TYPE VALUES (0, 'CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN', 'Unknown'), (1, 'CUDA_KERNEL_LAUNCH_TYPE_REGULAR', 'Regular'),
        (2, 'CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE', 'Coop Single Device'),
        (3, 'CUDA_KERNEL_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE', 'Coop Multi Device');";

const EXPORT: &str = "INSERT INTO META_DATA_EXPORT VALUES (?, ?)";
const CAPTURE: &str = "INSERT INTO META_DATA_CAPTURE VALUES (?, ?)";

/// Creates the tables, and writes which program wrote them.
pub(super) fn write(file: &mut File, process: &Process) -> io::Result<()> {
    file.batch(TABLES)?;
    file.batch(ENUMS)?;
    let version = VERSION.join(".");
    for (name, value) in [
        ("EXPORT_PRODUCT_NAME", env!("CARGO_PKG_NAME")),
        ("EXPORT_PRODUCT_VERSION", env!("CARGO_PKG_VERSION")),
        ("EXPORT_SCHEMA_VERSION", &version),
        ("EXPORT_SCHEMA_VERSION_MAJOR", VERSION[0]),
        ("EXPORT_SCHEMA_VERSION_MINOR", VERSION[1]),
        ("EXPORT_SCHEMA_VERSION_MICRO", VERSION[2]),
    ] {
        file.run(EXPORT, (name, value))?;
    }
    file.run(CAPTURE, ("TRACING_GPU:COMMAND", &process.command))?;
    let known = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let rank = known(process.rank.map(u64::from));
    let started = known(Some(process.started_unix_ns).filter(|ns| *ns > 0));
    for (name, value) in [
        ("CAPTURE_EVENT_TYPE", "NvtxEvents"),
        ("CAPTURE_EVENT_TYPE", "Cuda"),
        ("TRACING_GPU:COMPLETE", "false"),
        ("TRACING_GPU:HOST", &process.host),
        ("TRACING_GPU:RANK", &rank),
        ("TRACING_GPU:RUN_ID", &process.run_id),
        ("TRACING_GPU:STARTED_UNIX_NS", &started),
    ] {
        if !value.is_empty() {
            file.run(CAPTURE, (name, value))?;
        }
    }
    file.run("INSERT INTO PROCESSES VALUES (?, ?, ?)", (file.ids.process, process.pid, &process.command))
}

/// Marks the file as complete. A file without this mark was left by a process that was killed.
pub(super) fn complete(file: &mut File, elapsed_ns: u64, lost: u64, made_up: u64) -> io::Result<()> {
    let elapsed = i64::try_from(elapsed_ns).unwrap_or(i64::MAX);
    file.run("INSERT INTO ANALYSIS_DETAILS VALUES (?, ?, 0, ?)", (MACHINE, elapsed, elapsed))?;
    file.run(CAPTURE, ("TRACING_GPU:LOST_ITEMS", lost.to_string()))?;
    file.run(CAPTURE, ("TRACING_GPU:API_CALLS_WITHOUT_DURATION", made_up.to_string()))?;
    file.run("UPDATE META_DATA_CAPTURE SET value = 'true' WHERE name = 'TRACING_GPU:COMPLETE'", [])
}

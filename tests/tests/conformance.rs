//! The client compared with NVIDIA's: the same program makes the same calls, and the binary interfaces have the same
//! layout.

use nvtx_rs::{ResourceKind, abi};
use nvtx_sys::ffi;
use std::mem::offset_of;
use std::process::Command;
use tests::recorder::{Call, example, output_recorded, run_recorded};

fn calls(arguments: &[&str]) -> Vec<Call> {
    let mut command = Command::new(example("nvtx_calls"));
    run_recorded(command.args(arguments).env_remove("NVTX_RS_NEXT_TOOL"))
}

/// The calls without the system's thread numbers.
fn comparable(mut calls: Vec<Call>) -> Vec<Call> {
    calls.iter_mut().filter(|call| call.kind == "name_thread").for_each(|call| drop(call.rest.remove("id")));
    calls
}

#[test]
fn both_transports_make_the_same_calls() {
    for scenario in ["all", "names", "deep"] {
        let (ours, theirs) = (comparable(calls(&[scenario])), comparable(calls(&[scenario, "nvidia"])));
        assert!(ours.len() > 50);
        // NVIDIA's client was asked to load the tool early.
        assert_eq!((theirs[0].kind.as_str(), theirs[1].kind.as_str()), ("attach", "initialize"));
        let theirs: Vec<Call> = theirs.into_iter().filter(|call| call.kind != "initialize").collect();
        assert_eq!(ours, theirs, "{scenario}");
    }
}

#[test]
fn both_transports_make_one_domain_from_many_threads() {
    let calls = calls(&["threads", "nvidia"]);
    let count = |kind: &str| calls.iter().filter(|call| call.kind == kind).count();
    assert_eq!((count("attach"), count("create_domain"), count("push"), count("pop")), (1, 1, 32, 32));
}

#[test]
fn both_crates_make_the_same_calls() {
    let ours = calls(&["ours"]);
    let theirs: Vec<Call> = calls(&["theirs"]).into_iter().filter(|call| call.kind != "destroy_domain").collect();
    assert!(ours.len() > 20);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        // Calls on the default domain have their own function in NVIDIA's crate, with the same effect for a tool.
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
fn the_transport_says_why_there_is_no_tool() {
    let state = |path: Option<&str>| {
        let mut command = Command::new(example("nvtx_calls"));
        command.args(["state", "nvidia"]).env_remove("NVTX_INJECTION64_PATH");
        if let Some(path) = path {
            command.env("NVTX_INJECTION64_PATH", path);
        }
        let output = command.output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(state(None), "false NotSet\n");
    assert!(state(Some("/no/such/tool.so")).starts_with("false MissingLibrary"));
    assert_eq!(state(Some("libm.so.6")), "false NoEntryPoint { path: \"libm.so.6\" }\n");
}

#[test]
fn the_transport_is_chosen_once() {
    let (output, _) = output_recorded(Command::new(example("nvtx_calls")).args(["attach", "nvidia"]));
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("TooLate"));
}

macro_rules! same_layout {
    ($ours:ident, $theirs:ident: $($our_field:ident = $their_field:ident,)*) => {
        assert_eq!(size_of::<abi::$ours>(), size_of::<ffi::$theirs>(), stringify!($ours));
        assert_eq!(align_of::<abi::$ours>(), align_of::<ffi::$theirs>(), stringify!($ours));
        $(assert_eq!(
            offset_of!(abi::$ours, $our_field), offset_of!(ffi::$theirs, $their_field), stringify!($ours.$our_field)
        );)*
    };
}

#[test]
fn structs_are_laid_out_the_same() {
    same_layout!(EventAttributes, nvtxEventAttributes_v2:
        version = version, size = size, category = category, color_type = colorType, color = color,
        payload_type = payloadType, reserved0 = reserved0, payload = payload, message_type = messageType,
        message = message,
    );
    same_layout!(PayloadValue, nvtxEventAttributes_v2_payload_t:
        u64 = ullValue, i64 = llValue, f64 = dValue, u32 = uiValue, i32 = iValue, f32 = fValue,
    );
    same_layout!(ResourceAttributes, nvtxResourceAttributes_v0:
        version = version, size = size, identifier_type = identifierType, identifier = identifier,
        message_type = messageType, message = message,
    );
    same_layout!(SyncUserAttributes, nvtxSyncUserAttributes_v0:
        version = version, size = size, message_type = messageType, message = message,
    );
    same_layout!(ExportTableCallbacks, NvtxExportTableCallbacks:
        struct_size = struct_size, get_module_function_table = GetModuleFunctionTable,
    );
    same_layout!(ExportTableVersionInfo, NvtxExportTableVersionInfo:
        struct_size = struct_size, version = version, reserved0 = reserved0,
        set_injection_version = SetInjectionNvtxVersion,
    );
}

macro_rules! same_ids {
    ($ours:ident, $theirs:ident: $($our_id:ident = $their_id:ident,)*) => {
        $(assert_eq!(abi::$ours::$our_id as i64, ffi::$theirs::$their_id as i64, stringify!($their_id));)*
    };
}

#[test]
fn numbers_are_the_same() {
    assert_eq!(i32::from(abi::VERSION), ffi::NVTX_VERSION);
    same_ids!(export_table, NvtxExportTableID: CALLBACKS = NVTX_ETID_CALLBACKS, VERSION_INFO = NVTX_ETID_VERSIONINFO,);
    same_ids!(module, NvtxCallbackModule:
        CORE = NVTX_CB_MODULE_CORE, CUDA = NVTX_CB_MODULE_CUDA, OPENCL = NVTX_CB_MODULE_OPENCL,
        CUDART = NVTX_CB_MODULE_CUDART, CORE2 = NVTX_CB_MODULE_CORE2, SYNC = NVTX_CB_MODULE_SYNC,
    );
    same_ids!(message_type, nvtxMessageType_t:
        UNKNOWN = NVTX_MESSAGE_UNKNOWN, ASCII = NVTX_MESSAGE_TYPE_ASCII, UNICODE = NVTX_MESSAGE_TYPE_UNICODE,
        REGISTERED = NVTX_MESSAGE_TYPE_REGISTERED,
    );
    same_ids!(color_type, nvtxColorType_t: UNKNOWN = NVTX_COLOR_UNKNOWN, ARGB = NVTX_COLOR_ARGB,);
    same_ids!(payload_type, nvtxPayloadType_t:
        UNKNOWN = NVTX_PAYLOAD_UNKNOWN, U64 = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, I64 = NVTX_PAYLOAD_TYPE_INT64,
        F64 = NVTX_PAYLOAD_TYPE_DOUBLE, U32 = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32, I32 = NVTX_PAYLOAD_TYPE_INT32,
        F32 = NVTX_PAYLOAD_TYPE_FLOAT,
    );
}

#[test]
fn callback_ids_are_the_same() {
    same_ids!(core, NvtxCallbackIdCore:
        MARK_EX = NVTX_CBID_CORE_MarkEx, MARK_A = NVTX_CBID_CORE_MarkA, MARK_W = NVTX_CBID_CORE_MarkW,
        RANGE_START_EX = NVTX_CBID_CORE_RangeStartEx, RANGE_START_A = NVTX_CBID_CORE_RangeStartA,
        RANGE_START_W = NVTX_CBID_CORE_RangeStartW, RANGE_END = NVTX_CBID_CORE_RangeEnd,
        RANGE_PUSH_EX = NVTX_CBID_CORE_RangePushEx, RANGE_PUSH_A = NVTX_CBID_CORE_RangePushA,
        RANGE_PUSH_W = NVTX_CBID_CORE_RangePushW, RANGE_POP = NVTX_CBID_CORE_RangePop,
        NAME_CATEGORY_A = NVTX_CBID_CORE_NameCategoryA, NAME_CATEGORY_W = NVTX_CBID_CORE_NameCategoryW,
        NAME_OS_THREAD_A = NVTX_CBID_CORE_NameOsThreadA, NAME_OS_THREAD_W = NVTX_CBID_CORE_NameOsThreadW,
        SIZE = NVTX_CBID_CORE_SIZE,
    );
    same_ids!(core2, NvtxCallbackIdCore2:
        MARK_EX = NVTX_CBID_CORE2_DomainMarkEx, RANGE_START_EX = NVTX_CBID_CORE2_DomainRangeStartEx,
        RANGE_END = NVTX_CBID_CORE2_DomainRangeEnd, RANGE_PUSH_EX = NVTX_CBID_CORE2_DomainRangePushEx,
        RANGE_POP = NVTX_CBID_CORE2_DomainRangePop, RESOURCE_CREATE = NVTX_CBID_CORE2_DomainResourceCreate,
        RESOURCE_DESTROY = NVTX_CBID_CORE2_DomainResourceDestroy,
        NAME_CATEGORY_A = NVTX_CBID_CORE2_DomainNameCategoryA, NAME_CATEGORY_W = NVTX_CBID_CORE2_DomainNameCategoryW,
        REGISTER_STRING_A = NVTX_CBID_CORE2_DomainRegisterStringA,
        REGISTER_STRING_W = NVTX_CBID_CORE2_DomainRegisterStringW, DOMAIN_CREATE_A = NVTX_CBID_CORE2_DomainCreateA,
        DOMAIN_CREATE_W = NVTX_CBID_CORE2_DomainCreateW, DOMAIN_DESTROY = NVTX_CBID_CORE2_DomainDestroy,
        INITIALIZE = NVTX_CBID_CORE2_Initialize, SIZE = NVTX_CBID_CORE2_SIZE,
    );
    same_ids!(cuda, NvtxCallbackIdCuda:
        DEVICE_A = NVTX_CBID_CUDA_NameCuDeviceA, DEVICE_W = NVTX_CBID_CUDA_NameCuDeviceW,
        CONTEXT_A = NVTX_CBID_CUDA_NameCuContextA, CONTEXT_W = NVTX_CBID_CUDA_NameCuContextW,
        STREAM_A = NVTX_CBID_CUDA_NameCuStreamA, STREAM_W = NVTX_CBID_CUDA_NameCuStreamW,
        EVENT_A = NVTX_CBID_CUDA_NameCuEventA, EVENT_W = NVTX_CBID_CUDA_NameCuEventW, SIZE = NVTX_CBID_CUDA_SIZE,
    );
    same_ids!(cudart, NvtxCallbackIdCudaRt:
        DEVICE_A = NVTX_CBID_CUDART_NameCudaDeviceA, DEVICE_W = NVTX_CBID_CUDART_NameCudaDeviceW,
        STREAM_A = NVTX_CBID_CUDART_NameCudaStreamA, STREAM_W = NVTX_CBID_CUDART_NameCudaStreamW,
        EVENT_A = NVTX_CBID_CUDART_NameCudaEventA, EVENT_W = NVTX_CBID_CUDART_NameCudaEventW,
        SIZE = NVTX_CBID_CUDART_SIZE,
    );
    same_ids!(opencl, NvtxCallbackIdOpenCL:
        DEVICE_A = NVTX_CBID_OPENCL_NameClDeviceA, DEVICE_W = NVTX_CBID_OPENCL_NameClDeviceW,
        CONTEXT_A = NVTX_CBID_OPENCL_NameClContextA, CONTEXT_W = NVTX_CBID_OPENCL_NameClContextW,
        COMMAND_QUEUE_A = NVTX_CBID_OPENCL_NameClCommandQueueA,
        COMMAND_QUEUE_W = NVTX_CBID_OPENCL_NameClCommandQueueW, MEM_OBJECT_A = NVTX_CBID_OPENCL_NameClMemObjectA,
        MEM_OBJECT_W = NVTX_CBID_OPENCL_NameClMemObjectW, SAMPLER_A = NVTX_CBID_OPENCL_NameClSamplerA,
        SAMPLER_W = NVTX_CBID_OPENCL_NameClSamplerW, PROGRAM_A = NVTX_CBID_OPENCL_NameClProgramA,
        PROGRAM_W = NVTX_CBID_OPENCL_NameClProgramW, EVENT_A = NVTX_CBID_OPENCL_NameClEventA,
        EVENT_W = NVTX_CBID_OPENCL_NameClEventW, SIZE = NVTX_CBID_OPENCL_SIZE,
    );
    same_ids!(sync, NvtxCallbackIdSync:
        CREATE = NVTX_CBID_SYNC_DomainSyncUserCreate, DESTROY = NVTX_CBID_SYNC_DomainSyncUserDestroy,
        ACQUIRE_START = NVTX_CBID_SYNC_DomainSyncUserAcquireStart,
        ACQUIRE_FAILED = NVTX_CBID_SYNC_DomainSyncUserAcquireFailed,
        ACQUIRE_SUCCESS = NVTX_CBID_SYNC_DomainSyncUserAcquireSuccess,
        RELEASING = NVTX_CBID_SYNC_DomainSyncUserReleasing, SIZE = NVTX_CBID_SYNC_SIZE,
    );
}

#[test]
fn resource_kinds_are_the_same() {
    use ffi::{nvtxResourceCUDARTType_t as cudart, nvtxResourceCUDAType_t as cuda};
    use ffi::{nvtxResourceGenericType_t as generic, nvtxResourceSyncLinuxType_t as linux};
    use ffi::{nvtxResourceSyncPosixThreadType_t as pthread, nvtxResourceSyncWindowsType_t as windows};
    let kinds = [
        (ResourceKind::POINTER, generic::NVTX_RESOURCE_TYPE_GENERIC_POINTER),
        (ResourceKind::HANDLE, generic::NVTX_RESOURCE_TYPE_GENERIC_HANDLE),
        (ResourceKind::NATIVE_THREAD, generic::NVTX_RESOURCE_TYPE_GENERIC_THREAD_NATIVE),
        (ResourceKind::PTHREAD, generic::NVTX_RESOURCE_TYPE_GENERIC_THREAD_POSIX),
        (ResourceKind::LINUX_MUTEX, linux::NVTX_RESOURCE_TYPE_SYNC_LINUX_MUTEX),
        (ResourceKind::LINUX_FUTEX, linux::NVTX_RESOURCE_TYPE_SYNC_LINUX_FUTEX),
        (ResourceKind::LINUX_SEMAPHORE, linux::NVTX_RESOURCE_TYPE_SYNC_LINUX_SEMAPHORE),
        (ResourceKind::LINUX_COMPLETION, linux::NVTX_RESOURCE_TYPE_SYNC_LINUX_COMPLETION),
        (ResourceKind::LINUX_SPINLOCK, linux::NVTX_RESOURCE_TYPE_SYNC_LINUX_SPINLOCK),
        (ResourceKind::LINUX_SEQLOCK, linux::NVTX_RESOURCE_TYPE_SYNC_LINUX_SEQLOCK),
        (ResourceKind::LINUX_RCU, linux::NVTX_RESOURCE_TYPE_SYNC_LINUX_RCU),
        (ResourceKind::WINDOWS_MUTEX, windows::NVTX_RESOURCE_TYPE_SYNC_WINDOWS_MUTEX),
        (ResourceKind::WINDOWS_SEMAPHORE, windows::NVTX_RESOURCE_TYPE_SYNC_WINDOWS_SEMAPHORE),
        (ResourceKind::WINDOWS_EVENT, windows::NVTX_RESOURCE_TYPE_SYNC_WINDOWS_EVENT),
        (ResourceKind::WINDOWS_CRITICAL_SECTION, windows::NVTX_RESOURCE_TYPE_SYNC_WINDOWS_CRITICAL_SECTION),
        (ResourceKind::WINDOWS_SRWLOCK, windows::NVTX_RESOURCE_TYPE_SYNC_WINDOWS_SRWLOCK),
        (ResourceKind::PTHREAD_MUTEX, pthread::NVTX_RESOURCE_TYPE_SYNC_PTHREAD_MUTEX),
        (ResourceKind::PTHREAD_CONDITION, pthread::NVTX_RESOURCE_TYPE_SYNC_PTHREAD_CONDITION),
        (ResourceKind::PTHREAD_RWLOCK, pthread::NVTX_RESOURCE_TYPE_SYNC_PTHREAD_RWLOCK),
        (ResourceKind::PTHREAD_BARRIER, pthread::NVTX_RESOURCE_TYPE_SYNC_PTHREAD_BARRIER),
        (ResourceKind::PTHREAD_SPINLOCK, pthread::NVTX_RESOURCE_TYPE_SYNC_PTHREAD_SPINLOCK),
        (ResourceKind::PTHREAD_ONCE, pthread::NVTX_RESOURCE_TYPE_SYNC_PTHREAD_ONCE),
        (ResourceKind::CU_DEVICE, cuda::NVTX_RESOURCE_TYPE_CUDA_DEVICE),
        (ResourceKind::CU_CONTEXT, cuda::NVTX_RESOURCE_TYPE_CUDA_CONTEXT),
        (ResourceKind::CU_STREAM, cuda::NVTX_RESOURCE_TYPE_CUDA_STREAM),
        (ResourceKind::CU_EVENT, cuda::NVTX_RESOURCE_TYPE_CUDA_EVENT),
        (ResourceKind::CUDA_DEVICE, cudart::NVTX_RESOURCE_TYPE_CUDART_DEVICE),
        (ResourceKind::CUDA_STREAM, cudart::NVTX_RESOURCE_TYPE_CUDART_STREAM),
        (ResourceKind::CUDA_EVENT, cudart::NVTX_RESOURCE_TYPE_CUDART_EVENT),
    ];
    for (ours, theirs) in kinds {
        assert_eq!(u32::from(ours.class()) << 16 | u32::from(ours.index()), theirs, "{ours:?}");
    }
}

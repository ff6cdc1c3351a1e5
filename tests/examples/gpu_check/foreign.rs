//! NVIDIA's libraries besides the driver, opened by name while the program runs: no toolkit is needed to build, none is
//! linked.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::path::PathBuf;

use libloading::Library;

pub(crate) type Raw = *mut c_void;

macro_rules! library {
    (
        $(#[$about:meta])* $library:ident in $folder:literal as $stem:literal {
            $($function:ident = $symbol:ident($($argument:ty),*);)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy)]
        pub(crate) struct $library {
            $(pub(crate) $function: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl $library {
            /// Opens it for good.
            pub(crate) fn open() -> Result<Self, String> {
                let library = open($folder, $stem)?;
                Ok(Self {
                    $(
                        // SAFETY: the signature is the one that NVIDIA's headers declare for this name, and the library
                        // stays open.
                        $function: *unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> c_int>(stringify!($symbol).as_bytes())
                        }
                        .map_err(|error| error.to_string())?,
                    )*
                })
            }
        }
    };
}

library! {
    /// The CUDA runtime API.
    CudaRuntime in "lib64" as "libcudart" {
        malloc = cudaMalloc(*mut Raw, usize);
        memcpy = cudaMemcpy(Raw, *const c_void, usize, c_int);
        free = cudaFree(Raw);
        synchronize = cudaDeviceSynchronize();
    }
}

library! {
    /// Dense linear algebra: kernels that this program did not write, launched through a runtime of the library's own.
    Cublas in "lib64" as "libcublas" {
        create = cublasCreate_v2(*mut Raw);
        destroy = cublasDestroy_v2(Raw);
        set_stream = cublasSetStream_v2(Raw, Raw);
        sgemm = cublasSgemm_v2(
            Raw, c_int, c_int, c_int, c_int, c_int, *const f32, u64, c_int, u64, c_int, *const f32, u64, c_int
        );
    }
}

/// `CUpti_BuffersCallbackRequestFunc`
pub(crate) type RequestBuffer = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// `CUpti_BuffersCallbackCompleteFunc`
pub(crate) type CompleteBuffer = extern "C" fn(Raw, u32, *mut u8, usize, usize);
/// `CUpti_TimestampCallbackFunc`
pub(crate) type Clock = extern "C" fn() -> u64;
/// `CUpti_CallbackFunc`
pub(crate) type Callback = extern "C" fn(Raw, c_int, u32, *const c_void);

library! {
    /// CUPTI, called directly: for comparisons with the library, and for its own cost. Load the driver first.
    Cupti in "extras/CUPTI/lib64" as "libcupti" {
        subscribe = cuptiSubscribe(*mut Raw, Callback, Raw);
        enable_callback = cuptiEnableCallback(u32, Raw, c_int, u32);
        register = cuptiActivityRegisterCallbacks(RequestBuffer, CompleteBuffer);
        clock = cuptiActivityRegisterTimestampCallback(Clock);
        enable = cuptiActivityEnable(c_int);
        flush = cuptiActivityFlushAll(u32);
    }
}

/// By bare name on the system's path, then in the folders of a toolkit.
fn open(folder: &str, stem: &str) -> Result<&'static Library, String> {
    let names = ["so.13", "so.12", "so.11.8", "so.11.0", "so.11", "so"].map(|version| format!("{stem}.{version}"));
    let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let folders = std::iter::once(PathBuf::new())
        .chain(toolkits.chain([PathBuf::from("/usr/local/cuda")]).map(|toolkit| toolkit.join(folder)));
    for folder in folders {
        for name in &names {
            // SAFETY: NVIDIA's libraries are made to be loaded by any process.
            if let Ok(library) = unsafe { Library::new(folder.join(name)) } {
                return Ok(Box::leak(Box::new(library)));
            }
        }
    }
    Err(format!("no {stem} on this machine"))
}

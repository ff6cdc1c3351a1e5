//! What is asked of the CUDA driver for CUPTI's sake: that it is initialised, that there is a device, and that contexts come to rest.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libloading::Library;

use super::unavailable::Unavailable;
use crate::gpu::driver::{CudaError, Driver, Handle};

/// Contexts that are remembered; more than a process has.
const MOST: usize = 64;

/// The driver, initialised, with a device.
pub(crate) struct Device {
    driver: &'static Driver,
    synchronize: unsafe extern "C" fn() -> c_int,
    pub(crate) driver_version: i32,
    /// Names of the devices by their number; empty where the driver does not say.
    pub(crate) names: Vec<Arc<str>>,
}

impl Device {
    /// Initialises the driver, which does nothing where that has been done, and counts its devices.
    pub(crate) fn find() -> Result<Self, Unavailable> {
        let driver = Driver::get().map_err(|missing| Unavailable::Driver(missing.to_string()))?;
        let name = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };
        // SAFETY: the library is loaded already, `driver` holds it; this counts one more user, for ever.
        let library = unsafe { Library::new(name) }.map_err(|error| Unavailable::Driver(error.to_string()))?;
        let library = ManuallyDrop::new(library);
        let lacks = |function: &str| Unavailable::Driver(format!("the CUDA driver has no `{function}`"));
        // SAFETY: `cuInit` takes flags and returns a code, in every version of the driver.
        let init = unsafe { library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit\0") };
        // SAFETY: `cuDeviceGetCount` writes one integer and returns a code.
        let count = unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDeviceGetCount\0") };
        // SAFETY: `cuCtxSynchronize` takes nothing and returns a code.
        let synchronize = unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"cuCtxSynchronize\0") };
        let init = init.map_err(|_| lacks("cuInit"))?;
        let count = count.map_err(|_| lacks("cuDeviceGetCount"))?;
        let synchronize = *synchronize.map_err(|_| lacks("cuCtxSynchronize"))?;
        // SAFETY: 0 is the one value that the flags may have.
        match unsafe { init(0) } {
            0 => {}
            code => return Err(Unavailable::NoDevice { function: "cuInit", code }),
        }
        let mut devices = 0;
        // SAFETY: writes one integer.
        match unsafe { count(&raw mut devices) } {
            0 if devices > 0 => {}
            code => return Err(Unavailable::NoDevice { function: "cuDeviceGetCount", code }),
        }
        let driver_version = driver.version().unwrap_or(0);
        // Now, before CUPTI watches: these calls are not the program's.
        let name = |device| driver.device_name(device).unwrap_or_default().into();
        Ok(Self { driver, synchronize, driver_version, names: (0..devices).map(name).collect() })
    }

    /// Waits until all work of these contexts is over. Stops at the first sign that CUDA is being taken down. Whether each wait ended well: after one that did not, work may
    /// be missing.
    pub(crate) fn synchronize(&self, contexts: &Contexts) -> bool {
        const DEINITIALIZED: CudaError = CudaError(4);
        let mut all = true;
        for context in contexts.live() {
            let waited = self.driver.relaxed(|| {
                self.driver.in_context(context, || {
                    // SAFETY: waits for the context that has just been made current; nothing is passed.
                    match unsafe { (self.synchronize)() } {
                        0 => Ok(()),
                        code => Err(CudaError(code)),
                    }
                })
            });
            all &= waited.is_ok();
            if waited == Err(DEINITIALIZED) {
                break;
            }
        }
        all
    }
}

/// Contexts in which work was launched and that have not been destroyed. Written in callbacks, without a lock.
pub(crate) struct Contexts([AtomicUsize; MOST]);

impl Contexts {
    pub(crate) fn new() -> Self {
        Self([const { AtomicUsize::new(0) }; MOST])
    }

    /// Remembers a context. The usual one, the first, costs one load.
    #[inline]
    pub(crate) fn saw(&self, context: Handle) {
        if context == 0 {
            return;
        }
        for slot in &self.0 {
            let held = slot.load(Relaxed);
            if held == context {
                return;
            }
            if held == 0 {
                match slot.compare_exchange(0, context, Relaxed, Relaxed) {
                    Ok(_) => return,
                    Err(other) if other == context => return,
                    Err(_) => {}
                }
            }
        }
    }

    /// Forgets a context, which may be there twice where two threads met a hole.
    pub(crate) fn gone(&self, context: Handle) {
        for slot in &self.0 {
            let _other = slot.compare_exchange(context, 0, Relaxed, Relaxed);
        }
    }

    fn live(&self) -> Vec<Handle> {
        let mut live: Vec<Handle> = self.0.iter().map(|slot| slot.load(Relaxed)).filter(|held| *held != 0).collect();
        live.sort_unstable();
        live.dedup();
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_remembered_once_until_they_are_gone() {
        let contexts = Contexts::new();
        for context in [0, 0x10, 0x20, 0x10, 0x30] {
            contexts.saw(context);
        }
        assert_eq!(contexts.live(), [0x10, 0x20, 0x30]);
        contexts.gone(0x10);
        contexts.saw(0x30); // into the hole
        contexts.gone(0x40);
        assert_eq!(contexts.live(), [0x20, 0x30]);
        contexts.gone(0x30);
        assert_eq!(contexts.live(), [0x20]);
        (1..=100).for_each(|context| contexts.saw(context));
        assert_eq!(contexts.live().len(), MOST);
    }
}

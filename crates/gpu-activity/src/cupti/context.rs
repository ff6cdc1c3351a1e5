//! What a session needs from the CUDA driver besides CUPTI: an initialised driver, a device, and contexts without
//! outstanding work.

use range_model::stats::{Keyed, Lean};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use range_model::stats::order;

use super::unavailable::Unavailable;
use crate::driver::{CudaError, Driver, Handle};
use crate::own_calls;

/// The largest number of contexts that are remembered; more than a process has.
const MOST: usize = 64;

/// How long a thread that destroys a context waits for our use of the context to end.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 1 });

/// The driver and its devices.
pub(crate) struct Device {
    driver: &'static Driver,
    pub(crate) driver_version: i32,
    /// Whether it is known that there are several devices.
    pub(crate) are_several: bool,
    /// Whether the program had a context, as far as can be asked. False inside `cuInit`.
    pub(crate) was_in_use: bool,
    /// Names of the devices that were asked for, by their number.
    names: Mutex<Keyed<u32, Arc<str>>>,
}

impl Device {
    /// Finds the driver. Unless `in_init`, also initialises it (a second initialisation does nothing) and counts its
    /// devices.
    ///
    /// With `in_init`, the driver is calling us inside `cuInit`. A second `cuInit` there breaks the first or waits for
    /// it, and devices cannot be counted. Only `cuDriverGetVersion` is called, which works without initialisation.
    pub(crate) fn find(in_init: bool) -> Result<Self, Unavailable> {
        let (mut are_several, mut was_in_use) = (false, false);
        let driver = Driver::get().map_err(|missing| Unavailable::Driver(missing.to_string()))?;
        if !in_init {
            let refused = |function| move |CudaError(code)| Unavailable::NoDevice { function, code };
            driver.init().map_err(refused("cuInit"))?;
            let devices = driver.device_count().map_err(refused("cuDeviceGetCount"))?;
            if devices <= 0 {
                return Err(refused("cuDeviceGetCount")(CudaError(0)));
            }
            are_several = devices > 1;
            was_in_use = driver.has_context();
        }
        // Before CUPTI watches: this call is not the program's.
        let driver_version = driver.version().unwrap_or(0);
        Ok(Self { driver, driver_version, are_several, was_in_use, names: Mutex::default() })
    }

    /// Name of a device on which something ran; empty if the driver does not answer. Queries the driver once per
    /// device.
    pub(crate) fn name(&self, device: u32) -> Arc<str> {
        if let Some(known) = self.names.lock().get(&device) {
            return Arc::clone(known);
        }
        // Without the lock: CUPTI calls us back from inside this call.
        let ask = |number| own_calls::during(|| self.driver.device_name(number)).ok();
        let name: Arc<str> = i32::try_from(device).ok().and_then(ask).unwrap_or_default().into();
        Arc::clone(self.names.lock().row_or(device, || name))
    }

    /// Waits until all work of these contexts is over. Stops at the first sign that CUDA is being taken down. Returns
    /// whether every wait succeeded; otherwise work may be missing.
    pub(crate) fn synchronize(&self, contexts: &Contexts) -> bool {
        const DEINITIALIZED: CudaError = CudaError(4);
        let mut all = true;
        for context in contexts.live() {
            let wait = || self.driver.relaxed(|| self.driver.in_context(context, || self.driver.synchronize()));
            // The context was destroyed meanwhile, so its work is over.
            let Some(waited) = contexts.using(context, wait) else { continue };
            all &= waited.is_ok();
            if waited == Err(DEINITIALIZED) {
                break;
            }
        }
        all
    }
}

/// Contexts in which work was launched and that have not been destroyed. Callbacks write it without a lock.
///
/// A context is never used while another thread destroys it: it leaves the list before its destruction, and the
/// destruction waits for a use that has begun.
#[repr(C)] // the contexts first: see `Receiver`
pub(crate) struct Contexts {
    live: [AtomicUsize; MOST],
    used: Mutex<Used>,
    changed: Condvar,
}

#[derive(Default)]
struct Used {
    context: Handle,
    /// Whether destruction no longer waits for the use.
    is_given_up: bool,
}

/// Offset of the first context.
#[cfg(all(test, target_pointer_width = "64"))]
pub(super) const FIRST: usize = std::mem::offset_of!(Contexts, live);

impl Contexts {
    pub(crate) fn new() -> Self {
        Self { live: [const { AtomicUsize::new(0) }; MOST], used: Mutex::default(), changed: Condvar::new() }
    }

    /// Runs `body`, which uses the context, unless the context is gone. Uses exclude each other.
    fn using<T>(&self, context: Handle, body: impl FnOnce() -> T) -> Option<T> {
        {
            // The check is under the lock: either `gone` sees this use, or this use sees that the context is gone.
            let mut used = self.used.lock();
            if !self.live.iter().any(|slot| slot.load(Relaxed) == context) {
                return None;
            }
            used.context = context;
        }
        let result = body();
        self.used.lock().context = 0;
        self.changed.notify_all();
        Some(result)
    }

    /// Stops waiting for a use that takes too long: the process is about to end.
    pub(crate) fn give_up(&self) {
        self.used.lock().is_given_up = true;
        self.changed.notify_all();
    }

    /// Remembers a context. The usual one, the first, costs one load.
    #[inline]
    pub(crate) fn saw(&self, context: Handle) {
        if self.live.first().is_some_and(|first| first.load(Relaxed) != context) {
            self.saw_another(context);
        }
    }

    #[inline(never)]
    fn saw_another(&self, context: Handle) {
        if context == 0 {
            return;
        }
        for slot in &self.live {
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

    /// Forgets a context. It may be there twice, if two threads added it at once. The calling thread is about to
    /// destroy the context, so this waits until its use has ended, but a second at most: the user may wait for
    /// something that this thread holds.
    pub(crate) fn gone(&self, context: Handle) {
        for slot in &self.live {
            let _other = slot.compare_exchange(context, 0, Relaxed, Relaxed);
        }
        let is_used = |used: &mut Used| used.context == context && !used.is_given_up;
        let _in_time = self.changed.wait_while_for(&mut self.used.lock(), is_used, PATIENCE);
    }

    /// Whether there is any context.
    pub(crate) fn any(&self) -> bool {
        self.live.iter().any(|slot| slot.load(Relaxed) != 0)
    }

    fn live(&self) -> Vec<Handle> {
        let mut live: Vec<Handle> = self.live.iter().map(|slot| slot.load(Relaxed)).filter(|held| *held != 0).in_vec();
        order::by_key(&mut live, |handle| *handle);
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
        contexts.saw(0x30); // takes the free slot
        contexts.gone(0x40);
        assert_eq!(contexts.live(), [0x20, 0x30]);
        contexts.gone(0x30);
        assert_eq!(contexts.live(), [0x20]);
        (1..=100).for_each(|context| contexts.saw(context));
        assert_eq!(contexts.live().len(), MOST);
    }

    #[test]
    fn a_context_is_not_destroyed_while_it_is_used_nor_used_afterwards() {
        let contexts = Contexts::new();
        [0x10, 0x20].into_iter().for_each(|context| contexts.saw(context));
        let is_live = |context| contexts.live().contains(&context);
        let (destroy, may_be_destroyed) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let used = contexts.using(0x10, || {
                scope.spawn(|| {
                    contexts.gone(0x20); // another one
                    contexts.gone(0x10);
                    destroy.send(()).unwrap();
                });
                while is_live(0x10) {
                    std::thread::yield_now();
                }
                may_be_destroyed.recv_timeout(Duration::from_millis(250)).is_ok()
            });
            assert_eq!(used, Some(false));
            may_be_destroyed.recv().unwrap();
        });
        assert_eq!(contexts.using(0x10, || ()), None);
    }

    #[test]
    fn a_use_that_was_given_up_holds_nothing_up() {
        let contexts = Contexts::new();
        contexts.saw(0x10);
        let began = std::time::Instant::now();
        contexts.using(0x10, || {
            contexts.give_up();
            contexts.gone(0x10);
        });
        assert!(began.elapsed() < PATIENCE);
    }
}

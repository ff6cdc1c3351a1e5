//! The contexts of named streams: their spare events, and facts that are determined once a context, at its first timed
//! entry.

use std::fmt::Debug;
use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant};

use gpu_activity::driver::{CudaError, Driver, Handle};
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::pair::EventPair;
use crate::process;

/// A binding's stream or context, which its last `Arc` destroys.
pub(crate) trait Owned: Debug + Send + Sync {
    /// Drops a hold, and restores the current context, which the destruction of a stream or context changes. The caller
    /// must hold no lock.
    fn let_go(self: Arc<Self>, driver: &Driver);
}

impl<T: Debug + Send + Sync> Owned for T {
    fn let_go(self: Arc<Self>, driver: &Driver) {
        if let Some(last) = Arc::into_inner(self) {
            driver.keeping_context(|| drop(last));
        }
    }
}

/// The context of named streams. Lives as long as the process; the CUDA context itself may be gone.
pub(crate) struct NamedContext {
    pub(crate) handle: Handle,
    /// The owner of the context, if its last `Arc` destroys it.
    owner: Option<Weak<dyn Owned>>,
    /// Event pairs that no stream has taken.
    pub(crate) spare: Mutex<Vec<EventPair>>,
    pub(crate) facts: OnceCell<ContextFacts>,
}

/// Facts that are determined once a context.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ContextFacts {
    pub(crate) device: i32,
    pub(crate) device_name: String,
    /// The floor: a pair with nothing between its events reads up to this many nanoseconds, so such readings mean
    /// nothing. An error if it could not be measured.
    pub(crate) floor: Result<u64, CudaError>,
}

/// Limit on the time to measure a floor. Usually it takes a millisecond.
const FLOOR_PATIENCE: Duration = Duration::from_millis(100);

impl NamedContext {
    pub(crate) fn new(handle: Handle, owner: Option<Weak<dyn Owned>>) -> Self {
        Self { handle, owner, spare: Mutex::default(), facts: OnceCell::new() }
    }

    /// Whether its last `Arc` destroys it.
    pub(crate) fn can_be_held(&self) -> bool {
        self.owner.is_some()
    }

    /// Holds it alive; `None` when it is gone, or cannot be held.
    pub(crate) fn hold(&self) -> Option<Arc<dyn Owned>> {
        self.owner.as_ref()?.upgrade()
    }

    /// Whether [`hold`](Self::hold) would succeed now.
    pub(crate) fn lives(&self) -> bool {
        self.owner.as_ref().is_some_and(|context| context.strong_count() > 0)
    }

    /// The floor in nanoseconds; 0 if it is not known.
    pub(crate) fn floor_ns(&self) -> u64 {
        self.facts.get().and_then(|facts| facts.floor.ok()).unwrap_or(0)
    }

    /// Determines the facts, unless they are known. The context must be current.
    pub(crate) fn prepare(&self, driver: &Driver) -> Result<(), CudaError> {
        if self.facts.get().is_some() {
            return Ok(());
        }
        static HOOKED: Once = Once::new();
        // CUDA has registered its own exit hook by now. Ours is registered again to run before that, so that pairs can
        // still be read.
        HOOKED.call_once(process::at_exit_again);
        self.facts.get_or_try_init(|| {
            let (device, device_name) = driver.current_device()?;
            // Measured only once, even if it fails: it would fail again at the next entry, at the same cost.
            let floor = driver.relaxed(|| measure_floor(driver, self.handle));
            Ok(ContextFacts { device, device_name, floor })
        })?;
        Ok(())
    }
}

/// Measures the floor on an idle stream of our own. Records pairs with nothing between their events, as entries and
/// exits record them; nine in ten read at most half of the floor. The factor of two is there because caches are colder
/// in a program.
fn measure_floor(driver: &Driver, context: Handle) -> Result<u64, CudaError> {
    const PAIRS: usize = 64;
    let began = Instant::now();
    let stream = driver.create_stream()?;
    let mut events = Vec::with_capacity(2 * PAIRS);
    let measured = (|| {
        for _ in 0..2 * PAIRS {
            events.push(driver.create_event()?);
        }
        let mut readings = Vec::with_capacity(PAIRS);
        for pair in events.chunks_exact(2) {
            for &event in pair {
                driver.in_context(context, || {
                    driver.capture(stream)?;
                    driver.record(event, stream)
                })?;
            }
            readings.push(loop {
                // No call waits for the GPU here: a span of the program is being entered, and a busy device may have
                // other work queued.
                match driver.elapsed_ns(pair[0], pair[1]) {
                    Err(CudaError::NOT_READY) if began.elapsed() < FLOOR_PATIENCE => std::hint::spin_loop(),
                    read => break read?,
                }
            });
        }
        readings.sort_unstable();
        Ok(2 * readings[PAIRS * 9 / 10])
    })();
    events.iter().for_each(|&event| driver.destroy_event(event));
    driver.destroy_stream(stream);
    measured
}

//! What is asked and measured once a context, at its first timed entry: the device, and what a pair of events reads with nothing between them.

use std::sync::Once;
use std::time::{Duration, Instant};

use super::driver::{CudaError, Driver, Handle};
use super::streams::{ContextFacts, NamedContext};
use crate::process;

/// How long the measurement takes at most: usually it is over in a millisecond.
const FLOOR_PATIENCE: Duration = Duration::from_millis(100);

/// Asks and measures what is wanted once a context. The context is current.
pub(super) fn prepare(driver: &Driver, context: &NamedContext) -> Result<(), CudaError> {
    if context.facts.get().is_some() {
        return Ok(());
    }
    static HOOKED: Once = Once::new();
    // Once more, so that the pairs are read before what CUDA has registered up to now takes it down.
    HOOKED.call_once(process::at_exit_again);
    context.facts.get_or_try_init(|| {
        let (device, device_name) = driver.current_device()?;
        // Tried once: what fails at one entry would fail, and cost as much, at the next.
        let floor = driver.relaxed(|| measure_floor(driver, context.handle));
        Ok(ContextFacts { device, device_name, floor })
    })?;
    Ok(())
}

/// The reading up to which a pair says nothing: twice what nine in ten pairs read with nothing between their events, on an idle stream of
/// our own, recorded as entries and exits record them. Twice, since in a program the caches are colder.
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
                // Not waited for: a span of the program is being entered, and on a busy device other work may be before ours.
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

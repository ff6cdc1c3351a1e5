//! Who looks at threads inside of ranges, to know what they wait for: a thread of the process itself, for spans; or,
//! for other programs, the command that has started them (`run`).
//!
//! The thread keeps no descriptor open between looks, because the program may close it and get its number.

#[cfg(feature = "command")]
mod run;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use range_model::summary::OffCpuStats;

#[cfg(feature = "command")]
pub use run::RunSampler;

use crate::clock::{Ticks, rate_since};
use crate::core::session::Names;
use crate::core::session::joined::Joined;
use crate::core::thread::engine::Engine;
use crate::parts::off_cpu::look::{Moment, Pace, Samples, look, own_process, state_file};
use crate::process::{spawn, thread_id, without_signals};

/// Looks at the threads of one profiler. Lives as long as the process.
#[derive(Debug)]
pub(crate) struct Sampler {
    engine: &'static Engine,
    /// The samples of a window, and its start.
    samples: Mutex<(Ticks, Samples)>,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Sampler {
    /// Starts the thread. `None` if there is none to be had, or if the system does not allow looking.
    pub(crate) fn start(engine: &'static Engine) -> Option<&'static Self> {
        state_file(&own_process(), thread_id()).ok()?;
        let sampler: &'static Self = Box::leak(Box::new(Self {
            engine,
            samples: Mutex::new((engine.session.window(), Samples::default())),
            stop: AtomicBool::new(false),
            thread: Mutex::default(),
        }));
        let thread = without_signals(|| spawn("tracing-off-cpu", Box::new(|| sampler.run())));
        *sampler.thread.lock() = Some(thread.ok()?);
        Some(sampler)
    }

    fn run(&self) {
        let mut pace = Pace::new();
        while !self.stop.load(Relaxed) && self.engine.session.is_running() {
            let moment = pace.begin();
            self.look_at_all(moment);
            std::thread::park_timeout(pace.end());
        }
    }

    /// Looks at the threads that are inside of a range.
    fn look_at_all(&self, moment: Moment) {
        let (session, process) = (&self.engine.session, own_process());
        for thread in self.engine.states().filter(|thread| thread.is_up_to_date()) {
            let Some((place, start)) = thread.stack.innermost() else { continue };
            let Some(label) = thread.identity(place).map(|identity| identity.key.label) else { continue };
            let seen = state_file(&process, thread.thread_id()).and_then(|file| look(&process, &file));
            let Ok(Some(wait)) = seen else { continue };
            let clock = &session.clock;
            let rate = || rate_since(clock.is_counter(), clock.origin(), clock.origin_monotonic_ns());
            let ns = moment.charge(|| rate().ns(clock.now().saturating_sub(start).into()));
            let (of, samples) = &mut *self.samples.lock();
            if std::mem::replace(of, session.window()) != *of {
                samples.clear();
            }
            samples.add(label, wait, ns);
        }
    }

    /// The samples of a window, by time descending.
    pub(crate) fn stats(&self, window: Ticks, names: &Names, joined: &Joined) -> Vec<OffCpuStats> {
        match &*self.samples.lock() {
            (of, samples) if *of == window => samples.stats(|label| names.text_of(joined.label(label))),
            _ => Vec::new(),
        }
    }

    /// Ends the thread.
    pub(crate) fn finish(&self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.lock().take() {
            thread.thread().unpark();
            let _panicked = thread.join();
        }
    }
}

//! The thread that looks at the threads of the run, to know what they wait for inside of ranges.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle, park_timeout};

use tracing_gpu::summary::OffCpuStats;
use tracing_gpu::{RunSampler, without_signals};

use crate::folder::Folder;

/// Samples by the names of the processes.
pub(super) type Samples = BTreeMap<String, Vec<OffCpuStats>>;

pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Samples>,
}

impl Sampler {
    /// `None` if there is no thread to be had: then there are no samples.
    pub(super) fn start(folder: &Folder) -> Option<Self> {
        let (rows, stop) = (folder.all_rows(), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&stop);
        let look = move || {
            let mut sampler = RunSampler::new(rows);
            while !is_over.load(Relaxed) {
                park_timeout(sampler.look());
            }
            sampler.finish()
        };
        // Signals interrupt the waiting of the main thread.
        let thread = without_signals(|| Builder::new().name("tracing-off-cpu".to_owned()).spawn(look));
        Some(Self { stop, thread: thread.ok()? })
    }

    pub(super) fn finish(self) -> Samples {
        self.stop.store(true, Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

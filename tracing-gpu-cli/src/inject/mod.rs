//! In a measured process: its profiler, from the first entry point that is called to the end.

mod captured;
pub mod entry;
mod snapshot;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Once, OnceLock};

use gpu_activity::cupti::watch_profiler;
use nvtx_rs::tool::{Call, Tool};
use tracing_gpu::{
    ConfigError, NvtxTool, OpenAcc, OpenAccRegister, Output, Profiler, begin_child, has_given_up, on_own_stack,
    watch_forks, without_file_limit_signal,
};

use crate::complain;
use crate::folder::{self, CaptureRange, Folder, Settings};
use crate::system;
use captured::{Captured, Edge};
use snapshot::Snapshots;

/// The measured processes, by number of forks: this process is preceded by its ancestors, whose entries it inherited by
/// `fork`. `None` if measuring could not begin.
static PROCESSES: [OnceLock<Option<Measured>>; 64] = [const { OnceLock::new() }; 64];

/// The number of forks between the first process and this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// One process that is measured.
struct Measured {
    folder: Folder,
    name: String,
    settings: Settings,
    /// Empty until measuring begins, which may be later if only a part is captured.
    running: OnceLock<Option<Running>>,
    range: Option<Captured>,
    /// The registration function of the OpenACC runtime.
    openacc_register: OnceLock<OpenAccRegister>,
}

/// The active profiler of a process.
struct Running {
    profiler: Profiler,
    tool: NvtxTool,
    openacc: OpenAcc,
    snapshots: Snapshots,
}

/// The measured process; begins measuring if necessary, and after a fork.
fn current() -> Option<&'static Measured> {
    if system::is_unmarked() {
        become_child();
    }
    let forks = FORKS.load(Acquire);
    let Some(process) = PROCESSES.get(forks) else {
        name_unmeasured(forks);
        return None;
    };
    process.get_or_init(|| on_own_stack(begin)).as_ref()
}

/// The measured process, for an entry point. A child that is forked during the beginning would wait for ever: NVTX
/// makes it wait for the entering thread, which does not exist in the child.
fn enter() -> Option<&'static Measured> {
    snapshot::watch_forks(after_fork_in_child);
    if system::is_unmarked() {
        become_child(); // before the child waits for a thread of its parent
    }
    match PROCESSES.get(FORKS.load(Acquire)).and_then(OnceLock::get) {
        Some(begun) => begun.as_ref(),
        None => snapshot::while_not_forking(current),
    }
    .filter(|_| !has_given_up())
}

/// Called in a child of the system call `clone`, which runs no fork handlers.
#[cold]
fn become_child() {
    begin_child();
    after_fork_in_child();
}

/// Prints a line for a process with too many forked ancestors.
#[cold]
fn name_unmeasured(forks: usize) {
    static NAMED: AtomicUsize = AtomicUsize::new(0);
    if NAMED.swap(forks, Relaxed) != forks {
        complain(&format!(
            "process {} is not measured: {forks} forks lead to it, one after another",
            std::process::id()
        ));
    }
}

/// Begins measuring this process. If that fails, a line on standard error states the reason, and the process continues.
fn begin() -> Option<Measured> {
    // A forked child may have lost its environment.
    let before = PROCESSES.iter().take(FORKS.load(Acquire)).rev();
    let folder = before.filter_map(|process| process.get()?.as_ref()).map(|parent| parent.folder.clone()).next();
    let folder = folder.or_else(Folder::of_environment)?;
    let begun = Measured::begin(folder);
    begun.inspect_err(|error| complain(&format!("process {} is not measured: {error}", std::process::id()))).ok()
}

impl Measured {
    fn begin(folder: Folder) -> io::Result<Self> {
        let at = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.path().display()));
        let settings = folder.read_settings().map_err(at)?;
        let name = without_file_limit_signal(|| folder.begin()).map_err(at)?;
        static WATCHED: Once = Once::new();
        WATCHED.call_once(|| {
            system::before_quick_exit(end);
            system::after_python(end);
            system::survive_strict_mode();
            system::mark_process();
        });
        let range = match &settings.captured {
            CaptureRange::Nvtx(name) => Some(Captured::new(name)),
            CaptureRange::None | CaptureRange::Cuda => None,
        };
        Ok(Self { folder, name, settings, running: OnceLock::new(), range, openacc_register: OnceLock::new() })
    }

    /// The running profiler; starts it if necessary.
    fn run(&'static self) -> Option<&'static Running> {
        watch_forks();
        let start = || snapshot::while_not_forking(|| tracing_gpu::without_signals(|| self.start()));
        let start = || start().inspect_err(|error| complain(&format!("nothing is measured: {error}"))).ok();
        let mut is_new = false;
        let running = self.running.get_or_init(|| {
            is_new = true;
            on_own_stack(start)
        });
        if let Some(running) = running.as_ref().filter(|_| is_new) {
            if !running.profiler.keeps_rows() {
                running.start_threads();
            } else if !self.settings.files.is_empty() {
                running.finish_on_signal();
            }
        }
        running.as_ref()
    }

    /// Measures from the program's `cudaProfilerStart` to its `cudaProfilerStop`. Called by the driver inside `cuInit`.
    fn wait_for_profiler_start(&self) {
        fn called(begins: bool) {
            let Some(measured) = current() else { return };
            if begins {
                measured.run().inspect(|running| running.begin(measured));
            } else if let Some(Some(running)) = measured.running.get() {
                running.profiler.end(true);
            }
        }
        if let Err(error) = tracing_gpu::without_signals(|| watch_profiler(called)) {
            let process = std::process::id();
            complain(&format!("process {process} is not measured: cudaProfilerStart is seen by CUPTI alone. {error}"));
        }
    }

    /// Notes whether the program makes graphs before the measured range begins. Called by the driver inside `cuInit`.
    fn watch_graphs(&self) {
        if self.running.get().is_none() {
            let _reported_when_the_range_begins = tracing_gpu::without_signals(|| watch_profiler(|_| ()));
        }
    }

    fn start(&self) -> Result<Running, ConfigError> {
        // A sandbox may forbid the reading of a thread's clock, which is a system call.
        let mut builder = Profiler::builder().environment(false).nvtx(false).gpu_when_injected(true).on_cpu(false);
        for text in &self.settings.texts {
            builder = builder.settings(text).0; // the command has reported its errors
        }
        let summary = folder::literal(&self.folder.summary(&self.name));
        // The command looks at the threads, from outside.
        let profiler = builder.off_cpu(false).output(Output::None).files(self.settings.files.clone()).json(summary);
        let profiler = profiler.row_file(self.folder.rows(&self.name), rows_missed).build()?;
        if IN_CUDA.load(Acquire) {
            profiler.collect_in_injection();
        }
        let snapshots = Snapshots::new(self.folder.clone(), self.name.clone());
        let openacc = profiler.openacc(); // also in a forked child, where the runtime does not register again
        Ok(Running { tool: profiler.nvtx_tool(), openacc, profiler, snapshots })
    }

    /// The running profiler, if there is one.
    #[inline]
    fn now(&'static self) -> Option<&'static Running> {
        match self.running.get() {
            Some(running) => running.as_ref(),
            None if self.settings.captured == CaptureRange::None => self.run(),
            None => None,
        }
    }
}

/// NVTX calls of this process.
impl Measured {
    #[inline]
    fn receive(&'static self, call: &Call<'_>) {
        let Some(running) = self.now() else { return };
        running.tool.call(call);
    }

    #[inline(never)]
    fn receive_within(&'static self, range: &Captured, call: &Call<'_>) {
        let met = range.meet(call);
        if met == Edge::Begin {
            self.run().inspect(|running| running.begin(self));
        }
        self.receive(call);
        if let Some(running) = self.now().filter(|_| met == Edge::End) {
            // Inside of a call, the profiler would leave its files to the command.
            nvtx_rs::tool::outside(|| running.profiler.end(true));
        }
    }
}

impl Running {
    /// Starts everything that could not be started before measuring began.
    fn begin(&'static self, measured: &Measured) {
        let openacc = measured.openacc_register.get();
        openacc.inspect(|register| self.openacc.register(**register));
        if openacc.is_some() || IN_CUDA.load(Acquire) {
            self.start_threads();
        }
    }

    /// Starts our threads. Called only if more than ranges is measured, or if the rows of ranges are in no file.
    fn start_threads(&'static self) {
        self.profiler.measures_more();
        self.snapshots.start(&self.profiler);
        self.finish_on_signal();
    }

    /// Lets signals end the measuring. Also called if files are written.
    fn finish_on_signal(&self) {
        on_own_stack(|| tracing_gpu::without_signals(|| self.profiler.finish_on_signal()));
    }
}

/// Whether CUDA has called us inside `cuInit`. A forked child cannot use its parent's CUDA.
static IN_CUDA: AtomicBool = AtomicBool::new(false);

/// Begins the measuring of a child anew: earlier measurements belong to the parent.
extern "C" fn after_fork_in_child() {
    system::mark_process();
    FORKS.fetch_add(1, Release);
    IN_CUDA.store(false, Release);
    snapshot::after_fork_in_child();
}

/// Ends the measuring where a process ends without `atexit` handlers.
extern "C" fn end() {
    if let Some(running) = running() {
        running.profiler.end(false);
    }
}

/// Starts snapshots, which replace rows without room in their file.
fn rows_missed() {
    if let Some(running) = running().filter(|_| !has_given_up()) {
        running.start_threads();
    }
}

/// The running profiler of this process, if there is one.
fn running() -> Option<&'static Running> {
    PROCESSES.get(FORKS.load(Acquire))?.get()?.as_ref()?.running.get()?.as_ref()
}

/// Counts a range that begins after the memory of this process is used up.
#[cold]
fn drop_range(call: &Call<'_>) {
    if let (Call::Push { .. } | Call::Start { .. }, Some(running)) = (call, running()) {
        running.profiler.drop_range();
    }
}

/// Passes each call to the tool of the calling process.
struct OfThisProcess;

impl Tool for OfThisProcess {
    #[inline]
    fn call(&self, call: &Call<'_>) {
        if has_given_up() {
            return drop_range(call);
        }
        let Some(measured) = current() else { return };
        match &measured.range {
            None => measured.receive(call),
            Some(range) => measured.receive_within(range, call),
        }
    }
}

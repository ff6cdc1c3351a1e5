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

/// The process that measures: its parent, the parent of that and so on are before it, as it was made by `fork` and
/// inherited them. `None` where it could not begin.
static PROCESSES: [OnceLock<Option<Measured>>; 64] = [const { OnceLock::new() }; 64];

/// How often `fork` was called on the way from the first process here.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// One process that is measured.
struct Measured {
    folder: Folder,
    name: String,
    settings: Settings,
    /// Empty until the part begins that is captured, where not all is.
    running: OnceLock<Option<Running>>,
    /// The range that is captured, if one is.
    range: Option<Captured>,
    /// What a runtime of OpenACC has given us.
    openacc_register: OnceLock<OpenAccRegister>,
}

/// What measures it.
struct Running {
    profiler: Profiler,
    tool: NvtxTool,
    openacc: OpenAcc,
    snapshots: Snapshots,
}

/// What is measured here, and begins to be where nothing is yet, and after a fork.
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

/// What is measured here, for an entry point. A child that is forked off while it begins would wait for ever: NVTX has
/// it wait for the thread that enters, which is not in the child.
fn enter() -> Option<&'static Measured> {
    snapshot::watch_forks(after_fork_in_child);
    if system::is_unmarked() {
        become_child(); // before it waits for a thread of its parent
    }
    match PROCESSES.get(FORKS.load(Acquire)).and_then(OnceLock::get) {
        Some(begun) => begun.as_ref(),
        None => snapshot::while_not_forking(current),
    }
    .filter(|_| !has_given_up())
}

/// In a process that the system call `clone` has made, which calls no handler of forks.
#[cold]
fn become_child() {
    begin_child();
    after_fork_in_child();
}

/// A line for a process that is the child of so many others, each forked off the one before.
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

/// A line on standard error says why, where this process cannot be measured. It runs on.
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

    /// What measures this process from now on, if nothing did before.
    fn run(&'static self) -> Option<&'static Running> {
        watch_forks();
        let start = || snapshot::while_not_forking(|| system::without_signals(|| self.start()));
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

    /// Measures from the program's `cudaProfilerStart` to its `cudaProfilerStop`. The driver calls us inside `cuInit`.
    fn wait_for_profiler_start(&self) {
        fn called(begins: bool) {
            let Some(measured) = current() else { return };
            if begins {
                measured.run().inspect(|running| running.begin(measured));
            } else if let Some(Some(running)) = measured.running.get() {
                running.profiler.end(true);
            }
        }
        if let Err(error) = system::without_signals(|| watch_profiler(called)) {
            let process = std::process::id();
            complain(&format!("process {process} is not measured: cudaProfilerStart is seen by CUPTI alone. {error}"));
        }
    }

    fn start(&self) -> Result<Running, ConfigError> {
        let mut builder = Profiler::builder().environment(false).nvtx(false).gpu_when_injected(true);
        for text in &self.settings.texts {
            builder = builder.settings(text).0; // the command has said what is wrong with them
        }
        let summary = folder::literal(&self.folder.summary(&self.name));
        let profiler = builder.output(Output::None).files(self.settings.files.clone()).json(summary);
        let profiler = profiler.row_file(self.folder.rows(&self.name), rows_missed).build()?;
        if IN_CUDA.load(Acquire) {
            profiler.collect_in_injection();
        }
        let snapshots = Snapshots::new(self.folder.clone(), self.name.clone());
        let openacc = profiler.openacc(); // in a forked child, too, where the runtime registers nothing again
        Ok(Running { tool: profiler.nvtx_tool(), openacc, profiler, snapshots })
    }

    /// What measures now.
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
            running.profiler.end(true);
        }
    }
}

impl Running {
    /// What begins with the measuring, and was not known to be due before.
    fn begin(&'static self, measured: &Measured) {
        let openacc = measured.openacc_register.get();
        openacc.inspect(|register| self.openacc.register(**register));
        if openacc.is_some() || IN_CUDA.load(Acquire) {
            self.start_threads();
        }
    }

    /// Where more is measured than ranges, or their rows are in no file. Else nothing of ours runs in the process but
    /// what it calls: it has no thread of ours.
    fn start_threads(&'static self) {
        self.profiler.measures_more();
        self.snapshots.start(&self.profiler);
        self.finish_on_signal();
    }

    /// Where files are written, too.
    fn finish_on_signal(&self) {
        on_own_stack(|| system::without_signals(|| self.profiler.finish_on_signal()));
    }
}

/// Whether CUDA has called us, inside `cuInit`. A forked child cannot use what its parent began.
static IN_CUDA: AtomicBool = AtomicBool::new(false);

/// What was measured before is the parent's.
extern "C" fn after_fork_in_child() {
    system::mark_process();
    FORKS.fetch_add(1, Release);
    IN_CUDA.store(false, Release);
    snapshot::after_fork_in_child();
}

/// For ends of a process that run no `atexit` handler.
extern "C" fn end() {
    if let Some(running) = running() {
        running.profiler.end(false);
    }
}

/// Snapshots stand for rows that had no room in their file.
fn rows_missed() {
    if let Some(running) = running().filter(|_| !has_given_up()) {
        running.start_threads();
    }
}

/// What measures this process, if it does.
fn running() -> Option<&'static Running> {
    PROCESSES.get(FORKS.load(Acquire))?.get()?.as_ref()?.running.get()?.as_ref()
}

/// A range that begins after the memory of this process is used up.
#[cold]
fn drop_range(call: &Call<'_>) {
    if let (Call::Push { .. } | Call::Start { .. }, Some(running)) = (call, running()) {
        running.profiler.drop_range();
    }
}

/// Hands each call to the tool of the process that makes it.
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

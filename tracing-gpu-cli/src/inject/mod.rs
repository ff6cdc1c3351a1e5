//! In a measured process: its profiler, from the first entry point that is called to the end.

pub mod entry;
mod snapshot;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};

use nvtx_rs::tool::{Call, Tool};
use tracing_gpu::{NvtxTool, OpenAcc, Output, Profiler};

use crate::complain;
use crate::folder::Folder;
use crate::system;
use snapshot::Snapshots;

/// The process that measures: its parent, the parent of that and so on are before it, as it was made by `fork` and
/// inherited them. `None` where it could not begin.
static PROCESSES: [OnceLock<Option<Measured>>; 64] = [const { OnceLock::new() }; 64];

/// How often `fork` was called on the way from the first process here.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// One process that is measured.
struct Measured {
    profiler: Profiler,
    tool: NvtxTool,
    openacc: OpenAcc,
    snapshots: Snapshots,
}

/// What is measured here; begins it where nothing is yet, and after a fork.
fn current() -> Option<&'static Measured> {
    PROCESSES.get(FORKS.load(Acquire))?.get_or_init(begin).as_ref()
}

/// A line on standard error says why, where this process cannot be measured. It runs on.
fn begin() -> Option<Measured> {
    let folder = Folder::of_environment()?;
    let begun = snapshot::while_not_forking(|| system::without_signals(|| Measured::begin(&folder)));
    begun.inspect_err(|error| complain(&format!("process {} is not measured: {error}", std::process::id()))).ok()
}

impl Measured {
    fn begin(folder: &Folder) -> Result<Self, Box<dyn std::error::Error>> {
        let texts = folder.read_settings().map_err(|error| format!("{}: {error}", folder.path().display()))?;
        let mut builder = Profiler::builder().environment(false).nvtx(false).on_signal(true);
        for text in texts {
            builder = builder.settings(&text).0; // the command has said what is wrong with them
        }
        let name = folder.begin().map_err(|error| format!("{}: {error}", folder.path().display()))?;
        let profiler = builder.gpu_when_injected(true).output(Output::None).json(folder.summary(&name)).build()?;
        static WATCHED: std::sync::Once = std::sync::Once::new();
        WATCHED.call_once(|| {
            system::at_fork(snapshot::before_fork, snapshot::after_fork_in_parent, after_fork_in_child);
            system::before_quick_exit(end);
            system::after_python(end);
        });
        let snapshots = Snapshots::new(folder.clone(), name);
        Ok(Self { tool: profiler.nvtx_tool(), openacc: profiler.openacc(), profiler, snapshots })
    }
}

/// What was measured before is the parent's.
extern "C" fn after_fork_in_child() {
    FORKS.fetch_add(1, Release);
    snapshot::after_fork_in_child();
}

/// For ends of a process that run no `atexit` handler.
extern "C" fn end() {
    if let Some(Some(measured)) = PROCESSES.get(FORKS.load(Acquire)).and_then(OnceLock::get) {
        measured.profiler.end(false);
    }
}

/// Hands each call to the tool of the process that makes it.
struct OfThisProcess;

impl Tool for OfThisProcess {
    #[inline]
    fn call(&self, call: &Call<'_>) {
        let Some(measured) = current() else { return };
        measured.tool.call(call);
        if matches!(call, Call::Push { .. } | Call::Start { .. }) {
            measured.snapshots.start(&measured.profiler);
        }
    }
}

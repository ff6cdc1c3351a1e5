//! All ways to end a profiler: `finish`, drop, the exit hook, a signal, and without a report. Prints the reports and
//! writes the files.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nvtx_rs::environment::variable;
use parking_lot::Mutex;
use range_model::stats::Lean;
use range_model::{Summary, TreeNode};
use range_report::{RenderOptions, Report, SummaryExt as _};

use super::builder::printed_in;
use super::complaint::complain;
use super::handle::{Inner, NVTX_OWNER, Profiler};
use super::phase::LONGEST_WAIT;
use crate::config::{DEFAULT_REPORTS, Output};
use crate::core::drain::{Cut, End};
use crate::core::thread::engine;
use crate::own_stack::on_own_stack;
use crate::parts::row_file::file::Lost;
use crate::parts::streams::device as stream;
use crate::{outputs, process};

/// All unfinished profilers, for the exit hook.
static LIVE: Mutex<Vec<&'static Inner>> = Mutex::new(Vec::new());

/// The process in which the last of these was started. A forked child inherits this number. It is stored before the
/// list is locked.
static LIVE_IN: AtomicU32 = AtomicU32::new(0);

/// How long the end of the process waits for the GPU in total.
const LAST_PATIENCE: Duration = Duration::from_millis(1_500);

/// Shorter total awaiting gets no table of calls, unless it is asked for.
const LEAST_AWAITED_NS: u128 = 1_000_000;

impl Profiler {
    /// Ends the measurement and prints the reports. Ranges open on this thread are ended and counted, marked as cut;
    /// those open on other threads are named in the footer. From then on spans cost next to nothing.
    ///
    /// Dropping the profiler does the same, with a line on standard error for each error that the start has not
    /// reported.
    ///
    /// # Errors
    ///
    /// When a file cannot be written; the error has a line for each and names the file. If it is the report's file, the
    /// report goes to standard error instead. A standard output or error without a reader is no error.
    pub fn finish(self) -> io::Result<()> {
        together(self.inner.finish(true))
    }

    /// Ends the measurement as dropping the profiler does. `orderly`: the program continues, and the end may wait for
    /// the GPU. Otherwise the end waits only for a short time, as the exit hook does.
    #[doc(hidden)]
    pub fn end(&self, orderly: bool) {
        on_own_stack(|| self.inner.finish_and_complain(orderly));
    }

    /// From now on the profiler finishes before a signal ends the process, unless the settings disable it.
    #[doc(hidden)]
    pub fn finish_on_signal(&self) {
        if self.inner.config.on_signal != Some(false) {
            watch_signals();
        }
    }

    /// Whether the row file has the counts and times of all ranges so far, even if the process crashes.
    #[doc(hidden)]
    #[must_use]
    pub fn keeps_rows(&self) -> bool {
        self.inner.engine.session.parts.row_file.as_ref().is_some_and(|file| file.is_whole())
    }

    /// Whether there is memory for a summary.
    #[doc(hidden)]
    #[must_use]
    pub fn has_memory(&self) -> bool {
        self.inner.has_memory()
    }

    /// Notes in the row file that the profiler measures more than the file contains.
    #[doc(hidden)]
    pub fn measures_more(&self) {
        self.inner.engine.session.parts.row_file.iter().for_each(|file| file.count(Lost::Others));
    }

    /// Counts a range that is not measured.
    #[doc(hidden)]
    pub fn drop_range(&self) {
        self.inner.engine.session.drop_span();
    }

    /// Ends the profiler without a report.
    pub(crate) fn cancel(self) {
        self.inner.abandon();
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        self.inner.finish_and_complain(true);
    }
}

impl Inner {
    /// Registers this profiler for the exit hook.
    pub(super) fn join_live(&'static self) {
        LIVE_IN.store(self.process, Relaxed);
        LIVE.lock().push(self);
    }

    /// Stops measuring and takes the profiler off the exit hook's list, so that nothing is printed.
    fn abandon(&'static self) {
        self.engine.session.gate.close();
        self.sampler.get().inspect(|sampler| sampler.finish());
        self.periodic.get().inspect(|periodic| periodic.stop());
        #[cfg(feature = "otlp")]
        self.pusher.get().inspect(|pusher| pusher.stop());
        if let Some(collector) = self.collector() {
            collector.finish(false);
        }
        if let Some(recorder) = self.recorder.get() {
            recorder.abandon(); // before another profiler may take its files
        }
        self.end();
    }

    /// Releases everything that a live profiler holds, and wakes threads that wait for the end.
    fn end(&'static self) {
        LIVE.lock().retain(|live| live.engine.session.id != self.engine.session.id);
        self.claim.give_back();
        #[cfg(feature = "foreign")]
        crate::parts::foreign::tier::linked::give_back(&self.engine);
        let _not_ours = NVTX_OWNER.compare_exchange(self.engine.session.id, 0, AcqRel, Acquire);
        self.ending.complete();
    }

    /// Ends the measurement once; later calls do nothing. `orderly`: the program is alive and may wait for the GPU;
    /// false in an exit hook. Returns the errors of files that could not be written.
    fn finish(&'static self, orderly: bool) -> Vec<io::Error> {
        // A forked child did not do the measuring, and prints nothing.
        if process::has_given_up() || std::process::id() != self.process || !self.ending.begin() {
            return Vec::new();
        }
        if !self.can_summarise() {
            process::give_up();
            self.ending.complete();
            return Vec::new();
        }
        let errors = if self.engine.session.gate.close() { self.finish_now(orderly) } else { Vec::new() };
        self.end();
        errors
    }

    /// Whether this process may make its summary, or must leave it to the command, which reads the row file.
    fn can_summarise(&self) -> bool {
        !self.is_interrupted() && (self.engine.session.parts.row_file.is_none() || self.has_memory())
    }

    /// Whether a call was interrupted by the signal handler that ends the process, and the command makes the summary.
    fn is_interrupted(&self) -> bool {
        self.engine.session.parts.row_file.is_some() && engine::is_interrupted()
    }

    /// Whether there is memory for a summary: without it, Rust would abort the process. The command makes one from the
    /// row file in any case.
    fn has_memory(&self) -> bool {
        const LEAST: usize = 4 << 20;
        const TIMES: usize = 6; // 5.1 for the longest names, 4.1 for short ones, 2.6 for many durations
        let file = self.engine.session.parts.row_file.as_ref();
        file.is_none_or(|file| process::has_memory(file.bytes().saturating_mul(TIMES).saturating_add(LEAST)))
    }

    /// The same, for places that cannot return errors: prints the errors that the start has not reported.
    fn finish_and_complain(&'static self, orderly: bool) {
        let reported = self.reported.get().map_or(&[][..], Vec::as_slice);
        let errors = self.finish(orderly).into_iter().map(|error| error.to_string());
        let news: Vec<String> = errors.filter(|error| !reported.contains(error)).in_vec();
        complain(&news.join("\n"));
    }

    fn finish_now(&'static self, orderly: bool) -> Vec<io::Error> {
        process::without_write_signals(|| self.finish_with_files(orderly))
    }

    fn finish_with_files(&'static self, orderly: bool) -> Vec<io::Error> {
        let began = Instant::now();
        self.sampler.get().inspect(|sampler| sampler.finish());
        self.periodic.get().inspect(|periodic| periodic.stop());
        let patience = || (!orderly).then(|| LAST_PATIENCE.saturating_sub(began.elapsed()));
        let cut = self.engine.own_thread().map(|thread| Cut {
            labels: thread.unwind().into_iter().filter_map(|place| Some(thread.identity(place)?.key.label)).in_vec(),
            thread: thread.name.lock().clone(),
        });
        if let Some(collector) = self.collector() {
            collector.finish(orderly);
        }
        if self.engine.session.parts.gpu {
            stream::read_all(patience());
        }
        let at = self.engine.session.clock.now();
        if let Some(recorder) = self.recorder.get() {
            recorder.complete(); // the summary then includes its losses
        }
        let end = End { cut, at, patience: patience() };
        let mut summary = self.summarise(Some(&end), None);
        let _first = self.ended.set(at);
        self.write_last_window(&end);
        #[cfg(feature = "otlp")]
        summary.notes.extend(self.push_last(&end));
        if let Some(recorder) = self.recorder.get() {
            recorder.finish_folds(&mut summary);
        }
        let mut errors: Vec<io::Error> = self.print(&summary).err().into_iter().in_vec();
        let row_file = self.engine.session.parts.row_file.as_ref();
        let failed = outputs::write_at_end(&self.config, &summary);
        let has_summary = failed.iter().all(|(key, _)| *key != "json");
        // In place of a summary that cannot be written, the command reads the row file.
        let failed = failed.into_iter().filter(|(key, _)| row_file.is_none() || *key != "json");
        errors.extend(failed.map(|(_, error)| error));
        if let Some(recorder) = self.recorder.get() {
            errors.extend(recorder.finish(&summary));
        }
        if let Some(file) = row_file.filter(|_| has_summary) {
            file.remove();
        }
        let _first = self.last.set(summary);
        errors
    }

    fn print(&self, summary: &Summary) -> io::Result<()> {
        let options = |descriptor| {
            let columns = process::terminal_columns(descriptor);
            let options = self.config.render_options().color(self.config.color.unwrap_or(columns.is_some()));
            columns.map_or(options, |columns| options.width(columns))
        };
        if !self.config.prints() {
            return Ok(());
        }
        let (process, reports) = (&summary.process, self.reports(summary));
        match &self.config.output {
            Output::None => Ok(()),
            Output::Stderr => {
                tell_command(reports, process.pid);
                of_stream("standard error", summary.render(reports, &options(2), io::stderr()))
            }
            Output::Stdout => {
                tell_command(reports, process.pid);
                of_stream("standard output", summary.render(reports, &options(1), io::stdout()))
            }
            Output::File(path) => {
                self.print_to(&outputs::path::expand(path, process), summary, &options(-1).color(false))
            }
        }
    }

    /// The reports to print. By default, calls are left out if they awaited next to nothing.
    fn reports(&self, summary: &Summary) -> &[Report] {
        match self.config.reports.as_slice() {
            reports if reports == DEFAULT_REPORTS && !is_awaiting_worth_it(summary) => &[Report::Tree, Report::Ranges],
            reports => reports,
        }
    }

    fn print_to(&self, path: &Path, summary: &Summary, options: &RenderOptions) -> io::Result<()> {
        let mut text = Vec::new();
        summary.render(self.reports(summary), options, &mut text)?;
        outputs::REPORT.write(path, &text).inspect_err(|_| {
            // The report matters more than its destination.
            let _nowhere_left = io::Write::write_all(&mut io::stderr(), &text);
        })
    }
}

/// Whether calls awaited long enough for a table of their own: at least 1 ms, and 1 % of the time in spans.
fn is_awaiting_worth_it(summary: &Summary) -> bool {
    let awaited: u128 = summary.calls.iter().map(|row| row.awaited_self_ns).total();
    awaited >= LEAST_AWAITED_NS && awaited * 100 >= self_time(&summary.tree)
}

fn self_time(nodes: &[TreeNode]) -> u128 {
    nodes.iter().map(|node| u128::from(node.self_ns) + self_time(&node.children)).sum()
}

/// Finishes every unfinished profiler. For exits that drop no guard.
pub(super) extern "C" fn finish_all() {
    // A forked child prints nothing unless it started a profiler itself: a thread that does not exist in the child may
    // hold the lock.
    if LIVE_IN.load(Relaxed) != std::process::id() {
        return;
    }
    on_own_stack(|| {
        let Some(live) = LIVE.try_lock_for(LONGEST_WAIT) else { return };
        if live.iter().any(|inner| inner.is_interrupted()) {
            return process::give_up(); // without memory: the thread may be inside the allocator
        }
        let all = live.clone();
        drop(live);
        all.into_iter().for_each(|inner| inner.finish_and_complain(false));
    });
}

/// If the command `tracing-gpu` measures this program too, tells it which reports this process prints, so that its own
/// report leaves them out.
fn tell_command(reports: &[Report], process: u32) {
    let Some(run) = variable("TRACING_GPU_RUN") else { return };
    let names: Vec<&str> = reports.iter().map(|report| report.name()).in_vec();
    let _prints_it_again = std::fs::write(printed_in(Path::new(&run), process), names.join("+"));
}

/// The result of printing to a stream of the program. A stream without a reader (`| head`) is no error.
fn of_stream(stream: &str, printed: io::Result<()>) -> io::Result<()> {
    match printed {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write the report to {stream}: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// Several errors as one, with the kind of the first and a line for each.
fn together(errors: Vec<io::Error>) -> io::Result<()> {
    let Some(kind) = errors.first().map(io::Error::kind) else { return Ok(()) };
    let lines: Vec<String> = errors.iter().map(io::Error::to_string).in_vec();
    Err(io::Error::new(kind, lines.join("\n")))
}

/// Finishes the profilers before a signal ends the process.
pub(super) fn watch_signals() {
    #[cfg(unix)]
    if let Err(error) = crate::signals::finish_on_signal(finish_all) {
        complain(&format!("SIGINT and SIGTERM print no report: cannot start the thread for it: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use range_model::{CallStats, Times};

    use super::*;

    #[test]
    fn microseconds_of_awaiting_are_no_table() {
        for (awaited_us, own_ms, expected) in [
            (0, 0, false),
            (999, 0, false),
            (1_000, 0, true),
            (1_000, 100, true),
            (1_000, 101, false),
            (80_000, 7_000, true),
            (80_000, 8_001, false),
        ] {
            let mut summary = Summary::default();
            let mut call = CallStats::new("request", Times::new(1, 1));
            call.awaited_self_ns = awaited_us * 1_000;
            summary.calls.push(call);
            let (mut root, mut child) = (TreeNode::new("root"), TreeNode::new("child"));
            child.self_ns = own_ms * 1_000_000;
            root.children.push(child);
            summary.tree.push(root);
            assert_eq!(is_awaiting_worth_it(&summary), expected, "{awaited_us} us of {own_ms} ms");
        }
    }
}

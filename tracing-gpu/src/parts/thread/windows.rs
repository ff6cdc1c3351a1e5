//! Threads and windows begin and end: what that means for the parts.

use std::sync::atomic::Ordering::Relaxed;

use crate::clock::Ticks;
use crate::core::record::{CallId, Ended, OnCpu};
use crate::core::thread::state::ThreadState;
use crate::parts::calls::thread::call_row::CallRow;
use crate::parts::timeline::thread::tape::Record;
use crate::parts::waits::thread::woken::WOKEN;
#[cfg(feature = "injection")]
use crate::process;

impl ThreadState {
    /// A thread with this number of the operating system has this state from now on, and a name.
    pub(crate) fn begin_parts(&self, thread: u32) {
        self.parts.numbers.iter().for_each(|numbers| numbers.begin_thread());
        if self.session.parts.on_cpu {
            self.parts.cpu_time.begin_thread();
        }
        self.parts.waits.begin_thread();
        self.flags.looks_again.store(false, Relaxed);
        #[cfg(feature = "cuda")]
        self.parts.helper.get().into_iter().for_each(|helper| helper.begin_thread());
        self.parts.launches.set_thread(thread, self.session);
        let (woken, by) = WOKEN.get();
        self.set_woken(woken, &by);
        self.session.log_thread(self.index, thread, &self.name.lock());
        self.record(|| Record::Thread { name: self.name.lock().as_str().into() });
    }

    /// The thread has this name from now on.
    #[cfg(feature = "injection")]
    pub(crate) fn rename_in_parts(&self, thread: u32, name: &str, is_new: bool) {
        if is_new {
            process::undisturbed(|| self.session.log_thread(self.index, thread, name));
        }
        self.record(|| Record::Thread { name: name.into() });
    }

    /// Forgets the open untracked ranges of other code on this thread.
    pub(crate) fn forget_untracked(&self) {
        if self.flags.has_untracked.swap(false, Relaxed) {
            self.known.lock().parts.untracked.clear();
        }
    }

    /// The thread that had this state has ended, and its open ranges are about to be forgotten.
    pub(crate) fn begin_abandon(&self) {
        self.forget_untracked();
        self.session.parts.calls.settle(&self.parts.spare_calls);
        self.parts.pairs.abandon(|_| true);
    }

    /// An open range of such a thread is forgotten.
    pub(crate) fn abandon_range(&self, ended: &Ended, call: CallId) {
        self.session.parts.calls.exit(self.index, call, ended.entered, OnCpu::default());
    }

    /// All open ranges of such a thread are forgotten.
    pub(crate) fn end_abandon(&self) {
        self.parts.launches.end_gone(&self.around(), self.now());
        self.parts.launches.leave_lifetimes();
        #[cfg(feature = "injection")]
        self.parts.openacc.get().into_iter().for_each(|log| log.abandon());
    }

    /// A window begins. The rows are empty, and the open ranges still have their starts.
    pub(crate) fn restart_parts(&self, start: Ticks) {
        for row in self.call_rows() {
            row.clear();
        }
        self.parts.waits.restart();
        for depth in 0..self.stack.depth() {
            if let Some((_, before)) = self.stack.at(depth).filter(|&(_, before)| before < start) {
                self.record(|| Record::Restarted { depth: depth as u32, before, start });
            }
        }
        #[cfg(feature = "injection")]
        self.parts.openacc.get().into_iter().for_each(|log| log.restart(start));
    }

    /// The operating system's number of the thread that owns this state.
    pub(crate) fn thread_id(&self) -> u32 {
        self.parts.launches.thread()
    }

    /// All rows of calls. On any thread.
    pub(crate) fn call_rows(&self) -> impl Iterator<Item = &'static CallRow> {
        self.parts.call_rows.iter()
    }
}

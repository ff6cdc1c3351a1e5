//! What the parts keep for a session.

mod activity;

use std::sync::Arc;
#[cfg(feature = "cuda")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU32;

use range_model::stats::Keyed;
use tracing_core::Metadata;

use crate::clock::{Clock, Ticks};
use crate::core::budget::{Budget, SampleMemory};
use crate::parts::batches::session::Batches;
use crate::parts::calls::session::table::Calls;
use crate::parts::foreign::session::{FOREIGN, Foreign, ForeignDomains};
#[cfg(feature = "cuda")]
use crate::parts::launches::session::NoteRoom;
use crate::parts::row_file::file::{Lost, RowFile};
use crate::parts::splits::session::split::Split;
use crate::parts::streams::device::StreamTotals;
use crate::parts::timeline::session::TapeRoom;
use crate::parts::values::span::misread::MisreadValues;
use crate::parts::values::span::values::is_unknown_field;
use crate::parts::waits::session::asked_values::AskedValues;
use crate::parts::waits::session::endings::AllEndings;
use crate::parts::waits::session::task_wakes::TaskWakes;

/// The settings of the parts.
#[derive(Default)]
pub(crate) struct PartOptions {
    /// As in `Config`.
    pub(crate) on_cpu: Option<bool>,
    pub(crate) gpu: bool,
    pub(crate) whole_names: bool,
    /// Room for records that wait to be written to a timeline; `None` if neither a timeline nor a fold needs records.
    pub(crate) tape_room: Option<TapeRoom>,
    /// Keeps rows beyond the end of the process.
    pub(crate) row_file: Option<Arc<RowFile>>,
}

impl PartOptions {
    /// Memory for single durations that stays beyond the end of the process.
    pub(crate) fn sample_memory(&self) -> Option<Arc<dyn SampleMemory>> {
        self.row_file.clone().map(|file| -> Arc<dyn SampleMemory> { file })
    }
}

/// What the parts of one session share among all threads.
#[derive(Debug)]
pub(crate) struct OfSession {
    /// Whether the processor time of long ranges is read; and of those of other code, too. A tool that gets these as
    /// well counts the reading as their time.
    pub(crate) on_cpu: bool,
    pub(crate) on_cpu_of_others: bool,
    pub(crate) gpu: bool,
    pub(crate) streams: StreamTotals,
    /// Whether a span has named a stream by its field, so that spans below must look for it.
    pub(crate) has_streams: std::sync::atomic::AtomicBool,
    /// Whether the GPU's work is collected, so that threads note the ranges around their launches.
    #[cfg(feature = "cuda")]
    pub(crate) is_collecting: AtomicBool,
    /// Room for the notes of threads until they are collected.
    #[cfg(feature = "cuda")]
    pub(crate) note_room: NoteRoom,
    /// Room for a timeline's records, if there is one.
    pub(crate) tape_room: Option<TapeRoom>,
    pub(crate) calls: Calls,
    pub(crate) batches: Batches,
    /// What has ended last on each thread, once a call has waited for long.
    pub(crate) endings: AllEndings,
    pub(crate) task_wakes: TaskWakes,
    pub(crate) values: AskedValues,
    pub(crate) misread: MisreadValues,
    /// How many call sites, formerly split by a field, are whole. When it changes, threads' caches of split sites are
    /// out of date.
    pub(crate) whole_sites: AtomicU32,
    pub(crate) foreign: Foreign,
    pub(crate) row_file: Option<Arc<RowFile>>,
    /// OpenACC events on threads that are being torn down.
    #[cfg(feature = "injection")]
    pub(crate) openacc_unfollowed: std::sync::atomic::AtomicU64,
}

impl OfSession {
    /// The parts of a session with this clock, whose first window begins then.
    pub(crate) fn new(
        options: PartOptions,
        statistics: bool,
        clock: &Clock,
        window: Ticks,
        budget: &Arc<Budget>,
    ) -> Self {
        Self {
            on_cpu: options.on_cpu.unwrap_or(true) && statistics,
            on_cpu_of_others: options.on_cpu.unwrap_or(false) && statistics,
            gpu: options.gpu,
            streams: StreamTotals::new(window, Arc::clone(budget)),
            has_streams: Default::default(),
            #[cfg(feature = "cuda")]
            is_collecting: AtomicBool::new(false),
            #[cfg(feature = "cuda")]
            note_room: NoteRoom::default(),
            tape_room: options.tape_room,
            calls: Calls::new(clock),
            batches: Batches::default(),
            endings: AllEndings::new(clock),
            task_wakes: TaskWakes::default(),
            values: AskedValues::new(),
            misread: MisreadValues::default(),
            whole_sites: AtomicU32::new(0),
            foreign: Foreign::new(options.whole_names),
            row_file: options.row_file,
            #[cfg(feature = "injection")]
            openacc_unfollowed: Default::default(),
        }
    }

    /// A span's call site is met for the first time.
    pub(crate) fn meet(&self, key: u64, metadata: &'static Metadata<'static>) {
        let unknown = metadata.fields().iter().map(|field| field.name()).filter(|name| is_unknown_field(name));
        unknown.for_each(|field| self.misread.tell_unknown(key, metadata, field));
    }

    /// Resets the counts of losses, before a new window begins.
    pub(crate) fn forget_losses(&self) {
        self.calls.forget_losses();
        self.batches.forget_losses();
        #[cfg(feature = "injection")]
        self.openacc_unfollowed.store(0, std::sync::atomic::Ordering::Relaxed);
    }

    /// A new window begins then: before any thread times a range of it.
    pub(crate) fn restart(&self, start: Ticks) {
        self.streams.restart(start);
    }

    /// The front end was dropped: nobody sees the end of spans.
    pub(crate) fn leave(&self) {
        self.batches.forget();
    }

    /// The thread with this number ends.
    pub(crate) fn leave_thread(&self, thread: u32) {
        self.calls.leave_spans(thread);
    }

    /// A span is in no row.
    pub(crate) fn drop_span(&self) {
        self.row_file.iter().for_each(|file| file.count(Lost::Spans));
    }
}

/// What the parts know of names.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfNames {
    /// Split call sites, by their addresses.
    pub(crate) splits: Keyed<u64, Split>,
    /// The number of spans without a value at creation, by call site with such fields.
    pub(crate) unsplit: Keyed<u64, u32>,
    /// Call sites of the labels that come from field values.
    pub(crate) split_labels: Keyed<u32, &'static Metadata<'static>>,
    /// Call sites whose fields a timeline shows, by their addresses.
    pub(crate) with_fields: Keyed<u64, &'static Metadata<'static>>,
    pub(crate) foreign_domains: ForeignDomains,
}

impl OfNames {
    /// Name of a domain of other code, `None` for the default one; or `None` if it is a domain of our own.
    pub(crate) fn domain_name(&self, domain: u32) -> Option<Option<&'static str>> {
        (domain & FOREIGN != 0).then(|| self.foreign_domains.name(domain))
    }

    /// Copies what a copy for windows needs.
    pub(crate) fn catch_up(&mut self, with: &Self) {
        let Self { splits, unsplit: _, split_labels, with_fields, foreign_domains } = with;
        self.splits.clone_from(splits);
        self.split_labels.clone_from(split_labels);
        self.with_fields.clone_from(with_fields);
        self.foreign_domains.clone_from(foreign_domains);
    }
}

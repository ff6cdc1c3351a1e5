//! CUPTI for the tests, in plain data.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;

use gpu_activity::cupti::decode::{Record, Records, Step};
use gpu_activity::cupti::library::Library;
use gpu_activity::cupti::{ENQUEUE, Filled, Options, PROFILER, Session, Sink, Strides, start};
use gpu_activity::graph::GraphChange;
use gpu_activity::record::{Api, ApiCall, Detail, Details, GpuOp};
use gpu_activity::source::{Lost, Recorded, Source};
use range_model::Note;
use range_model::timeline::{ApiRecords, Graphs};

/// A loaded libcupti.
pub struct Cupti {
    library: Library,
    strides: Strides,
}

/// A record for the tests, with the address of a kernel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// An operation.
    Op(GpuOp, u64),
    /// A call.
    Call(ApiCall),
    /// A detail.
    Detail(Detail),
    /// A kind that is not read.
    Other,
}

impl Cupti {
    /// Loads the library at this path, or returns the reason for a failure. The driver must be loaded before.
    pub fn open(path: &Path) -> Result<Self, String> {
        Library::open(path).map(Self::of).map_err(|reason| reason.to_string())
    }

    /// Finds the library as a session does, for a driver of this version.
    pub fn find(driver_version: i32) -> Result<Self, String> {
        Library::find(driver_version).map(Self::of).map_err(|reason| reason.to_string())
    }

    fn of(library: Library) -> Self {
        let strides = library.strides();
        Self { library, strides }
    }

    /// The file from which it was loaded.
    #[must_use]
    pub fn path(&self) -> &str {
        self.library.path()
    }

    /// Its version as a number and in words.
    #[must_use]
    pub fn version(&self) -> (u32, String) {
        (self.library.version(), self.library.version_name())
    }

    /// Whether it can record calls of chosen functions.
    #[must_use]
    pub fn records_functions(&self) -> bool {
        self.library.records_functions()
    }

    /// Bytes of a record of this kind.
    #[must_use]
    pub fn stride(&self, kind: u32) -> Option<usize> {
        self.strides.of(kind)
    }

    /// The places of records by the library itself, and the code that ended its walk.
    pub fn places(&self, buffer: &mut [u8]) -> (Vec<usize>, i32) {
        let mut places = Vec::new();
        loop {
            match self.library.next_record(buffer, places.last().copied()) {
                Ok(place) => places.push(place),
                Err(code) => return (places, code),
            }
        }
    }

    /// The decoded records and their places; and whether the decoder reached the end.
    #[must_use]
    pub fn decode(&self, buffer: &[u8]) -> (Vec<(usize, Decoded)>, bool) {
        let (mut records, mut found) = (Records::new(buffer, &self.strides), Vec::new());
        loop {
            let place = records.place();
            let decoded = match records.step() {
                Step::Record(Record::Op { op, name }) => Decoded::Op(op, name),
                Step::Record(Record::Call(call)) => Decoded::Call(call),
                Step::Record(Record::Detail(detail)) => Decoded::Detail(detail),
                Step::Record(Record::Other) => Decoded::Other,
                last => return (found, last == Step::End),
            };
            found.push((place, decoded));
        }
    }

    /// Name of a function.
    #[must_use]
    pub fn function_name(&self, api: Api, number: u32) -> Option<String> {
        self.library.function_name(api, number)
    }
}

/// The driver functions that are known by number, with their names.
pub fn known_functions() -> impl Iterator<Item = (u32, &'static str)> {
    ENQUEUE.iter().chain(&PROFILER).copied()
}

/// A session and its output.
#[derive(Clone, Copy)]
pub struct Recording {
    session: &'static Session,
    seen: &'static Collector,
}

/// The calls and records that a session passed to its sink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Function and correlation id of the calls entered.
    pub entered: Vec<(u32, u32)>,
    /// Operations.
    pub ops: Vec<GpuOp>,
    /// Calls.
    pub calls: Vec<ApiCall>,
    /// Records that could not be read.
    pub unreadable: u64,
    /// Discarded records.
    pub over_budget: u64,
}

#[derive(Default)]
struct Collector(Mutex<(Seen, Vec<Filled>)>, AtomicBool);

impl Sink for Collector {
    fn entered(&self, function: u32, correlation: u32, _enqueues: bool) {
        if !self.1.load(Relaxed) {
            self.0.lock().0.entered.push((function, correlation));
        }
    }

    fn forked(&self) {
        self.1.store(true, Relaxed);
    }

    fn filled(&self, buffer: Filled) {
        self.0.lock().1.push(buffer);
    }

    fn span(&self) -> u32 {
        0
    }

    fn changed(&self, _: GraphChange) {}

    fn lost(&self, records: Lost) {
        let seen = &mut self.0.lock().0;
        seen.unreadable += records.unreadable;
        seen.over_budget += records.over_budget;
    }
}

impl Recording {
    /// Starts a session, or returns the reason why it cannot start.
    pub fn start(api_records: ApiRecords, buffer_bytes: usize) -> Result<Self, String> {
        Self::of(Options { api_records, details: Details::NONE, graphs: Graphs::Nodes, buffer_bytes, in_init: false })
    }

    /// Starts a session that records graphs as a whole.
    pub fn of_whole_graphs(buffer_bytes: usize) -> Result<Self, String> {
        let graphs = Graphs::Whole;
        Self::of(Options {
            api_records: ApiRecords::None,
            details: Details::NONE,
            graphs,
            buffer_bytes,
            in_init: false,
        })
    }

    fn of(options: Options) -> Result<Self, String> {
        let seen: &'static Collector = Box::leak(Box::default());
        let session = start(options, seen).map_err(|reason| reason.to_string())?;
        Ok(Self { session, seen })
    }

    /// Whether it wants to be flushed.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.session.is_due()
    }

    /// Records nodes of graphs from now on.
    pub fn record_nodes(&self) {
        self.session.record_nodes();
    }

    /// The output since the last call.
    #[must_use]
    pub fn take(&self) -> Seen {
        let (mut seen, buffers) = std::mem::take(&mut *self.seen.0.lock());
        for mut buffer in buffers {
            seen.unreadable += self.session.read_buffer(&mut buffer, |record| match record {
                Recorded::Op(op) => seen.ops.push(op),
                Recorded::Call(call) => seen.calls.push(call),
                Recorded::Detail(detail) => panic!("nobody asked for {detail:?}"),
                Recorded::Graph(_) => {}
            });
        }
        seen
    }

    /// Keeps the buffers that came for the reader.
    pub fn keep_buffers(&self) {
        self.seen.0.lock().1.drain(..).for_each(|buffer| self.session.keep(buffer));
    }

    /// Reads all that is kept.
    pub fn read(&self) {
        self.session.hold();
        let _losses = self.session.read(&mut |_| {});
    }

    /// Keeps so many changes of graphs for the reader.
    pub fn keep_changes(&self, number: usize) {
        (0..number).for_each(|_| self.session.keep_change(GraphChange::Instantiated { graph: 1 }));
    }

    /// Makes CUPTI deliver complete buffers.
    pub fn flush(&self) {
        self.session.flush();
    }

    /// Ends the session.
    pub fn finish(&self, orderly: bool) {
        let _all = self.session.finish(orderly);
    }

    /// Records that CUPTI dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.session.dropped()
    }

    /// Name of a kernel.
    #[must_use]
    pub fn kernel_name(&self, id: u32) -> Option<String> {
        self.session.kernel(id).map(|(name, _)| name.to_string())
    }

    /// Name of a function.
    #[must_use]
    pub fn function_name(&self, api: Api, number: u32) -> Option<String> {
        self.session.function(api, number).map(|name| name.to_string())
    }

    /// Library and driver.
    #[must_use]
    pub fn describe(&self) -> Note {
        self.session.describe()
    }
}

//! What the tests of this workspace see of CUPTI, in plain data. No promise of stability.

use std::path::Path;

use super::decode::{Record, Records, Step};
use super::library::Library;
use super::session::start;
use super::strides::Strides;
use super::{Batch, Options, Sink, calls};
use crate::activity::{Api, ApiCall, GpuOp};

/// A loaded libcupti.
pub struct Cupti {
    library: Library,
    strides: Strides,
}

/// A record as the tests see it, with the address of a kernel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// An operation.
    Op(GpuOp, u64),
    /// A call.
    Call(ApiCall),
    /// A kind that is not read.
    Other,
}

impl Cupti {
    /// Loads the library at this path, or says why not. The driver is to be loaded before.
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

    /// The file that it came from.
    #[must_use]
    pub fn path(&self) -> &str {
        self.library.path()
    }

    /// Its version, as it says, and in words.
    #[must_use]
    pub fn version(&self) -> (u32, String) {
        (self.library.version(), self.library.version_name())
    }

    /// Bytes of a record of this kind.
    #[must_use]
    pub fn stride(&self, kind: u32) -> Option<usize> {
        self.strides.of(kind)
    }

    /// Where the library itself sees records begin, and the code that ended its walk.
    pub fn places(&self, buffer: &mut [u8]) -> (Vec<usize>, i32) {
        let mut places = Vec::new();
        loop {
            match self.library.next_record(buffer, places.last().copied()) {
                Ok(place) => places.push(place),
                Err(code) => return (places, code),
            }
        }
    }

    /// The records that the decoder sees, and where they begin; and whether it came to the end.
    #[must_use]
    pub fn decode(&self, buffer: &[u8]) -> (Vec<(usize, Decoded)>, bool) {
        let (mut records, mut found) = (Records::new(buffer, &self.strides), Vec::new());
        loop {
            let place = records.place();
            let decoded = match records.step() {
                Step::Record(Record::Op { op, name }) => Decoded::Op(op, name),
                Step::Record(Record::Call(call)) => Decoded::Call(call),
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

/// The functions of the driver that enqueue, by number and name.
#[must_use]
pub fn enqueueing() -> &'static [(u32, &'static str)] {
    calls::ENQUEUE
}

/// Starts a session that tells nobody and ends it, or says why none can start.
pub fn try_session(api_records: bool) -> Result<String, String> {
    struct Nobody;
    impl Sink for Nobody {
        fn entered(&self, _function: u32, _correlation: u32) {}
        fn records(&self, _batch: Batch) {}
    }
    let session = start(Options { api_records, buffer_bytes: 0 }, &Nobody).map_err(|reason| reason.to_string())?;
    let described = session.describe();
    session.finish(true);
    Ok(described)
}

//! TODO crate::parts

pub(crate) mod batches;
pub(crate) mod calls;
pub(crate) mod cpu_time;
pub(crate) mod foreign;
pub(crate) mod launches;
pub(crate) mod off_cpu;
pub(crate) mod openacc;
pub(crate) mod row_file;
pub(crate) mod splits;
pub(crate) mod streams;
pub(crate) mod timeline;
pub(crate) mod waits;

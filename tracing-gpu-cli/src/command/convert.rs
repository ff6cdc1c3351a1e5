//! `tracing-gpu convert`: datasets for DuckDB and Spark, from files that were written before.

use std::io;
use std::time::Duration;

use tracing_gpu::Parquet;
use tracing_gpu::import::{Identity, database};

use super::options::Convert;
use super::report;

/// Writes the datasets, and prints what is in them.
pub(super) fn convert(asked: &Convert) -> io::Result<()> {
    let Convert { input, folder, .. } = asked;
    let mut identity = Identity::default();
    (identity.run_id, identity.host, identity.rank) = (asked.run.clone(), asked.host.clone(), asked.rank);
    // Files are closed by their size alone: nothing is lost that could not be converted again.
    let done = database(input, &identity, &mut |_| Box::new(Parquet::new(folder, || Duration::ZERO)))
        .map_err(|error| io::Error::other(format!("`{}` {error}", input.display())))?;
    let (processes, ranges, calls, operations, api) =
        (done.processes, done.ranges, done.calls, done.operations, done.api_calls);
    let mut text = format!(
        "processes: {processes}, ranges: {ranges}, calls: {calls}, GPU operations: {operations}, API calls: {api}\n"
    );
    if done.lost_fields > 0 {
        text += &format!("fields that were left out: {}\n", done.lost_fields);
    }
    report::print(text.as_bytes())
}

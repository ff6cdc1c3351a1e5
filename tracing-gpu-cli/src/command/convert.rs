//! `tracing-gpu convert`: datasets for DuckDB and Spark, from files that were written before.

use std::io;
use std::time::Duration;

use tracing_gpu::Parquet;
use tracing_gpu::import::{Identity, timeline};

use super::options::Convert;
use super::report;

/// Writes the datasets, and prints what is in them.
pub(super) fn convert(asked: &Convert) -> io::Result<()> {
    report::print(converted(asked)?.as_bytes())
}

/// Writes the datasets. Returns a text that says what is in them.
fn converted(asked: &Convert) -> io::Result<String> {
    let Convert { input, folder, .. } = asked;
    let mut identity = Identity::default();
    (identity.run_id, identity.host, identity.rank) = (asked.run.clone(), asked.host.clone(), asked.rank);
    std::fs::create_dir_all(folder)?;
    // Files are closed by their size alone: nothing is lost that could not be converted again.
    let done = timeline(input, &identity, folder, &mut |_| Box::new(Parquet::new(folder, || Duration::ZERO)))
        .map_err(|error| io::Error::other(format!("`{}` {error}", input.display())))?;
    let (processes, ranges, calls, operations, api) =
        (done.processes, done.ranges, done.calls, done.operations, done.api_calls);
    let mut text = format!(
        "processes: {processes}, ranges: {ranges}, calls: {calls}, GPU operations: {operations}, API calls: {api}\n"
    );
    if done.lost_fields > 0 {
        text += &format!("fields that were left out: {}\n", done.lost_fields);
    }
    if let Some(at) = done.cut {
        text += &format!("the file was cut at byte {at}: what was written later is missing\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;

    /// The names of all files of a folder, below it.
    fn files(folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            match path.is_dir() {
                true => found.extend(files(&path).into_iter().map(|below| format!("{name}/{below}"))),
                false => found.push(name),
            }
        }
        found.sort();
        found
    }

    fn asked(input: PathBuf, folder: &Path) -> Convert {
        let (run, host) = (Some("a/b".to_owned()), Some("node7".to_owned()));
        Convert { input, folder: folder.to_path_buf(), run, host, rank: Some(3) }
    }

    #[test]
    fn a_database_of_nsight_systems_becomes_datasets() {
        let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/attribution/run.sqlite");
        if !input.is_file() {
            return; // a package of this crate alone
        }
        let folder = std::env::temp_dir().join(format!("tracing-gpu-convert-{}", std::process::id()));
        let said = converted(&asked(input, &folder)).unwrap();
        assert!(said.starts_with("processes: 1, ranges: ") && said.ends_with('\n'), "{said}");
        let names = files(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let datasets = names.iter().map(|name| {
            let name = name.strip_prefix("run=a%2Fb/host=node7/rank=3/").unwrap();
            name.split('-').next().unwrap()
        });
        assert_eq!(datasets.collect::<Vec<_>>(), ["api", "copies", "kernels", "ranges"]);
    }

    #[test]
    fn a_file_that_is_neither_is_named() {
        let folder = std::env::temp_dir().join(format!("tracing-gpu-convert-not-{}", std::process::id()));
        let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let said = converted(&asked(input.clone(), &folder)).unwrap_err().to_string();
        // It begins with a bracket, as a trace does.
        let expected = format!("`{}` cannot be read: line 1 is no event of a trace: ", input.display());
        assert!(said.starts_with(&expected), "{said}");
        assert!(files(&folder).is_empty());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

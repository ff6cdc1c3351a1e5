//! The files of datasets below a folder: `run=RUN/host=HOST/rank=RANK/DATASET-PID-NNNN.parquet`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// The columns of each dataset for the engines, one a line.
const SCHEMA: &str = include_str!("../../../queries/schema.json");

/// A dataset: its columns with their types, and its files.
#[derive(Debug, Default)]
pub(super) struct Dataset {
    pub(super) columns: Vec<(&'static str, &'static str)>,
    pub(super) files: Vec<File>,
}

/// A file, and what its folders tell.
#[derive(Debug)]
pub(super) struct File {
    /// Its path from the folder of all datasets.
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) run: String,
    pub(super) host: String,
    pub(super) rank: Option<i64>,
}

/// All datasets by their names, also those without files.
pub(super) type Datasets = BTreeMap<&'static str, Dataset>;

/// Finds all files. A folder without any is an error.
pub(super) fn find(folder: &Path) -> io::Result<Datasets> {
    let mut datasets = declared();
    let named = |error: io::Error| io::Error::new(error.kind(), format!("`{}`: {error}", folder.display()));
    for run in parts(folder, "run=").map_err(named)? {
        for host in parts(&folder.join(&run), "host=")? {
            let place = format!("{run}/{host}");
            for rank in parts(&folder.join(&place), "rank=")? {
                let place = format!("{place}/{rank}");
                let value = |part: &str| decoded(part.split_once('=').map_or("", |(_, value)| value));
                for name in parts(&folder.join(&place), "")? {
                    let dataset = name.split_once('-').and_then(|(dataset, _)| datasets.get_mut(dataset));
                    let (Some(dataset), true) = (dataset, name.ends_with(".parquet")) else { continue };
                    let path = format!("{place}/{name}");
                    dataset.files.push(File {
                        bytes: fs::metadata(folder.join(&path))?.len(),
                        path,
                        run: value(&run),
                        host: value(&host),
                        rank: value(&rank).parse().ok(),
                    });
                }
            }
        }
    }
    if datasets.values().all(|dataset| dataset.files.is_empty()) {
        let where_they_are = "run=RUN/host=HOST/rank=RANK/ranges-*.parquet";
        let line = format!("`{}` has no datasets: there is no {where_they_are} in it", folder.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, line));
    }
    Ok(datasets)
}

/// The names in a folder that begin so, in order. Those of open files begin with a dot, and are left out.
fn parts(folder: &Path, start: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        if let Ok(name) = entry?.file_name().into_string()
            && name.starts_with(start)
            && !name.starts_with('.')
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn declared() -> Datasets {
    let mut datasets = Datasets::new();
    let mut name = "";
    for line in SCHEMA.lines() {
        match *line.split('"').collect::<Vec<_>>() {
            [_, dataset, _] => name = dataset,
            [_, column, _, kind, _] => datasets.entry(name).or_default().columns.push((column, kind)),
            _ => {}
        }
    }
    datasets
}

/// The text of a part of a path, in which `%2F` stands for a slash.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = hex.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_read_with_its_order() {
        let datasets = declared();
        assert_eq!(datasets.len(), 8);
        assert_eq!(datasets["ranges"].columns[..2], [("pid", "BIGINT"), ("thread", "BIGINT")]);
        assert!(datasets["calls"].columns.contains(&("fields", "MAP<STRING, STRING>")));
    }

    #[test]
    fn parts_of_paths_are_decoded() {
        for (part, text) in [("a%2Fb", "a/b"), ("50%", "50%"), ("%zz%C3%A9", "%zzé"), ("", "")] {
            assert_eq!(decoded(part), text);
        }
    }
}

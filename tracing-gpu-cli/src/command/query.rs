//! `tracing-gpu query`: runs queries over datasets of Parquet files, on an engine that is built in.

#[cfg(feature = "query")]
mod answer;
#[cfg(feature = "query")]
mod datasets;
#[cfg(feature = "query")]
mod engine;

use std::io;

use super::options::Query;
use super::report;

/// The queries with their texts.
const QUERIES: [(&str, &str); 8] = [
    ("blame", include_str!("../../queries/blame.sql")),
    ("idle", include_str!("../../queries/idle.sql")),
    ("kernels", include_str!("../../queries/kernels.sql")),
    ("outliers", include_str!("../../queries/outliers.sql")),
    ("over_time", include_str!("../../queries/over_time.sql")),
    ("regressions", include_str!("../../queries/regressions.sql")),
    ("slowest_ranks", include_str!("../../queries/slowest_ranks.sql")),
    ("stragglers", include_str!("../../queries/stragglers.sql")),
];

/// Prints the answer of a query; without its name, all names.
pub(super) fn query(asked: &Query) -> io::Result<()> {
    let Some(name) = &asked.name else { return report::print(list().as_bytes()) };
    let text = text(name)?;
    let Some(folder) = &asked.folder else {
        return Err(io::Error::other(format!("`{name}` of which datasets? tracing-gpu query {name} FOLDER")));
    };
    #[cfg(feature = "query")]
    return answer::print(name, &text, folder, asked);
    #[cfg(not(feature = "query"))]
    {
        let _unused = (text, folder);
        Err(io::Error::other(
            "this command was built without its engine: `cargo install --path tracing-gpu-cli --features query`; or \
             `pip install duckdb` and `python3 queries/run.py duckdb`",
        ))
    }
}

/// The text of a query of ours, or of a file that ends in `.sql`.
fn text(name: &str) -> io::Result<String> {
    if let Some((_, text)) = QUERIES.iter().find(|(known, _)| *known == name) {
        return Ok((*text).to_owned());
    }
    if name.ends_with(".sql") {
        return std::fs::read_to_string(name)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot read the query `{name}`: {error}")));
    }
    let known: Vec<&str> = QUERIES.iter().map(|(name, _)| *name).collect();
    let line = format!("there is no query `{name}`: name one of {}, or a file that ends in .sql", known.join(", "));
    Err(io::Error::new(io::ErrorKind::NotFound, line))
}

/// A line for each query, which its text begins with.
fn list() -> String {
    let line = |(name, text): &(&str, &str)| {
        let first = text.lines().next().unwrap_or_default().trim_start_matches("-- ");
        let what = first.split_once(':').map_or(first, |(what, _)| what);
        format!("{name:<15}{what}\n")
    };
    QUERIES.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_query_of_the_folder_is_known() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter_map(|name| name.strip_suffix(".sql").map(str::to_owned)).collect();
        names.sort();
        assert_eq!(names, QUERIES.map(|(name, _)| name));
        assert!(list().contains("slowest_ranks  Slowest ranks by span\n"), "{}", list());
        assert!(list().lines().all(|line| line.len() < 80 && line.len() > 20), "{}", list());
    }

    #[test]
    fn a_wrong_name_is_told_the_right_ones() {
        let said = text("slowest").unwrap_err().to_string();
        assert!(said.starts_with("there is no query `slowest`: name one of blame, idle, kernels, "), "{said}");
        let said = text("/no/such.sql").unwrap_err().to_string();
        assert!(said.starts_with("cannot read the query `/no/such.sql`: No such file"), "{said}");
    }
}

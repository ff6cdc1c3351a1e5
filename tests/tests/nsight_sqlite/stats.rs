//! Runs `nsys stats` on a file, and reads its output.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A row: cells by the name of their column.
pub(crate) type Row = BTreeMap<String, String>;

/// A folder to keep files in, for comparison with other versions of Nsight Systems.
const KEEP: &str = "NSIGHT_SQLITE_KEEP";

/// A folder of its own, which the destructor removes.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let temporary =
            || std::env::temp_dir().join(format!("tracing-gpu-nsight-sqlite-{test}-{}", std::process::id()));
        let path = std::env::var_os(KEEP).map_or_else(temporary, |keep| Path::new(&keep).join(test));
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The output of `nsys stats`, by report.
    ///
    /// # Panics
    /// If it prints anything except that it processed all reports.
    pub(crate) fn stats(&self, reports: &[&str]) -> BTreeMap<String, Vec<Row>> {
        let out = self.file("out").display().to_string();
        let of_reports = reports.iter().flat_map(|report| ["--report", *report]);
        let to = ["--format", "csv", "--force-overwrite", "true", "--output", &out];
        let output = tests::nsight::stats(of_reports.chain(to), &self.file("run.sqlite"));
        let said = tests::nsight::said(&output);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches("PROCESSED").count(), reports.len(), "{said}");
        for bad in ["SKIPPED", "rror", "arning", "ailed", "Traceback", "malformed"] {
            assert!(!said.contains(bad), "{said}");
        }
        let read = |report: &&str| (report.to_string(), rows(&self.file(&format!("out_{report}.csv"))));
        reports.iter().map(read).collect()
    }
}

impl Folder {
    /// The output of `nsys stats` for one report.
    pub(crate) fn says(&self, report: &str) -> String {
        let arguments = ["--report", report, "--format", "column"];
        tests::nsight::said(&tests::nsight::stats(arguments, &self.file("run.sqlite")))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::env::var_os(KEEP).is_none() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

fn rows(path: &Path) -> Vec<Row> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = tests::csv::lines(&text).into_iter().filter(|line| line.len() > 1);
    let names = lines.next().unwrap_or_else(|| panic!("{} is empty", path.display()));
    let row = |cells: Vec<String>| -> Row {
        assert_eq!(cells.len(), names.len(), "{}: {cells:?}", path.display());
        names.iter().cloned().zip(cells).collect()
    };
    lines.map(row).collect()
}

/// The number in a cell.
pub(crate) fn number(row: &Row, column: &str) -> f64 {
    let cell = row.get(column).unwrap_or_else(|| panic!("no {column} in {row:?}"));
    cell.parse().unwrap_or_else(|_| panic!("{column}: {cell:?} in {row:?}"))
}

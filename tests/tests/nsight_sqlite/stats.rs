//! `nsys stats` over a file, and what it prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A row: cells by the name of their column.
pub(crate) type Row = BTreeMap<String, String>;

/// Where folders are made that are kept, for comparison with what other versions of Nsight Systems print of the same files.
const KEEP: &str = "NSIGHT_SQLITE_KEEP";

/// A folder of its own, removed when it is dropped.
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

    /// What `nsys stats` prints, by report.
    ///
    /// # Panics
    /// If it says anything else than that it processed them all.
    pub(crate) fn stats(&self, reports: &[&str]) -> BTreeMap<String, Vec<Row>> {
        let mut nsys = Command::new("nsys");
        nsys.arg("stats").env("LD_LIBRARY_PATH", "/usr/lib/nsight-systems/host-linux-x64").stdin(Stdio::null());
        for report in reports {
            nsys.args(["--report", report]);
        }
        nsys.args(["--format", "csv", "--force-overwrite", "true", "--output"]).arg(self.file("out"));
        let output = nsys.arg(self.file("run.sqlite")).output().expect("nsys is installed: `bash tests/install`");
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
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
    /// What `nsys stats` prints of one report.
    pub(crate) fn says(&self, report: &str) -> String {
        let mut nsys = Command::new("nsys");
        nsys.arg("stats").env("LD_LIBRARY_PATH", "/usr/lib/nsight-systems/host-linux-x64").stdin(Stdio::null());
        nsys.args(["--report", report, "--format", "column"]).arg(self.file("run.sqlite"));
        let output = nsys.output().expect("nsys is installed: `bash tests/install`");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::env::var_os(KEEP).is_none() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

/// A cell is quoted where it has a comma, and then has no quotes inside.
fn rows(path: &Path) -> Vec<Row> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let cells = |line: &str| -> Vec<String> {
        let (mut cells, mut quoted) = (vec![String::new()], false);
        for letter in line.chars() {
            match letter {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                _ => cells.last_mut().expect("one cell").push(letter),
            }
        }
        cells
    };
    let mut lines = text.lines().filter(|line| !line.is_empty());
    let names = cells(lines.next().unwrap_or_else(|| panic!("{} is empty", path.display())));
    let row = |line: &str| -> Row {
        let cells = cells(line);
        assert_eq!(cells.len(), names.len(), "{}: {line}", path.display());
        names.iter().cloned().zip(cells).collect()
    };
    lines.map(row).collect()
}

/// The number in a cell.
pub(crate) fn number(row: &Row, column: &str) -> f64 {
    let cell = row.get(column).unwrap_or_else(|| panic!("no {column} in {row:?}"));
    cell.parse().unwrap_or_else(|_| panic!("{column}: {cell:?} in {row:?}"))
}

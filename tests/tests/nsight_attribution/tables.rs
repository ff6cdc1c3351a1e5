//! The two tables, as rows that can be compared.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use range_model::stats::Distribution;
use tracing_gpu::summary::RangeStyle;

/// Range (`None` outside of any), style, thread (0 if unknown or irrelevant) and kernel (empty if irrelevant).
pub(crate) type Key = (Option<(String, RangeStyle)>, u32, String);

/// Figures of a row: integers, which are compared exactly, and figures printed with one decimal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figures {
    pub(crate) whole: Vec<u128>,
    pub(crate) rounded: Vec<f64>,
}

/// Figures of durations in the order of the tables: average, median and deviation are rounded.
pub(crate) fn figures(before: &[u128], times: &Distribution, after: &[u128], means: &[f64]) -> Figures {
    let whole = [before, &[times.total, times.min.into(), times.max.into()], after].concat();
    let median = times.median().map_or(f64::NAN, |median| (median.lower as f64 + median.upper as f64) / 2.0);
    let rounded = [&[times.total as f64 / times.count as f64, median, times.stddev()], means].concat();
    Figures { whole, rounded }
}

/// # Panics
/// If they differ.
pub(crate) fn same(ours: &BTreeMap<Key, Figures>, nsight: &BTreeMap<Key, Figures>) {
    assert!(!nsight.is_empty(), "the table is empty");
    let mut off = Vec::new();
    for key in ours.keys().chain(nsight.keys().filter(|key| !ours.contains_key(key))) {
        let (our, theirs) = (ours.get(key), nsight.get(key));
        let same = our.zip(theirs).is_some_and(|(our, theirs)| {
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 0.05 + a.abs() * 1e-9;
            our.whole == theirs.whole && our.rounded.iter().zip(&theirs.rounded).all(near)
        });
        if !same {
            off.push(format!("{key:?}\n  ours   {our:?}\n  nsight {theirs:?}"));
        }
    }
    assert!(off.is_empty(), "{} of {} rows differ:\n{}", off.len(), nsight.len(), off.join("\n"));
}

pub(crate) struct ProjectionRow;
pub(crate) struct KernelRow;

impl ProjectionRow {
    /// `nvtx_gpu_proj_sum`.
    pub(crate) fn read(path: &Path) -> BTreeMap<Key, Figures> {
        let table = Csv::read(path);
        let row = |row: &[String]| {
            let cell = |name: &str| table.cell(row, name);
            let whole = |name: &str| number(cell(name));
            let key = (range(cell("Range"), cell("Style")), 0, String::new());
            let figures = Figures {
                whole: [
                    "Total Range Time (ns)",
                    "Range Instances",
                    "Total Proj Time (ns)",
                    "Proj Min (ns)",
                    "Proj Max (ns)",
                    "Total GPU Ops",
                ]
                .map(whole)
                .to_vec(),
                rounded: [
                    "Proj Avg (ns)",
                    "Proj Med (ns)",
                    "Proj StdDev (ns)",
                    "Avg GPU Ops",
                    "Avg Range Lvl",
                    "Avg Num Child",
                ]
                .map(|name| number(cell(name)))
                .to_vec(),
            };
            (key, figures)
        };
        unique(table.rows.iter().map(|cells| row(cells)))
    }
}

impl KernelRow {
    /// `nvtx_kern_sum`, of one process.
    pub(crate) fn read(path: &Path) -> BTreeMap<Key, Figures> {
        let table = Csv::read(path);
        let row = |row: &[String]| {
            let cell = |name: &str| table.cell(row, name);
            let whole = |name: &str| number(cell(name));
            let thread = if is_null(cell("TID")) { 0 } else { number(cell("TID")) };
            let key = (range(cell("NVTX Range"), cell("Style")), thread, cell("Kernel Name").to_owned());
            let figures = Figures {
                whole: ["NVTX Inst", "Kern Inst", "Total Time (ns)", "Min (ns)", "Max (ns)"].map(whole).to_vec(),
                rounded: ["Avg (ns)", "Med (ns)", "StdDev (ns)"].map(|name| number(cell(name))).to_vec(),
            };
            (key, figures)
        };
        unique(table.rows.iter().map(|cells| row(cells)))
    }
}

fn unique(rows: impl Iterator<Item = (Key, Figures)>) -> BTreeMap<Key, Figures> {
    let mut unique = BTreeMap::new();
    for (key, figures) in rows {
        assert!(unique.insert(key.clone(), figures).is_none(), "two rows of {key:?}");
    }
    unique
}

/// One leading colon, for the default domain in newer versions, is not part of a name.
fn range(name: &str, style: &str) -> Option<(String, RangeStyle)> {
    if is_null(style) {
        return None;
    }
    let style = match style {
        "PushPop" => RangeStyle::PushPop,
        "StartEnd" => RangeStyle::StartEnd,
        _ => panic!("a style {style:?}"),
    };
    Some((name.strip_prefix(':').unwrap_or(name).to_owned(), style))
}

fn is_null(cell: &str) -> bool {
    cell.is_empty() || cell == "None"
}

fn number<T: std::str::FromStr<Err: Debug>>(cell: &str) -> T {
    cell.parse().unwrap_or_else(|error| panic!("{cell:?} is no number: {error:?}"))
}

/// A table in the form of `nsys stats --format csv`.
pub(crate) struct Csv {
    names: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Csv {
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut rows = tests::csv::lines(&text);
        // A heading may precede the names of the columns.
        rows.retain(|row| row.len() > 1);
        assert!(!rows.is_empty(), "{} has no table", path.display());
        let names = rows.remove(0);
        Self { names, rows }
    }

    fn cell<'a>(&self, row: &'a [String], name: &str) -> &'a str {
        let at = self.names.iter().position(|known| known == name);
        let cell = at.and_then(|at| row.get(at));
        cell.unwrap_or_else(|| panic!("no column {name:?} among {:?}", self.names))
    }
}

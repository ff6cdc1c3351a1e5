//! Tables as comma-separated values: in the form of `nsys stats --format csv`, and in that of RFC 4180.

use std::borrow::Cow;
use std::io;

#[cfg(feature = "compare")]
use crate::Comparison;
#[cfg(feature = "compare")]
use crate::MergedTable;
use crate::report::{self, Report, Table};
#[cfg(feature = "compare")]
use range_model::MergedSummary;
use range_model::Summary;

fn table_of(summary: &Summary, report: Report) -> io::Result<Table> {
    match report::table(summary, report) {
        Some(Ok(table)) => Ok(table),
        Some(Err(sentence)) => Err(io::Error::new(io::ErrorKind::NotFound, sentence.trim_end())),
        None => Err(io::Error::new(io::ErrorKind::Unsupported, format!("the report `{report}` is not one table"))),
    }
}

/// Quoting and line ends of comma-separated values, for programs that read them. The values are the same.
///
/// ```
/// use range_report::export::CsvFlavor;
/// use range_report::Report;
/// use range_model::{CategoryStats, Summary, Times};
///
/// let mut summary = Summary::default();
/// summary.categories = vec![CategoryStats::new("in, \"out\"", Times::new(1, 9_000))];
/// let mut text = Vec::new();
/// CsvFlavor::Rfc4180.write_report(&summary, Report::Categories, &mut text)?;
/// assert!(text.ends_with(b",0.0,\"in, \"\"out\"\"\"\r\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CsvFlavor {
    /// The form of `nsys stats --format csv`, and of `write_csv` of summaries and comparisons. Names with quotation
    /// marks or line feeds can break a line.
    Nsight,
    /// The form of RFC 4180 for any names: a value with a comma, a quotation mark or a line break is quoted, quotation
    /// marks in it are doubled, and lines end in CR LF. Spreadsheets and the libraries of every language read it.
    Rfc4180,
}

impl CsvFlavor {
    /// Writes the table of a report: [`SummaryExt::write_csv`](crate::SummaryExt::write_csv).
    ///
    /// # Errors
    ///
    /// Those of [`SummaryExt::write_csv`](crate::SummaryExt::write_csv).
    pub fn write_report(self, summary: &Summary, report: Report, out: impl io::Write) -> io::Result<()> {
        self.write(&table_of(summary, report)?, out)
    }

    /// Writes the stream times: [`SummaryExt::write_stream_csv`](crate::SummaryExt::write_stream_csv).
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn write_streams(self, summary: &Summary, out: impl io::Write) -> io::Result<()> {
        self.write(&report::stream_table(summary), out)
    }

    /// Writes a table of several processes: [`MergedSummaryExt::write_csv`](crate::MergedSummaryExt::write_csv).
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    #[cfg(feature = "compare")]
    pub fn write_merged(self, merged: &MergedSummary, table: MergedTable, out: impl io::Write) -> io::Result<()> {
        self.write(&report::merged_table(merged, table), out)
    }

    /// Writes runs side by side: [`Comparison::write_csv`].
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    #[cfg(feature = "compare")]
    pub fn write_comparison(self, comparison: &Comparison, out: impl io::Write) -> io::Result<()> {
        self.write(&report::comparison_table(comparison), out)
    }

    fn write(self, table: &Table, mut out: impl io::Write) -> io::Result<()> {
        if self == Self::Nsight {
            return out.write_all(table.csv().as_bytes());
        }
        let mut text = String::new();
        for record in table.records() {
            let values: Vec<_> = record.into_iter().map(quoted_where_needed).collect();
            text.push_str(&values.join(","));
            text.push_str("\r\n");
        }
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// A value as RFC 4180 has it, section 2, rules 5 to 7.
fn quoted_where_needed(value: Cow<'_, str>) -> Cow<'_, str> {
    let needs_quotes = value.contains([',', '"', '\r', '\n']);
    if needs_quotes { format!("\"{}\"", value.replace('"', "\"\"")).into() } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SummaryExt as _;
    #[cfg(feature = "compare")]
    use range_model::RangeStats;
    use range_model::{CategoryStats, GpuWork, NodeWork, Quantile, StreamStats, Times, TreeNode};

    fn times(total_ns: u64, median_exact: bool) -> Times {
        let median_ns = Some(total_ns as f64);
        Times { min_ns: total_ns, max_ns: total_ns, median_ns, median_exact, ..Times::new(1, total_ns) }
    }

    fn text(summary: &Summary, report: Report) -> String {
        let mut out = Vec::new();
        summary.write_csv(report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn marks_are_left_out_and_what_is_not_known_is_empty() {
        let row = |name, empty, exact| StreamStats {
            empty,
            floor_ns: 1_280,
            ..StreamStats::new(name, "GPU 0 #1", times(1_000, exact))
        };
        let stream_ranges = vec![row("near", 0, false), row("nothing", 1, true)];
        let mut out = Vec::new();
        Summary { stream_ranges, ..Summary::default() }.write_stream_csv(&mut out).unwrap();
        let expected = "\
Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Range,Stream
100.0,1000,1,1000.0,1000.0,1000,1000,0.0,near,GPU 0 #1
,,1,,,,,,nothing,GPU 0 #1
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn the_tree_has_a_row_a_node() {
        let node = |name: &str, children| TreeNode { name: name.to_owned(), calls: 1, children, ..TreeNode::default() };
        let mut tree = vec![node("a", vec![node("b, c", vec![]), node("", vec![])]), node("d", vec![])];
        let work = |busy_ns| GpuWork::new(1, 8, busy_ns);
        tree[1].gpu = Some(NodeWork::new(work(3), work(6)));
        tree[1].stream_total_ns = Some(7);
        (tree[0].max_ns, tree[0].off_cpu_ns, tree[1].on_cpu_ns) = (9, 3, 2);
        (tree[0].awaited_ns, tree[0].awaited_self_ns) = (Some(5), Some(4));
        tree[0].quantiles = vec![Quantile::new(0.5, 2.5, true), Quantile::new(0.999, 9.0, false)];
        let expected = "\
Depth,Calls,Instances,Total Time (ns),Self Time (ns),On CPU (ns),Off CPU (ns),Max (ns),Awaited (ns),Awaited Self (ns),Stream Total (ns),Stream Self (ns),GPU Busy (ns),GPU Self Busy (ns),p50 (ns),p99.9 (ns),Phase
0,1,0,0,0,,3,9,5,4,,,,,2.5,9.0,a
1,1,0,0,0,,,,,,,,,,,,\"b, c\"
1,1,0,0,0,,,,,,,,,,,,None
0,1,0,0,0,2,,,,,7,,6,3,,,d
";
        assert_eq!(text(&Summary { tree, ..Summary::default() }, Report::Tree), expected);
    }

    #[test]
    fn categories_and_what_is_no_table() {
        let categories = vec![CategoryStats { category: "7".to_owned(), times: times(10, true) }];
        let summary = Summary { categories, ..Summary::default() };
        assert!(text(&summary, Report::Categories).ends_with(",Category\n100.0,10,1,10.0,10.0,10,10,0.0,7\n"));
        for report in [Report::Ranges, Report::Categories, Report::Tree] {
            assert_eq!(text(&Summary::default(), report).lines().count(), 1, "{report}");
        }
        let error = summary.write_csv(Report::Torch, Vec::new()).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::Unsupported, "the report `torch` is not one table")
        );
    }

    fn odd_names() -> Summary {
        let names = ["plain", "a, b", "say \"go\"", "\"", "line\nfeed", "CR\r\nLF", " blanks ", "日本, 語", ""];
        let row = |(at, name): (usize, &&str)| CategoryStats::new(*name, times(900 - at as u64, at != 1));
        Summary { categories: names.iter().enumerate().map(row).collect(), ..Summary::default() }
    }

    #[test]
    fn rfc_4180_as_written() {
        let mut out = Vec::new();
        let mut summary = odd_names();
        summary.categories.drain(..1);
        summary.categories.truncate(5);
        summary.categories.iter_mut().for_each(|row| row.times = times(100, true));
        CsvFlavor::Rfc4180.write_report(&summary, Report::Categories, &mut out).unwrap();
        let lines = ["\"\"\"\"", "\"CR\r\nLF\"", "\"a, b\"", "\"line\nfeed\"", "\"say \"\"go\"\"\""];
        let lines: String = lines.map(|name| format!("20.0,100,1,100.0,100.0,100,100,0.0,{name}\r\n")).concat();
        let header = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Category\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), format!("{header}{lines}"));
    }

    /// For ordinary names both flavours are equal; for odd ones a reader gets every value back.
    #[cfg(feature = "compare")]
    #[test]
    fn rfc_4180_reads_back() {
        let summary = odd_names();
        let stream = |row: &CategoryStats| StreamStats::new(&row.category, "GPU 0, \"copy\"", row.times.clone());
        let tree = summary.categories.iter().map(|row| TreeNode { name: row.category.clone(), ..TreeNode::default() });
        let range = |row: &CategoryStats| RangeStats::new(&row.category, row.times.clone());
        let (stream_ranges, ranges) =
            (summary.categories.iter().map(stream).collect(), summary.categories.iter().map(range).collect());
        let summary = Summary { tree: tree.collect(), stream_ranges, ranges, ..summary };
        let comparison = Comparison::of([("old, \"1\"", &summary), ("new", &summary)]);
        let merged = Summary::merge([summary.clone(), summary.clone()]);
        let tables = [
            (
                table_of(&summary, Report::Categories).unwrap(),
                written(|out| CsvFlavor::Rfc4180.write_report(&summary, Report::Categories, out)),
            ),
            (
                table_of(&summary, Report::Tree).unwrap(),
                written(|out| CsvFlavor::Rfc4180.write_report(&summary, Report::Tree, out)),
            ),
            (report::stream_table(&summary), written(|out| CsvFlavor::Rfc4180.write_streams(&summary, out))),
            (
                report::comparison_table(&comparison),
                written(|out| CsvFlavor::Rfc4180.write_comparison(&comparison, out)),
            ),
            (
                report::merged_table(&merged, MergedTable::StreamTimes),
                written(|out| CsvFlavor::Rfc4180.write_merged(&merged, MergedTable::StreamTimes, out)),
            ),
        ];
        for (table, text) in tables {
            let mut reader = ::csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
            let read: Vec<Vec<String>> = reader.deserialize().map(|record| record.unwrap()).collect();
            assert_eq!(read, table.records().collect::<Vec<_>>(), "{text}");
        }
        let nsight = written(|out| CsvFlavor::Nsight.write_report(&summary, Report::Categories, out));
        assert_eq!(nsight, super::tests::text(&summary, Report::Categories));
    }

    #[cfg(feature = "compare")]
    fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}

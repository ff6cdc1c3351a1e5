//! Tables as comma-separated values, written as `nsys stats --format csv` writes them.

use std::io;

use crate::Summary;
use crate::report::{self, Report};

/// Writes the table of a report as comma-separated values.
///
/// A table that imitates one of `nsys stats` is what `nsys stats --format csv --output FILE` writes, byte for byte: headers with their units, times as
/// integers, one decimal where there is one in the report; a value stands between quotation marks only if there is a comma in it, and nothing is doubled
/// or escaped. So a name with a quotation mark and a comma, or with a line feed, breaks a line here as it does there: where names may hold such, take JSON.
/// What is not known (`-` in the report) is empty.
///
/// [`Report::Tree`] has a row a node, with its depth; the stream times of [`Report::Ranges`] are a table of their own: [`stream_csv`].
///
/// ```
/// use range_report::{RangeStats, RangeStyle, Report, Summary, Times, export};
///
/// let mut summary = Summary::default();
/// let times = Times { instances: 2, total_ns: 9_000, min_ns: 4_000, max_ns: 5_000, median_ns: Some(4_500.0), ..Times::default() };
/// let (name, style) = ("load, parse".to_owned(), RangeStyle::PushPop);
/// summary.ranges = vec![RangeStats { domain: None, name, style, times }];
/// let mut text = Vec::new();
/// export::csv(&summary, Report::Ranges, &mut text)?;
/// assert_eq!(
///     String::from_utf8_lossy(&text),
///     "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Range\n\
///      100.0,9000,2,4500.0,4500.0,4000,5000,0.0,\"load, parse\"\n"
/// );
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Of the kind [`Unsupported`](io::ErrorKind::Unsupported) for a report that is not one table (`Nvprof`, `Torch`, `Hot`); of the kind
/// [`NotFound`](io::ErrorKind::NotFound) for one of the GPU's work where none was recorded, as the tool writes no such file either; and those of `out`.
pub fn csv(summary: &Summary, report: Report, out: &mut impl io::Write) -> io::Result<()> {
    match report::table(summary, report) {
        Some(Ok(table)) => out.write_all(table.csv().as_bytes()),
        Some(Err(sentence)) => Err(io::Error::new(io::ErrorKind::NotFound, sentence.trim_end())),
        None => Err(io::Error::new(io::ErrorKind::Unsupported, format!("the report `{report}` is not one table"))),
    }
}

/// Writes the stream times, which [`Report::Ranges`] prints as a second table, as comma-separated values.
///
/// A row in which nothing was enqueued has empty figures: what was read there is no more than a bound.
///
/// ```
/// let mut text = Vec::new();
/// range_report::export::stream_csv(&range_report::Summary::default(), &mut text)?;
/// assert!(text.ends_with(b"StdDev (ns),Range,Stream\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// Those of `out`.
pub fn stream_csv(summary: &Summary, out: &mut impl io::Write) -> io::Result<()> {
    out.write_all(report::stream_table(summary).csv().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CategoryStats, NodeWork, StreamStats, Times, TreeNode};

    fn times(total_ns: u64, median_exact: bool) -> Times {
        Times {
            instances: 1,
            total_ns,
            min_ns: total_ns,
            max_ns: total_ns,
            median_ns: Some(total_ns as f64),
            median_exact,
            ..Times::default()
        }
    }

    fn text(summary: &Summary, report: Report) -> String {
        let mut out = Vec::new();
        csv(summary, report, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn marks_are_left_out_and_what_is_not_known_is_empty() {
        let row = |name: &str, empty, exact| StreamStats {
            domain: None,
            name: name.to_owned(),
            stream: "GPU 0 #1".to_owned(),
            times: times(1_000, exact),
            empty,
            floor_ns: 1_280,
        };
        let stream_ranges = vec![row("near", 0, false), row("nothing", 1, true)];
        let mut out = Vec::new();
        stream_csv(&Summary { stream_ranges, ..Summary::default() }, &mut out).unwrap();
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
        tree[1].gpu = Some(NodeWork::default());
        tree[1].stream_total_ns = Some(7);
        let expected = "\
Depth,Calls,Instances,Total Time (ns),Self Time (ns),Stream Total (ns),Stream Self (ns),GPU Busy (ns),GPU Self Busy (ns),Phase
0,1,0,0,0,,,,,a
1,1,0,0,0,,,,,\"b, c\"
1,1,0,0,0,,,,,None
0,1,0,0,0,7,,0,0,d
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
        let error = csv(&summary, Report::Torch, &mut Vec::new()).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::Unsupported, "the report `torch` is not one table")
        );
    }
}

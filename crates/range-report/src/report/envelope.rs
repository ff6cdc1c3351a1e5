//! The frame around a report.

use super::kinds::TableStyle;
use super::options::RenderOptions;
use super::table::{Layout, Table};

/// The text for a summary without ranges. `Summary::empty_because` has the reason, if it is known.
pub(super) const NO_RANGE: &str = "No range was recorded.\n";

/// A report with its title. `body` must end in a line feed.
pub(super) fn section(title: &str, body: &str) -> String {
    format!("\n{title}\n\n{body}\n")
}

/// The title of a report of our own; `aside` stands behind it in the current style.
pub(super) fn title(what: &str, aside: &str, options: &RenderOptions) -> String {
    match options.style {
        TableStyle::Current => format!(" ** {what}{aside}:"),
        TableStyle::Legacy => format!("{what}:"),
    }
}

/// The title in the style of the options.
pub(super) fn styled<'a>(titles: [&'a str; 2], options: &RenderOptions) -> &'a str {
    titles[usize::from(options.style == TableStyle::Legacy)]
}

/// A table in the layout of Nsight Systems, below its title; or the sentence that explains why there is none.
pub(super) fn printed(titles: [&str; 2], made: Result<Table, &str>, options: &RenderOptions) -> String {
    let title = styled(titles, options);
    match made {
        Ok(Table { rows, absent: Some(sentence), .. }) if rows.is_empty() => section(title, sentence),
        Ok(table) => section(title, &table.render(&Layout::as_nsight(options))),
        Err(sentence) => section(title, sentence),
    }
}

//! What stands around a report.

/// The text for a summary without ranges. `Summary::empty_because` has the reason where it is known.
pub(super) const NO_RANGE: &str = "No range was recorded.\n";

/// The envelope of a report. `body` ends in a line feed.
pub(super) fn section(title: &str, body: &str) -> String {
    format!("\n{title}\n\n{body}\n")
}

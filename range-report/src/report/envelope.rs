//! What stands around a report.

/// For a summary without ranges. Why there are none, [`Summary::empty_because`] says where it is known.
pub(super) const NO_RANGE: &str = "No range was recorded.\n";

/// The envelope of a report. `body` ends in a line feed.
pub(super) fn section(title: &str, body: &str) -> String {
    format!("\n{title}\n\n{body}\n")
}

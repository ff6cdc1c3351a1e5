//! The path `general`: entries and exits of any range, with all parts.

mod entries;
mod exits;

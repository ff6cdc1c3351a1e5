//! Reads timelines that were written before, and passes them on as items: to write them in another format.
//!
//! [`database`] reads the databases of `export::Sqlite` and of `nsys export --type sqlite`.

mod database;
mod fields;
mod outcome;
mod tables;
#[cfg(test)]
mod tests;

pub use database::database;
pub use outcome::{Identity, ImportError, Imported, NewSink};

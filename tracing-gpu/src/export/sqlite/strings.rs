//! `StringIds`: texts that are met again and again are in the file once.

use std::collections::HashMap;
use std::io;

use super::file::File;

const STRING: &str = "INSERT INTO StringIds VALUES (?1, ?2)";

/// Bounded by what comes: names of ranges, threads, kernels and functions, which the profiler bounds. Texts of marks are not kept here.
#[derive(Debug, Default)]
pub(super) struct Strings(HashMap<Box<str>, i64>);

impl Strings {
    pub(super) fn id(&mut self, file: &mut File, text: &str) -> io::Result<i64> {
        if let Some(&id) = self.0.get(text) {
            return Ok(id);
        }
        // From 1: importers of Nsight Systems give 0 to what they cannot find.
        let id = self.0.len() as i64 + 1;
        file.run(STRING, (id, text))?;
        self.0.insert(text.into(), id);
        Ok(id)
    }
}

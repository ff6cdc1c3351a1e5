//! A row of a process that has ended, as words of its row file.

/// A row of a process that has ended, from its row file.
pub(crate) struct RowImage<'a> {
    pub(crate) words: &'a [u64],
    /// Its single durations, as far as they were kept: chunks, each with the number of the first duration.
    pub(crate) chunks: Vec<(u64, &'a [u64])>,
    /// Counters of the durations after them: pages of an octave, two counters in a word.
    pub(crate) pages: Vec<(usize, &'a [u64])>,
}

impl RowImage<'_> {
    /// Its words from this byte on; zeros if it has too few.
    pub(crate) fn words<const N: usize>(&self, offset: usize) -> [u64; N] {
        self.words.get(offset / 8..).and_then(|words| words.first_chunk()).copied().unwrap_or([0; N])
    }
}

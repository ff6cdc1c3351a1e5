//! The process and the run that a file comes from, in words.

use super::Process;
use crate::names::joined;

const DAY_S: u64 = 24 * 60 * 60;

/// `rank 3, host node7, run 77, started 2026-11-20T15:35:42Z`: the process besides its number and its command, to
/// distinguish many files of one run. Readers of traces treat commas as separators of labels.
#[must_use]
pub fn labels(process: &Process) -> String {
    let rank = process.rank.map(|rank| format!("rank {rank}"));
    let named = |what: &str, value: &str| (!value.is_empty()).then(|| format!("{what} {value}"));
    let started = (process.started_unix_ns > 0).then(|| utc(process.started_unix_ns));
    let started = named("started", &started.unwrap_or_default());
    let all = [rank, named("host", &process.host), named("run", &process.run_id), started];
    joined(all.into_iter().flatten(), ", ")
}

/// A moment in ISO 8601, to the second.
#[must_use]
pub fn utc(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, second) = (seconds / DAY_S, seconds % DAY_S);
    // Counts years from March, so that a leap day is the last day of its year; from 0000-03-01 on, in cycles of 400
    // years.
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = 400 * cycle + year + next;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of `date -u -d @SECONDS +%FT%TZ`.
    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, said) in [
            (1, "1970-01-01T00:00:01Z"),
            (68_169_599, "1972-02-28T23:59:59Z"),
            (68_169_600, "1972-02-29T00:00:00Z"),
            (68_256_000, "1972-03-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (978_307_199, "2000-12-31T23:59:59Z"),
            (978_307_200, "2001-01-01T00:00:00Z"),
            (1_763_652_942, "2025-11-20T15:35:42Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (18_446_744_073, "2554-07-21T23:34:33Z"),
        ] {
            assert_eq!(utc(seconds * 1_000_000_000), said, "{seconds}");
        }
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        assert_eq!(labels(&Process::default()), "");
        let process = Process { rank: Some(0), started_unix_ns: 1_763_652_942_999_999_999, ..Process::default() };
        assert_eq!(labels(&process), "rank 0, started 2025-11-20T15:35:42Z");
    }
}

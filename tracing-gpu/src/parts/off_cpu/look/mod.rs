//! What threads wait for: one look at a thread, the samples of many looks, and the pace of looking.
//!
//! A look reads `/proc/PID/task/TID/syscall`. The kernel answers `running` for a thread that runs or is ready to run,
//! else the number of its system call, the arguments, the stack pointer and the program counter. The number is -1 for a
//! thread that does not run outside of system calls: in a page fault, or stopped.
//!
//! Looks come at moments that do not depend on what a thread does. So a sample stands for the interval since the
//! previous look, however short the range was that it met, and the sums are right on average.

mod calls;

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use range_model::stats::{Lean, Named};
use range_model::summary::{Join as _, OffCpuStats};

use crate::process;

/// The shortest pause between two looks at a thread.
pub(crate) const PERIOD: Duration = Duration::from_millis(10);
/// A pause is at least so many times as long as the processor time of the looks before it: 0.4 % of a core.
const PAUSE_PER_COST: u64 = 250;
/// Rows of samples; others are counted in one more row.
const MOST_ROWS: usize = 1_024;
/// The label of that row, which no range has; its name and its system call.
const OTHER: u32 = u32::MAX;
const OTHER_RANGES: &str = "(other)";
const OTHER_CALL: &str = "other";

/// The system call in which a thread waits, and what is behind its descriptor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    call: Cow<'static, str>,
    what: String,
}

/// The file that says what a thread does.
pub(crate) fn state_file(process: &Path, thread: u32) -> io::Result<File> {
    File::open(process.join(format!("task/{thread}/syscall")))
}

/// Looks at a thread of this process (`/proc/4711`) by its [`state_file`]. `None` if it runs.
///
/// # Errors
/// If the thread has ended, or the system does not allow looking at it.
pub(crate) fn look(process: &Path, state: &File) -> io::Result<Option<Wait>> {
    let mut line = [0; 192];
    let length = state.read_at(&mut line, 0)?;
    let line = std::str::from_utf8(line.get(..length).unwrap_or_default()).unwrap_or_default();
    let mut words = line.split_ascii_whitespace();
    // `running`, or empty.
    let Some(number) = words.next().and_then(|word| word.parse::<i64>().ok()) else { return Ok(None) };
    let (call, has_descriptor) = calls::call(number);
    // The kernel prints all 64 bits of a descriptor, which has 32.
    let first = words.next().and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    let what = match first.filter(|_| has_descriptor) {
        Some(descriptor) => {
            let link = std::fs::read_link(process.join(format!("fd/{}", descriptor as u32)));
            link.map_or_else(|_| String::new(), |link| behind(&link))
        }
        None => String::new(),
    };
    Ok(Some(Wait { call, what }))
}

/// Whether a thread sleeps until another one wakes it: in a lock or condition, without a time limit. A lock of the C
/// library, which another thread holds for a moment only, is not meant. False where the system does not tell.
#[cfg(feature = "cuda")]
pub(crate) fn sleeps_until_woken(state: &File) -> bool {
    let mut line = [0; 192];
    let length = state.read_at(&mut line, 0).unwrap_or(0);
    let line = std::str::from_utf8(line.get(..length).unwrap_or_default()).unwrap_or_default();
    is_lasting_wait(line)
}

/// The same, from the system's answer: the number of the call, the address of the word, what is done with it, the value
/// that is expected there, and the address of the time limit.
#[cfg(feature = "cuda")]
fn is_lasting_wait(line: &str) -> bool {
    /// `linux/futex.h`: the operation without its flags (private, real time), and the two operations that wait.
    const OPERATION: u64 = 127;
    const WAIT: u64 = 0;
    const WAIT_BITSET: u64 = 9;
    /// What a mutex of the C library expects while others wait for it.
    const CONTENDED: u64 = 2;
    let mut words = line.split_ascii_whitespace();
    if words.next().and_then(|word| word.parse().ok()) != Some(libc::SYS_futex) {
        return false;
    }
    let mut arguments = words.map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16));
    let (Some(Ok(_)), Some(Ok(operation)), Some(Ok(expected)), Some(Ok(limit))) =
        (arguments.next(), arguments.next(), arguments.next(), arguments.next())
    else {
        return false;
    };
    match operation & OPERATION {
        WAIT => limit == 0 && expected != CONTENDED,
        WAIT_BITSET => limit == 0,
        _ => false,
    }
}

/// What a descriptor leads to, from its link: `pipe:[4711]`, `anon_inode:[eventfd]`, `/dev/nvidia0`.
fn behind(link: &Path) -> String {
    let link = link.to_string_lossy();
    if let Some(kind) = link.strip_prefix("anon_inode:") {
        return kind.trim_matches(['[', ']']).to_owned();
    }
    match link.split_once(":[") {
        Some((kind, _)) if !kind.starts_with('/') => kind.to_owned(),
        _ if link.starts_with("/dev/nvidia") => "GPU driver".to_owned(),
        _ if link.starts_with("/dev/pts/") => "terminal".to_owned(),
        _ => link.trim_end_matches(" (deleted)").to_owned(),
    }
}

/// Samples by the label of the range, the system call, and what is behind its descriptor.
#[derive(Debug, Default)]
pub(crate) struct Samples(Named<(u32, Cow<'static, str>, String), Row>);

/// How many samples, and the time that they stand for.
#[derive(Debug, Default)]
struct Row {
    samples: u64,
    ns: u64,
}

impl Samples {
    pub(crate) fn add(&mut self, label: u32, wait: Wait, ns: u64) {
        let mut key = (label, wait.call, wait.what);
        if self.0.len() >= MOST_ROWS && !self.0.contains_key(&key) {
            key = (OTHER, OTHER_CALL.into(), String::new());
        }
        let row = self.0.row(key);
        row.samples += 1;
        row.ns = row.ns.saturating_add(ns);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Rows of a summary, with the domain and name of each label.
    pub(crate) fn stats(&self, text: impl Fn(u32) -> Option<(Option<String>, String)>) -> Vec<OffCpuStats> {
        let row = |((label, call, what), row): (&(u32, Cow<'static, str>, String), &Row)| {
            let (domain, name) = text(*label).unwrap_or_else(|| (None, OTHER_RANGES.to_owned()));
            let mut stats = OffCpuStats::new(name, call.as_ref(), row.samples, row.ns);
            (stats.domain, stats.what) = (domain, what.clone());
            stats
        };
        self.0.iter().map(row).in_vec().joined()
    }
}

/// When threads are looked at.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The last look, by the monotonic clock.
    last_ns: u64,
    /// The processor time of the looking thread then.
    spent_ns: u64,
    pause_ns: u64,
    random: u64,
}

/// One look at all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    interval_ns: u64,
    is_regular: bool,
}

impl Moment {
    /// The time that a sample of a range stands for that has been open for so long. If the previous look is longer ago
    /// than it should be, not more than since the range began.
    pub(crate) fn charge(self, open_ns: impl FnOnce() -> u64) -> u64 {
        if self.is_regular { self.interval_ns } else { self.interval_ns.min(open_ns().max(nanoseconds(PERIOD))) }
    }
}

impl Pace {
    pub(crate) fn new() -> Self {
        let now = process::monotonic_ns();
        Self { last_ns: now, spent_ns: spent_ns(), pause_ns: nanoseconds(PERIOD), random: now | 1 }
    }

    /// Begins a look.
    pub(crate) fn begin(&mut self) -> Moment {
        let now = process::monotonic_ns();
        let interval_ns = now.saturating_sub(std::mem::replace(&mut self.last_ns, now));
        Moment { interval_ns, is_regular: interval_ns <= 2 * self.pause_ns }
    }

    /// Ends a look. Returns the pause until the next.
    pub(crate) fn end(&mut self) -> Duration {
        let spent = spent_ns();
        let cost = spent.saturating_sub(std::mem::replace(&mut self.spent_ns, spent));
        // Some more or less each time: a program that does something every 10 ms is not always met in the same place.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let pause = nanoseconds(PERIOD).max(cost.saturating_mul(PAUSE_PER_COST));
        self.pause_ns = pause / 4 * 3 + self.random % (pause / 2);
        Duration::from_nanos(self.pause_ns)
    }
}

/// The processor time of this thread.
fn spent_ns() -> u64 {
    process::thread_cpu_ns().unwrap_or(0)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The folder of this process.
pub(crate) fn own_process() -> PathBuf {
    PathBuf::from("/proc/self")
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn descriptors_are_named_by_what_is_behind_them() {
        for (link, expected) in [
            ("pipe:[4711]", "pipe"),
            ("socket:[1]", "socket"),
            ("anon_inode:[eventfd]", "eventfd"),
            ("anon_inode:inotify", "inotify"),
            ("/dev/nvidia-uvm", "GPU driver"),
            ("/dev/nvidia0", "GPU driver"),
            ("/dev/pts/3", "terminal"),
            ("/tmp/a:[b] (deleted)", "/tmp/a:[b]"),
        ] {
            assert_eq!(behind(Path::new(link)), expected);
        }
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn a_wait_lasts_where_a_futex_has_no_limit_and_is_no_lock_of_the_c_library() {
        let futex = libc::SYS_futex;
        for (line, lasts) in [
            (format!("{futex} 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f02"), true), // a condition
            (format!("{futex} 0x7f01 0x109 0x1a4f 0x0 0x0 0xffffffff 0x7ffc 0x7f02"), true), // the end of a thread
            (format!("{futex} 0x7f01 0x80 0x1 0x0 0x0 0x0 0x7ffc 0x7f02"), true),         // `parking_lot`
            (format!("{futex} 0x7f01 0x80 0x2 0x0 0x0 0x0 0x7ffc 0x7f02"), false),        // a mutex
            (format!("{futex} 0x7f01 0x189 0x0 0x7ffd 0x0 0xffffffff 0x7ffc 0x7f02"), false), // Python's lock
            (format!("{futex} 0x7f01 0x81 0x1 0x0 0x0 0x0 0x7ffc 0x7f02"), false),        // wakes
            (format!("{futex} 0x7f01"), false),
            ("0 0x3 0x80 0x2 0x0 0x0 0x0 0x7ffc 0x7f02".to_owned(), false), // read
            ("running".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(is_lasting_wait(&line), lasts, "{line}");
        }
    }

    /// The first answers other than `running` of a thread that begins to wait.
    fn waits_in(wait: impl FnOnce() + Send + 'static) -> Wait {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            tell.send(process::thread_id()).unwrap();
            wait();
        });
        let file = state_file(&own_process(), told.recv().unwrap()).unwrap();
        loop {
            match look(&own_process(), &file).unwrap() {
                Some(wait) if wait.call != "futex (lock or condition)" && !wait.call.starts_with("m") => return wait,
                _ => std::thread::yield_now(),
            }
        }
    }

    #[test]
    fn a_thread_in_a_pipe_and_one_asleep() {
        let (mut out, mut into) = io::pipe().unwrap();
        let wait = waits_in(move || _ = out.read(&mut [0]));
        assert_eq!((&*wait.call, &*wait.what), ("read", "pipe"));
        into.write_all(&[1]).unwrap();
        let (out, into) = io::pipe().unwrap();
        let until_told = waits_in(move || {
            let _into = into;
            std::thread::sleep(Duration::from_secs(1));
        });
        assert_eq!((&*until_told.call, &*until_told.what), ("clock_nanosleep", ""));
        drop(out);
    }

    #[test]
    fn a_thread_that_has_ended_is_an_error() {
        let thread = std::thread::spawn(|| state_file(&own_process(), process::thread_id()).unwrap());
        let file = thread.join().unwrap();
        // The system thread may live a little longer than its `join`.
        while look(&own_process(), &file).is_ok() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn further_rows_are_counted_together() {
        let mut samples = Samples::default();
        let wait = |call: &str| Wait { call: call.to_owned().into(), what: String::new() };
        (0..MOST_ROWS as u32 + 9).for_each(|label| samples.add(label, wait("read"), 2));
        samples.add(7, wait("read"), 2);
        let rows = samples.stats(|label| (label != OTHER).then(|| (None, label.to_string())));
        let of = |name: &str| rows.iter().find(|row| row.name == name).map(|row| (row.samples, row.time_ns));
        assert_eq!((rows.len(), of("7"), of("(other)")), (MOST_ROWS + 1, Some((2, 4)), Some((9, 18))));
        assert_eq!((&*rows[0].name, &*rows[0].call), ("(other)", "other"), "the most time first");
    }

    #[test]
    fn a_late_look_charges_no_more_than_the_range_was_open() {
        let moment = |interval_ns, is_regular| Moment { interval_ns, is_regular };
        let short = nanoseconds(PERIOD);
        assert_eq!(moment(7, true).charge(|| 1), 7);
        assert_eq!(moment(5 * short, false).charge(|| 3 * short), 3 * short);
        assert_eq!(moment(5 * short, false).charge(|| 1), short);
        assert_eq!(moment(5 * short, false).charge(|| 9 * short), 5 * short);
    }

    #[test]
    fn a_dear_look_is_followed_by_a_long_pause() {
        let mut pace = Pace::new();
        assert!(nanoseconds(pace.end()) >= nanoseconds(PERIOD) / 4 * 3);
        let begun = spent_ns();
        let cost = || spent_ns() - begun;
        while cost() < 2_000_000 {}
        assert!(nanoseconds(pace.end()) >= 2_000_000 * PAUSE_PER_COST / 4 * 3);
    }
}

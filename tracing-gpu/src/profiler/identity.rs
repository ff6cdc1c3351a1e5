//! The identity of this process and of its run: read once, when a profiler is built.

use std::time::{SystemTime, UNIX_EPOCH};

use nvtx_rs::environment::variable;
use range_model::Process;
use range_model::stats::Lean;

use crate::process;

/// Variables with the rank of this process, in order of precedence: Open MPI, Slurm, and `torchrun` and others.
const RANKS: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "RANK"];
/// Variables that are common to the processes of one run.
const RUNS: [&str; 2] = ["TRACING_GPU_RUN_ID", "SLURM_JOB_ID"];
/// The variable with the clock of a run. Without it, the processes of a run would disagree by as much as somebody sets
/// the system's clock meanwhile.
pub(crate) const CLOCK: &str = "TRACING_GPU_RUN_CLOCK";

/// The identity of this process, from its environment, its arguments and the clock.
pub(crate) fn read() -> Process {
    let arguments: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).in_vec();
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (pid, variable) = (std::process::id(), |name: &str| variable(name)?.into_string().ok());
    let mut process = Process::default();
    process.pid = pid;
    process.command = arguments.join(" ");
    process.host = process::host_name();
    process.rank = rank(variable);
    process.started_unix_ns = u64::try_from(started.as_nanos()).unwrap_or(0);
    process.run_id = run_id(variable).unwrap_or_else(|| format!("{}-{pid}", started.as_secs()));
    process
}

/// The clock of a run that begins now, for its processes on this machine: the boot, and how much later 1970 is than it.
pub(crate) fn run_clock() -> String {
    format!("{}:{}", boot(), unix_ns(process::monotonic_ns()).wrapping_sub(process::monotonic_ns()))
}

/// Nanoseconds from 1970 to a moment of CLOCK_MONOTONIC, by the clock of the run.
pub(crate) fn unix_ns(monotonic_ns: u64) -> u64 {
    let clock = variable(CLOCK).and_then(|clock| clock.into_string().ok());
    clock.and_then(|clock| by_clock(&clock, &boot(), monotonic_ns)).unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ago = process::monotonic_ns().saturating_sub(monotonic_ns);
        u64::try_from(now.as_nanos()).unwrap_or(0).saturating_sub(ago)
    })
}

/// By a clock that may be of another machine, whose CLOCK_MONOTONIC is another one.
fn by_clock(clock: &str, boot: &str, monotonic_ns: u64) -> Option<u64> {
    let (of_boot, since_1970) = clock.split_once(':')?;
    let since_1970: u64 = since_1970.parse().ok()?;
    (!boot.is_empty() && of_boot == boot).then(|| since_1970.wrapping_add(monotonic_ns))
}

/// The id of the machine's last start: CLOCK_MONOTONIC of two processes is the same if theirs is.
fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

fn rank(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    RANKS.iter().find_map(|name| variable(name)?.trim().parse().ok())
}

fn run_id(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    RUNS.iter().find_map(|name| variable(name).map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An environment with these variables.
    fn of<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_first_rank_that_is_a_number_counts() {
        assert_eq!(rank(of(&[])), None);
        assert_eq!(rank(of(&[("RANK", "3")])), Some(3));
        assert_eq!(rank(of(&[("RANK", "3"), ("SLURM_PROCID", "4")])), Some(4));
        assert_eq!(rank(of(&[("RANK", "3"), ("SLURM_PROCID", "4"), ("OMPI_COMM_WORLD_RANK", " 0 ")])), Some(0));
        assert_eq!(rank(of(&[("RANK", "3"), ("OMPI_COMM_WORLD_RANK", "")])), Some(3));
        assert_eq!(rank(of(&[("RANK", "first"), ("SLURM_PROCID", "-1")])), None);
    }

    #[test]
    fn a_run_has_the_id_it_was_given() {
        assert_eq!(run_id(of(&[])), None);
        assert_eq!(run_id(of(&[("SLURM_JOB_ID", "77")])).as_deref(), Some("77"));
        assert_eq!(
            run_id(of(&[("SLURM_JOB_ID", "77"), ("TRACING_GPU_RUN_ID", "nightly")])).as_deref(),
            Some("nightly")
        );
        assert_eq!(run_id(of(&[("SLURM_JOB_ID", "77"), ("TRACING_GPU_RUN_ID", " ")])).as_deref(), Some("77"));
    }

    #[test]
    fn the_clock_of_a_run_counts_on_its_machine() {
        assert_eq!(by_clock("a-1:1000", "a-1", 234), Some(1234));
        for (clock, boot) in [("a-1:1000", "b-2"), (":1000", ""), ("a-1:", "a-1"), ("a-1", "a-1"), ("", "a-1")] {
            assert_eq!(by_clock(clock, boot, 234), None, "{clock} {boot}");
        }
        let (clock, boot, now) = (run_clock(), boot(), process::monotonic_ns());
        let difference = unix_ns(now).abs_diff(by_clock(&clock, &boot, now).unwrap());
        assert!(difference < 60_000_000_000, "{difference}: nobody sets the clock by so much meanwhile");
    }

    #[test]
    fn this_process_is_described() {
        let process = read();
        assert_eq!(process.pid, std::process::id());
        assert!(!process.run_id.is_empty() && !process.command.is_empty());
        assert!(process.started_unix_ns > 1_700_000_000_000_000_000, "{process:?}");
        assert!(!process.host.contains('\0'), "{process:?}");
    }
}

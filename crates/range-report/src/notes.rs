//! The sentences of notes.

use range_model::names::joined;
use range_model::stats::Lean;
use range_model::summary::{AdvisedFilter, Note, ProcessCut, RejectedCrate};

/// What a [`Note`] can be asked.
pub trait NoteExt {
    /// The note in words.
    ///
    /// ```
    /// use range_model::summary::Note;
    /// use range_report::NoteExt as _;
    ///
    /// let note = Note::WaitsOverLimit { parts: 3 };
    /// assert_eq!(note.sentence(), "3 parts of waits are in no row: too many pairs of names wait.");
    /// ```
    #[must_use]
    fn sentence(&self) -> String;
}

/// The sentences of all notes.
pub(crate) fn sentences(notes: &[Note]) -> Vec<String> {
    notes.iter().map(NoteExt::sentence).in_vec()
}

impl NoteExt for Note {
    #[allow(clippy::too_many_lines)] // a table
    fn sentence(&self) -> String {
        match self {
            Self::Text { text } => text.clone(),
            Self::Shared { note, processes } => format!("{} ({processes} processes)", note.sentence()),
            Self::Forked => "This process was forked from the one that is measured.".to_owned(),
            Self::Unfinished { cut } => format!("This process {}.", became(cut, false)),
            Self::UnfinishedProcesses { cut, count, of, names, command } => {
                let named = processes(*count, names, command.as_deref());
                format!("{count} of {of} processes {}: {named}.", became(cut, *count > 1))
            }
            Self::SilentProcesses { count, of, names, command } => {
                let named = processes(*count, names, command.as_deref());
                match (count, of) {
                    (1, 1) => format!("process {named} {AT_ONCE} nothing of it was kept"),
                    (1, _) => format!("1 of {of} processes {AT_ONCE} nothing of it was kept: {named}"),
                    _ => format!("{count} of {of} processes {AT_ONCE} nothing of them was kept: {named}"),
                }
            }
            Self::PagesMissing { missing, of } => {
                format!("{missing} of {of} processes left no whole page: the timeline has nothing of them.")
            }
            Self::CollectivesNotCompared { operations, compared } => format!(
                "{operations} collective operations of NCCL are not compared between ranks (and {compared} are): \
                 their ends do not agree, a rank has no record of them, or their communicator is not known."
            ),
            Self::CuptiUnavailable { reason } => {
                format!("CUPTI recorded no GPU activity: {reason}. Ranges were measured all the same.")
            }
            Self::Cupti { library, driver, left_out, has_earlier_graphs, without_queries } => {
                let mut said = format!("{library}, driver for CUDA {}", version(*driver));
                if !left_out.is_empty() {
                    said = said + "; without " + &joined(left_out, ", ");
                }
                if *has_earlier_graphs {
                    said += "; graphs by their nodes, because the program may have made some before";
                }
                if *without_queries {
                    said += "; without calls that only query or set something (`api=all` records them)";
                }
                said
            }
            Self::TimedByProgram { devices } => {
                format!("GPU work that the program timed itself: {}", joined(devices, ", "))
            }
            Self::CuptiTaken { profiler } => format!(
                "If the program uses {profiler}, that shows no device events: CUPTI serves one profiler at a time, \
                 here this one (`gpu=off` leaves it CUPTI)."
            ),
            Self::GraphNodesOverLimit { nodes } => format!(
                "For {nodes} nodes of graphs it is not known which span captured them: there were more than can be \
                 remembered."
            ),
            Self::GpuShared => {
                "Other processes in this file used the same GPU: while it worked for them, it counts as idle here."
                    .to_owned()
            }
            Self::KernelsWithoutLaunch { kernels } => format!(
                "{kernels} kernels are not in the report kernel_exec: the call that launched them is not known."
            ),
            Self::InterferenceLate { operations } => interference(*operations, "their records came too late"),
            Self::InterferenceOverLimit { operations } => {
                interference(*operations, "there are too many pairs of spans")
            }
            Self::InterferenceCut { operations } => {
                interference(*operations, "they waited longer than operations are remembered, so a part is missing")
            }
            Self::ContestedCalls { calls, helper, between: [one, other] } => {
                let (calls, stand, they) = match calls {
                    1 => ("A CUDA call".to_owned(), "stands", "it"),
                    _ => (format!("{calls} CUDA calls"), "stand", "they"),
                };
                format!(
                    "{calls} of the thread `{helper}` {stand} outside of ranges: {they} could belong to `{one}` or \
                     `{other}`, which both waited then."
                )
            }
            Self::NoNamedStream => {
                "GPU timing: no span was entered under a named stream (`with_stream`, `gpu.stream`).".to_owned()
            }
            Self::StreamTimesForked => {
                "GPU timing is off in this process: it was forked from the process that named the streams.".to_owned()
            }
            Self::StreamTimesWithoutDriver { reason } => format!("GPU timing is off: {reason}."),
            Self::StreamTimesOff { error } => {
                format!("GPU timing is off: the driver answered CUDA error {error}.")
            }
            Self::StreamTimesRefused { error } => {
                format!("The CUDA driver refused calls that time a span, last with error {error}.")
            }
            Self::StreamTimes { device, name, driver, floor_ns, error } => {
                let driver = driver.map_or_else(|| "unknown".to_owned(), version);
                let floor = match floor_ns {
                    Some(ns) => format!("An empty pair of events takes up to {:.2} us.", *ns as f64 / 1e3),
                    None => format!("The time of an empty pair could not be measured: CUDA error {error}."),
                };
                format!(
                    "Stream time on GPU {device}, {name}, driver for CUDA {driver}, is the time between two CUDA \
                     events in the stream, idle time included. {floor}"
                )
            }
            Self::Concluded => "These figures were concluded from a timeline. Time counts from its first range, API \
                                call or operation."
                .to_owned(),
            Self::TimelineCut { byte } => format!(
                "The timeline was cut at byte {byte}: it has what was written before, and the tables are missing."
            ),
            Self::TimelineFull { items } => format!(
                "{items} ranges, events and GPU operations are missing in the timeline, or incomplete: its memory \
                 (`timeline_memory`) was full."
            ),
            Self::DetailsDropped { records, what } => {
                format!("{records} {what} were dropped at the memory limit (`timeline_memory`).")
            }
            Self::NvtxTaken => {
                "NVTX belongs to another profiler of this process: no ranges were sent to a tool.".to_owned()
            }
            Self::ForeignRangesToTool => "NVTX ranges of other code go to the tool that NVTX_INJECTION64_PATH names, \
                                          and are not in this report."
                .to_owned(),
            Self::ForeignRangesTaken => {
                "NVTX ranges of other code belong to another profiler of this process.".to_owned()
            }
            Self::SignalHandlerCalls { calls } => format!(
                "{calls} NVTX calls of signal handlers came while another call of their thread was being measured. \
                 They are in no table."
            ),
            Self::OpenAccLost { unended, unbegun, over_limit, of_ending_threads } => {
                let parts = [
                    (unended, "did not end"),
                    (unbegun, "did not start"),
                    (over_limit, "were at too many places"),
                    (of_ending_threads, "came from threads that were ending"),
                ];
                let parts =
                    parts.iter().filter(|(count, _)| **count > 0).map(|(count, what)| format!("{count} {what}"));
                format!("OpenACC events that are in no row: {}.", joined(parts, ", "))
            }
            Self::MetricsNotPushed { pushes, failed, reason, awaited_s } => {
                let late = awaited_s.map_or_else(String::new, |s| format!(" The last one had not ended after {s} s."));
                match failed {
                    0 => format!("Metrics were pushed {pushes} times.{late}"),
                    _ => format!("Of {pushes} pushes of metrics {failed} failed: {reason}.{late}"),
                }
            }
            Self::FurtherLayers { layers } => {
                let s = if *layers == 1 { "" } else { "s" };
                format!(
                    "{layers} further layer{s} or subscriber{s} of this profiler measured nothing: one measures at a \
                     time. Drop it before you make the next."
                )
            }
            Self::Rejected { filter, crates, more_crates, advised, has_trace } => {
                rejected(filter, crates, *more_crates, advised.as_ref(), *has_trace)
            }
            Self::UnknownField { field, span, place } => format!(
                "{field} of {} was ignored: the fields are nvtx.name, nvtx.color, nvtx.category, nvtx.payload and \
                 nvtx.lifetime.",
                placed(span, place.as_deref())
            ),
            Self::MisreadField { field, span, place, value, accepted } => {
                format!("{field} of {} was ignored: \"{value}\" is not {accepted}.", placed(span, place.as_deref()))
            }
            Self::FurtherFields => {
                "Fields of further call sites are unknown, or have values that they do not accept; they were ignored."
                    .to_owned()
            }
            Self::MisnestedGuard { span, place, out_of_order, elsewhere } => {
                let times = |count: u64| if count == 1 { "once".to_owned() } else { format!("{count} times") };
                let parts = [(*out_of_order, "out of order"), (*elsewhere, "on another thread")];
                let parts = parts.iter().filter(|(count, _)| *count > 0);
                format!(
                    "{}: its guard was dropped {}. Is it held across `.await`? Use `.instrument(span)` there.",
                    placed(span, place.as_deref()),
                    joined(parts.map(|(count, how)| format!("{how} {}", times(*count))), " and ")
                )
            }
            Self::StillWaiting { calls, name, longest_ns } => {
                let (wait, longest) = match calls {
                    1 => ("call", "still waits, for"),
                    _ => ("calls", "still wait, the longest for"),
                };
                let seconds = *longest_ns as f64 / 1e9;
                format!(
                    "{calls} {wait} of `{name}` {longest} {seconds:.1} s. Only calls that have ended are in the \
                     figures."
                )
            }
            Self::AtTheRoot { name, others } => {
                let others = match others {
                    0 => String::new(),
                    1 => " and 1 other".to_owned(),
                    others => format!(" and {others} others"),
                };
                format!(
                    "`{name}`{others} ran on threads without an open range, so they are no part of the range that \
                     waits for them: it has that wait in its Self."
                )
            }
            Self::CallsOverLimit { spans } => {
                format!("Too many spans were open at once: the calls of {spans} spans were not followed.")
            }
            Self::CallStatesCut { calls } => format!(
                "{calls} calls have too many parts, or lived too long beside too many others: it is not known how long \
                 they waited for their GPU work."
            ),
            Self::CallStatesLate { calls } => {
                format!("{calls} calls of CUDA's API came too late for the state in CUDA.")
            }
            Self::LinksLost { links } => format!(
                "Links by `follows_from` that are in no figure: {links}. Too many were open at once, or a span was \
                 created on another thread."
            ),
            Self::SharesWithoutRow { spans } => format!(
                "Spans that batches served but that are no calls of futures in this window: {spans}. Their shares are \
                 in no row."
            ),
            Self::WaitsOverLimit { parts } => {
                format!("{parts} parts of waits are in no row: too many pairs of names wait.")
            }
            Self::ShorterCallsOverLimit => {
                "Too many names waited for each other to know the p99 of calls without these waits.".to_owned()
            }
            Self::ClockCorrected { ppm } => {
                format!("The rate of the clock was corrected by {ppm} ppm between two summaries.")
            }
            Self::NamesCut { rows, bytes } => {
                let have = if *rows == 1 { "row has" } else { "rows have" };
                format!(
                    "{rows} {have} a name that was cut at {} KiB: ranges whose names differ only behind that are in \
                     one row.",
                    bytes / 1_024
                )
            }
            _ => "A note of a newer version of this program.".to_owned(),
        }
    }
}

/// How a process ended that could not write its summary.
const AT_ONCE: &str = "ended at once (_exit, exec, a crash or a signal), or could not write:";

/// How processes ended, and which of their figures are missing.
fn became(cut: &ProcessCut, are_many: bool) -> String {
    let (its, it) = if are_many { ("their", "they") } else { ("its", "it") };
    match cut {
        ProcessCut::Exact => format!(
            "{AT_ONCE} {its} ranges are counted to the end, but what the GPU did in the last second may be missing"
        ),
        ProcessCut::Refused(why) => format!(
            "could not write any more from some moment on ({why}): the rows of threads and names that were new from \
             then on are missing"
        ),
        ProcessCut::Running => format!("went on: {its} rows have what {it} did so far"),
        _ => format!(
            "{AT_ONCE} {its} rows may lack what {it} did in the last second before, or since {it} could not write"
        ),
    }
}

/// For example ``4711, 4712, 4713 and 2 more (`./app`)``.
fn processes(count: u64, names: &[(String, Option<String>)], command: Option<&str>) -> String {
    let with = |name: &str, command: Option<&str>| match command {
        Some(command) => format!("{name} (`{command}`)"),
        None => name.to_owned(),
    };
    let mut named = joined(names.iter().map(|(name, own)| with(name, own.as_deref())), ", ");
    if let more @ 1.. = count.saturating_sub(names.len() as u64) {
        named += &format!(" and {more} more");
    }
    with(&named, command)
}

/// `12.4` for 12040.
fn version(number: i32) -> String {
    format!("{}.{}", number / 1_000, number % 1_000 / 10)
}

fn interference(operations: u64, why: &str) -> String {
    format!("{operations} operations are not wholly in the report interference: {why}.")
}

/// A span and its place in the source.
fn placed(span: &str, place: Option<&str>) -> String {
    place.map_or_else(|| format!("`{span}`"), |place| format!("`{span}` ({place})"))
}

fn rejected(
    filter: &str,
    crates: &[RejectedCrate],
    more_crates: u64,
    advised: Option<&AdvisedFilter>,
    has_trace: bool,
) -> String {
    let by = if filter.is_empty() { "a filter of nothing".to_owned() } else { format!("the filter {filter}") };
    let named = |RejectedCrate { name, call_sites, first, .. }: &RejectedCrate| match (first, call_sites) {
        (None, _) => format!("NVTX ranges of {name}"),
        (Some(first), 1) => format!("`{first}` of {name}"),
        (Some(_), count) => format!("{count} spans of {name}"),
    };
    let mut named = crates.iter().map(named).in_vec();
    match more_crates {
        0 => {}
        1 => named.push("those of 1 more crate".to_owned()),
        more => named.push(format!("those of {more} more crates")),
    }
    let advice = advised.map_or_else(String::new, |AdvisedFilter { filter, measured, of, .. }| {
        let of = if measured == of { "them".to_owned() } else { format!("{measured} of these {of}") };
        format!(" TRACING_GPU_FILTER={filter} measures {of}.")
    });
    let trace = " Spans of TRACE can be so many that they slow down what they measure.";
    let trace = if has_trace { trace } else { "" };
    format!("Not measured, because of {by}: {}.{advice}{trace}", joined(named, ", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_named_with_their_commands() {
        let named = |count, commands: [Option<&str>; 2], command: Option<&str>| Note::UnfinishedProcesses {
            cut: ProcessCut::Running,
            count,
            of: 9,
            names: vec![
                ("7".to_owned(), commands[0].map(str::to_owned)),
                ("8-1".to_owned(), commands[1].map(str::to_owned)),
            ],
            command: command.map(str::to_owned),
        };
        let said = "processes went on: their rows have what they did so far:";
        assert_eq!(named(4, [None; 2], Some("app")).sentence(), format!("4 of 9 {said} 7, 8-1 and 2 more (`app`)."));
        let differ = named(2, [Some("app"), Some("sh")], None).sentence();
        assert_eq!(differ, format!("2 of 9 {said} 7 (`app`), 8-1 (`sh`)."));
    }

    #[test]
    fn rejected_spans_are_named_by_crate() {
        let of = |name: &str, call_sites, first: Option<&str>| RejectedCrate {
            name: name.to_owned(),
            call_sites,
            first: first.map(str::to_owned),
        };
        let note = Note::Rejected {
            filter: String::new(),
            crates: vec![of("h2", 2, Some("poll")), of("db", 1, Some("query")), of("nccl", 3, None)],
            more_crates: 1,
            advised: None,
            has_trace: false,
        };
        let expected = "Not measured, because of a filter of nothing: 2 spans of h2, `query` of db, NVTX ranges of \
                        nccl, those of 1 more crate.";
        assert_eq!(note.sentence(), expected);
    }
}

//! What the processes of a run left, as reports.

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use tracing_gpu::summary::{MergedSummary, Process};
use tracing_gpu::{Chosen, MergedTable, Output, RenderOptions, Report, Summary};

use super::files::Files;
use super::options::{Print, Processes, Run};
use super::{REPORTS, program};
use crate::complain;
use crate::folder::{CaptureRange, Folder, Left};

/// From this number of processes on, reading them takes long enough for a line on a terminal.
const MANY: usize = 16;
/// Processes that are named; of others there is the number.
const NAMED: usize = 3;

/// Prints the reports of a run and settles its files. Returns the pages.
pub(super) fn of_run(folder: &Folder, run: &Run, chosen: &Chosen, files: &mut Files) -> Vec<PathBuf> {
    let left = match folder.read(progress) {
        Ok(left) => left,
        Err(error) => {
            complain(&format!("cannot read what the processes measured, in {}: {error}", folder.path().display()));
            return Vec::new();
        }
    };
    let captured = run.captured();
    if captured == CaptureRange::None {
        name_silent(&left); // else a process in which that part does not begin writes nothing
    }
    let begun = !left.is_empty();
    let (mut worked, idle) = sorted_out(left.into_iter().filter_map(with_note).collect());
    if captured != CaptureRange::None {
        // Ranges that were open when that part began have ended in it.
        worked.iter_mut().for_each(|summary| summary.losses.stray_exits = 0);
    }
    let of = |summaries: &[Summary]| summaries.iter().map(|summary| summary.process.clone()).collect::<Vec<_>>();
    let (worked_processes, idle_processes) = (of(&worked), of(&idle));
    // Where no process did anything that is in a report, their marks are in timelines.
    let (kept, removed) =
        if worked.is_empty() { (&idle_processes, &worked_processes) } else { (&worked_processes, &idle_processes) };
    let pages = files.settle(&kept.iter().collect::<Vec<&Process>>(), &removed.iter().collect::<Vec<&Process>>());
    files.write_json(&worked.iter().collect::<Vec<&Summary>>());
    if worked.is_empty() {
        let program = run.command.first().and_then(|name| program::find(Path::new(name)));
        let why = match captured {
            CaptureRange::Nvtx(name) if begun => format!("no range `{name}` has begun"),
            CaptureRange::Cuda if begun => "no call of cudaProfilerStart was seen".to_owned(),
            _ => why_empty(program.as_deref(), begun, &idle),
        };
        complain(&format!("nothing was measured: {why}"));
        return pages;
    }
    let printing = Printing::new(&run.print, chosen);
    let texts = match run.processes {
        Processes::Each => worked.iter().map(|summary| printing.one(summary)).collect(),
        Processes::First => vec![printing.one(&worked[0])],
        Processes::Merged => vec![printing.all(worked)],
    };
    printing.write_each(texts, &worked_processes);
    pages
}

/// Prints the summaries of a folder as one report, or what the processes of a run left in its folder.
pub(super) fn of_folder(folder: &Path, print: &Print, chosen: &Chosen) -> io::Result<()> {
    let summaries = match Folder::of_run(folder) {
        Some(run) => {
            let left = run.read(progress).map_err(|error| said(folder, &error))?;
            name_silent(&left);
            left.into_iter().filter_map(with_note).collect()
        }
        None => summaries_in(folder)?,
    };
    let (worked, idle) = sorted_out(summaries);
    let all = if worked.is_empty() { idle } else { worked };
    let Some(first) = all.first().map(|summary| summary.process.clone()) else {
        return Err(said(
            folder,
            &"no summary is there: `tracing-gpu --json FOLDER/run-%h-%p.json PROGRAM` writes them",
        ));
    };
    let printing = Printing::new(print, chosen);
    let text = printing.all(all);
    printing.write(&text, &first)
}

fn said(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// The files in a folder that are summaries; a line for each that is none.
fn summaries_in(folder: &Path) -> io::Result<Vec<Summary>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| said(folder, &error))? {
        let path = entry.map_err(|error| said(folder, &error))?.path();
        if path.extension().is_some_and(|kind| kind == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut summaries = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        progress(index, paths.len());
        if !path.is_file() {
            // A pipe would be waited for.
            complain(&format!("left out: {}: not a regular file", path.display()));
            continue;
        }
        let file = File::open(path).map_err(|error| said(path, &error))?;
        match Summary::read_json(file) {
            Ok(summary) if summary.process.started_unix_ns != 0 && summaries.contains(&summary) => {
                complain(&format!("left out: {}: a copy of another file here", path.display()));
            }
            Ok(summary) => summaries.push(summary),
            Err(error) => complain(&format!("left out: {}: {error}", path.display())),
        }
    }
    Ok(summaries)
}

/// On a terminal, how far the reading of many is.
fn progress(index: usize, count: usize) {
    if count < MANY || !io::stderr().is_terminal() {
        return;
    }
    let end = if index + 1 == count { "\r\x1b[K" } else { "" };
    let line = format!("\rtracing-gpu: reading process {} of {count}{end}", index + 1);
    let _nobody_reads = io::stderr().write_all(line.as_bytes());
}

/// A line for processes that have left nothing.
fn name_silent(left: &[Left]) {
    let silent: Vec<String> = left
        .iter()
        .filter(|left| left.summary.is_none())
        .map(|left| format!("{} (`{}`)", left.name, left.command))
        .collect();
    let more = match silent.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    if !silent.is_empty() {
        let named = silent[..silent.len().min(NAMED)].join(", ");
        complain(&format!("ended before anything was written, so that no report has it: process {named}{more}"));
    }
}

/// The summary, with a note where the process did not come to write its last.
fn with_note(left: Left) -> Option<Summary> {
    let mut summary = left.summary?;
    if left.is_cut {
        summary.notes.insert(
            0,
            format!(
                "Process {} (`{}`) ended at once (_exit, exec, a crash or a signal), or could not write its summary: \
                 its figures are from its last snapshot, of which it made one each second.",
                left.name, left.command
            ),
        );
    }
    Some(summary)
}

/// Those that did something, and those that did nothing: the parents of `torchrun` and `mpirun` do no more than begin
/// CUDA.
fn sorted_out(summaries: Vec<Summary>) -> (Vec<Summary>, Vec<Summary>) {
    let (worked, idle): (Vec<Summary>, Vec<Summary>) = summaries.into_iter().partition(|summary| {
        !summary.losses.open.is_empty()
            || summary.ranges.iter().any(|row| row.times.instances > 0)
            || summary.gpu.as_ref().is_some_and(|gpu| gpu.total.operations > 0)
            || !summary.openacc.is_empty()
    });
    if worked.is_empty() { idle.into_iter().partition(has_calls) } else { (worked, idle) }
}

fn has_calls(summary: &Summary) -> bool {
    summary.gpu.as_ref().and_then(|gpu| gpu.calls.as_ref()).is_some_and(|calls| !calls.is_empty())
}

/// Why there is no report.
fn why_empty(program: Option<&Path>, begun: bool, idle: &[Summary]) -> String {
    let obstacle = program.and_then(program::obstacle).filter(|_| !begun);
    match (obstacle, idle.first().and_then(|summary| summary.notes.first())) {
        (Some(obstacle), _) => obstacle.to_string(),
        (None, Some(note)) => format!("no NVTX range has ended. {note}"),
        (None, None) if begun => "it uses NVTX, CUDA or OpenACC, but no range, call or event has ended \
                                  (marks are in timelines alone: --html, --trace)"
            .to_owned(),
        (None, None) => "the program used neither NVTX nor CUDA nor OpenACC".to_owned(),
    }
}

/// What is printed and how.
struct Printing<'a> {
    print: &'a Print,
    chosen: &'a Chosen,
}

impl<'a> Printing<'a> {
    /// A line for each report that was asked for as comma-separated values, and cannot be.
    fn new(print: &'a Print, chosen: &'a Chosen) -> Self {
        let asked = chosen.reports.iter().filter(|_| print.csv && chosen.reports != REPORTS);
        for report in asked.filter(|report| tables(&[**report]).is_empty()) {
            complain(&format!("the report {report} is no table, so --csv leaves it out"));
        }
        Self { print, chosen }
    }

    /// The reports of one process. Where nobody chose any: those in which there is something.
    fn one(&self, summary: &Summary) -> Vec<u8> {
        let reports = self.reports(|report| has_rows(summary, report));
        let mut text = Vec::new();
        if self.print.csv {
            for report in tables(&reports) {
                let _not_recorded = separated(&mut text, |text| summary.write_csv(report, text));
            }
        } else {
            let _to_memory = summary.render(&reports, &self.options(), &mut text);
        }
        text
    }

    /// The reports of all processes together.
    fn all(&self, mut summaries: Vec<Summary>) -> Vec<u8> {
        if let [only] = &mut summaries[..] {
            return self.one(only);
        }
        let merged = Summary::merge(summaries);
        let mut text = Vec::new();
        if self.print.csv {
            let (chosen, one) = (&self.chosen.reports, merged.as_one());
            for report in tables(if *chosen == REPORTS { Report::ALL } else { chosen }) {
                for &table in csv_tables_of_many(report).iter().filter(|table| has_merged_rows(&merged, **table)) {
                    let _to_memory = separated(&mut text, |text| merged.write_csv(table, text));
                }
                if csv_tables_of_many(report).is_empty() && *chosen != REPORTS {
                    let _not_recorded = separated(&mut text, |text| one.write_csv(report, text));
                }
            }
        } else {
            let mut one = merged.as_one();
            let reports = self.reports(|report| has_rows(&one, report));
            // What was lost is printed once, below the tables of many.
            (one.losses, one.notes) = Default::default();
            let (many, of_one): (Vec<_>, Vec<_>) =
                reports.into_iter().partition(|report| !tables_of_many(*report).is_empty());
            let tables: Vec<MergedTable> = many.into_iter().flat_map(tables_of_many).copied().collect();
            let _to_memory = one.render(&of_one, &self.options(), &mut text);
            let _to_memory = merged.render_tables(&tables, &self.options(), &mut text);
        }
        text
    }

    fn reports(&self, has_rows: impl Fn(Report) -> bool) -> Vec<Report> {
        let chosen = &self.chosen.reports;
        let by_default = *chosen == REPORTS;
        chosen.iter().copied().filter(|&report| !by_default || has_rows(report)).collect()
    }

    fn options(&self) -> RenderOptions {
        let size = match self.chosen.output {
            Output::Stderr => terminal_size::terminal_size_of(io::stderr()),
            Output::Stdout => terminal_size::terminal_size_of(io::stdout()),
            _ => None,
        };
        let columns = size.map(|(columns, _)| usize::from(columns.0)).filter(|columns| *columns > 0);
        columns.map_or(self.chosen.options, |columns| self.chosen.options.width(columns))
    }

    /// One text for each of these processes: to a file of its own, where the names differ.
    fn write_each(&self, texts: Vec<Vec<u8>>, processes: &[Process]) {
        let mut files: Vec<(Option<PathBuf>, Vec<u8>, &Process)> = Vec::new();
        for (mut text, process) in texts.into_iter().zip(processes) {
            let path = match &self.chosen.output {
                Output::File(path) => Some(Chosen::expand(path, process)),
                _ => None,
            };
            match files.iter_mut().find(|(known, ..)| *known == path) {
                Some((_, before, _)) => {
                    before.extend(self.print.csv.then_some(b'\n'));
                    before.append(&mut text);
                }
                None => files.push((path, text, process)),
            }
        }
        for (_, text, process) in files {
            if let Err(error) = self.write(&text, process) {
                complain(&error.to_string());
            }
        }
    }

    /// To where the reports go; to standard error where that cannot be written.
    fn write(&self, text: &[u8], process: &Process) -> io::Result<()> {
        let written = match &self.chosen.output {
            Output::None => Ok(()),
            Output::Stdout => io::stdout().write_all(text).and_then(|()| io::stdout().flush()),
            Output::File(path) => {
                let path = Chosen::expand(path, process);
                Chosen::write(&path, text).map_err(|error| {
                    let _nowhere_left = io::stderr().write_all(text);
                    io::Error::new(error.kind(), format!("cannot write the report to `{}`: {error}", path.display()))
                })
            }
            _ => io::stderr().write_all(text),
        };
        written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
    }
}

/// Whether there is anything in one of the reports that are printed by default.
fn has_rows(summary: &Summary, report: Report) -> bool {
    let gpu = summary.gpu.as_ref();
    match report {
        Report::Ranges => !summary.ranges.is_empty(),
        Report::GpuProjection => gpu.is_some_and(|gpu| !gpu.projections.is_empty()),
        Report::Hot => gpu.is_some_and(|gpu| gpu.total.operations > 0) || has_calls(summary),
        Report::Nvprof => !summary.openacc.is_empty() || has_rows(summary, Report::Hot),
        _ => true,
    }
}

fn has_merged_rows(merged: &MergedSummary, table: MergedTable) -> bool {
    let mut text = Vec::new();
    let _to_memory = merged.write_csv(table, &mut text);
    text.iter().filter(|byte| **byte == b'\n').count() > 1
}

/// The tables that print a report with what each process has of it; none for a report that has no such table.
const fn tables_of_many(report: Report) -> &'static [MergedTable] {
    match report {
        Report::Ranges => &[MergedTable::Ranges, MergedTable::StreamTimes],
        Report::Tree => &[MergedTable::Tree],
        Report::Calls => &[MergedTable::Calls],
        Report::Categories => &[MergedTable::Categories],
        Report::Kernels => &[MergedTable::Work, MergedTable::Kernels],
        Report::MemTime => &[MergedTable::MemTime],
        Report::MemSize => &[MergedTable::MemSize],
        _ => &[],
    }
}

/// The same for comma-separated values, which have more tables.
const fn csv_tables_of_many(report: Report) -> &'static [MergedTable] {
    match report {
        Report::GpuProjection => &[MergedTable::GpuProjection],
        Report::Api => &[MergedTable::Api],
        Report::OpenAcc => &[MergedTable::OpenAcc],
        other => tables_of_many(other),
    }
}

/// The tables that make up these reports, each once: not every report is one table.
fn tables(reports: &[Report]) -> Vec<Report> {
    let mut tables = Vec::new();
    for &report in reports {
        let parts: &[Report] = match report {
            Report::Nvprof => &[Report::Kernels, Report::MemTime, Report::Api, Report::OpenAcc],
            Report::Hot | Report::Torch => &[],
            _ => &[report],
        };
        tables.extend(parts.iter().copied().filter(|part| !tables.contains(part)).collect::<Vec<_>>());
    }
    tables
}

/// An empty line between tables. What fails leaves nothing.
fn separated(text: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
    let mut table = Vec::new();
    write(&mut table)?;
    if !text.is_empty() {
        text.push(b'\n');
    }
    text.append(&mut table);
    Ok(())
}

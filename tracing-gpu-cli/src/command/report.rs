//! Reports on the processes of a run.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing_gpu::summary::{MergedSummary, Note, OffCpuStats, Process, ProcessCut, RangeStats, RangeStyle};
use tracing_gpu::{
    Chosen, FindingKinds, MergedSummaryExt as _, MergedTable, NoteExt as _, Output, RenderOptions, Report, Summary,
    SummaryExt as _,
};

use super::files::{self, Files};
use super::options::{Print, Processes, Run};
use super::program::{self, Program};
use super::timeline;
use crate::complain;
use crate::folder::{CaptureRange, Cut, Folder, Left};
use crate::system::{self, Taken};

/// From this number of processes on, a terminal shows the progress of reading them.
const MANY: usize = 16;
/// The largest number of processes that are named; others are counted.
const NAMED: usize = 3;

/// Prints the reports of a run and settles its files. Returns the pages.
pub(super) fn of_run(
    folder: &Folder,
    run: &Run,
    program: Option<&Program>,
    chosen: &Chosen,
    files: &Files,
    took: Duration,
    mut samples: BTreeMap<String, Vec<OffCpuStats>>,
) -> Vec<PathBuf> {
    let mut left = match folder.read(progress) {
        Ok(left) => left,
        Err(error) => {
            let at = folder.path().display();
            let why = format!("cannot read what the processes measured, in {at}: {error}");
            return nothing(run, chosen, files, (&[], true), &why);
        }
    };
    for Left { name, summary, .. } in &mut left {
        if let (Some(summary), Some(off_cpu)) = (summary, samples.remove(name)) {
            summary.off_cpu = off_cpu;
        }
    }
    let captured = run.captured();
    let (all, cut) = (left.len(), Unfinished::of(&left, |left| left.cut.is_some() && left.summary.is_some()));
    let mut silent = Unfinished::of(&left, |left| left.summary.is_none());
    if captured != CaptureRange::None {
        silent = Unfinished::default(); // a process in which that part does not begin writes nothing
    }
    // A process that goes on still writes its files.
    let may_join = left.iter().all(|left| left.cut != Some(Cut::Running));
    note_cut(&mut left);
    let (mut worked, idle) = sorted_out(left.into_iter().filter_map(|left| left.summary).collect());
    if captured != CaptureRange::None {
        // Ranges that were open when that part began have ended in it.
        worked.iter_mut().for_each(|summary| summary.losses.stray_exits = 0);
    }
    let of = |summaries: &[Summary]| summaries.iter().map(|summary| summary.process.clone()).collect::<Vec<_>>();
    let (worked_processes, idle_processes, silent_processes) = (of(&worked), of(&idle), silent.processes());
    if all == 0 && captured == CaptureRange::None {
        return unseen(run, program, chosen, files, took);
    }
    if worked.is_empty() {
        let why = match captured {
            CaptureRange::Nvtx(name) if all > 0 => format!("no range `{name}` has begun"),
            CaptureRange::Cuda if all > 0 => "no call of cudaProfilerStart was seen".to_owned(),
            _ if all == 0 => program::unseen(program).0, // beside a part that is captured
            _ => why_empty(&silent, &cut, all, &idle),
        };
        // Marks are in no report, but in timelines.
        let processes: Vec<&Process> = idle_processes.iter().chain(&silent_processes).collect();
        return nothing(run, chosen, files, (&processes, may_join), &why);
    }
    let pages = files.settle(
        &worked_processes.iter().chain(&silent_processes).collect::<Vec<&Process>>(),
        &idle_processes.iter().collect::<Vec<&Process>>(),
        may_join,
        "no process that measured something came to write this file",
    );
    let is_each = matches!(run.processes, Processes::Each) || !may_join;
    let together = if is_each { &[] } else { &worked[..] };
    let pages = files.join_pages(pages, together, &chosen.options);
    files.write_json(&worked.iter().collect::<Vec<&Summary>>(), &chosen.options.of_command(true));
    silent.sentence(all).iter().for_each(|sentence| complain(sentence));
    let printing = Printing::new(&run.print, chosen);
    let mut lists = if run.print_gpu_trace { gpu_traces(folder, &worked, run.print.csv) } else { Vec::new() };
    let mut texts = match run.processes {
        _ if run.print_gpu_trace && chosen.reports == run.print.default_reports() => {
            vec![Vec::new(); if matches!(run.processes, Processes::Each) { worked.len() } else { 1 }]
        }
        Processes::Each => worked.iter().map(|summary| printing.one(summary, Some(folder))).collect(),
        Processes::First => vec![printing.one(&worked[0], Some(folder))],
        Processes::Merged => vec![printing.all(worked, Some((folder, &cut, all)))],
    };
    match run.processes {
        Processes::Each => {}
        Processes::First => lists.truncate(1),
        Processes::Merged => {
            let joined = lists.into_iter().reduce(|mut all, mut list| {
                all.append(&mut list);
                all
            });
            lists = joined.into_iter().collect();
        }
    }
    for (text, mut list) in texts.iter_mut().zip(lists) {
        list.append(text); // a list may be a gigabyte
        *text = list;
    }
    printing.write_each(texts, &worked_processes);
    pages
}

/// The lists of GPU operations: of the processes that had any, or of all processes if none had.
fn gpu_traces(folder: &Folder, worked: &[Summary], is_csv: bool) -> Vec<Vec<u8>> {
    let has_work = |summary: &Summary| summary.gpu.as_ref().is_some_and(|gpu| gpu.total.operations > 0);
    let has_any = worked.iter().any(has_work);
    let list = |summary: &Summary| match has_any && !has_work(summary) {
        true => Vec::new(),
        false => {
            let mut list = fs::read(Chosen::expand(&folder.gpu_trace(is_csv), &summary.process)).unwrap_or_default();
            if list.is_empty() {
                complain(&format!(
                    "process {} left no list of GPU operations: it is written when a process ends by itself",
                    summary.process.pid
                ));
                return list;
            }
            list.push(b'\n');
            list
        }
    };
    worked.iter().map(list).collect()
}

/// Reports that no process made a call: one line with the reason, and two lines with the program's times and with a way
/// to name its phases. Returns the pages.
fn unseen(run: &Run, program: Option<&Program>, chosen: &Chosen, files: &Files, took: Duration) -> Vec<PathBuf> {
    let (why, naming) = program::unseen(program);
    let pages = nothing(run, chosen, files, (&[], true), &why);
    if let (Some(naming), false) = (naming, run.print.csv) {
        let name = run.command.first().map(|name| name.to_string_lossy()).unwrap_or_default();
        let line = match chosen.output {
            Output::File(_) => format!("tracing-gpu: nothing was measured: {why}\n"),
            _ => String::new(), // standard error has this line already
        };
        let took = took_in_words(took, system::taken_by_children());
        let text = format!("{line} `{}` took {took}\n To name phases: {naming}\n", name.escape_debug());
        if let Err(error) = Printing::new(&run.print, chosen).write(text.as_bytes(), &Chosen::process()) {
            complain(&error.to_string());
        }
    }
    pages
}

/// `2.003 s: 1.900 s user, 0.050 s system, at most 123.4 MB in one process`
fn took_in_words(wall: Duration, taken: Option<Taken>) -> String {
    let seconds = |time: Duration| format!("{:.3} s", time.as_secs_f64());
    match taken {
        None => seconds(wall),
        Some(Taken { user, system, memory }) => format!(
            "{}: {} user, {} system, at most {:.1} MB in one process",
            seconds(wall),
            seconds(user),
            seconds(system),
            memory as f64 / 1e6
        ),
    }
}

/// Processes that may have written timelines, and whether those may be joined.
type Timelines<'a> = (&'a [&'a Process], bool);

/// Reports in a line and in the files why nothing was measured. Returns the pages.
fn nothing(run: &Run, chosen: &Chosen, files: &Files, timelines: Timelines<'_>, why: &str) -> Vec<PathBuf> {
    let line = format!("nothing was measured: {why}");
    complain(&line);
    in_files(run, chosen, files, timelines, &line)
}

/// Puts this line into each file, or removes it, so that no file keeps the contents of an earlier run.
pub(super) fn in_files(
    run: &Run,
    chosen: &Chosen,
    files: &Files,
    (processes, may_join): Timelines<'_>,
    line: &str,
) -> Vec<PathBuf> {
    let pages = files.join_pages(files.settle(processes, &[], may_join, line), &[], &chosen.options);
    let mut process = Chosen::process();
    let command: Vec<_> = run.command.iter().map(|word| word.to_string_lossy()).collect();
    process.command = command.join(" ");
    files.write_no_json(&process, line);
    if matches!(chosen.output, Output::File(_)) {
        Printing::new(&run.print, chosen).write_nothing(&process, line);
    }
    pages
}

/// Reports whose figures are not concluded from a database.
const NOT_CONCLUDED: [Report; 6] = [
    Report::GpuProjection,
    Report::RangeKernels,
    Report::KernelExec,
    Report::Graphs,
    Report::Interference,
    Report::Categories,
];

/// What was chosen, without reports that would have no figures. Prints a line for each that was asked for.
fn of_database(print: &Print, chosen: &Chosen) -> Chosen {
    let mut chosen = chosen.clone();
    let is_asked = chosen.reports != print.default_reports();
    for report in NOT_CONCLUDED.iter().filter(|report| is_asked && chosen.reports.contains(report)) {
        complain(&format!("the report {report} cannot be made from a database: `nsys stats` has its tables"));
    }
    chosen.reports.retain(|report| !NOT_CONCLUDED.contains(report));
    chosen
}

/// Prints one report on the summaries in a folder, or on the processes of a run in its folder.
pub(super) fn of_folder(folder: &Path, print: &Print, chosen: &Chosen) -> io::Result<()> {
    let run = Folder::of_run(folder);
    let (mut cut, mut began) = (Unfinished::default(), 0);
    let summaries = match &run {
        Some(run) => {
            let mut left = run.read(progress).map_err(|error| said(folder, &error))?;
            began = left.len();
            let silent = Unfinished::of(&left, |left| left.summary.is_none());
            silent.sentence(began).iter().for_each(|sentence| complain(sentence));
            cut = Unfinished::of(&left, |left| left.cut.is_some() && left.summary.is_some());
            note_cut(&mut left);
            left.into_iter().filter_map(|left| left.summary).collect()
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
    let chosen =
        &if timeline::is_database(folder).unwrap_or(false) { of_database(print, chosen) } else { chosen.clone() };
    let printing = Printing::new(print, chosen);
    let text = printing.all(all, run.as_ref().map(|run| (run, &cut, began)));
    printing.write(&text, &first)
}

fn said(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// The summary in a file of the user.
pub(super) fn summary_in(path: &Path) -> io::Result<Summary> {
    if timeline::is_one(path)? || timeline::is_database(path)? {
        return timeline::summary(path);
    }
    let read = File::open(path).and_then(|file| Ok(Summary::read_json(file)?));
    read.map_err(|error| said(path, &error))
}

/// Writes the page of a summary or of a timeline, by default beside it. There it replaces no existing file, which may
/// be the page of the run, with more contents.
pub(super) fn page(summary: &Path, output: Option<PathBuf>, without: FindingKinds) -> io::Result<()> {
    let beside = summary.with_extension("html");
    if output.is_none() && beside.try_exists()? {
        return Err(said(&beside, &"there is a file: `--output PATH` names the page, and may replace it"));
    }
    let to = output.unwrap_or(beside);
    if timeline::is_one(summary)? || timeline::is_database(summary)? {
        let page = timeline::page(summary, to.parent().unwrap_or(Path::new(".")), without)?;
        return files::write(&to, |out| out.write_all(&page));
    }
    let read = summary_in(summary)?;
    files::write(&to, |out| tracing_gpu::write_html_without(&read, without, out))
}

/// Writes to standard output, which may have lost its reader.
pub(super) fn print(text: &[u8]) -> io::Result<()> {
    let written = io::stdout().write_all(text).and_then(|()| io::stdout().flush());
    written.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// The layout of tables. On a terminal they have its width.
pub(super) fn options(chosen: &Chosen, output: &Output) -> RenderOptions {
    let size = match output {
        Output::Stderr => terminal_size::terminal_size_of(io::stderr()),
        Output::Stdout => terminal_size::terminal_size_of(io::stdout()),
        _ => None,
    };
    let columns = size.map(|(columns, _)| usize::from(columns.0)).filter(|columns| *columns > 0);
    let is_stream = matches!(output, Output::Stderr | Output::Stdout);
    let color = is_stream && Chosen::color().unwrap_or(columns.is_some());
    let options = chosen.options.of_command(true).color(color);
    columns.map_or(options, |columns| options.width(columns))
}

/// The summaries in a folder, or in one file; prints a line for each file of a folder that has none.
fn summaries_in(folder: &Path) -> io::Result<Vec<Summary>> {
    if folder.is_file() {
        return read_summaries(folder)?.map_err(|error| said(folder, &error));
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| said(folder, &error))? {
        let path = entry.map_err(|error| said(folder, &error))?.path();
        if path.extension().is_some_and(|kind| kind == "json" || kind == "pftrace") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut summaries = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        progress(index, paths.len());
        if !path.is_file() {
            // Opening a pipe would wait.
            complain(&format!("left out: {}: not a regular file", path.display()));
            continue;
        }
        match read_summaries(path)? {
            Ok(found) => {
                for summary in found {
                    if summary.process.started_unix_ns != 0 && summaries.contains(&summary) {
                        complain(&format!("left out: {}: a copy of another file here", path.display()));
                    } else {
                        summaries.push(summary);
                    }
                }
            }
            Err(error) => complain(&format!("left out: {}: {error}", path.display())),
        }
    }
    Ok(summaries)
}

/// The summaries in a file of a folder, or why there are none.
fn read_summaries(path: &Path) -> io::Result<Result<Vec<Summary>, String>> {
    if path.extension().is_some_and(|kind| kind == "pftrace") || timeline::is_database(path)? {
        return Ok(timeline::summaries(path).map_err(|error| error.to_string()));
    }
    let file = File::open(path).map_err(|error| said(path, &error))?;
    Ok(Summary::read_json(file).map(|summary| vec![summary]).map_err(|error| error.to_string()))
}

/// Shows on a terminal the progress of reading many files.
fn progress(index: usize, count: usize) {
    if count < MANY || !io::stderr().is_terminal() {
        return;
    }
    let end = if index + 1 == count { "\r\x1b[K" } else { "" };
    let line = format!("\rtracing-gpu: reading process {} of {count}{end}", index + 1);
    let _nobody_reads = io::stderr().write_all(line.as_bytes());
}

/// Whether a note is about processes that did not write their summaries at their ends.
fn is_of_unfinished(note: &Note) -> bool {
    match note {
        Note::Shared { note, .. } => is_of_unfinished(note),
        note => matches!(note, Note::Unfinished { .. } | Note::UnfinishedProcesses { .. }),
    }
}

/// Adds the note to the summary of each such process.
fn note_cut(left: &mut [Left]) {
    for left in left {
        if let (Some(cut), Some(summary)) = (left.cut, &mut left.summary) {
            summary.notes.insert(0, Note::Unfinished { cut: cut.in_note() });
        }
    }
}

/// Processes that could not write all of their measurements.
#[derive(Clone, Debug, Default)]
struct Unfinished {
    names: Vec<String>,
    commands: Vec<String>,
    /// What is missing for all of them.
    cut: Option<Cut>,
}

impl Unfinished {
    fn of(left: &[Left], is: impl Fn(&Left) -> bool) -> Self {
        let left: Vec<&Left> = left.iter().filter(|left| is(left)).collect();
        let (names, commands) = left.iter().map(|left| (left.name.clone(), left.command.clone())).unzip();
        let cut =
            left.iter().filter_map(|left| left.cut).reduce(|all, cut| if all == cut { all } else { Cut::Snapshot });
        Self { names, commands, cut }
    }

    /// The processes, as far as they are known: they may have written timelines.
    fn processes(&self) -> Vec<Process> {
        let ids = self.names.iter().filter_map(|name| name.split('-').next()?.parse().ok());
        ids.map(|pid| {
            let mut process = Chosen::process();
            process.pid = pid;
            process
        })
        .collect()
    }

    /// A note of a report on these processes, which are some of `all`, and on their missing data. `None` if there are
    /// no such processes.
    fn note(&self, all: usize) -> Option<Note> {
        let cut = self.cut.unwrap_or(Cut::Snapshot).in_note();
        let (names, command) = self.named();
        match self.names.len() as u64 {
            0 => None,
            1 if all == 1 => Some(Note::Unfinished { cut }),
            count => Some(Note::UnfinishedProcesses { cut, count, of: all as u64, names, command }),
        }
    }

    /// A sentence on the processes that left nothing, out of `all` that began.
    fn sentence(&self, all: usize) -> Option<String> {
        let (names, command) = self.named();
        let count = self.names.len() as u64;
        (count > 0).then(|| Note::SilentProcesses { count, of: all as u64, names, command }.sentence())
    }

    /// The first processes, and their command if it is that of all.
    fn named(&self) -> (Vec<(String, Option<String>)>, Option<String>) {
        let is_one_program = self.commands.windows(2).all(|pair| pair[0] == pair[1]);
        let own = |command: &String| (!is_one_program).then(|| command.clone());
        let both = self.names.iter().zip(&self.commands).take(NAMED);
        let names = both.map(|(name, command)| (name.clone(), own(command))).collect();
        (names, self.commands.first().filter(|_| is_one_program).cloned())
    }
}

impl Cut {
    fn in_note(self) -> ProcessCut {
        match self {
            Self::Exact => ProcessCut::Exact,
            Self::Snapshot => ProcessCut::Snapshot,
            Self::Refused(error) => {
                let error = io::Error::from_raw_os_error(error).to_string();
                ProcessCut::Refused(error.split(" (os error").next().unwrap_or_default().to_owned())
            }
            Self::Running => ProcessCut::Running,
        }
    }
}

/// Splits processes into those that did something, and idle ones: the parents of `torchrun` and `mpirun` only
/// initialise CUDA.
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

/// The reason for an empty report, although some processes began to be measured.
fn why_empty(silent: &Unfinished, cut: &Unfinished, all: usize, idle: &[Summary]) -> String {
    if let Some(sentence) = silent.sentence(all) {
        return sentence;
    }
    if let Some(note) = cut.note(all) {
        return format!("no range is known to have ended. {}", note.sentence().trim_end_matches('.'));
    }
    match idle.first().and_then(|summary| summary.notes.first()) {
        Some(note) => format!("no NVTX range has a time. {}", note.sentence()),
        None => {
            "the program uses NVTX, CUDA or OpenACC, but no range, call or event has ended (marks are in timelines \
                 alone: --html, --trace)"
                .to_owned()
        }
    }
}

/// The reports and their form.
struct Printing<'a> {
    print: &'a Print,
    chosen: &'a Chosen,
}

impl<'a> Printing<'a> {
    /// Prints a line for each requested report that cannot be given as comma-separated values.
    fn new(print: &'a Print, chosen: &'a Chosen) -> Self {
        let asked = chosen.reports.iter().filter(|_| print.csv && chosen.reports != print.default_reports());
        for report in asked.filter(|report| tables(&[**report]).is_empty()) {
            complain(&format!("the report {report} is no table, so --csv leaves it out"));
        }
        Self { print, chosen }
    }

    /// The reports of one process; by default those with contents. Reports that the process has printed itself, in a
    /// run, are left out.
    fn one(&self, summary: &Summary, folder: Option<&Folder>) -> Vec<u8> {
        let mut reports = self.reports(summary);
        let mut text = Vec::new();
        if self.print.csv {
            self.complain_of_losses(summary);
            for report in tables(&reports) {
                let _not_recorded = separated(&mut text, |text| summary.write_csv(report, text));
            }
            return text;
        }
        if matches!(self.chosen.output, Output::Stdout | Output::Stderr) {
            let printed = folder.map_or_else(Vec::new, |folder| Chosen::printed(folder.path(), summary.process.pid));
            reports.retain(|report| !printed.contains(report));
            if reports.is_empty() && !printed.is_empty() {
                return text;
            }
        }
        let _to_memory = summary.render(&reports, &self.options(), &mut text);
        text
    }

    /// The reports of all processes together; for a run, with a note on unfinished processes.
    fn all(&self, mut summaries: Vec<Summary>, run: Option<(&Folder, &Unfinished, usize)>) -> Vec<u8> {
        if let [only] = &summaries[..] {
            return self.one(only, run.map(|(folder, ..)| folder));
        }
        let together = run.and_then(|(_, cut, all)| cut.note(all));
        if together.is_some() {
            summaries.iter_mut().for_each(|summary| summary.notes.retain(|note| !is_of_unfinished(note)));
        }
        let mut merged = Summary::merge(summaries);
        merged.notes.splice(0..0, together);
        let mut one = merged.as_one();
        let reports = self.reports(&one);
        let mut text = Vec::new();
        if self.print.csv {
            self.complain_of_losses(&one);
            for report in tables(&reports) {
                let _not_recorded = separated(&mut text, |text| match tables_of_many(report).1 {
                    Some(table) if has_merged_rows(&merged, table) => merged.write_csv(table, text),
                    Some(_) => Err(io::ErrorKind::NotFound.into()),
                    None => one.write_csv(report, text),
                });
            }
            return text;
        }
        // Losses are printed once, below the tables of many.
        (one.losses, one.notes) = Default::default();
        let (many, of_one): (Vec<_>, Vec<_>) =
            reports.into_iter().partition(|report| !tables_of_many(*report).0.is_empty());
        let tables: Vec<MergedTable> = many.into_iter().flat_map(|report| tables_of_many(report).0).copied().collect();
        let _to_memory = one.render(&of_one, &self.options(), &mut text);
        let _to_memory = merged.render_tables(&tables, &self.options(), &mut text);
        text
    }

    /// Comma-separated values have no place for notes, so missing data is reported on standard error.
    fn complain_of_losses(&self, summary: &Summary) {
        let notes = summary.notes.iter().filter(|note| summary.gpu.is_none() || is_of_unfinished(note));
        let losses = summary.losses_as_text(&self.options());
        notes.map(Note::sentence).chain(losses).for_each(|sentence| complain(&sentence));
    }

    /// Writes a line with the reason in place of a report; for comma-separated values, only the headers.
    fn write_nothing(&self, process: &Process, line: &str) {
        let mut text = format!("tracing-gpu: {line}\n").into_bytes();
        if self.print.csv {
            text.clear();
            let is_default = self.chosen.reports == self.print.default_reports();
            let reports = if is_default { &[Report::Ranges][..] } else { &self.chosen.reports };
            for report in tables(reports).into_iter().filter_map(|report| tables_of_many(report).1) {
                let _to_memory = separated(&mut text, |text| Summary::merge([]).write_csv(report, text));
            }
        }
        if let Err(error) = self.write(&text, process) {
            complain(&error.to_string());
        }
    }

    /// The chosen reports; by default those with rows, and the ranges if the tree does not have all of them.
    fn reports(&self, summary: &Summary) -> Vec<Report> {
        let chosen = &self.chosen.reports;
        if *chosen != self.print.default_reports() {
            return chosen.clone();
        }
        let in_tree = |row: &RangeStats| !summary.tree.is_empty() && row.style == RangeStyle::PushPop;
        let is_told = !self.print.csv && summary.ranges.iter().all(in_tree);
        let is_shown = |report: Report| has_rows(summary, report) && !(report == Report::Ranges && is_told);
        chosen.iter().copied().filter(|&report| is_shown(report)).collect()
    }

    fn options(&self) -> RenderOptions {
        options(self.chosen, &self.chosen.output)
    }

    /// Writes one text for each of these processes, to a file of its own if the names differ.
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

    /// Writes to the destination of the reports, or to standard error if that fails.
    fn write(&self, text: &[u8], process: &Process) -> io::Result<()> {
        let written = match &self.chosen.output {
            Output::None => Ok(()),
            Output::Stdout => print(text),
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

/// Whether a default report has any contents.
fn has_rows(summary: &Summary, report: Report) -> bool {
    let gpu = summary.gpu.as_ref();
    match report {
        Report::Ranges => !summary.ranges.is_empty(),
        Report::GpuProjection => gpu.is_some_and(|gpu| !gpu.projections.is_empty()),
        Report::Hot => gpu.is_some_and(|gpu| gpu.total.operations > 0) || has_calls(summary),
        Report::OpenAcc => !summary.openacc.is_empty(),
        Report::Nvprof => !summary.openacc.is_empty() || has_rows(summary, Report::Hot),
        Report::Tree => !summary.tree.is_empty(),
        Report::Why => gpu.is_some_and(|gpu| gpu.total.operations > 0),
        _ => true,
    }
}

fn has_merged_rows(merged: &MergedSummary, table: MergedTable) -> bool {
    let mut text = Vec::new();
    let _to_memory = merged.write_csv(table, &mut text);
    text.iter().filter(|byte| **byte == b'\n').count() > 1
}

/// The tables by which a report is printed for many processes, empty for a report without such tables; and the one for
/// comma-separated values, where each report is one table, as for one process.
const fn tables_of_many(report: Report) -> (&'static [MergedTable], Option<MergedTable>) {
    use MergedTable as Table;
    match report {
        Report::Ranges => (&[Table::Ranges, Table::StreamTimes], Some(Table::Ranges)),
        Report::Tree => (&[Table::Tree], Some(Table::Tree)),
        Report::Calls => (&[Table::Calls], Some(Table::Calls)),
        Report::Categories => (&[Table::Categories], Some(Table::Categories)),
        Report::Kernels => (&[Table::Work, Table::Kernels], Some(Table::Kernels)),
        Report::MemTime => (&[Table::MemTime], Some(Table::MemTime)),
        Report::MemSize => (&[Table::MemSize], Some(Table::MemSize)),
        Report::GpuProjection => (&[], Some(Table::GpuProjection)),
        Report::Api => (&[], Some(Table::Api)),
        Report::OpenAcc => (&[], Some(Table::OpenAcc)),
        _ => (&[], None),
    }
}

/// The tables of these reports, each once: some reports are several tables.
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

/// Adds a table after an empty line. If `write` fails, adds nothing.
fn separated(text: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
    let mut table = Vec::new();
    write(&mut table)?;
    if !text.is_empty() {
        text.push(b'\n');
    }
    text.append(&mut table);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfinished(commands: &[&str]) -> Unfinished {
        let names = (1..=commands.len()).map(|pid| pid.to_string()).collect();
        let commands = commands.iter().map(|&command| command.to_owned()).collect();
        Unfinished { names, commands, cut: Some(Cut::Snapshot) }
    }

    #[test]
    fn processes_that_left_nothing_are_one_sentence() {
        let sentence = |commands: &[&str], all| unfinished(commands).sentence(all).unwrap_or_default();
        let how = "ended at once (_exit, exec, a crash or a signal), or could not write: nothing of";
        assert_eq!(sentence(&[], 3), "");
        assert_eq!(sentence(&["./app"], 1), format!("process 1 (`./app`) {how} it was kept"));
        assert_eq!(sentence(&["./app"], 3), format!("1 of 3 processes {how} it was kept: 1 (`./app`)"));
        let several = sentence(&["./app", "./app", "./app", "./app"], 9);
        assert_eq!(several, format!("4 of 9 processes {how} them was kept: 1, 2, 3 and 1 more (`./app`)"));
        assert!(sentence(&["./app", "sh"], 2).ends_with(": 1 (`./app`), 2 (`sh`)"));
    }

    #[test]
    fn nothing_is_said_of_ranges_that_may_have_ended() {
        let cut = unfinished(&["./app"]);
        let why = why_empty(&Unfinished::default(), &cut, 1, &[Summary::default()]);
        assert!(why.starts_with("no range is known to have ended. This process ended at once"), "{why}");
        assert!(why_empty(&cut, &Unfinished::default(), 1, &[]).starts_with("process 1 (`./app`) ended at once"));
    }
}

//! The command: it starts the program with itself injected, waits, and prints the results of the processes.

mod compare;
#[cfg(feature = "parquet")]
mod convert;
mod files;
mod nvprof;
mod open;
mod options;
mod program;
mod report;
mod timeline;
mod wait;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use clap::{CommandFactory as _, Parser as _};
use tracing_gpu::{Chosen, Output, Profiler, RunSampler};

use crate::folder::{self, Folder, Settings};
use crate::{complain, system};
use options::{CommandLine, Compare, Convert, Other, Print, Run, WRONG_USE};
use program::Program;

const SUCCESS: u8 = 0;
const FAILURE: u8 = 1;
/// The shell's exit status for a command that is not found, and for one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;
/// The exit status of `compare` if a range became slower than allowed.
const SLOWER: u8 = 1;

/// The whole command. Returns its exit status, which is the program's.
#[must_use]
pub fn run() -> u8 {
    system::survive_what_is_inherited();
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => return nvprof::explain(&error).unwrap_or_else(|| answered(&error)),
    };
    match line.other {
        None => profile(&line.run),
        Some(Other::Merge { folder, print }) => merge(&folder, &print),
        Some(Other::Compare(asked)) => compare(&asked),
        Some(Other::Page { summary, output, without }) => page(&summary, output, without),
        Some(Other::Convert(asked)) => ended(convert(&asked).map(|()| SUCCESS), FAILURE),
        Some(Other::Query { .. }) => ended(
            Err(io::Error::other(
                "`tracing-gpu query` is gone: after `pip install duckdb`, `python3 docs/queries/run.py duckdb FOLDER [NAME]` \
                 in the repository of this command runs the same queries",
            )),
            FAILURE,
        ),
        Some(Other::Completions { shell }) => {
            clap_complete::generate(shell, &mut CommandLine::command(), "tracing-gpu", &mut io::stdout());
            SUCCESS
        }
        Some(Other::Man) => {
            let mut all = CommandLine::command();
            all.build();
            let commands = all.get_subcommands().filter(|command| !command.is_hide_set());
            let mut pages = std::iter::once(&all).chain(commands).map(|command| clap_mangen::Man::new(command.clone()));
            match pages.try_for_each(|page| page.render(&mut io::stdout())) {
                Ok(()) => SUCCESS,
                Err(_) => FAILURE,
            }
        }
    }
}

#[cfg(feature = "parquet")]
fn convert(asked: &Convert) -> io::Result<()> {
    convert::convert(asked)
}

#[cfg(not(feature = "parquet"))]
fn convert(asked: &Convert) -> io::Result<()> {
    let Convert { input, folder, run, host, rank } = asked;
    let _unused = (run, host, rank);
    let (input, folder) = (input.display(), folder.display());
    Err(io::Error::other(format!(
        "cannot convert `{input}` to datasets in `{folder}`: this command was built without them: `cargo install --path \
         tracing-gpu-cli --features parquet`"
    )))
}

/// Prints help, the version, or the error of the command line.
fn answered(error: &clap::Error) -> u8 {
    let _nobody_reads = error.print();
    if error.use_stderr() { WRONG_USE } else { SUCCESS }
}

fn profile(run: &Run) -> u8 {
    if let Some(complaint) = nvprof::refused(run) {
        complain(complaint);
        return WRONG_USE;
    }
    let users = users_settings();
    let chosen = choose(&run.print, files::asked_for(run), Some(run), &users);
    let files = files::Files::new(&chosen, run.processes);
    let Some((name, arguments)) = run.command.split_first() else { return WRONG_USE };
    let mut command = Command::new(name);
    command.args(arguments);
    let program = Program::find(name);
    let program = program.as_ref();
    let folder = if chosen.enabled { injected(&mut command, program, run, &users, &files) } else { None };
    let (mut other_runs, mut sampler) = (None, None);
    let mut start = |command: &mut Command| {
        let program = wait::start(command, run.wait, run.timeout.map(|seconds| seconds.0))?;
        let rows = folder.as_ref().filter(|_| chosen.off_cpu != Some(false)).map(Folder::all_rows);
        sampler = rows.map(RunSampler::new);
        program.wait(|| {
            // A folder of many files takes as long to read as a short program runs.
            other_runs.get_or_insert_with(|| folder.as_ref().map(Folder::other_runs).unwrap_or_default());
            sampler.as_mut().map(RunSampler::look)
        })
    };
    let began = Instant::now();
    let started = start(&mut command).or_else(|error| match by_shell(&command, program, &error) {
        Some(mut shell) => start(&mut shell).map_err(|_| error),
        None => Err(error),
    });
    let took = began.elapsed();
    let samples = sampler.map(RunSampler::finish).unwrap_or_default();
    let ended = match started {
        Ok(ended) => ended,
        Err(error) => {
            folder.into_iter().for_each(Folder::remove);
            if chosen.enabled {
                let line = format!("nothing was measured: `{}` could not be started", Path::new(name).display());
                report::in_files(run, &chosen, &files, (&[], true), &line);
            }
            return not_started(Path::new(name), program, &error);
        }
    };
    match folder {
        Some(folder) => {
            let pages = report::of_run(&folder, run, program, &chosen, &files, took, samples);
            let search = || if took < wait::FIRST_LOOK { Vec::new() } else { folder.other_runs() };
            settle_ended_runs(&folder, other_runs.unwrap_or_else(search));
            folder.remove();
            if run.open {
                open::page(&pages);
            }
        }
        None if chosen.enabled => {
            // A line has stated the reason.
            report::in_files(
                run,
                &chosen,
                &files,
                (&[], true),
                "nothing was measured: the program ran without this command",
            );
        }
        None => {}
    }
    end_like(ended)
}

/// Prints a line that names runs whose command was killed. They are removed a day later.
fn settle_ended_runs(own: &Folder, others: Vec<PathBuf>) {
    let mut named = Vec::new();
    for ended in own.ended_runs(others) {
        match ended.take_name() {
            Ok(true) => named.push(ended.path().display().to_string()),
            Ok(false) if ended.is_old() => ended.remove(),
            Ok(false) | Err(_) => {}
        }
    }
    let Some(first) = named.first() else { return };
    let others = match named.len() - 1 {
        0 => String::new(),
        others => format!(" ({others} more such folders are beside it)"),
    };
    complain(&format!(
        "an earlier run was killed before its report: `tracing-gpu merge {first}` prints it{others}. \
         It is removed after a day"
    ));
}

fn users_settings() -> String {
    std::env::var_os("TRACING_GPU").unwrap_or_default().to_string_lossy().into_owned()
}

/// The settings of the run: from the command line, then from the user's variable. Returns a line for each part of the
/// variable that is not understood.
fn choose(print: &Print, asked: BTreeMap<String, PathBuf>, run: Option<&Run>, users: &str) -> Chosen {
    let (mut builder, _none) =
        Profiler::builder().report(print.default_reports().iter().copied()).settings(&settings(print, run));
    if let Some(path) = &print.output {
        builder = builder.output(match path.to_str().map(str::parse) {
            Some(Ok(Output::File(_)) | Err(_)) | None => Output::File(files::absolute(path)),
            Some(Ok(stream)) => stream,
        });
    }
    let (builder, complaints) = builder.files(asked).settings(users);
    complaints.iter().for_each(|complaint| complain(complaint));
    builder.chosen()
}

/// The options in the grammar of `TRACING_GPU`, except for files.
fn settings(print: &Print, run: Option<&Run>) -> String {
    let given = [
        ("report", print.report.as_deref()),
        ("hot", print.hot.as_deref()),
        ("without", print.without.as_deref()),
        ("style", print.style.as_deref()),
        ("gpu", run.and_then(|run| run.gpu.as_deref())),
        ("graphs", run.and_then(|run| run.graphs.as_deref())),
        ("api", run.and_then(|run| run.api.as_deref())),
        ("off_cpu", run.and_then(|run| run.off_cpu.as_deref())),
        ("on_cpu", run.and_then(|run| run.on_cpu.as_deref())),
    ];
    let given = given.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?)));
    given.collect::<Vec<_>>().join(",")
}

/// Makes the program load this file. If that fails, returns `None` after a line with the reason, and the program runs
/// without it.
fn injected(
    command: &mut Command,
    program: Option<&Program>,
    run: &Run,
    users: &str,
    files: &files::Files,
) -> Option<Folder> {
    let prepared = prepare(run, users, files).and_then(|folder| Ok((folder, own_file()?)));
    let (folder, own) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            complain(&format!("the program runs without being measured: {error}"));
            return None;
        }
    };
    let before = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty() && *value != own);
    // Tools that were there before, such as Nsight Systems, get all calls, too. The proxy of Nsight Systems would
    // restore its own file in these variables.
    command.env_remove("QUADD_INJECTION_PROXY");
    for (variable, next) in
        [("NVTX_INJECTION64_PATH", "NVTX_RS_NEXT_TOOL"), ("CUDA_INJECTION64_PATH", folder::NEXT_CUDA)]
    {
        match before(variable) {
            Some(tool) => command.env(next, tool),
            None => command.env_remove(next),
        };
        command.env(variable, &own);
    }
    if program.is_some_and(Program::is_static_with_nvtx) {
        command.env_remove("NVTX_INJECTION64_PATH");
    }
    let mut openacc = OsString::from(&own);
    if let Some(tools) = before("ACC_PROFLIB") {
        openacc.push(";");
        openacc.push(tools);
    }
    command.env("ACC_PROFLIB", openacc).env(folder::VARIABLE, folder.path());
    // All processes are of one run, in files that runs share.
    command.env("TRACING_GPU_RUN_ID", Chosen::process().run_id);
    let (clock, now) = Chosen::run_clock();
    command.env(clock, now);
    command.env("TSAN_OPTIONS", tsan_options(std::env::var_os("TSAN_OPTIONS")));
    Some(folder)
}

/// ThreadSanitizer does not see the synchronisation of code that it was not compiled into, such as ours, and would
/// report races there. The user's own options come later, and win.
fn tsan_options(users: Option<OsString>) -> OsString {
    let mut options = OsString::from("ignore_noninstrumented_modules=1");
    if let Some(users) = users.filter(|users| !users.is_empty()) {
        options.push(":");
        options.push(users);
    }
    options
}

/// The folder of the run, with the settings in it.
fn prepare(run: &Run, users: &str, files: &files::Files) -> io::Result<Folder> {
    let temporary = std::env::var_os("TMPDIR").filter(|path| !path.is_empty()).unwrap_or_else(|| "/tmp".into());
    let temporary = std::path::absolute(temporary)?; // processes may change their folder
    let mut folder = Folder::create(&[temporary, "/tmp".into(), "/dev/shm".into()])
        .map_err(|error| io::Error::new(error.kind(), format!("no folder for the run in {error}")))?;
    let ours = settings(&run.print, Some(run));
    let reports = run.print.default_reports().iter().map(|report| report.name()).collect::<Vec<_>>().join("+");
    let texts = vec![format!("report={reports}"), ours, users.to_owned()];
    let mut files = files.of_processes();
    if run.print_gpu_trace {
        files.insert("gpu_trace".to_owned(), folder.gpu_trace(run.print.csv));
    }
    match folder.write_settings(&Settings { captured: run.captured(), texts, files }) {
        Ok(()) => Ok(folder),
        Err(error) => {
            folder.remove();
            Err(error)
        }
    }
}

/// The file of this command, which is also the library.
fn own_file() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    std::fs::File::open(&own).map_err(|error| io::Error::new(error.kind(), format!("`{}`: {error}", own.display())))?;
    Ok(own)
}

/// The same command through the shell, if the program is a script without an interpreter: every shell starts such
/// scripts like this.
fn by_shell(command: &Command, program: Option<&Program>, error: &io::Error) -> Option<Command> {
    let script = program.filter(|program| error.raw_os_error() == Some(libc::ENOEXEC) && program.is_text())?;
    let mut shell = Command::new("/bin/sh");
    shell.arg(script.path()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    Some(shell)
}

/// Prints in one line why the program could not be started.
fn not_started(name: &Path, program: Option<&Program>, error: &io::Error) -> u8 {
    let shown = name.display();
    let Some(program) = program else {
        complain(&format!("there is no program `{shown}`"));
        return NOT_FOUND;
    };
    match (error.raw_os_error(), program.interpreter()) {
        (Some(libc::ENOENT), Some(interpreter)) => {
            complain(&format!("`{shown}` is a script for `{}`, which is not there", interpreter.display()));
            return NOT_FOUND;
        }
        (Some(libc::ENOENT), None) => {
            complain(&format!("`{shown}` needs a dynamic loader that is not there: it is for another system"));
            return NOT_FOUND;
        }
        (Some(libc::ENOEXEC), _) => {
            complain(&format!("`{shown}` is no program for this machine"));
        }
        (Some(libc::EACCES), _) if program.path().is_dir() => {
            complain(&format!("`{shown}` is a folder, not a program"))
        }
        (Some(libc::EACCES), _) => complain(&format!("`{shown}` may not be executed: chmod +x makes it a program")),
        _ => complain(&format!("cannot start `{shown}`: {error}")),
    }
    NOT_RUN
}

/// Ends like the program: with its status, or by the same signal.
fn end_like(ended: ExitStatus) -> u8 {
    if let Some(signal) = ended.signal() {
        system::die_by(signal);
        return 128_u8.saturating_add(u8::try_from(signal).unwrap_or(0));
    }
    ended.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILURE)
}

/// `tracing-gpu merge FOLDER`.
fn merge(folder: &Path, print: &Print) -> u8 {
    let chosen = choose(print, BTreeMap::new(), None, &users_settings());
    ended(report::of_folder(folder, print, &chosen).map(|()| SUCCESS), FAILURE)
}

/// `tracing-gpu compare BEFORE AFTER`.
fn compare(asked: &Compare) -> u8 {
    let chosen = choose(&Print::default(), BTreeMap::new(), None, &users_settings());
    let compared = compare::compare(asked, &report::options(&chosen, &Output::Stdout));
    let code = |is_passed| if is_passed { SUCCESS } else { SLOWER };
    ended(compared.map(code), WRONG_USE)
}

/// `tracing-gpu page RUN.json`.
fn page(summary: &Path, output: Option<PathBuf>, without: Option<String>) -> u8 {
    let print = Print { without, ..Print::default() };
    let chosen = choose(&print, BTreeMap::new(), None, &users_settings());
    let without = report::options(&chosen, &Output::Stdout).without;
    ended(report::page(summary, output, without).map(|()| SUCCESS), FAILURE)
}

/// The exit status; a failure prints a line.
fn ended(result: io::Result<u8>, failed: u8) -> u8 {
    result.unwrap_or_else(|error| {
        complain(&error.to_string());
        failed
    })
}

//! Which file each output goes to: no two to the same, of one profiler or of several that live at once; and whether it can be written there.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::config::{Config, Output};
use crate::path;
use crate::process;
use crate::report::escaped;
use crate::summary::Process;

const REPORT: &str = "the report";

/// The files that live profilers write.
static TAKEN: Mutex<Vec<Taken>> = Mutex::new(Vec::new());

struct Taken {
    /// The process that took it: what a forked child inherits is not its own.
    pid: u32,
    file: PathBuf,
    output: &'static str,
}

/// The files that one profiler may write, until it gives them back.
#[derive(Debug, Default)]
pub(crate) struct Files {
    files: Vec<PathBuf>,
    pid: u32,
}

/// Takes the files of all outputs. An output whose file is taken already is struck from the settings; a report then goes to standard error. A line for each.
pub(crate) fn take(config: &mut Config, process: &Process) -> (Files, Vec<String>) {
    let mut report = match &config.output {
        Output::File(path) if config.prints() => Some(path.clone()),
        _ => None,
    };
    let prints = report.is_some();
    let outputs = &mut config.files;
    let wanted = [
        (REPORT, &mut report),
        ("the trace", &mut outputs.timelines.trace),
        ("the database", &mut outputs.timelines.sqlite),
        ("the page", &mut outputs.timelines.html),
        ("the JSON", &mut outputs.json),
        ("the folded stacks", &mut outputs.folded),
        ("the flame graph", &mut outputs.flamegraph),
    ];
    let (mut own, mut complaints) = (Files { files: Vec::new(), pid: process.pid }, Vec::new());
    let mut taken = TAKEN.lock();
    for (output, path) in wanted {
        let Some(given) = path.as_ref() else { continue };
        if let Some(unknown) = path::unknown(given) {
            let given = given.to_string_lossy();
            complaints.push(format!(
                "`{unknown}` in `{}` stays as it is: %h, %p and %r are the host, the process id and the rank, and %% is a percent sign",
                escaped(&given)
            ));
        }
        let named = path::expand(given, process);
        let Some(file) = place(&named) else { continue };
        match taken.iter().find(|other| other.pid == process.pid && other.file == file) {
            Some(other) => {
                let whose = if own.files.contains(&file) { "" } else { " of another profiler" };
                let instead = if output == REPORT { "; this one goes to standard error" } else { "" };
                let (named, other) = (named.to_string_lossy(), other.output);
                complaints.push(format!(
                    "cannot write {output} to `{}`: {other}{whose} goes there{instead}",
                    escaped(&named)
                ));
                *path = None;
            }
            None => {
                taken.push(Taken { pid: process.pid, file: file.clone(), output });
                own.files.push(file);
            }
        }
    }
    if prints && report.is_none() {
        config.output = Output::Stderr;
    }
    (own, complaints)
}

/// Which of the files that are written at the end cannot be, as things are, an error each: known at the start, it can be mended in time. What is there stays as it
/// is, for a run that does not come to its end.
pub(crate) fn unwritable(config: &Config, process: &Process) -> Vec<io::Error> {
    let report = match &config.output {
        Output::File(path) if config.prints() => Some(path),
        _ => None,
    };
    let files = &config.files;
    let wanted = [
        (REPORT, report),
        ("the JSON", files.json.as_ref()),
        ("the folded stacks", files.folded.as_ref()),
        ("the flame graph", files.flamegraph.as_ref()),
    ];
    let wanted = wanted.into_iter().filter_map(|(what, path)| Some((what, path::expand(path?, process))));
    wanted.filter_map(|(what, path)| Some(cannot_write(what, &path, &look(&path).err()?))).collect()
}

/// An error that names the output and its file.
pub(crate) fn cannot_write(what: &str, path: &Path, error: &io::Error) -> io::Error {
    let path = path.to_string_lossy();
    io::Error::new(error.kind(), format!("cannot write {what} to `{}`: {error}", escaped(&path)))
}

/// The error that writing a file would meet, as far as can be told without changing anything. A device or a pipe is left alone: to open it might wait, or do
/// something.
fn look(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(there) if there.is_file() || there.is_dir() => OpenOptions::new().append(true).open(path).map(drop),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.parent() {
            Some(folder) => process::may_add_to(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

impl Files {
    /// Gives them to whoever comes next.
    pub(crate) fn give_back(&self) {
        TAKEN.lock().retain(|taken| taken.pid != self.pid || !self.files.contains(&taken.file));
    }
}

/// The one name of a file, whatever it is called; `None` for what is none (a device, a pipe), which many may write to.
fn place(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (std::fs::metadata(&path), path.parent(), path.file_name()) {
        (Ok(there), _, _) if !there.is_file() => None,
        (Ok(_), _, _) => Some(path.canonicalize().unwrap_or(path)),
        (Err(_), Some(folder), Some(name)) => folder.canonicalize().map(|folder| folder.join(name)).ok().or(Some(path)),
        _ => Some(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings with a trace and folded stacks in these files.
    fn settings(trace: &str, folded: &str) -> Config {
        let mut config = Config::default();
        config.files.timelines.trace = Some(PathBuf::from(trace));
        config.files.folded = Some(PathBuf::from(folded));
        config
    }

    fn process(pid: u32) -> Process {
        Process { pid, ..Process::default() }
    }

    #[test]
    fn a_file_has_one_output_however_it_is_called() {
        let folder = std::env::temp_dir();
        let (first, second) = (folder.join("outputs-%p.json"), folder.join("./outputs-0001.json"));
        let mut config = settings(&first.to_string_lossy(), &second.to_string_lossy());
        let (files, said) = take(&mut config, &process(1));
        assert_eq!((files.files.len(), said.len(), config.files.folded.is_some()), (2, 0, true));
        files.give_back();

        let second = folder.join(".").join("outputs-1.json");
        let mut config = settings(&first.to_string_lossy(), &second.to_string_lossy());
        let (files, said) = take(&mut config, &process(1));
        assert_eq!(said, [format!("cannot write the folded stacks to `{}`: the trace goes there", second.display())]);
        assert!(config.files.timelines.trace.is_some() && config.files.folded.is_none());
        files.give_back();
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_the_same_through_a_link() -> std::io::Result<()> {
        let folder = std::env::temp_dir().join(format!("outputs-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("real"))?;
        std::os::unix::fs::symlink(folder.join("real"), folder.join("linked"))?;
        let said = |pid: u32| {
            let [first, second] = ["real/run", "linked/run"].map(|name| folder.join(name).display().to_string());
            take(&mut settings(&first, &second), &process(pid)).1.len()
        };
        let before = said(11);
        std::fs::write(folder.join("real/run"), "")?;
        let after = said(12);
        std::fs::remove_dir_all(&folder)?;
        assert_eq!((before, after), (1, 1), "where there is no such file yet, and where there is");
        Ok(())
    }

    #[test]
    fn a_file_is_free_when_its_profiler_has_ended_and_in_another_process() {
        let path = std::env::temp_dir().join("outputs-of-two").display().to_string();
        let (mut first, mut second) = (settings(&path, "/dev/null"), settings(&path, "/dev/null"));
        let (files, said) = take(&mut first, &process(2));
        assert!(said.is_empty(), "{said:?}");
        let (_, said) = take(&mut second.clone(), &process(3));
        assert!(said.is_empty(), "{said:?}");
        let (others, said) = take(&mut second, &process(2));
        assert!(said.len() == 1 && said[0].ends_with(": the trace of another profiler goes there"), "{said:?}");
        others.give_back();
        files.give_back();
        assert!(take(&mut settings(&path, "/dev/null"), &process(2)).1.is_empty());
    }

    #[test]
    fn what_stands_for_nothing_is_said_and_kept() {
        let path = std::env::temp_dir().join("outputs-%z").display().to_string();
        let mut config = settings(&path, "/dev/null");
        let (_, said) = take(&mut config, &process(5));
        assert!(said.len() == 1 && said[0].starts_with(&format!("`%z` in `{path}` stays as it is: ")), "{said:?}");
        assert_eq!(config.files.timelines.trace, Some(PathBuf::from(path)));
    }

    #[test]
    fn a_report_without_a_file_goes_to_standard_error() {
        let path = std::env::temp_dir().join("outputs-report");
        let mut first = Config { output: Output::File(path.clone()), ..Config::default() };
        let mut second = first.clone();
        let (_kept, _) = take(&mut first, &process(4));
        let (_, said) = take(&mut second, &process(4));
        assert!(
            said[0].ends_with(": the report of another profiler goes there; this one goes to standard error"),
            "{said:?}"
        );
        assert_eq!((first.output, second.output), (Output::File(path), Output::Stderr));
    }

    #[test]
    fn a_folder_that_is_not_there_is_seen_at_the_start() {
        let folder = std::env::temp_dir().display().to_string();
        let mut config = settings("/no/such/trace", "/no/such/folded-%p"); // timelines are opened, and told of, elsewhere
        config.files.json = Some(PathBuf::from("run.json")); // in the folder where the program was started
        config.output = Output::File(PathBuf::from("/no/such/report"));
        let said =
            |config: &Config| unwritable(config, &process(9)).iter().map(io::Error::to_string).collect::<Vec<String>>();
        let missing =
            |what: &str, path: &str| format!("cannot write {what} to `{path}`: No such file or directory (os error 2)");
        let (report, folded) =
            (missing("the report", "/no/such/report"), missing("the folded stacks", "/no/such/folded-9"));
        assert_eq!(said(&config), [report, folded.clone()]);
        config.statistics = false; // without which there is no report
        config.files.flamegraph = Some(PathBuf::from(&folder));
        let directory = format!("cannot write the flame graph to `{folder}`: Is a directory (os error 21)");
        assert_eq!(said(&config), [folded, directory]);
    }
}

//! The file of each output, and whether it can be written. No two outputs go to the same file, within one profiler or
//! between profilers that live at the same time.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use range_model::Process;
use range_model::names::escaped;
use range_model::stats::Lean;

use super::table::{How, Row, TABLE, cannot_write};
use super::{path, shared};
use crate::config::{Config, Output};
use crate::process;

/// The files that live profilers write.
static CLAIMED: Mutex<Vec<Claimed>> = Mutex::new(Vec::new());

struct Claimed {
    /// The process that claimed it. A forked child inherits the entry, but not the file.
    pid: u32,
    file: PathBuf,
    label: &'static str,
}

/// The files that one profiler may write, until it gives them back.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    files: Vec<PathBuf>,
    pid: u32,
}

/// Claims the files of all outputs. If a file is claimed already, removes its output from the settings, or sends the
/// report to standard error. Returns a line for each such output.
pub(crate) fn claim(config: &mut Config, process: &Process) -> (Claim, Vec<String>) {
    stay_here(config);
    let (mut own, mut complaints) = (Claim { files: Vec::new(), pid: process.pid }, Vec::new());
    let mut claimed = CLAIMED.lock();
    for row in TABLE.iter().filter(|row| !matches!(row.how, Some(How::Read)) && !row.is_shared()) {
        let Some(given) = row.path(config) else { continue };
        if let Some(unknown) = path::unknown(given) {
            complaints.push(format!(
                "`{unknown}` in `{}` stays as it is: %h, %p, %r and %t are the host, the process id, the rank and \
                 the time, %q{{NAME}} is a variable of the environment that is set, and %% is a percent sign",
                escaped(&given.to_string_lossy())
            ));
        }
        let named = path::expand(given, process);
        let Some(file) = place(&named) else { continue };
        match claimed.iter().find(|other| other.pid == process.pid && other.file == file) {
            Some(other) => {
                let whose = if own.files.contains(&file) { "" } else { " of another profiler" };
                let instead = strike(row, config);
                let (label, other, named) = (row.label, other.label, named.to_string_lossy());
                complaints
                    .push(format!("cannot write {label} to `{}`: {other}{whose} goes there{instead}", escaped(&named)));
            }
            None => {
                claimed.push(Claimed { pid: process.pid, file: file.clone(), label: row.label });
                own.files.push(file);
            }
        }
    }
    (own, complaints)
}

/// Makes paths absolute, because a program may be in another folder when it ends.
fn stay_here(config: &mut Config) {
    let report = match &mut config.output {
        Output::File(path) => Some(path),
        _ => None,
    };
    for path in config.files.iter_mut().map(|(_, path)| path).chain(report).filter(|path| path.is_relative()) {
        if let Ok(absolute) = std::path::absolute(&*path) {
            *path = absolute;
        }
    }
}

/// Removes an output from the settings. Returns the words for its new destination, if it has one.
fn strike(row: &Row, config: &mut Config) -> &'static str {
    if let Some(How::Printed) = row.how {
        config.output = Output::Stderr;
        return "; this one goes to standard error";
    }
    config.files.retain(|(key, _)| *key != row.key);
    ""
}

/// Returns an error for each file of the end that cannot be written now. A user who learns this at the start can still
/// do something about it. Changes nothing: if the run is killed, the file is as before.
pub(crate) fn unwritable(config: &Config, process: &Process) -> Vec<io::Error> {
    let at_end = TABLE.iter().filter(|row| matches!(row.how, Some(How::AtEnd(_) | How::Printed)));
    let wanted = at_end.filter_map(|row| Some((row.label, path::expand(row.path(config)?, process))));
    wanted.filter_map(|(label, path)| Some(cannot_write(label, &path, &look(&path).err()?))).in_vec()
}

/// The error of writing a file, if it can be known without changing anything. A device or a pipe is not opened, because
/// that may wait, or have an effect.
fn look(path: &Path) -> io::Result<()> {
    let path = &shared::resolved(path)?;
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

impl Claim {
    /// Lets other profilers claim the files.
    pub(crate) fn give_back(&self) {
        CLAIMED.lock().retain(|claimed| claimed.pid != self.pid || !self.files.contains(&claimed.file));
    }
}

/// The unique path of a file that may have several. `None` for a device or a pipe, which many outputs may share.
fn place(path: &Path) -> Option<PathBuf> {
    match std::fs::metadata(path) {
        Ok(there) if !there.is_file() => None,
        Ok(_) => Some(path.canonicalize().unwrap_or_else(|_| path.to_owned())),
        Err(_) => Some(shared::resolved(path).unwrap_or_else(|_| path.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings with a trace and folded stacks in these files.
    fn settings(trace: &str, folded: &str) -> Config {
        let files = [("trace", trace.into()), ("folded", folded.into())].into();
        Config { files, ..Config::default() }
    }

    fn process(pid: u32) -> Process {
        let mut process = Process::default();
        process.pid = pid;
        process
    }

    #[test]
    fn a_file_has_one_output_however_it_is_called() {
        let folder = std::env::temp_dir();
        let (first, second) = (folder.join("outputs-%p.json"), folder.join("./outputs-0001.json"));
        let mut config = settings(&first.to_string_lossy(), &second.to_string_lossy());
        let (files, said) = claim(&mut config, &process(1));
        assert_eq!((files.files.len(), said.len(), config.file("folded").is_some()), (2, 0, true));
        files.give_back();

        let second = folder.join(".").join("outputs-1.json");
        let mut config = settings(&first.to_string_lossy(), &second.to_string_lossy());
        let (files, said) = claim(&mut config, &process(1));
        assert_eq!(said, [format!("cannot write the folded stacks to `{}`: the trace goes there", second.display())]);
        assert!(config.file("trace").is_some() && config.file("folded").is_none());
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
            claim(&mut settings(&first, &second), &process(pid)).1.len()
        };
        let before = said(11);
        std::fs::write(folder.join("real/run"), "")?;
        let after = said(12);
        std::fs::remove_file(folder.join("real/run"))?;
        std::fs::remove_file(folder.join("linked"))?;
        std::fs::create_dir(folder.join("linked"))?;
        std::os::unix::fs::symlink("../real/run", folder.join("linked/run"))?;
        let link = said(13);
        std::fs::remove_dir_all(&folder)?;
        assert_eq!((before, after), (1, 1), "where there is no such file yet, and where there is");
        assert_eq!(link, 1, "where a link leads to a file that is not there yet");
        Ok(())
    }

    #[test]
    fn a_file_is_free_when_its_profiler_has_ended_and_in_another_process() {
        let path = std::env::temp_dir().join("outputs-of-two").display().to_string();
        let (mut first, mut second) = (settings(&path, "/dev/null"), settings(&path, "/dev/null"));
        let (files, said) = claim(&mut first, &process(2));
        assert!(said.is_empty(), "{said:?}");
        let (_, said) = claim(&mut second.clone(), &process(3));
        assert!(said.is_empty(), "{said:?}");
        let (others, said) = claim(&mut second, &process(2));
        assert!(said.len() == 1 && said[0].ends_with(": the trace of another profiler goes there"), "{said:?}");
        others.give_back();
        files.give_back();
        assert!(claim(&mut settings(&path, "/dev/null"), &process(2)).1.is_empty());
    }

    #[test]
    fn what_stands_for_nothing_is_said_and_kept() {
        let path = std::env::temp_dir().join("outputs-%z").display().to_string();
        let mut config = settings(&path, "/dev/null");
        let (_, said) = claim(&mut config, &process(5));
        assert!(said.len() == 1 && said[0].starts_with(&format!("`%z` in `{path}` stays as it is: ")), "{said:?}");
        assert_eq!(config.file("trace"), Some(&PathBuf::from(path)));
    }

    #[test]
    fn a_report_without_a_file_goes_to_standard_error() {
        let path = std::env::temp_dir().join("outputs-report");
        let mut first = Config { output: Output::File(path.clone()), ..Config::default() };
        let mut second = first.clone();
        let (_kept, _) = claim(&mut first, &process(4));
        let (_, said) = claim(&mut second, &process(4));
        assert!(
            said[0].ends_with(": the report of another profiler goes there; this one goes to standard error"),
            "{said:?}"
        );
        assert_eq!((first.output, second.output), (Output::File(path), Output::Stderr));
    }

    #[test]
    fn a_folder_that_is_not_there_is_seen_at_the_start() {
        let folder = std::env::temp_dir().display().to_string();
        let mut config = settings("/no/such/trace", "/no/such/folded-%p"); // a timeline tells when it is opened
        config.set_file("json", PathBuf::from("run.json")); // in the folder where the program was started
        config.output = Output::File(PathBuf::from("/no/such/report"));
        let said =
            |config: &Config| unwritable(config, &process(9)).iter().map(io::Error::to_string).collect::<Vec<String>>();
        let missing =
            |what: &str, path: &str| format!("cannot write {what} to `{path}`: No such file or directory (os error 2)");
        let (report, folded) =
            (missing("the report", "/no/such/report"), missing("the folded stacks", "/no/such/folded-9"));
        assert_eq!(said(&config), [report, folded.clone()]);
        config.statistics = false; // without which there is no report
        assert_eq!(said(&config), [folded]);
        config.set_file("folded", PathBuf::from(&folder));
        assert_eq!(
            said(&config),
            [format!("cannot write the folded stacks to `{folder}`: Is a directory (os error 21)")]
        );
    }
}

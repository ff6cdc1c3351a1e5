//! The files of a run. Each process writes its timelines and drawings under a name of its own. If only one process
//! wrote a file, the file gets the requested name. The timelines of several processes are joined under that name.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use tracing_gpu::joined::{self, Format};
use tracing_gpu::summary::{Note, Process};
use tracing_gpu::timeline::Sink as _;
use tracing_gpu::{Chosen, HtmlSink, Output, RenderOptions, Summary, SummaryExt as _};

use super::options::{Processes, Run};
use crate::{complain, folder, system};

/// How soon a signal stops the joining of files.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The files requested on the command line, by their keys in `TRACING_GPU`.
pub(super) fn asked_for(run: &Run) -> BTreeMap<String, PathBuf> {
    let all = [
        ("trace", &run.trace),
        ("perfetto", &run.perfetto),
        ("sqlite", &run.sqlite),
        ("html", &run.html),
        ("json", &run.json),
    ];
    all.into_iter().filter_map(|(key, path)| Some((key.to_owned(), path.clone()?))).collect()
}

/// The absolute path, because a process may change its folder. Placeholders in the name of the present folder stay
/// unreplaced.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let here = std::env::current_dir().map(|here| folder::literal(&here)).unwrap_or_default();
    std::path::absolute(here.join(path)).unwrap_or_else(|_| path.to_owned())
}

/// The files of a run.
pub(super) struct Files {
    /// By key: the requested name, and the name to which a process writes.
    by_process: BTreeMap<&'static str, (PathBuf, PathBuf)>,
    json: Option<PathBuf>,
    baseline: Option<PathBuf>,
    /// Whether the timelines of several processes become one.
    are_joined: bool,
}

impl Files {
    /// The requested files, without those that cannot be written, for which it prints a line.
    pub(super) fn new(chosen: &Chosen, processes: Processes) -> Self {
        let are_joined = processes != Processes::Each;
        let mut files = Self { by_process: BTreeMap::new(), json: None, baseline: None, are_joined };
        let mut taken = BTreeMap::new();
        if let Output::File(report) = &chosen.output {
            taken.insert(absolute(report), "report");
        }
        for &(key, ref path) in &chosen.files {
            let path = absolute(path);
            if key == "baseline" {
                files.baseline = Some(path);
                continue;
            }
            if let Some(other) = taken.get(&path) {
                complain(&format!("cannot write `{key}` to `{}`: `{other}` goes there", path.display()));
                continue;
            }
            taken.insert(path.clone(), key);
            if key == "parquet" {
                // A folder in which each process has files of its own, also beside those of earlier runs.
                files.by_process.insert(key, (path.clone(), path));
                continue;
            }
            if let Err(error) = may_write(&path) {
                complain(&format!("cannot write `{}`: {error}", path.display()));
            } else if key == "json" {
                files.json = Some(path);
            } else {
                // The command does not know the variables of a process.
                let is_own = has_placeholder(&path, &["%p", "%q"]);
                let own = if is_own { path.clone() } else { with_process(&path, "%p") };
                files.by_process.insert(key, (path, own));
            }
        }
        files
    }

    /// The files that the processes write, by their keys in `TRACING_GPU`.
    pub(super) fn of_processes(&self) -> BTreeMap<String, PathBuf> {
        let own = self.by_process.iter().map(|(key, (_, own))| (*key, own));
        let all = own.chain(self.baseline.iter().map(|path| ("baseline", path)));
        all.map(|(key, path)| (key.to_owned(), path.clone())).collect()
    }

    /// Gives files their requested names, unless two would have the same, and removes files of processes that did
    /// nothing. If no process has written a requested name, a file of an earlier run is removed, or replaced by a file
    /// with the reason `why`. Returns the pages. If not `may_join`, each process keeps its files.
    pub(super) fn settle(&self, worked: &[&Process], idle: &[&Process], may_join: bool, why: &str) -> Vec<PathBuf> {
        let mut pages = Vec::new();
        for (key, (asked, own)) in &self.by_process {
            // If one process ran several programs by `exec`, the last one writes the file.
            let mut written: Vec<(PathBuf, PathBuf)> = Vec::new();
            for process in worked {
                let file = (Chosen::expand(own, process), Chosen::expand(asked, process));
                if !written.contains(&file) {
                    written.push(file);
                }
            }
            for file in idle.iter().map(|process| Chosen::expand(own, process)) {
                if !written.iter().any(|(own, _)| *own == file) {
                    let _there_may_be_none = fs::remove_file(file);
                }
            }
            let mut names = Vec::new();
            if let Some(format) = format(key).filter(|_| self.are_joined && may_join) {
                join_alike(key, format, &mut written, &mut names);
            }
            for (own, name) in &written {
                let is_alone = written.iter().filter(|(_, other)| other == name).count() == 1;
                if *key == "sqlite" && is_alone && own != name {
                    // If a process was killed, SQLite needs the journal beside its database to undo changes.
                    let _there_was_none = fs::remove_file(journal(name));
                    let _there_is_none = fs::rename(journal(own), journal(name));
                }
                if *key == "perfetto" && is_alone && own != name && move_numbered(own, name) {
                    names.push(name.clone());
                    continue;
                }
                match move_to(own, if is_alone { name } else { own }) {
                    Ok(()) if is_alone => names.push(name.clone()),
                    Ok(()) => names.push(own.clone()),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {} // that process has printed the reason
                    Err(error) => {
                        complain(&format!("cannot write `{}`: {error}", name.display()));
                        names.push(own.clone());
                    }
                }
            }
            if *key != "html" {
                tell_each(key, &names);
            }
            if let Some(name) = without_process(asked).filter(|name| !names.contains(name)) {
                leave_nothing(key, &name, Some(why).filter(|_| names.is_empty()));
            }
            if *key == "html" {
                pages = names;
            }
        }
        pages
    }

    /// Writes one page in place of those of several processes, if they have one requested name. Pages that are not on
    /// it stay, and a line names them. Returns the pages.
    pub(super) fn join_pages(
        &self,
        pages: Vec<PathBuf>,
        summaries: &[Summary],
        options: &RenderOptions,
    ) -> Vec<PathBuf> {
        let Some((asked, own)) = self.by_process.get("html").filter(|_| pages.len() > 1) else { return pages };
        let names: BTreeSet<PathBuf> = summaries.iter().map(|one| Chosen::expand(asked, &one.process)).collect();
        let Some(name) = names.first().filter(|name| names.len() == 1 && !pages.contains(name)) else {
            tell_each("html", &pages);
            return pages;
        };
        let joined = match summaries {
            // The others have measured nothing: the page of this one has more than a joined one.
            [only] => {
                let page = Chosen::expand(own, &only.process);
                let moved = move_to(&page, name).map(|()| vec![page]);
                moved.map_err(|error| io::Error::other(format!("cannot write `{}`: {error}", name.display())))
            }
            _ => self.write_joined_page(own, name, &pages, summaries, options),
        };
        match joined {
            Ok(joined) => {
                let are_there = |page: &PathBuf| !joined.contains(page) && page.exists();
                joined.iter().filter(|page| *page != name).for_each(|page| drop(fs::remove_file(page)));
                let (others, unfinished): (Vec<_>, Vec<_>) = pages.into_iter().filter(are_there).partition(is_whole);
                unfinished.iter().for_each(|page| drop(fs::remove_file(page)));
                if let Some(first) = others.first() {
                    let (count, name, first) = (others.len(), name.display(), first.display());
                    complain(&format!("html: pages that cannot be read are not on `{name}`: {count}, as `{first}`"));
                }
                std::iter::once(name.clone()).chain(others).collect()
            }
            Err(error) => {
                complain(&error.to_string());
                tell_each("html", &pages);
                pages
            }
        }
    }

    /// Writes the page of these processes, of whom `pages` may have some. Returns those that it contains.
    fn write_joined_page(
        &self,
        own: &Path,
        name: &Path,
        pages: &[PathBuf],
        summaries: &[Summary],
        options: &RenderOptions,
    ) -> io::Result<Vec<PathBuf>> {
        // If one process ran several programs by `exec`, the last one wrote the page.
        let by_page: BTreeMap<PathBuf, &Process> =
            summaries.iter().map(|one| (Chosen::expand(own, &one.process), &one.process)).collect();
        let mut parts: Vec<(PathBuf, &Process)> = by_page.into_iter().collect();
        parts.sort_by_key(|(_, process)| process.started_unix_ns);
        let all = Summary::merge(summaries.to_vec());
        let mut merged = all.as_one();
        merged.process.started_unix_ns = parts.first().map_or(0, |(_, process)| process.started_unix_ns);
        let mut joined = Vec::new();
        write(name, |out| {
            let mut sink = HtmlSink::new(out).with_options(options).with_late_ranks(&all.processes);
            if let Some(path) = &self.baseline {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                sink = sink.compared_with(name, fs::File::open(path).and_then(|file| Ok(Summary::read_json(file)?)));
            }
            sink.begin(&merged.process)?;
            for (page, process) in parts {
                not_stopped()?;
                let read = fs::File::open(&page);
                if read.and_then(|read| sink.join(process, merged.process.started_unix_ns, read)).is_ok() {
                    joined.push(page);
                }
            }
            let missing = pages.iter().filter(|page| !joined.contains(page)).count();
            if missing > 0 {
                merged.notes.push(Note::PagesMissing { missing: missing as u64, of: pages.len() as u64 });
            }
            sink.end(&merged, 0)
        })?;
        Ok(joined)
    }

    /// Writes the summaries: one to the name that was asked for, several to names of their own.
    pub(super) fn write_json(&self, summaries: &[&Summary], options: &RenderOptions) {
        let Some(asked) = &self.json else { return };
        let is_own = summaries.len() < 2 || has_placeholder(asked, &["%p", "%r", "%q"]);
        let own = if is_own { asked.clone() } else { with_process(asked, "%p") };
        let mut before = Vec::new();
        for summary in summaries {
            let mut path = Chosen::expand(&own, &summary.process);
            if before.contains(&path) {
                path = with_process(&path, &before.len().to_string()); // a process that replaced itself by `exec`
            }
            before.push(path.clone());
            write_summary(&path, summary, options);
        }
        if let Some(name) = without_process(asked).filter(|name| !before.contains(name)) {
            leave_nothing("json", &name, None);
        }
    }

    /// Writes a summary without rows in place of those of processes. Its only note is `line`.
    pub(super) fn write_no_json(&self, process: &Process, line: &str) {
        let Some(name) = self.json.as_deref().and_then(without_process) else { return };
        let mut summary = Summary::default();
        summary.process = process.clone();
        summary.notes.push(Note::Text { text: line.to_owned() });
        write_summary(&name, &summary, &RenderOptions::default());
    }
}

/// The format of the files of a key, if those of several processes can be joined.
fn format(key: &str) -> Option<Format> {
    match key {
        "trace" => Some(Format::Trace),
        "perfetto" => Some(Format::Perfetto),
        "sqlite" => Some(Format::Sqlite),
        _ => None,
    }
}

/// Joins files for which the same name was requested, takes them out of `written`, and adds that name to `names`. Files
/// that cannot be joined stay as they are, and a line says why. Also takes out what no process has written, so that a
/// file that is the only one gets the requested name.
fn join_alike(key: &str, format: Format, written: &mut Vec<(PathBuf, PathBuf)>, names: &mut Vec<PathBuf>) {
    // Where one process of several wrote a file, it is alone. Numbered files stay those of a process.
    written.retain(|(own, _)| own.exists() || key == "perfetto" && !numbered(own).is_empty());
    let asked: BTreeSet<PathBuf> = written.iter().map(|(_, name)| name.clone()).collect();
    for name in asked {
        let alike = |(own, other): &(PathBuf, PathBuf)| *other == name && own.exists();
        let own: Vec<PathBuf> = written.iter().filter(|file| alike(file)).map(|(own, _)| own.clone()).collect();
        if own.len() < 2 || written.iter().filter(|(_, other)| *other == name).count() > own.len() {
            continue;
        }
        if key == "sqlite" {
            let _there_was_none = fs::remove_file(journal(&name)); // of an earlier run
        }
        // A link stays, and what it leads to is replaced.
        let target = fs::canonicalize(&name).ok().filter(|target| target.is_file()).unwrap_or_else(|| name.clone());
        let joined = with_process(&target, &format!("joined-{}", std::process::id()));
        match join_unless_stopped(format, &own, &joined, &target) {
            Ok(()) => {
                own.iter().flat_map(|own| [own.clone(), journal(own)]).for_each(|own| drop(fs::remove_file(own)));
                written.retain(|(_, other)| *other != name);
                names.push(name);
            }
            Err(error) => {
                complain(&format!("cannot join the files of processes to `{}`: {error}", name.display()));
            }
        }
    }
}

/// Joins files in a thread, which nobody waits for once the command is asked to stop. The new file is in a folder of
/// its own until then, without which the thread cannot begin one.
fn join_unless_stopped(format: Format, own: &[PathBuf], joined: &Path, target: &Path) -> io::Result<()> {
    not_stopped()?;
    fs::create_dir(joined)?;
    let file = joined.join(target.file_name().unwrap_or_default());
    let result = join_in_thread(format, own, &file).and_then(|()| move_to(&file, target));
    // The thread may have made one meanwhile.
    while fs::remove_dir_all(joined).is_err_and(|error| error.kind() == io::ErrorKind::DirectoryNotEmpty) {}
    result
}

fn join_in_thread(format: Format, own: &[PathBuf], file: &Path) -> io::Result<()> {
    let (done, is_done) = mpsc::channel();
    let (parts, to) = (own.to_vec(), file.to_owned());
    let join = move || drop(done.send(joined::join(format, &parts, &to)));
    if std::thread::Builder::new().spawn(join).is_err() {
        return joined::join(format, own, file);
    }
    loop {
        match is_done.recv_timeout(LOOK_AGAIN) {
            Err(RecvTimeoutError::Timeout) => not_stopped()?,
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the thread ended")),
            Ok(result) => return result,
        }
    }
}

fn not_stopped() -> io::Result<()> {
    if system::is_asked_to_stop() { Err(io::Error::other("stopped by a signal")) } else { Ok(()) }
}

/// Whether a page was written to its end.
fn is_whole(page: &PathBuf) -> bool {
    fs::read(page).is_ok_and(|page| page.trim_ascii_end().ends_with(b"</html>"))
}

/// Prints how many files there are, if they are several.
fn tell_each(key: &str, names: &[PathBuf]) {
    if let [first, .., last] = names {
        let (count, first, last) = (names.len(), first.display(), last.display());
        complain(&format!("{key}: {count} processes, a file each, from {first} to {last}"));
    }
}

/// Writes a file whole or not at all.
pub(super) fn write(path: &Path, make: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> io::Result<()> {
    let mut text = Vec::new();
    make(&mut text)
        .and_then(|()| Chosen::write(path, &text))
        .map_err(|error| io::Error::new(error.kind(), format!("cannot write `{}`: {error}", path.display())))
}

/// Writes a summary as JSON, whole or not at all. Prints a line if that fails.
fn write_summary(path: &Path, summary: &Summary, options: &RenderOptions) {
    if let Err(error) = write(path, |out| Ok(summary.write_json_with(options, out)?)) {
        complain(&error.to_string());
    }
}

/// The name for the whole run; `None` if each process has its own.
fn without_process(asked: &Path) -> Option<PathBuf> {
    (!has_placeholder(asked, &["%p"])).then(|| Chosen::expand(asked, &Chosen::process()))
}

/// The text in a form that may stand within quotation marks in any format.
fn quotable(text: &str) -> String {
    text.replace(|c: char| c == '"' || c == '\\' || c.is_control(), "'")
}

/// Ensures that nothing of an earlier run stays under this name. With a reason, pages and timelines state it. For other
/// formats the file is removed, because no reader accepts an empty one.
fn leave_nothing(key: &str, name: &Path, why: Option<&str>) {
    let text = match (key, why) {
        ("html", Some(why)) => Some(format!(
            "<!doctype html><meta charset=\"utf-8\"><title>tracing-gpu</title><p>{}</p>\n",
            quotable(why).replace('&', "&amp;").replace('<', "&lt;")
        )),
        // A process with that name and no events.
        ("trace", Some(why)) if name.extension().is_none_or(|kind| kind != "gz") => Some(format!(
            "[{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"args\":{{\"name\":\"{}\"}}}}]\n",
            quotable(why)
        )),
        _ => None,
    };
    if key == "sqlite" {
        let _there_was_none = fs::remove_file(journal(name));
    }
    let left = match (text, fs::symlink_metadata(name)) {
        (Some(text), _) => Chosen::write(name, text.as_bytes()),
        (None, Ok(there)) if there.is_file() => fs::remove_file(name),
        (None, Ok(_)) if name.is_file() => Chosen::write(name, b""), // a link stays
        (None, _) => Ok(()),
    };
    if let Err(error) = left {
        complain(&format!("`{}` is of an earlier run, and cannot be changed: {error}", name.display()));
    }
}

/// Moves the file of a process to the requested name. Handles an existing entry there as the process itself would:
/// follows a link, writes the bytes to a pipe or device, and leaves alone a file that another user may have put there.
fn move_to(own: &Path, asked: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let made = fs::metadata(own)?;
    if own == asked {
        return Ok(());
    }
    let is_alike = |there: fs::Metadata| there.is_file() && there.nlink() == 1 && there.uid() == made.uid();
    if fs::symlink_metadata(asked).map_or(true, is_alike) {
        return fs::rename(own, asked);
    }
    Chosen::write(asked, &fs::read(own)?)?;
    fs::remove_file(own)
}

/// The files of a timeline that has several, such as `run.4242.0001.pftrace`, with their numbers.
fn numbered(own: &Path) -> Vec<(PathBuf, String)> {
    let (Some(stem), Some(folder)) = (own.file_stem(), own.parent()) else { return Vec::new() };
    let start = format!("{}.", stem.to_string_lossy());
    let number = |path: &Path| {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let number = name.strip_prefix(&start).filter(|_| path.extension() == own.extension())?;
        (number.len() >= 4 && number.bytes().all(|byte| byte.is_ascii_digit())).then(|| number.to_owned())
    };
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter_map(|path| number(&path).map(|number| (path, number))).collect()
}

/// Moves the files of a timeline that has several, such as `run.4242.0001.pftrace` to `run.0001.pftrace`. Returns false
/// if there are none.
fn move_numbered(own: &Path, asked: &Path) -> bool {
    let files = numbered(own);
    for (path, number) in &files {
        let mut to = asked.file_stem().unwrap_or_default().to_owned();
        to.push(format!(".{number}"));
        if let Some(kind) = own.extension() {
            to.push(".");
            to.push(kind);
        }
        let to = asked.with_file_name(to);
        if let Err(error) = move_to(path, &to) {
            complain(&format!("cannot write `{}`: {error}", to.display()));
        }
    }
    !files.is_empty()
}

/// The journal in which SQLite keeps unfinished changes of this file.
fn journal(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-journal");
    name.into()
}

/// Whether the name contains any of these placeholders.
fn has_placeholder(path: &Path, any: &[&str]) -> bool {
    let text = path.to_string_lossy().replace("%%", "");
    any.iter().any(|placeholder| text.contains(placeholder))
}

/// For example `run.%p.json.gz` from `run.json.gz`.
fn with_process(path: &Path, process: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let dot = name.iter().skip(1).position(|byte| *byte == b'.').map_or(name.len(), |at| at + 1);
    let parts = [&name[..dot], b".", process.as_bytes(), &name[dot..]];
    path.with_file_name(OsStr::from_bytes(&parts.concat()))
}

/// The error of writing this file, as far as it can be known in advance.
fn may_write(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(_) => system::may_write(path),
        Err(_) => {
            let folder = path.parent().unwrap_or(Path::new("."));
            let differs = folder.to_string_lossy().contains('%');
            if differs { Ok(()) } else { system::may_write(folder) }
        }
    }
}

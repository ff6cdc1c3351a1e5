//! Names of files that differ from process to process.

use std::path::{Path, PathBuf};

use nvtx_rs::environment::variable as variable_of;
use range_model::Process;
use range_model::summary::origin::utc;

/// `path` with `%h` as the host, `%p` as the process id, `%r` as the rank (0 where there is none), `%t` as the time of
/// the start, `%q{NAME}` as that variable of the environment and `%%` as a percent sign. Anything else stays as it is:
/// a `%` before another letter, and a variable that is not set.
pub(crate) fn expand(path: &Path, process: &Process) -> PathBuf {
    expand_at(path, process, process.started_unix_ns)
}

/// The same, with `%t` as this time: nanoseconds since 1970, printed as `20251120T153542.042Z`.
pub(crate) fn expand_at(path: &Path, process: &Process, unix_ns: u64) -> PathBuf {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
        PathBuf::from(std::ffi::OsString::from_vec(expanded(path.as_os_str().as_bytes(), process, unix_ns)))
    }
    #[cfg(not(unix))]
    match path.to_str() {
        Some(text) => PathBuf::from(String::from_utf8_lossy(&expanded(text.as_bytes(), process, unix_ns)).into_owned()),
        None => path.to_owned(),
    }
}

/// The first `%` with a letter that stands for nothing: perhaps a placeholder of another tool.
pub(crate) fn unknown(path: &Path) -> Option<String> {
    let path = path.to_string_lossy();
    let mut letters = path.chars();
    while letters.by_ref().any(|letter| letter == '%') {
        match letters.next() {
            Some('%' | 'h' | 'p' | 'r' | 't') => {}
            Some('q') if variable(letters.as_str().as_bytes()).is_some() => {}
            Some(other) if other.is_ascii_alphabetic() => return Some(format!("%{other}")),
            _ => {}
        }
    }
    None
}

fn expanded(path: &[u8], process: &Process, unix_ns: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len() + 16);
    let mut bytes = path.iter();
    while let Some(&byte) = bytes.next() {
        let quoted = bytes.as_slice().strip_prefix(b"q").filter(|_| byte == b'%').and_then(variable);
        if let Some((value, rest)) = quoted {
            out.extend(value.bytes());
            bytes = rest.iter();
            continue;
        }
        let value = match (byte, bytes.as_slice().first()) {
            (b'%', Some(b'%')) => "%".to_owned(),
            (b'%', Some(b'h')) => part(&process.host),
            (b'%', Some(b'p')) => process.pid.to_string(),
            (b'%', Some(b'r')) => process.rank.unwrap_or(0).to_string(),
            (b'%', Some(b't')) => time(unix_ns),
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend(value.bytes());
        bytes.next();
    }
    out
}

/// For example `run.0007.pftrace` for `run.pftrace`.
#[cfg(feature = "perfetto")]
pub(crate) fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number:04}"));
    if let Some(kind) = path.extension() {
        name.push(".");
        name.push(kind);
    }
    path.with_file_name(name)
}

fn time(unix_ns: u64) -> String {
    let seconds = utc(unix_ns).replace(['-', ':', 'Z'], "");
    format!("{seconds}.{:03}Z", unix_ns / 1_000_000 % 1_000)
}

/// The value of the variable in `{NAME}`, and what follows.
fn variable(text: &[u8]) -> Option<(String, &[u8])> {
    let name = text.strip_prefix(b"{")?;
    let end = name.iter().position(|byte| *byte == b'}')?;
    let value = variable_of(str::from_utf8(&name[..end]).ok()?)?.into_string().ok()?;
    Some((part(&value), &name[end + 1..]))
}

/// The text as a part of a name: it leads to no other folder.
fn part(text: &str) -> String {
    let is_folder = text.bytes().all(|byte| byte == b'.');
    text.replace(|c| matches!(c, '/' | '\\' | '\0') || is_folder, "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> Process {
        let mut process = Process::default();
        process.pid = 4242;
        process.host = "node7".to_owned();
        process.rank = Some(3);
        process.started_unix_ns = 1_763_652_942_007_999_999;
        process
    }

    fn name(path: &str) -> String {
        expand(Path::new(path), &process()).display().to_string()
    }

    #[test]
    fn placeholders() {
        assert_eq!(name("run.json"), "run.json");
        assert_eq!(name("%h/run-%r.%p.json"), "node7/run-3.4242.json");
        assert_eq!(name("%r%r%%r%%%r"), "33%r%3");
        assert_eq!(name("100% %x %"), "100% %x %");
        assert_eq!(name("é%pé"), "é4242é");
        let package = env!("CARGO_PKG_NAME"); // which cargo has in the environment, too
        assert_eq!(name("run.%q{CARGO_PKG_NAME}.%p"), format!("run.{package}.4242"));
        assert_eq!(name("%q{NO SUCH}%q{%q"), "%q{NO SUCH}%q{%q");
        assert_eq!(name("%t.json"), "20251120T153542.007Z.json");
        let later = expand_at(Path::new("a-%t%%t"), &process(), 4_107_542_400_120_000_000);
        assert_eq!(later, Path::new("a-21000301T000000.120Z%t"));
    }

    #[test]
    fn what_stands_for_nothing_is_found() {
        let found =
            ["%h-%p/%r.json", "100%%z 100% %", "é%1", "%h%q{NO SUCH}", "%%%Zx%y"].map(|path| unknown(Path::new(path)));
        assert_eq!(found, [None, None, None, Some("%q".to_owned()), Some("%Z".to_owned())]);
    }

    #[test]
    fn without_a_rank_it_is_the_first_of_one() {
        let mut alone = process();
        alone.rank = None;
        alone.host = "../etc".to_owned();
        assert_eq!(expand(Path::new("%r-%h"), &alone), Path::new("0-.._etc"));
        alone.host = "..".to_owned();
        assert_eq!(expand(Path::new("%h/%h%%"), &alone), Path::new("__/__%"));
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_not_utf8_stay_whole() {
        use std::os::unix::ffi::OsStrExt as _;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"\xff%r\xfe"));
        assert_eq!(expand(path, &process()).as_os_str().as_bytes(), b"\xff3\xfe");
    }
}

//! Runs a program under the tool `examples/recorder.rs` and reads its output: the NVTX calls that a profiler would see.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// One NVTX call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// The thread, numbered in order of first appearance.
    pub thread: usize,
    /// `attach`, `push`, `pop`, `mark`, `start`, `end`, `create_domain`, `register_string`, `name_category`,
    /// `name_thread`, `name_object`, `create_resource`, `destroy_resource`, `sync`, ...
    pub kind: String,
    /// The domain's name; none for the default domain.
    pub domain: Option<String>,
    /// The message, or the name that is given.
    pub message: Option<String>,
    /// `0xAARRGGBB`.
    pub color: Option<u32>,
    /// 0 for none.
    pub category: u32,
    /// `u64:1`, `i64:-1`, `f64:0.5`, `u32:1`, `i32:-1` or `f32:0.5`.
    pub payload: Option<String>,
    /// Whether the message was given as a registered string.
    pub registered: bool,
    /// All other fields, such as `depth` and `id`.
    pub rest: BTreeMap<String, String>,
}

impl Call {
    /// Whether the call annotates, and does not only prepare annotations: push, pop, mark, start and end.
    pub fn is_event(&self) -> bool {
        matches!(self.kind.as_str(), "push" | "pop" | "mark" | "start" | "end")
    }
}

/// `kind message`, with the domain in front if there is one: short enough for lists in tests.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        match (&self.domain, &self.message) {
            (None, None) => Ok(()),
            (None, Some(message)) => write!(f, " {message}"),
            (Some(domain), None) => write!(f, " {domain}:"),
            (Some(domain), Some(message)) => write!(f, " {domain}:{message}"),
        }
    }
}

/// The tool's library.
///
/// # Panics
/// If it has not been built: cargo builds it with all tests of this package, but not with a single one.
pub fn library() -> PathBuf {
    built_example("librecorder.so")
}

/// A file that exists as long as the value.
#[derive(Debug)]
pub struct TemporaryFile(pub PathBuf);

impl TemporaryFile {
    /// A path that ends in `name`, without a file yet.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("nvtx-client-{}-{number}-{name}", std::process::id())))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A copy of the tool's library, because the dynamic linker loads one file only once.
///
/// # Panics
/// If it cannot be made.
pub fn library_copy(name: &str) -> TemporaryFile {
    let copy = TemporaryFile::new(name);
    std::fs::copy(library(), &copy.0).expect("the library can be copied");
    copy
}

/// An example program of this package, built with the tests.
///
/// # Panics
/// If it has not been built since its sources changed: `cargo test --test` does not build it.
pub fn example(name: &str) -> PathBuf {
    built_example(name)
}

fn built_example(file: &str) -> PathBuf {
    let program = std::env::current_exe().expect("the path of this program is known");
    let found =
        program.ancestors().skip(1).map(|folder| folder.join("examples").join(file)).find(|path| path.is_file());
    let found = found.unwrap_or_else(|| {
        panic!("no examples/{file} above {}: run `cargo build -p tests --examples` first", program.display())
    });
    if let Some(source) = changed_since(&found) {
        panic!("examples/{file} is older than {source}: run `cargo build -p tests --examples` first");
    }
    found
}

/// A source of this program that has changed since it was built. Cargo lists them beside it.
fn changed_since(program: &Path) -> Option<String> {
    let changed = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let (built, sources) = (changed(program)?, std::fs::read_to_string(program.with_extension("d")).ok()?);
    let mut sources = sources.split_once(": ")?.1.split_whitespace();
    sources.find(|source| changed(Path::new(source)).is_some_and(|changed| changed > built)).map(str::to_owned)
}

/// Runs the command to its end with the recorder as its tool. Returns its calls.
///
/// # Panics
/// If the command fails or the record cannot be read.
pub fn run_recorded(command: &mut Command) -> Vec<Call> {
    let (output, calls) = output_recorded(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {}\n{said}", output.status);
    calls
}

/// Like [`run_recorded`], with the output, for a command that may fail.
///
/// # Panics
/// If the command cannot be started or the record cannot be read.
pub fn output_recorded(command: &mut Command) -> (Output, Vec<Call>) {
    let record = Record::new();
    let output = command
        .env("NVTX_INJECTION64_PATH", library())
        .env("NVTX_RECORD", record.path())
        .output()
        .unwrap_or_else(|error| panic!("{command:?} cannot be started: {error}"));
    (output, record.calls())
}

/// A file for the recorder to write to; removed when dropped.
#[derive(Debug)]
pub struct Record(PathBuf);

impl Default for Record {
    fn default() -> Self {
        Self::new()
    }
}

impl Record {
    /// A name that no file has yet.
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("nvtx-record-{}-{number}", std::process::id())))
    }

    /// The value for `NVTX_RECORD`.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The recorded calls; empty if the file is missing.
    ///
    /// # Panics
    /// If there is a line that the recorder does not write.
    pub fn calls(&self) -> Vec<Call> {
        let parse = |line: &String| parse(line).unwrap_or_else(|| panic!("not a line of the recorder: {line:?}"));
        self.lines().iter().map(parse).collect()
    }

    /// The recorded lines, unchanged.
    pub fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.0).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn parse(line: &str) -> Option<Call> {
    let (thread, rest) = line.split_once(' ')?;
    let (kind, mut fields) = rest.split_once(' ').unwrap_or((rest, ""));
    let mut call = Call { thread: thread.parse().ok()?, kind: kind.to_owned(), ..Call::default() };
    while !fields.is_empty() {
        let (name, rest) = fields.split_once('=')?;
        let (value, rest) = split_value(rest)?;
        fields = rest;
        match name {
            "domain" => call.domain = Some(value),
            "message" => call.message = Some(value),
            "color" => call.color = Some(u32::from_str_radix(&value, 16).ok()?),
            "category" => call.category = value.parse().ok()?,
            "payload" => call.payload = Some(value),
            "registered" => call.registered = value == "true",
            _ => drop(call.rest.insert(name.to_owned(), value)),
        }
    }
    Some(call)
}

/// The value at the start, and the text after the following blank.
fn split_value(text: &str) -> Option<(String, &str)> {
    let (value, rest) = if text.starts_with('"') {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let value = values.next()?.ok()?;
        (value, &text[values.byte_offset()..])
    } else {
        let end = text.find(' ').unwrap_or(text.len());
        (text[..end].to_owned(), &text[end..])
    };
    Some((value, rest.strip_prefix(' ').unwrap_or(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whole() {
        let line = r#"3 push domain="a b" message="x=\"1\" \n" color=FF00A000 category=256 payload=f64:0.5 registered=true depth=2"#;
        let call = parse(line).unwrap();
        assert_eq!((call.thread, call.kind.as_str(), call.category, call.registered), (3, "push", 256, true));
        assert_eq!(call.domain.as_deref(), Some("a b"));
        assert_eq!(call.message.as_deref(), Some("x=\"1\" \n"));
        assert_eq!(call.color, Some(0xFF00_A000));
        assert_eq!(call.payload.as_deref(), Some("f64:0.5"));
        assert_eq!(call.rest["depth"], "2");
        assert_eq!(call.to_string(), "push a b:x=\"1\" \n");
        assert_eq!(parse("0 pop"), Some(Call { kind: "pop".to_owned(), ..Call::default() }));
        assert_eq!(parse("pop"), None);
    }

    #[test]
    fn a_program_is_older_than_a_source_that_has_changed() {
        let folder = std::env::temp_dir().join(format!("tests-built-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let [program, list, a, b] = ["program", "program.d", "a.rs", "b.rs"].map(|name| folder.join(name));
        let at = |path, second| {
            let file = std::fs::File::options().create(true).append(true).open(path).expect("a file");
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(second)).expect("a time");
        };
        at(&program, 2);
        assert_eq!(super::changed_since(&program), None, "nothing is known");
        std::fs::write(list, format!("{}: {} {} /gone.rs", program.display(), a.display(), b.display()))
            .expect("a list");
        for (second, changed) in [(1, None), (3, b.to_str().map(str::to_owned))] {
            at(&a, 2);
            at(&b, second);
            assert_eq!(super::changed_since(&program), changed);
        }
        std::fs::remove_dir_all(folder).expect("it is there");
    }
}

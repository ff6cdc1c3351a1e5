//! Lines of code and comments are at most 120 columns wide. rustfmt enforces that for code, but not for comments,
//! macros and code beside a long string.
//!
//! Exceptions: in Rust, lines that are mostly a string (printed tables, messages, SQL, scripts), and rows of tables in
//! documentation. HTML is not checked.

use std::path::{Path, PathBuf};

const WIDEST: usize = 120;

const FOLDERS: &[&str] = &[".ci", "crates", "examples", "nvtx-rs", "site", "tests", "tracing-gpu", "tracing-gpu-cli"];

const KINDS: &[&str] = &["c", "css", "cu", "js", "mjs", "py", "rs", "toml"];

/// Sources below a folder, by extension; scripts have none. Links are skipped, because their targets are checked
/// elsewhere.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder can be read").path();
        let kind = path.extension().map(|kind| kind.to_string_lossy().into_owned());
        if path.is_symlink() || ["target", "corpus", "artifacts", "coverage"].iter().any(|name| path.ends_with(name)) {
            continue;
        } else if path.is_dir() {
            sources(&path, found);
        } else if kind.as_deref().is_none_or(|kind| KINDS.contains(&kind)) {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            if kind.is_some() || text.starts_with("#!") {
                found.push((path, text));
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum In {
    Code,
    Comment,
    String { raw: bool, hashes: usize },
}

/// For each line of Rust, the number of columns outside of strings.
fn outside_of_strings(text: &str) -> Vec<usize> {
    let (mut counts, mut count, mut state) = (Vec::new(), 0, In::Code);
    let letters: Vec<char> = text.chars().collect();
    let hashes_at = |at: usize| letters[at.min(letters.len())..].iter().take_while(|letter| **letter == '#').count();
    let mut at = 0;
    while at < letters.len() {
        let (letter, rest) = (letters[at], &letters[at..]);
        let mut taken = 1;
        match state {
            _ if letter == '\n' => {
                counts.push(std::mem::take(&mut count));
                state = if state == In::Comment { In::Code } else { state };
                at += 1;
                continue;
            }
            In::Code if rest.starts_with(&['/', '/']) => state = In::Comment,
            In::Code if letter == '"' => state = In::String { raw: false, hashes: 0 },
            In::Code if letter == 'r' && letters.get(at + 1 + hashes_at(at + 1)) == Some(&'"') => {
                let hashes = hashes_at(at + 1);
                (state, taken) = (In::String { raw: true, hashes }, hashes + 2);
            }
            // A character literal such as `'"'` or `'\\''`; a lifetime has no second quotation mark there.
            In::Code if rest.starts_with(&['\'', '\\']) => taken = 4,
            In::Code if letter == '\'' && rest.get(2) == Some(&'\'') => taken = 3,
            In::String { raw: false, .. } if letter == '\\' && rest.get(1) != Some(&'\n') => {
                at += 2;
                continue;
            }
            In::String { hashes, .. } if letter == '"' && hashes_at(at + 1) >= hashes => {
                (state, taken) = (In::Code, hashes + 1);
            }
            In::String { .. } => taken = 0,
            In::Code | In::Comment => {}
        }
        count += taken;
        at += taken.max(1);
    }
    counts.push(count);
    counts
}

#[test]
fn strings_are_told_from_code() {
    let text = "a(\"b\\\"c\", 'd', '\"') // \"e\"\nr#\"f\n\"g\" \"#;\n\"h\\\n  i\" + j";
    assert_eq!(outside_of_strings(text), [22, 3, 3, 1, 5]);
}

#[test]
fn lines_fit_in_120_columns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above this package");
    let mut all = Vec::new();
    FOLDERS.iter().for_each(|folder| sources(&root.join(folder), &mut all));
    assert!(all.len() > 200, "{} files", all.len());
    let mut wrong = Vec::new();
    for (path, text) in &all {
        let is_rust = path.extension().is_some_and(|kind| kind == "rs");
        let outside = if is_rust { outside_of_strings(text) } else { Vec::new() };
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            let is_string = outside.get(number).is_some_and(|outside| outside * 2 < columns);
            let is_row = ["//! |", "/// |"].iter().any(|start| line.trim_start().starts_with(start));
            if columns > WIDEST && !is_string && !is_row {
                wrong.push(format!("{}:{}: {columns} columns", path.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{} lines\n{}", wrong.len(), wrong.join("\n"));
}

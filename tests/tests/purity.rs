//! The pure files stay pure, `unsafe` stays where it is allowed, and nothing in the libraries can panic on purpose: read from
//! the sources, code of tests apart.

use std::path::{Path, PathBuf};

/// Files and folders of `tracing-gpu/src` that take data and return data.
const PURE: [&str; 34] = [
    "activity.rs",
    "correlate",
    "drain/recursion.rs",
    "drain/rounding.rs",
    "nesting.rs",
    "record.rs",
    "summary.rs",
    "summary",
    "stats",
    "timeline.rs",
    "report",
    "compare",
    "collect/catalog.rs",
    "chunked.rs",
    "collect/fields.rs",
    "export/sqlite/json.rs",
    "export/sqlite/keys.rs",
    "export/sqlite/launches.rs",
    "export/sqlite/names.rs",
    "export/sqlite/stamps.rs",
    "gpu/cupti/calls.rs",
    "gpu/cupti/decode.rs",
    "gpu/cupti/strides.rs",
    "export/mod.rs",
    "export/chrome.rs",
    "export/chrome",
    "export/csv.rs",
    "export/folded.rs",
    "export/folded",
    "export/html.rs",
    "export/html",
    "export/json.rs",
    "export/origin.rs",
    "export/path.rs",
];

/// What a pure file does not mention.
const IMPURE: [&str; 13] = [
    "tracing::",
    "tracing_core",
    "tracing_subscriber",
    "nvtx_rs",
    "libc",
    "std::time",
    "std::env",
    "std::fs",
    "std::thread",
    "std::process",
    "std::net",
    "std::io::std",
    "thread_local!",
];

/// Where `unsafe` is allowed; `ARCHITECTURE.md` says the same.
const UNSAFE: [&str; 17] = [
    "tracing-gpu/src/clock.rs",
    "tracing-gpu/src/gpu/cupti/buffers.rs",
    "tracing-gpu/src/gpu/cupti/context.rs",
    "tracing-gpu/src/gpu/cupti/library.rs",
    "tracing-gpu/src/gpu/cupti/receive.rs",
    "tracing-gpu/src/gpu/cupti/session.rs",
    "tracing-gpu/src/gpu/driver.rs",
    "tracing-gpu/src/stream/mod.rs",
    "tracing-gpu/src/process.rs",
    "nvtx-rs/src/calls.rs",
    "nvtx-rs/src/client.rs",
    "nvtx-rs/src/slots.rs",
    "nvtx-rs/src/tool/arguments.rs",
    "nvtx-rs/src/tool/install.rs",
    "nvtx-rs/src/tool/mod.rs", // in the macro that exports a tool's entry points
    "nvtx-rs/src/tool/receive.rs",
    "nvtx-rs/src/transport.rs",
];

/// What ends a program that did nothing wrong.
const PANICS: [&str; 8] =
    [".unwrap()", ".expect(", "panic!(", "todo!(", "unimplemented!(", "unreachable!(", "print!(", "println!("];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above this package").to_owned()
}

/// All sources of a library, by their path from the root of the workspace.
fn sources(folder: &str) -> Vec<(String, String)> {
    let (mut folders, mut found) = (vec![root().join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for path in entries.map(|entry| entry.expect("a folder can be read").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source can be read");
                let name = path.strip_prefix(root()).expect("below the root").display().to_string();
                found.push((name, text));
            }
        }
    }
    assert!(found.len() > 10, "{folder}: {} files", found.len());
    found.sort();
    found
}

/// The lines that are compiled into the library, numbered from 1: without comments, string literals, and items under
/// `#[cfg(test)]`.
fn code(name: &str, text: &str) -> Vec<(usize, String)> {
    if name.ends_with("/tests.rs") || name.contains("/tests/") {
        return Vec::new();
    }
    let (mut lines, mut test_item) = (Vec::new(), None::<i64>);
    for (number, line) in text.lines().enumerate() {
        let line = without_comments_and_strings(line);
        let opened = line.matches('{').count() as i64 - line.matches('}').count() as i64;
        match &mut test_item {
            None if line.trim() == "#[cfg(test)]" => test_item = Some(0),
            None => lines.push((number + 1, line)),
            Some(depth) => {
                *depth += opened;
                let whole = line.contains(['{', '}', ';']) && *depth == 0;
                if whole {
                    test_item = None;
                }
            }
        }
    }
    lines
}

fn without_comments_and_strings(line: &str) -> String {
    let (mut kept, mut quoted, mut letters) = (String::new(), false, line.chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '\\' if quoted => drop(letters.next()),
            '\'' if !quoted && letters.peek() == Some(&'"') => drop(letters.nth(1)), // the character '"'
            '"' => quoted = !quoted,
            '/' if !quoted && letters.peek() == Some(&'/') => break,
            _ if quoted => {}
            _ => kept.push(letter),
        }
    }
    kept
}

fn found(folder: &str, words: &[&str], in_file: impl Fn(&str) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, text) in sources(folder).iter().filter(|(name, _)| in_file(name)) {
        for (number, line) in code(name, text) {
            if words.iter().any(|word| line.contains(word)) {
                lines.push(format!("{name}:{number}: {}", line.trim()));
            }
        }
    }
    lines
}

#[test]
fn the_sources_are_read_as_they_are_meant() {
    let text = "use a; // std::fs\nlet b = \"std::env\";\n#[cfg(test)]\nuse std::time;\n#[cfg(test)]\nmod tests {\n    {\n    }\n    \
                panic!()\n}\nlet c = '\"'; unsafe {}\n";
    let read: Vec<(usize, String)> = code("x.rs", text);
    let expected = [(1, "use a; "), (2, "let b = ;"), (11, "let c = ; unsafe {}")];
    assert_eq!(read, expected.map(|(number, line)| (number, line.to_owned())));
}

#[test]
fn pure_files_only_take_data_and_return_data() {
    let pure = |name: &str| {
        let below = name.strip_prefix("tracing-gpu/src/").unwrap_or_default();
        PURE.iter().any(|pure| below == *pure || below.strip_prefix(pure).is_some_and(|rest| rest.starts_with('/')))
    };
    let files = sources("tracing-gpu/src");
    for expected in PURE {
        let path = format!("tracing-gpu/src/{expected}");
        assert!(
            files.iter().any(|(name, _)| name.starts_with(&path)),
            "{path} is gone: mend this test and ARCHITECTURE.md"
        );
    }
    assert_eq!(found("tracing-gpu/src", &IMPURE, pure), Vec::<String>::new());
}

/// Types of unsafe functions (`unsafe extern "C" fn(..)`) are no unsafe code, calling one is; nor is `is_unsafe(..)`.
#[test]
fn unsafe_is_where_it_is_allowed() {
    let mut all = Vec::new();
    for folder in ["nvtx-rs/src", "tracing-gpu/src"] {
        all.extend(found(folder, &["unsafe {", "unsafe fn ", "unsafe impl", "#[unsafe("], |name| {
            !UNSAFE.contains(&name)
        }));
    }
    assert_eq!(all, Vec::<String>::new());
    for allowed in UNSAFE {
        let text = std::fs::read_to_string(root().join(allowed)).unwrap_or_else(|error| panic!("{allowed}: {error}"));
        assert!(
            code(allowed, &text).iter().any(|(_, line)| line.contains("unsafe ")),
            "{allowed} has none: take it off"
        );
    }
}

#[test]
fn the_libraries_do_not_panic_or_print_on_purpose() {
    for folder in ["nvtx-rs/src", "tracing-gpu/src"] {
        assert_eq!(found(folder, &PANICS, |_| true), Vec::<String>::new());
    }
}

//! Data flows one way: inside `tracing-gpu` a folder imports only folders below it, and what takes data and returns
//! data touches nothing else. The borders between crates need no test: the compiler keeps them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folders and files of `tracing-gpu/src` from the top down. One may import those in later lines, and none in its
/// own.
const FLOORS: &[&[&str]] = &[
    &["lib"],
    &["profiler"],
    &["tier"],
    &["drain", "timeline"],
    &["collector", "openacc", "outputs"],
    &["thread"],
    &["session"],
    &["span", "stream"],
    &["config", "signals"],
    &["samples"],
    &["record"],
    &["budget", "chunked", "clock", "fold", "page", "row_file"],
    &["own_stack"],
    &["process", "sync"],
];

/// What takes data and returns data, files apart that a caller names.
const PURE: &[&str] = &["range-report/src", "gpu-activity/src/join", "gpu-activity/src/totals"];

/// What such code does not mention.
const IMPURE: &[&str] =
    &["Instant::now", "SystemTime", "std::env", "std::thread", "std::process", "std::net", "io::std", "thread_local!"];

/// Where `unsafe` is allowed.
const UNSAFE: &[&str] = &[
    "nvtx-rs/src/calls.rs",
    "nvtx-rs/src/client.rs",
    "nvtx-rs/src/environment.rs",
    "nvtx-rs/src/slots.rs",
    "nvtx-rs/src/tool/arguments.rs",
    "nvtx-rs/src/tool/extended.rs",
    "nvtx-rs/src/tool/fork.rs",
    "nvtx-rs/src/tool/install.rs",
    "nvtx-rs/src/tool/receive.rs",
    "nvtx-rs/src/transport.rs",
    "range-report/src/export/sqlite/descriptors.rs",
    "gpu-activity/src/cupti/buffers.rs",
    "gpu-activity/src/cupti/context.rs",
    "gpu-activity/src/cupti/library.rs",
    "gpu-activity/src/cupti/profiler_calls.rs",
    "gpu-activity/src/cupti/receive.rs",
    "gpu-activity/src/cupti/session.rs",
    "gpu-activity/src/driver.rs",
    "gpu-activity/src/forks.rs",
    "tracing-gpu/src/chunked.rs",
    "tracing-gpu/src/clock.rs",
    "tracing-gpu/src/openacc/receive.rs",
    "tracing-gpu/src/own_stack.rs",
    "tracing-gpu/src/process.rs",
    "tracing-gpu/src/row_file.rs",
    "tracing-gpu/src/row_file/disabled.rs",
    "tracing-gpu/src/stream/binding.rs",
    "tracing-gpu/src/thread/state/new.rs",
    "tracing-gpu/src/tier/linked.rs",
    "tracing-gpu-cli/src/inject/entry.rs",
    "tracing-gpu-cli/src/main.rs",
    "tracing-gpu-cli/src/memory.rs",
    "tracing-gpu-cli/src/system.rs",
];

const LIBRARIES: &[&str] =
    &["nvtx-rs/src", "range-report/src", "gpu-activity/src", "tracing-gpu/src", "tracing-gpu-cli/src"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above this package").to_owned()
}

/// All sources below a folder but those of tests, by their path from the root of the workspace, without comments and
/// without the tests at their end.
fn sources(folder: &str) -> Vec<(String, String)> {
    let (mut folders, mut found) = (vec![root().join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a folder can be read").path();
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.ends_with("/tests.rs") && !name.contains("/tests/") {
                let text = std::fs::read_to_string(&path).expect("a source can be read");
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                found.push((
                    name,
                    code.lines().map(|line| line.split("//").next().unwrap_or_default().to_owned() + "\n").collect(),
                ));
            }
        }
    }
    assert!(found.len() > 2, "{folder}: {} files", found.len());
    found.sort();
    found
}

/// What of the crate's root a file of `tracing-gpu/src` names, by `crate::` or `super::`.
fn imports(file: &str, code: &str) -> BTreeSet<String> {
    // How often `super::` leads from the file to the root.
    let depth = file.matches('/').count() + usize::from(!file.ends_with("/mod.rs") && file != "lib.rs");
    let mut found = BTreeSet::new();
    for start in ["crate::".to_owned(), "super::".repeat(depth.max(1))] {
        for (at, _) in code.match_indices(&start) {
            let preceded =
                code[..at].ends_with("super::") || code[..at].ends_with(|c: char| c == '_' || c.is_alphanumeric());
            let rest = &code[at + start.len()..];
            if preceded || rest.starts_with("super::") {
                continue;
            }
            let names = match rest.strip_prefix('{') {
                Some(group) => top_level(group),
                None => vec![rest],
            };
            let word = |name: &str| name.chars().take_while(|c| *c == '_' || c.is_alphanumeric()).collect::<String>();
            found.extend(names.into_iter().map(|name| word(name.trim_start())).filter(|name| !name.is_empty()));
        }
    }
    found
}

/// The parts of a group of imports up to its closing brace.
fn top_level(group: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&group[start..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&name))
}

#[test]
fn imports_are_read_as_they_are_meant() {
    let code = "use crate::span::Place;\nuse crate::{clock::{Clock, Ticks}, thread};\nfn f() { super::super::drain::all(); super::own(); my_crate::x() }";
    assert_eq!(imports("session/window/gate.rs", code), BTreeSet::from(["span", "clock", "thread"].map(str::to_owned)));
    assert!(imports("session/window.rs", code).contains("drain"));
}

#[test]
fn folders_import_only_what_is_below_them() {
    let mut wrong = Vec::new();
    for (path, code) in sources("tracing-gpu/src") {
        let file = path.strip_prefix("tracing-gpu/src/").expect("a file of the library");
        let own = file.split(['/', '.']).next().unwrap_or_default();
        let Some(here) = floor(own) else {
            wrong.push(format!("{path} is on no floor: add `{own}` to the list in this test, and to ARCHITECTURE.md"));
            continue;
        };
        for name in imports(file, &code).into_iter().filter(|name| name != own) {
            // What is no module is what lib.rs hands on.
            if floor(&name).unwrap_or(0) <= here && own != "lib" {
                wrong.push(format!("{path} imports `{name}`, which is not below it"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_takes_data_and_returns_data_touches_nothing_else() {
    for folder in PURE {
        for (path, code) in sources(folder) {
            let named: Vec<_> = IMPURE.iter().filter(|word| code.contains(**word)).collect();
            assert!(named.is_empty(), "{path} names {named:?}");
        }
    }
}

/// The compiler denies `unsafe` except in files that allow it; this is the list of those.
#[test]
fn unsafe_is_allowed_in_few_files() {
    let all = LIBRARIES.iter().flat_map(|folder| sources(folder));
    let allowing: Vec<String> =
        all.filter(|(_, code)| code.contains("allow(unsafe_code)")).map(|(path, _)| path).collect();
    assert_eq!(allowing, UNSAFE);
}

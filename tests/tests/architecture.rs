//! Data flows one way: inside each crate a folder imports only folders below it, no two files import each other, and
//! pure code has no side effects. The borders between crates need no test, because the compiler enforces them.

#[path = "architecture/imports.rs"]
mod imports;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use imports::{Imports, circles, imports};

/// The libraries, each with its folders and files from the top down. A line may import later lines, and nothing from
/// its own. A file or folder of the core (`core/...`) or of a part (`parts/NAME/...`) stands on the
/// line of its own name.
const LIBRARIES: &[(&str, &[&[&str]])] = &[
    ("nvtx-rs/src", &[&["lib"], &["client", "tool"], &["abi"]]),
    ("crates/range-model/src", &[&["lib"], &["timeline"], &["summary"], &["unknown_name"], &["names", "stats"]]),
    (
        "crates/range-report/src",
        &[
            &["lib"],
            &["page", "summary_ext"],
            &["export"],
            &["report"],
            &["compare"],
            &["analysis"],
            &["notes", "text"],
        ],
    ),
    (
        "crates/range-page/src",
        &[
            &["lib"],
            &["join", "page"],
            &["data"],
            &["comparison", "hot", "late", "lay_out"],
            &["items"],
            &["details", "idle", "processes", "spreads", "tree", "waits"],
            &["columns", "tables"],
            &["texts"],
        ],
    ),
    (
        "crates/range-files/src",
        &[&["lib"], &["import"], &["joined"], &["parquet", "perfetto", "sqlite"], &["chrome"], &["part"]],
    ),
    (
        "crates/gpu-activity/src",
        &[
            &["lib"],
            &["cupti", "timed"],
            &["join"],
            &["totals"],
            &["fold"],
            &["source"],
            &["nvml"],
            &["driver", "forks", "graph", "own_calls", "record"],
        ],
    ),
    ("crates/gpu-analysis/src", &[&["lib"], &["interference"], &["idle", "kernel_exec", "states"], &["union"]]),
    (
        "tracing-gpu/src",
        &[
            &["lib"],
            &["profiler"],
            &["tier"],
            &["drain", "recorder"],
            &["collector", "outputs", "runtime", "sampler"],
            &["thread"],
            &["session"],
            &["span", "device"],
            &["config", "signals"],
            &["samples"],
            &["record", "image"],
            &["thresholds"],
            &["budget", "chunked", "clock", "file", "look", "page"],
            &["own_stack"],
            &["in_place", "process", "sync", "watch"],
            &["core", "parts"],
        ],
    ),
    ("tracing-gpu-cli/src", &[&["lib"], &["command", "inject"], &["folder"], &["memory", "system"]]),
];

/// Code that only takes and returns data, except for files that a caller names.
const PURE: &[&str] = &[
    "crates/range-model/src",
    "crates/range-report/src",
    "crates/range-files/src",
    "crates/range-page/src",
    "crates/gpu-activity/src/join",
    "crates/gpu-activity/src/fold",
    "crates/gpu-activity/src/totals",
    "crates/gpu-analysis/src",
];

/// Names that such code must not use.
const IMPURE: &[&str] =
    &["Instant::now", "SystemTime", "std::env", "std::thread", "std::process", "std::net", "io::std", "thread_local!"];

/// The most lines of code that the core of tracing-gpu may have: what leads from a span to a row, and from rows to a
/// summary.
const CORE_LINES: usize = 7_000;

/// What the core knows nothing of: the capabilities in `parts/`.
const PARTS: &[&str] =
    &["batch", "foreign", "infer", "launch", "openacc", "row_file", "sampler", "stream", "timeline", "wait_", "waits"];

/// The folders of `parts/` that put the parts together: of `parts/`, the core imports these alone.
const JOINED: &[&str] = &["drain", "session", "thread", "tier"];

/// Where `unsafe` is allowed.
const UNSAFE: &[&str] = &[
    "nvtx-rs/src/abi/environment.rs",
    "nvtx-rs/src/abi/loading.rs",
    "nvtx-rs/src/abi/program.rs",
    "nvtx-rs/src/abi/slots.rs",
    "nvtx-rs/src/client/calls.rs",
    "nvtx-rs/src/client/transport.rs",
    "nvtx-rs/src/tool/arguments.rs",
    "nvtx-rs/src/tool/extended.rs",
    "nvtx-rs/src/tool/fork.rs",
    "nvtx-rs/src/tool/install.rs",
    "nvtx-rs/src/tool/receive.rs",
    "crates/range-files/src/sqlite/descriptors.rs",
    "crates/gpu-activity/src/cupti/buffers.rs",
    "crates/gpu-activity/src/cupti/environment.rs",
    "crates/gpu-activity/src/cupti/library.rs",
    "crates/gpu-activity/src/cupti/profiler_calls.rs",
    "crates/gpu-activity/src/cupti/receive.rs",
    "crates/gpu-activity/src/cupti/session.rs",
    "crates/gpu-activity/src/driver.rs",
    "crates/gpu-activity/src/forks.rs",
    "crates/gpu-activity/src/nvml.rs",
    "tracing-gpu/src/clock.rs",
    "tracing-gpu/src/core/chunked.rs",
    "tracing-gpu/src/core/thread/state/new.rs",
    "tracing-gpu/src/own_stack.rs",
    "tracing-gpu/src/parts/foreign/tier/linked.rs",
    "tracing-gpu/src/parts/openacc/runtime/receive.rs",
    "tracing-gpu/src/parts/row_file/file.rs",
    "tracing-gpu/src/parts/row_file/file/disabled.rs",
    "tracing-gpu/src/parts/row_file/thread.rs",
    "tracing-gpu/src/parts/streams/device/binding.rs",
    "tracing-gpu/src/parts/thread/new.rs",
    "tracing-gpu/src/process.rs",
    "tracing-gpu-cli/src/inject/entry.rs",
    "tracing-gpu-cli/src/main.rs",
    "tracing-gpu-cli/src/memory.rs",
    "tracing-gpu-cli/src/system.rs",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above this package").to_owned()
}

/// All sources below a folder except tests, by their path from the root of the workspace, without comments and without
/// tests at their end.
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

fn imports_of(folder: &str) -> Imports {
    imports(&format!("{folder}/lib.rs"), |file| std::fs::read_to_string(root().join(file)).ok())
}

#[test]
fn names_are_followed_to_the_file_that_defines_them() {
    let files = [
        ("lib.rs", "mod a; #[cfg(test)] mod tests; mod b; mod d; use d::*; pub use a::A;"),
        ("b.rs", "mod c; pub use self::c::{One, Two as Renamed}; mod inner { use super::super::d; }"),
        ("a.rs", "use crate::b::Renamed; pub struct A; #[cfg(test)] mod tests { use crate::d::D; }"),
        ("b/c.rs", "pub struct One; pub struct Two; fn f() { print!(\"{}\", super::super::A::NAME) }"),
        ("d/mod.rs", "#[cfg(x)] mod e; #[cfg(not(x))] #[path = \"other.rs\"] mod e; pub struct D; fn f() { e::E }"),
        ("d/e.rs", "use crate::D; pub const E: &str = \"crate::a::A\"; // crate::a::A"),
        ("d/other.rs", "pub const E: u8 = 0;"),
    ];
    let read =
        |path: &str| files.iter().find(|(file, _)| path == format!("src/{file}")).map(|(_, text)| (*text).into());
    let imports = imports("src/lib.rs", read);
    let of = |file: &str| imports[&format!("src/{file}")].keys().map(|file| &file[4..]).collect::<Vec<_>>();
    assert_eq!((of("lib.rs"), of("b.rs")), (vec!["a.rs", "d/mod.rs"], vec!["b/c.rs"]));
    assert_eq!((of("a.rs"), of("b/c.rs")), (vec!["b/c.rs"], vec!["a.rs"]));
    assert_eq!((of("d/mod.rs"), of("d/e.rs")), (vec!["d/e.rs", "d/other.rs"], vec!["d/mod.rs"]));
    let circles = circles(&imports);
    assert_eq!(circles, [BTreeSet::from(["src/a.rs", "src/b/c.rs"]), BTreeSet::from(["src/d/e.rs", "src/d/mod.rs"])]);
}

#[test]
fn imports_lead_downwards() {
    let mut wrong = Vec::new();
    for (folder, floors) in LIBRARIES {
        let floor = |part: &str| floors.iter().position(|floor| floor.contains(&part));
        let part = |file: &str| {
            let path: Vec<&str> = file[folder.len() + 1..].split(['/', '.']).collect();
            match path[..] {
                ["core", layer, ..] if layer != "mod" => layer.to_owned(),
                ["parts", layer, ..] if floor(layer).is_some() => layer.to_owned(),
                ["parts", _, layer, ..] if !["mod", "rs"].contains(&layer) => layer.to_owned(),
                _ => path[0].to_owned(),
            }
        };
        let imports = imports_of(folder);
        let unread = sources(folder).into_iter().filter(|(file, _)| !imports.contains_key(file));
        wrong.extend(
            unread.filter(|(file, _)| !file.ends_with("/main.rs")).map(|(file, _)| format!("{file}: not read")),
        );
        for (file, imported) in imports {
            let own = part(&file);
            let Some(here) = floor(&own) else {
                wrong.push(format!(
                    "{file} is on no floor: add `{own}` to the list in this test, and to ARCHITECTURE.md"
                ));
                continue;
            };
            for (other, path) in imported {
                if part(&other) != own && floor(&part(&other)) <= Some(here) {
                    wrong.push(format!("{file} imports `{path}` of {other}, which is not below it"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_files_import_each_other() {
    let mut wrong = Vec::new();
    for (folder, _) in LIBRARIES {
        let imports = imports_of(folder);
        for circle in circles(&imports) {
            wrong.push(format!("{} files import each other:", circle.len()));
            for file in &circle {
                let inner = imports[*file].iter().filter(|(other, _)| circle.contains(other.as_str()));
                wrong.extend(inner.map(|(other, path)| format!("  {file} imports `{path}` of {other}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_core_is_small_and_names_no_part() {
    let files = sources("tracing-gpu/src/core");
    let (mut lines, mut named) = (0, Vec::new());
    for (file, code) in files {
        for (number, line) in (1..).zip(code.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            lines += 1;
            let line = line.to_lowercase().replace("await", "");
            let imported = line.split("crate::parts::").skip(1);
            let imported = imported.map(|path| path.split([':', ';', ',']).next().unwrap_or_default());
            let is_part = |part: &&str| !JOINED.contains(part);
            named.extend(imported.filter(is_part).map(|part| format!("{file}:{number}: parts::{part}")));
            named.extend(
                PARTS.iter().filter(|word| line.contains(**word)).map(|word| format!("{file}:{number}: {word}")),
            );
        }
    }
    assert!(named.is_empty(), "{}", named.join("\n"));
    assert!((2_000..=CORE_LINES).contains(&lines), "{lines} lines of code");
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

/// The compiler denies `unsafe` except in files that allow it. This list names all of them.
#[test]
fn unsafe_is_allowed_in_few_files() {
    let all = LIBRARIES.iter().flat_map(|(folder, _)| sources(folder));
    let allowing: Vec<String> =
        all.filter(|(_, code)| code.contains("allow(unsafe_code)")).map(|(path, _)| path).collect();
    assert_eq!(allowing, UNSAFE);
}

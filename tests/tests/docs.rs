//! The READMEs and the pages in `docs/` only name existing files, anchors, examples, tests, settings and methods. Their
//! Rust snippets are doctests (`tests/src/docs.rs`).

mod scenario;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use scenario::{SUBSCRIBER, command, outcome};
use tracing_gpu::analysis::FindingKind;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// READMEs of the packages; that of `tracing-gpu` is the root's.
const READMES: [&str; 8] = [
    "README.md",
    "crates/gpu-activity/README.md",
    "crates/gpu-analysis/README.md",
    "nvtx-rs/README.md",
    "crates/range-files/README.md",
    "crates/range-model/README.md",
    "crates/range-page/README.md",
    "crates/range-report/README.md",
];

/// Files that the package of `tracing-gpu` and the site contain side by side. A link to anything else breaks there.
const LINKED: [&str; 6] = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs"];

/// The READMEs, the root's first, the pages for contributors, and all pages in `docs/`, with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let folder = fs::read_dir(root().join("docs")).expect("docs");
    let pages =
        folder.map(|entry| entry.expect("an entry").path()).filter(|path| path.extension() == Some("md".as_ref()));
    let read = |path: PathBuf| fs::read_to_string(&path).map(|text| (path, text)).expect("a page");
    let root = READMES.into_iter().chain(["CONTRIBUTING.md", "SECURITY.md"]).map(|path| root().join(path));
    root.chain(pages).map(read).collect()
}

/// The text after each `before`, up to a character that is not accepted.
fn after<'a>(text: &'a str, before: &'a str, accepts: fn(char) -> bool) -> impl Iterator<Item = &'a str> {
    let rest = text.match_indices(before).map(|(at, _)| &text[at + before.len()..]);
    rest.map(move |rest| rest.split(|letter| !accepts(letter)).next().unwrap_or_default())
}

/// A word of a name of an example, a test or a path.
fn in_name(letter: char) -> bool {
    letter.is_alphanumeric() || "_-./".contains(letter)
}

/// A value of an environment variable, up to where a shell ends it; a comma inside belongs to it.
fn in_value(letter: char) -> bool {
    !letter.is_whitespace() && !"`\"')|".contains(letter)
}

/// Lines of prose: not in a fenced block, a table, a heading, or a line of HTML.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        !fenced && !fence && !line.starts_with(['|', '<', '#']) && !line.trim_start().starts_with('<')
    })
}

/// GitHub's anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().chars();
    let kept = kept.filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn links_lead_to_files_and_headings() {
    for (page, text) in pages() {
        let links = after(&text, "](", |letter| letter != ')').filter(|link| !link.contains("://"));
        let pictures = ["src=\"", "srcset=\""].into_iter().flat_map(|name| after(&text, name, |letter| letter != '"'));
        for link in links.chain(pictures) {
            let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
            let target = if file.is_empty() { page.clone() } else { page.parent().expect("a folder").join(file) };
            let whole = target.canonicalize().unwrap_or_else(|error| panic!("{}: {link}: {error}", page.display()));
            let linked = |path| whole.starts_with(root().join(path).canonicalize().expect("a file"));
            let is_alone = READMES[1..].iter().any(|path| page.ends_with(path));
            assert!(!is_alone && LINKED.iter().any(linked), "{}: {link} is not beside it", page.display());
            let Some(heading) = heading else { continue };
            let target = fs::read_to_string(&target).expect("a page");
            let mut headings = target.lines().filter(|line| line.starts_with('#')).map(anchor);
            assert!(headings.any(|anchor| anchor == heading), "{}: {link}", page.display());
        }
    }
}

#[test]
fn the_site_and_the_package_hold_every_page() {
    for folder in ["site/src", "tracing-gpu"] {
        let held = |path| root().join(folder).join(path).canonicalize().expect("a link");
        assert!(LINKED.iter().all(|path| held(path) == root().join(path).canonicalize().expect("a file")), "{folder}");
    }
    let contents = fs::read_to_string(root().join("site/src/SUMMARY.md")).expect("the contents of the site");
    let listed: BTreeSet<PathBuf> =
        after(&contents, "](", |letter| letter != ')').map(|path| root().join(path)).collect();
    let own = |path: &PathBuf| !READMES[1..].iter().any(|readme| path.ends_with(readme));
    let mut pages: BTreeSet<PathBuf> = pages().into_iter().map(|(page, _)| page).filter(own).collect();
    pages.extend(["ARCHITECTURE.md", "CHANGELOG.md"].map(|path| root().join(path)));
    assert_eq!(listed, pages);
}

#[test]
fn examples_tests_and_paths_exist() {
    for (page, text) in pages() {
        let exists = |path: String| assert!(root().join(&path).exists(), "{}: {path}", page.display());
        for before in ["--example ", "target/release/examples/"] {
            after(&text, before, in_name).for_each(|name| exists(format!("examples/examples/{name}.rs")));
        }
        after(&text, "--test ", in_name).for_each(|name| exists(format!("tests/tests/{name}.rs")));
        after(&text, "--bench ", in_name).for_each(|name| exists(format!("tests/benches/{name}.rs")));
        for folder in ["`tests/", "`examples/", "bash tests/"] {
            let start = folder.trim_start_matches('`').trim_start_matches("bash ");
            after(&text, folder, in_name).for_each(|path| exists(format!("{start}{path}")));
        }
    }
}

/// The library's complaints about a value of one of its variables.
fn complaints(variable: &str, value: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("docs");
    fs::create_dir_all(&folder).expect("a folder");
    outcome(command("async-re-entry", SUBSCRIBER).env(variable, value).current_dir(&folder)).stderr
}

#[test]
fn settings_are_understood() {
    let mut settings = BTreeSet::new();
    for (_, text) in &pages() {
        for variable in ["TRACING_GPU", "TRACING_GPU_FILTER"] {
            let before = format!("{variable}=");
            settings.extend(after(text, &before, in_value).map(|value| (variable, value.to_owned())));
        }
    }
    assert!(settings.len() > 10, "{settings:?}");
    for (variable, value) in settings.iter().filter(|(_, value)| !value.is_empty()) {
        let said = complaints(variable, value);
        let refused = ["is not known", "cannot be", "is given twice", "needs a value", "is not a filter"];
        assert!(!refused.iter().any(|words| said.contains(words)), "{variable}={value}: {said}");
    }
}

/// The text of all files in a folder and below it.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries
        .map(|path| if path.is_dir() { sources(&path) } else { fs::read_to_string(path).expect("a source") })
        .collect()
}

#[test]
fn the_table_of_options_is_whole() {
    let page = fs::read_to_string(root().join("docs/options.md")).expect("the page");
    let table = page.split("\n## ").find(|section| section.starts_with("All options")).expect("the table");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();

    // Keys are the words in code before `=` in the second column; `off` stands alone.
    let column = |row: &str| row.split(" | ").nth(1).unwrap_or_default().to_owned();
    let key = |row: &&str| {
        let code = column(row).strip_prefix('`')?.split('`').next()?.to_owned();
        Some(code.split('=').next()?.to_owned())
    };
    let listed: BTreeSet<String> = rows.iter().filter_map(key).collect();
    let said = complaints("TRACING_GPU", "no-such-key");
    let allowed = said.split("allowed are ").nth(1).and_then(|rest| rest.lines().next()).expect("the keys");
    let allowed: BTreeSet<String> = allowed.replace(" and ", ", ").split(", ").map(str::to_owned).collect();
    assert_eq!(listed, allowed);

    let sources = sources(&root().join("tracing-gpu/src"));
    let named: Vec<&str> = rows.iter().filter_map(|row| after(row, "| `.", in_name).next()).collect();
    assert!(named.len() > 15, "{named:?}");
    let setters = sources.split("\nsetters! {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("a list");
    for method in named {
        let is_there = ["mut self", "self"].iter().any(|by| sources.contains(&format!("pub fn {method}({by}")));
        assert!(is_there || setters.contains(&format!("\n    {method}: ")), "{method}");
    }
}

#[test]
fn each_finding_that_can_be_off_is_named() {
    let page = fs::read_to_string(root().join("docs/gpu.md")).expect("the page");
    let (_, part) = page.split_once("#### Findings").expect("the table of findings");
    for kind in FindingKind::ALL.iter().filter(|kind| kind.can_be_off()) {
        assert!(part.contains(&format!("`{}`", kind.name())), "{} is not in the docs", kind.name());
    }
}

#[test]
fn the_readme_is_short_and_lines_are() {
    let all = pages();
    let (_, readme) = &all[0];
    let words = readme.split_whitespace().count();
    assert!(words <= 1_300, "{words} words");
    for block in after(readme, "```text\n", |letter| letter != '`') {
        assert!(block.lines().all(|line| line.chars().count() <= 100), "{block}");
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the manifest");
    let oldest = after(&manifest, "rust-version = \"", |letter| letter != '"').next().expect("a version");
    for (page, text) in &all[..READMES.len()] {
        let text = text.replace('\n', " ");
        let said: Vec<&str> = after(&text, "Rust 1.", char::is_numeric).collect();
        assert_eq!(said, [oldest.trim_start_matches("1.")], "{} says which Rust it needs", page.display());
    }
    for (page, text) in &all {
        for line in prose(text).filter(|line| !line.contains("](")) {
            assert!(line.chars().count() <= 120, "{}: {line}", page.display());
        }
    }
}

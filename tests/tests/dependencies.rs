//! The table in `docs/dependencies.md` has the crates and licences of each feature. `BLESS=1` rewrites it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const FEATURES: [&str; 9] = ["cuda", "cudarc", "html", "injection", "json", "parquet", "perfetto", "server", "sqlite"];

/// The linked crates, each with its licence if that differs from ours.
fn crates(arguments: &[&str]) -> BTreeSet<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["tree", "--locked", "--target=x86_64-unknown-linux-gnu", "--edges=no-dev,no-build,no-proc-macro"]);
    cargo.args(["--prefix=none", "--format={p}\t{l}", "--no-default-features"]).args(arguments);
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let named = |line: &str| {
        let (package, licence) = line.split_once('\t').expect("a package and its licence");
        let licence = licence.trim_end_matches(" (*)").replace('/', " OR ");
        let name = package.split(' ').next().expect("a name");
        let is_ours = ["MIT", "Apache-2.0"].iter().all(|ours| licence.split(" OR ").any(|other| other.trim() == *ours));
        if is_ours { format!("`{name}`") } else { format!("`{name}` ({licence})") }
    };
    let ours = |line: &&str| line.contains(" (/") || line.is_empty();
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| !ours(line)).map(named).collect()
}

fn row(what: &str, crates: &BTreeSet<String>, before: &BTreeSet<String>) -> String {
    let added: Vec<&str> = crates.difference(before).map(String::as_str).collect();
    format!("| {what} | {} | {} |\n", added.len(), added.join(", "))
}

#[test]
fn the_table_has_all_crates_and_licences() {
    let core = crates(&["--package=tracing-gpu"]);
    let mut table =
        "| built | crates | which, under MIT or Apache-2.0 except where another licence stands |\n".to_owned();
    table += "|---|---|---|\n";
    table += &row("`tracing-gpu` without features", &core, &BTreeSet::new());
    for feature in FEATURES {
        let with = crates(&["--package=tracing-gpu", &format!("--features={feature}")]);
        table += &row(&format!("with `{feature}`, also"), &with, &core);
    }
    table += &row("`tracing-gpu-nvtx` alone", &crates(&["--package=tracing-gpu-nvtx"]), &BTreeSet::new());
    let all = crates(&["--package=tracing-gpu", "--features=cudarc,html,injection,json,perfetto,sqlite"]);
    let command = crates(&["--package=tracing-gpu-cli"]);
    table += &row("the command `tracing-gpu`, beside these", &command, &all);

    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/dependencies.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    let (start, rest) = text.split_once("| built |").expect("the table");
    let end = rest.split_once("\n\n").map_or("", |(_, end)| end);
    let wanted = format!("{start}{table}\n{end}");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&page, &wanted).expect("the page can be written");
    } else {
        assert!(text == wanted, "BLESS=1 cargo test -p tests --test dependencies writes it anew:\n{table}");
    }
}

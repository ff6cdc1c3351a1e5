//! Compares runs from the JSON files they left, and fails where one became slower: the gate of a build.
//!
//! ```sh
//! for run in $(seq 20); do # alternately, because the pace of a machine drifts
//!     TRACING_GPU=json=old-$run.json ./phases-before
//!     TRACING_GPU=json=new-$run.json ./phases-after
//! done
//! cargo run --release --example compare -- --base old-*.json --new new-*.json
//! cargo run --release --example compare -- old-1.json new-1.json # a rough look
//! ```
//!
//! The exit status is 0 where nothing became slower than the threshold allows, 1 where something did (with `--added`,
//! also where something is not in the first run), and 2 where the files could not be compared: also where a run has
//! none of the ranges of the first one, as one that recorded nothing. Without arguments it says how it is used and
//! shows a comparison of two runs of its own.

use std::error::Error;
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use examples::output::{stderr, stdout};
use tracing_gpu::compare::{Basis, Gate};
use tracing_gpu::{Comparison, Output, Profiler, RenderOptions, Summary};

const USAGE: &str = "\
usage: compare [OPTIONS] --base BASE.json ... --new NEW.json ...
       compare [OPTIONS] BASE.json NEW.json ...

  --base, --new FILE ...  the runs of either side, 20 of each, recorded alternately; without these, each file is a side
  --threshold PERCENT     how much slower than BASE a range may be (default 2%)
  --basis median|total|p99
                          what is judged of ranges with 30 instances or more (default median); of others, the total
  --least MILLISECONDS    differences below this in a run do not count (default 0.1)
  --added                 fail on ranges of that length that BASE does not have, too; otherwise they are shown and fail nothing
  --csv, --json           print the comparison for programs
  --html FILE             write it as a page for a browser, too
  --help                  print this
";

/// What was asked for.
struct Arguments {
    gate: Gate,
    /// Whether a range that the first run does not have fails.
    added_fails: bool,
    form: Form,
    page: Option<String>,
    /// Those after `--base`, after `--new`, and others.
    files: [Vec<String>; 3],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Csv,
    Json,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let compared = if arguments.iter().any(|word| word == "--help" || word == "-h") {
        stdout().write_all(USAGE.as_bytes()).map(|()| true).map_err(Into::into)
    } else if arguments.is_empty() {
        demonstrate()
    } else {
        read(arguments).and_then(|said| compare(&said))
    };
    match compared {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _nowhere_left_to_say_it = writeln!(stderr(), "compare: {error}");
            ExitCode::from(2)
        }
    }
}

fn read(arguments: Vec<String>) -> Result<Arguments, Box<dyn Error>> {
    let gate = Gate::new(2.0);
    let mut said = Arguments { gate, added_fails: false, form: Form::Text, page: None, files: Default::default() };
    let [mut base, mut new, mut others] = [const { Vec::new() }; 3];
    let mut files = &mut others;
    let mut words = arguments.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"));
        match word.as_str() {
            "--base" => files = &mut base,
            "--new" => files = &mut new,
            "--threshold" => said.gate.threshold_percent = number(value()?.trim_end_matches('%'))?,
            "--least" => said.gate.least_ns = (number(&value()?)? * 1e6) as u64,
            "--basis" => said.gate.basis = basis(&value()?)?,
            "--added" => said.added_fails = true,
            "--csv" => said.form = Form::Csv,
            "--json" => said.form = Form::Json,
            "--html" => said.page = Some(value()?),
            option if option.starts_with("--") => return Err(format!("{option} is not known\n\n{USAGE}").into()),
            _ => files.push(word),
        }
    }
    match (base.is_empty(), new.is_empty(), others.len()) {
        (false, false, 0) | (true, true, 2..) => said.files = [base, new, others],
        (true, true, _) => return Err(format!("two files are needed at least\n\n{USAGE}").into()),
        _ => {
            return Err(format!("--base and --new need files, and all files stand after one of them\n\n{USAGE}").into());
        }
    }
    Ok(said)
}

fn basis(text: &str) -> Result<Basis, String> {
    match text {
        "median" => Ok(Basis::Median),
        "total" => Ok(Basis::Total),
        "p99" => Ok(Basis::P99),
        _ => Err(format!("{text:?} is none of median, total and p99")),
    }
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number: &f64| *number >= 0.0).ok_or_else(|| format!("{text:?} is no number"))
}

/// Whether nothing became slower.
fn compare(said: &Arguments) -> Result<bool, Box<dyn Error>> {
    let [base, new, others] = &said.files;
    let sides: Vec<(String, &[String])> = if others.is_empty() {
        vec![("base".to_owned(), base), ("new".to_owned(), new)]
    } else {
        // Files of the same name in several folders keep their whole path.
        let twice = |file: &str| others.iter().filter(|other| name(other) == name(file)).count() > 1;
        let named = |file: &String| if twice(file) { file.clone() } else { name(file) };
        others.iter().map(|file| (named(file), std::slice::from_ref(file))).collect()
    };
    let mut runs = Vec::new();
    for (name, files) in sides {
        let side = files.iter().map(|file| {
            let read = File::open(file).and_then(|open| Ok(Summary::read_json(open)?));
            read.map_err(|error| format!("{file}: {error}"))
        });
        runs.push((name, side.collect::<Result<Vec<Summary>, String>>()?));
    }
    let comparison = Comparison::of_sides(runs.iter().map(|(name, side)| (name.as_str(), side))).judged(&said.gate);
    if let Some(path) = &said.page {
        // Before it is judged: what became slower is what one wants to see.
        let written = File::create(path).and_then(|page| comparison.write_html(page));
        written.map_err(|error| format!("cannot write the page to {path}: {error}"))?;
    }
    judge(&comparison, &said.gate, said.added_fails, said.form)
}

fn name(file: &str) -> String {
    Path::new(file).file_stem().map_or_else(|| file.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Prints the comparison, and what fails: what became slower and, where that is asked for, what is new.
fn judge(comparison: &Comparison, gate: &Gate, added_fails: bool, form: Form) -> Result<bool, Box<dyn Error>> {
    let mut out = stdout(); // judged even if nobody reads it: the exit status is what counts
    match form {
        Form::Text => comparison.render(&RenderOptions::default().width(columns()), &mut out)?,
        Form::Csv => comparison.write_csv(&mut out)?,
        Form::Json => comparison.write_json(&mut out)?,
    }
    out.flush()?;
    let slower = comparison.check(gate);
    for regression in &slower {
        writeln!(stderr(), "SLOWER {regression}")?;
    }
    let added = if added_fails { comparison.added(gate.least_ns) } else { Vec::new() };
    for added in &added {
        writeln!(stderr(), "NEW {added}")?;
    }
    if !slower.is_empty() || !added.is_empty() {
        return Ok(false);
    }
    // A gate that had nothing to judge has not been passed.
    if let Some(run) = without_common(comparison) {
        return Err(format!("{run} has none of the ranges of {}: nothing was compared", comparison.runs[0]).into());
    }
    if form == Form::Text {
        writeln!(out, "Nothing is slower than allowed.")?;
    }
    Ok(true)
}

/// The first run that has no range in common with the one that it is compared with.
fn without_common(comparison: &Comparison) -> Option<&str> {
    let ranges = || comparison.ranges.iter().filter(|range| range.total_ns(0).is_some());
    let others = comparison.runs.iter().enumerate().skip(1);
    let mut without = others.filter(|(run, _)| ranges().all(|range| range.total_ns(*run).is_none()));
    without.next().map(|(_, name)| name.as_str())
}

/// What `COLUMNS` says; shells keep it up to date but do not hand it on unless they are told to (`export COLUMNS`).
fn columns() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    said.unwrap_or(if std::io::stdout().is_terminal() { 80 } else { 120 })
}

/// Two runs of a program with three phases. The second has a mistake in it: it mixes and sorts five times where once is
/// enough.
fn demonstrate() -> Result<bool, Box<dyn Error>> {
    writeln!(
        stdout(),
        "{USAGE}\nFor example, a program before and after a change, whose mistake is in the phase \"sort\":"
    )?;
    let (before, after) = (measured(1)?, measured(5)?);
    let gate = Gate::new(50.0);
    let comparison = Comparison::of([("before", &before), ("after", &after)]).judged(&gate);
    let passed = judge(&comparison, &gate, false, Form::Text)?;
    writeln!(stdout(), "With these two files the exit status would be {}.", i32::from(!passed))?;
    Ok(true)
}

fn measured(times: u32) -> Result<Summary, Box<dyn Error>> {
    let profiler = Profiler::builder().output(Output::None).build()?;
    let sum = tracing::subscriber::with_default(profiler.subscriber(), || work(times));
    assert_ne!(sum, 0);
    let summary = profiler.summary();
    // As if it had been written by one program and read by another.
    let mut file = Vec::new();
    summary.write_json(&mut file)?;
    Ok(Summary::read_json(file.as_slice())?)
}

fn work(times: u32) -> u64 {
    let mut numbers: Vec<u64> = tracing::info_span!("make").in_scope(|| (1..400_000).collect());
    tracing::info_span!("sort").in_scope(|| {
        for _ in 0..times {
            numbers.iter_mut().for_each(|number| *number = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29));
            numbers.sort_unstable();
        }
    });
    tracing::info_span!("sum").in_scope(|| numbers.iter().fold(0, |sum, number| sum ^ number.rotate_left(7)))
}

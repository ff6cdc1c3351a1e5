//! `tracing-gpu compare`: which ranges became slower, from the summaries of runs.

use std::io;
use std::path::PathBuf;

use tracing_gpu::{Comparison, RenderOptions, Summary, WriteHtml as _};

use super::options::Compare;
use super::{files, report};
use crate::complain;

/// The runs of one side: its name, its files, and their summaries.
type Side<'a> = (String, Vec<(&'a PathBuf, Summary)>);

/// Prints the comparison, and a line for each range that fails it. Returns whether all ranges pass.
pub(super) fn compare(asked: &Compare, options: &RenderOptions) -> io::Result<bool> {
    let sides = sides(asked)?;
    if let Some((one, other)) = same_run(&sides) {
        let (one, other) = (one.display(), other.display());
        return Err(io::Error::other(format!("{one} and {other} are the same run: nothing was compared")));
    }
    let summaries = sides.iter().map(|(name, side)| (name.as_str(), side.iter().map(|(_, summary)| summary)));
    let gate = asked.gate();
    let comparison = Comparison::of_sides(summaries).judged(&gate);
    // The files first, because they help to examine a failure.
    if let Some(path) = &asked.verdict {
        files::write(path, |out| comparison.verdict(&gate).write_json(out))?;
    }
    if let Some(path) = &asked.json {
        files::write(path, |out| Ok(comparison.write_json(out)?))?;
    }
    if let Some(path) = &asked.html {
        files::write(path, |out| comparison.write_html(out))?;
    }
    let mut text = Vec::new();
    if asked.csv {
        comparison.write_csv(&mut text)?
    } else {
        comparison.render(options, &mut text)?
    }
    report::print(&text)?;
    let slower = comparison.check(&gate);
    let added = if asked.added { comparison.added(gate.least_ns) } else { Vec::new() };
    slower.iter().for_each(|range| complain(&format!("SLOWER {range}")));
    added.iter().for_each(|range| complain(&format!("NEW {range}")));
    if !slower.is_empty() || !added.is_empty() {
        return Ok(false);
    }
    match without_common(&comparison) {
        None => Ok(true),
        Some(run) => {
            let base = &comparison.runs[0];
            Err(io::Error::other(format!("{run} has none of the ranges of {base}: nothing was compared")))
        }
    }
}

/// Reads all runs.
fn sides(asked: &Compare) -> io::Result<Vec<Side<'_>>> {
    let sides: Vec<(String, &[PathBuf])> = if asked.runs.is_empty() {
        vec![("base".to_owned(), &asked.base), ("new".to_owned(), &asked.new)]
    } else {
        let is_alone =
            |file: &PathBuf| asked.runs.iter().filter(|run| run.file_stem() == file.file_stem()).count() == 1;
        // If files in several folders have the same name, each keeps its whole path.
        let name = |file: &PathBuf| match file.file_stem().filter(|_| is_alone(file)) {
            Some(stem) => stem.to_string_lossy().into_owned(),
            None => file.display().to_string(),
        };
        asked.runs.iter().map(|file| (name(file), std::slice::from_ref(file))).collect()
    };
    sides.into_iter().map(|(name, files)| Ok((name, read(files)?))).collect()
}

fn read(files: &[PathBuf]) -> io::Result<Vec<(&PathBuf, Summary)>> {
    files.iter().map(|file| Ok((file, report::summary_in(file)?))).collect()
}

/// Two files of the same run, if there are any. They differ in nothing, and as repeats they would hide the noise.
fn same_run<'a>(sides: &[Side<'a>]) -> Option<(&'a PathBuf, &'a PathBuf)> {
    let all: Vec<_> = sides.iter().flat_map(|(_, side)| side).collect();
    all.iter().enumerate().find_map(|(index, (file, summary))| {
        let is_same = |(_, other): &&&(&PathBuf, Summary)| other.process.started_unix_ns != 0 && other == summary;
        all[..index].iter().find(is_same).map(|(other, _)| (*other, *file))
    })
}

/// The first run that has no range in common with the base run.
fn without_common(comparison: &Comparison) -> Option<&str> {
    let ranges = || comparison.ranges.iter().filter(|range| range.total_ns(0).is_some());
    let others = comparison.runs.iter().enumerate().skip(1);
    let mut without = others.filter(|(run, _)| ranges().all(|range| range.total_ns(*run).is_none()));
    without.next().map(|(_, name)| name.as_str())
}

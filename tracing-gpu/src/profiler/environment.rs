//! The grammar of `TRACING_GPU` and `TRACING_GPU_FILTER`, which override the settings of the builder.
//!
//! All but [`read`] is pure: text in, changes and complaints out.

use std::path::PathBuf;
use std::str::FromStr;

use range_report::{Report, UnknownName};
use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::config::{Config, Gpu};
use crate::outputs::{self, How};

/// Applies both variables, or the filter alone. Returns a line for each part that does not count.
pub(super) fn read(config: &mut Config) -> Vec<String> {
    config.color = color(variable);
    let text = if config.environment { variable("TRACING_GPU") } else { String::new() };
    apply_both(config, &text, &variable("TRACING_GPU_FILTER"))
}

/// Empty where it is not set, or must not be read.
pub(super) fn variable(name: &str) -> String {
    nvtx_rs::environment::variable(name).unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether the user wants colour, or none, wherever reports are printed, as these variables have it for any program.
pub(super) fn color(variable: impl Fn(&str) -> String) -> Option<bool> {
    match (&*variable("NO_COLOR"), &*variable("CLICOLOR_FORCE"), &*variable("TERM")) {
        ("", "" | "0", "dumb") => Some(false),
        ("", "" | "0", _) => None,
        ("", ..) => Some(true),
        _ => Some(false),
    }
}

/// Applies the texts of both variables.
pub(super) fn apply_both(config: &mut Config, settings: &str, filter: &str) -> Vec<String> {
    let mut complaints = apply(config, settings);
    complaints.extend(apply_filter(config, filter));
    complaints
}

const LEVELS: &str = "off, error, warn, info, debug or trace";

/// What a key does with a value; an error is a complaint.
type Set = fn(&mut Config, &str, &str) -> Result<(), String>;

/// The keys beside those of the outputs, which are listed before the last of them.
const SETTINGS: [(&str, Set); 15] = [
    ("report", |config, key, value| reports(key, value).map(|reports| config.reports = reports)),
    ("style", |config, key, value| parsed(key, value).map(|style| config.style = style)),
    ("name_from", |config, key, value| names(key, value).map(|names| config.fields.name_from = Some(names))),
    ("names", names_kept),
    ("bare_fields", |config, key, value| switch(key, value).map(|on| config.fields.bare = on)),
    ("nvtx", |config, key, value| switch(key, value).map(|on| config.nvtx = on)),
    ("gpu", |config, key, value| gpu(key, value).map(|gpu| config.gpu = gpu)),
    ("hot", |config, key, value| percent(key, value).map(|percent| config.hot_percent = percent)),
    ("percentiles", |config, key, value| percentiles(key, value).map(|all| config.ask_for(&all))),
    ("without", |config, key, value| {
        parsed(key, value).map(|kinds| config.without = kinds).map_err(|complaint| complaint + ", joined by +")
    }),
    ("rows", |config, key, value| most(key, value).map(|most| config.rows = most)),
    ("notes", |config, key, value| most(key, value).map(|most| config.notes = most)),
    ("domain", |config, key, value| parsed(key, value).map(|domain| config.domain = domain)),
    ("parents", |config, key, value| parsed(key, value).map(|parents| config.parents = parents)),
    ("signals", |config, key, value| signals(key, value).map(|on| config.on_signal = Some(on))),
];

/// Applies the text of `TRACING_GPU`. Returns one line for every part that is not understood, and for every key that
/// has a value already; the rest counts.
pub(super) fn apply(config: &mut Config, text: &str) -> Vec<String> {
    let items = split_unescaped(text);
    let mut given: Vec<(&str, &str)> = Vec::new();
    let mut complaints = Vec::new();
    for item in items.iter().map(|item| item.trim()) {
        let pair = item.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        let before = pair.and_then(|(key, _)| given.iter().find(|(other, _)| *other == key));
        let applied = match (pair, before) {
            (Some((key, value)), Some((_, first))) => Err(refused_again(key, first, value)),
            (Some((key, value)), None) => apply_pair(config, key, value).unwrap_or_else(|| Err(refused_key(item))),
            (None, _) => apply_word(config, item),
        };
        match applied {
            Ok(()) => given.extend(pair),
            Err(complaint) => complaints.push(complaint),
        }
    }
    complaints
}

/// `None` for a key that is not known.
fn apply_pair(config: &mut Config, key: &str, value: &str) -> Option<Result<(), String>> {
    if is_key(key)
        && value.split([';', '\n']).skip(1).any(|part| part.split_once('=').is_some_and(|(key, _)| is_key(key.trim())))
    {
        return Some(Err(refused(key, value, "one value, and a comma between parts")));
    }
    if let Some((_, set)) = SETTINGS.iter().find(|(setting, _)| *setting == key) {
        return Some(set(config, key, value));
    }
    let row = outputs::TABLE.iter().find(|row| row.key == key)?;
    Some(match row.how {
        None => Err(needs(key, row.needs)),
        Some(How::Printed) => parsed(key, value).map(|output| config.output = output),
        Some(_) if value.is_empty() => Err(refused(key, value, "a path")),
        Some(_) => {
            config.files.insert(row.key, PathBuf::from(value));
            Ok(())
        }
    })
}

fn is_key(word: &str) -> bool {
    SETTINGS.iter().any(|(key, _)| *key == word) || outputs::TABLE.iter().any(|row| row.key == word)
}

fn apply_word(config: &mut Config, word: &str) -> Result<(), String> {
    match word.to_ascii_lowercase().as_str() {
        "" | "1" | "on" => Ok(()),
        "0" | "off" => {
            config.enabled = false;
            Ok(())
        }
        _ if is_key(word) => Err(format!("TRACING_GPU: `{word}` needs a value: write {word}=...")),
        _ => Err(refused_key(word)),
    }
}

/// Applies the text of `TRACING_GPU_FILTER`.
fn apply_filter(config: &mut Config, text: &str) -> Vec<String> {
    if text.trim().is_empty() {
        return Vec::new(); // an empty variable is no filter
    }
    // `Targets` takes what `EnvFilter` writes in brackets, and then enables nothing by it.
    let filter = if text.contains(['[', ']', '{', '}']) {
        Err("spans and fields cannot be chosen".to_owned())
    } else {
        text.parse::<Targets>().map_err(|error| error.to_string())
    };
    match filter {
        Ok(filter) => {
            config.filter = Some(filter);
            // A target without a level has all levels: right where it is meant, and seldom meant.
            let words = text.split(',').map(str::trim).filter(|word| !word.is_empty() && !word.contains('='));
            words.filter(|word| word.parse::<LevelFilter>().is_err()).map(bare_target).collect()
        }
        Err(error) => vec![format!(
            "TRACING_GPU_FILTER=`{}` is not a filter ({error}): use TARGET=LEVEL, separated by commas, LEVEL being \
             {LEVELS}",
            text.escape_debug()
        )],
    }
}

/// A value whose type has the words itself.
fn parsed<T: FromStr<Err = UnknownName>>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|error: UnknownName| refused(key, value, error.expected()))
}

fn reports(key: &str, value: &str) -> Result<Vec<Report>, String> {
    let report = |name: &str| parsed(key, name.trim());
    value.split('+').map(report).collect::<Result<_, _>>().map_err(|complaint| complaint + ", joined by +")
}

fn switch(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(refused(key, value, "on or off")),
    }
}

/// Which names stay as they are: those of ranges, and those of kernels.
fn names_kept(config: &mut Config, key: &str, value: &str) -> Result<(), String> {
    for part in value.split('+') {
        match part {
            "whole" | "cut" => config.whole_names = part == "whole",
            "full" | "short" => config.full_kernel_names = part == "full",
            _ => return Err(refused(key, value, "whole or cut, full or short, joined by +")),
        }
    }
    Ok(())
}

fn gpu(key: &str, value: &str) -> Result<Gpu, String> {
    match parsed(key, value)? {
        Gpu::Events | Gpu::Cupti if !cfg!(feature = "cuda") => Err(needs(&format!("{key}={value}"), "feature `cuda`")),
        gpu => Ok(gpu),
    }
}

fn percent(key: &str, value: &str) -> Result<f64, String> {
    let percent = value.trim_end_matches('%').trim_end().parse::<f64>().ok();
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| refused(key, value, "a percentage from 0 to 100"))
}

fn percentiles(key: &str, value: &str) -> Result<Vec<f64>, String> {
    let all: Result<Vec<f64>, String> = value.split('+').map(|one| percent(key, one.trim())).collect();
    all.map_err(|_| refused(key, value, "percentages from 0 to 100, joined by +"))
}

fn signals(key: &str, value: &str) -> Result<bool, String> {
    let on = switch(key, value)?;
    if on && !cfg!(feature = "signals") { Err(needs(key, "feature `signals`")) } else { Ok(on) }
}

fn needs(setting: &str, features: &str) -> String {
    format!("TRACING_GPU: `{setting}` needs the {features} of the crate tracing-gpu")
}

fn refused(key: &str, value: &str, allowed: &str) -> String {
    format!("TRACING_GPU: `{key}` cannot be `{}`: expected {allowed}", value.escape_debug())
}

/// If the last value won in silence, a file that somebody waits for would not be written.
fn refused_again(key: &str, first: &str, again: &str) -> String {
    let (first, again) = (first.escape_debug(), again.escape_debug());
    format!("TRACING_GPU: `{key}` is given twice: `{first}` is used, `{again}` is ignored")
}

fn bare_target(word: &str) -> String {
    let word = word.escape_debug();
    format!("TRACING_GPU_FILTER: `{word}` is no level, so it is taken for the target {word}=trace: levels are {LEVELS}")
}

fn refused_key(item: &str) -> String {
    if let Ok(report) = item.parse::<Report>() {
        let other = if report == Report::Tree { Report::Ranges } else { Report::Tree };
        return format!("TRACING_GPU: `{item}` is a report: write report={item}, or report={other}+{item} for both");
    }
    let filter = item.split_once('=').filter(|(key, _)| key.trim() == "filter").map(|(_, filter)| filter.trim());
    if let Some(filter) = filter.or(Some(item).filter(|word| word.parse::<LevelFilter>().is_ok())) {
        let filter = filter.escape_debug();
        return format!("TRACING_GPU: the filter has a variable of its own: set TRACING_GPU_FILTER={filter}");
    }
    let [first @ .., (last, _)] = &SETTINGS;
    let allowed = first.iter().map(|(key, _)| *key).chain(outputs::TABLE.iter().map(|row| row.key));
    let allowed: String = allowed.map(|key| format!(", {key}")).collect();
    format!("TRACING_GPU: `{}` is not known: allowed are off{allowed} and {last}", item.escape_debug())
}

fn names(key: &str, value: &str) -> Result<Vec<String>, String> {
    if value == "off" {
        return Ok(Vec::new());
    }
    let names: Vec<String> = value.split('+').map(|name| name.trim().to_owned()).collect();
    match names.iter().any(String::is_empty) {
        true => Err(refused(key, value, "off, or names of fields, joined by +")),
        false => Ok(names),
    }
}

/// How many there are at most.
fn most(key: &str, value: &str) -> Result<usize, String> {
    match value {
        "all" => Ok(usize::MAX),
        _ => value.parse().map_err(|_| refused(key, value, "a number or all")),
    }
}

/// Splits at commas; `\,` is a comma and `\\` a backslash.
fn split_unescaped(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let escaped = letter == '\\' && letters.peek().is_some_and(|&next| next == ',' || next == '\\');
        match (letter, escaped, items.last_mut()) {
            (',', _, _) => items.push(String::new()),
            (_, true, Some(item)) => item.extend(letters.next()),
            (_, _, Some(item)) => item.push(letter),
            (_, _, None) => {}
        }
    }
    items
}

#[cfg(test)]
mod tests;

//! The grammar of `TRACING_GPU` and `TRACING_GPU_FILTER`, which override the settings of the builder.
//!
//! All but [`read`] is pure: text in, changes and complaints out.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use range_model::UnknownName;
use range_model::stats::Lean;
use range_report::Report;
use tracing_subscriber::filter::{LevelFilter, Targets};

use crate::config::{Config, Gpu, LEAST_EVERY, LEAST_ROTATED};
use crate::outputs::{self, How};

/// Applies both variables, or the filter alone. Returns a line for each rejected part.
pub(super) fn read(config: &mut Config) -> Vec<String> {
    config.color = color(variable);
    let text = if config.environment { variable("TRACING_GPU") } else { String::new() };
    apply_both(config, &text, &variable("TRACING_GPU_FILTER"))
}

/// The value of a variable; empty if it is not set or must not be read.
pub(super) fn variable(name: &str) -> String {
    nvtx_rs::environment::variable(name).unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether the user wants colour (`true`) or none (`false`) in reports, by the usual variables.
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

/// What a key does with a value.
type Set = fn(&mut Config, &str) -> Result<(), Refused>;

/// Why a key does not take a value.
enum Refused {
    /// The value, or the part of it that is meant, and what is allowed.
    Value { value: String, expected: String },
    /// Features that are off here, for any value or for this one.
    Needs { features: &'static str, with_value: bool },
}

/// The keys beside those of the outputs, which are listed before the last of them.
const SETTINGS: [(&str, Set); 22] = [
    ("report", |config, value| reports(value).map(|reports| config.reports = reports)),
    ("style", |config, value| parsed(value).map(|style| config.style = style)),
    ("name_from", |config, value| names(value).map(|names| config.fields.name_from = Some(names))),
    ("names", names_kept),
    ("bare_fields", |config, value| switch(value).map(|on| config.fields.bare = on)),
    ("nvtx", |config, value| switch(value).map(|on| config.nvtx = on)),
    ("gpu", |config, value| gpu(value).map(|gpu| config.gpu = gpu)),
    ("graphs", |config, value| parsed(value).map(|graphs| config.graphs = graphs)),
    ("api", |config, value| parsed(value).map(|calls| config.api_calls = calls)),
    ("on_cpu", |config, value| switch(value).map(|on| config.on_cpu = Some(on))),
    ("off_cpu", |config, value| switch(value).map(|on| config.off_cpu = Some(on))),
    ("hot", |config, value| percent(value).map(|percent| config.hot_percent = percent)),
    ("percentiles", |config, value| percentiles(value).map(|all| config.ask_for(&all))),
    ("without", |config, value| parsed(value).map(|kinds| config.without = kinds).map_err(Refused::joined)),
    ("rows", |config, value| most(value).map(|most| config.rows = most)),
    ("notes", |config, value| most(value).map(|most| config.notes = most)),
    ("domain", |config, value| parsed(value).map(|domain| config.domain = domain)),
    ("parents", |config, value| parsed(value).map(|parents| config.parents = parents)),
    ("every", |config, value| duration(value).map(|every| config.every = Some(every))),
    ("rotate", |config, value| rotation(value).map(|rotate| config.rotate = Some(rotate))),
    ("otlp", otlp),
    ("signals", |config, value| switch(value).map(|on| config.on_signal = Some(on))),
];

/// Applies the text of `TRACING_GPU`. Returns a line for every part that is unknown or invalid, and for every key that
/// already has a value; the other parts take effect.
pub(super) fn apply(config: &mut Config, text: &str) -> Vec<String> {
    let items = split_unescaped(text);
    let mut given: Vec<(&str, &str)> = Vec::new();
    let mut complaints = Vec::new();
    for item in items.iter().map(|item| item.trim()) {
        let pair = item.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        let before = pair.and_then(|(key, _)| given.iter().find(|(other, _)| *other == key));
        let applied = match (pair, before) {
            (Some((key, value)), Some((_, first))) => Err(refused_again(key, first, value)),
            (Some((key, value)), None) => match apply_pair(config, key, value) {
                Some(applied) => applied.map_err(|refused| refused.complaint(key, value)),
                None => Err(refused_key(item)),
            },
            (None, _) => apply_word(config, item).map_or(Ok(()), Err),
        };
        match applied {
            Ok(()) => given.extend(pair),
            Err(complaint) => complaints.push(complaint),
        }
    }
    complaints
}

/// `None` for a key that is not known.
fn apply_pair(config: &mut Config, key: &str, value: &str) -> Option<Result<(), Refused>> {
    if is_key(key)
        && value.split([';', '\n']).skip(1).any(|part| part.split_once('=').is_some_and(|(key, _)| is_key(key.trim())))
    {
        return Some(Err(refused(value, "one value, and a comma between parts")));
    }
    if let Some((_, set)) = SETTINGS.iter().find(|(setting, _)| *setting == key) {
        return Some(set(config, value));
    }
    let row = outputs::TABLE.iter().find(|row| row.key == key)?;
    Some(match row.how {
        None => Err(Refused::Needs { features: row.needs, with_value: false }),
        Some(How::Printed) => parsed(value).map(|output| config.output = output),
        Some(_) if value.is_empty() => Err(refused(value, "a path")),
        Some(_) => {
            config.set_file(row.key, PathBuf::from(value));
            Ok(())
        }
    })
}

fn is_key(word: &str) -> bool {
    SETTINGS.iter().any(|(key, _)| *key == word) || outputs::TABLE.iter().any(|row| row.key == word)
}

/// Returns a complaint about a word that is not understood.
fn apply_word(config: &mut Config, word: &str) -> Option<String> {
    match word.to_ascii_lowercase().as_str() {
        "" | "1" | "on" => {}
        "0" | "off" => config.enabled = false,
        _ if is_key(word) => return Some(format!("TRACING_GPU: `{word}` needs a value: write {word}=...")),
        _ => return Some(refused_key(word)),
    }
    None
}

/// Applies the text of `TRACING_GPU_FILTER`.
fn apply_filter(config: &mut Config, text: &str) -> Vec<String> {
    if text.trim().is_empty() {
        return Vec::new(); // an empty variable is no filter
    }
    // `Targets` accepts the bracket syntax of `EnvFilter` but then enables nothing.
    let filter = if text.contains(['[', ']', '{', '}']) {
        Err("spans and fields cannot be chosen".to_owned())
    } else {
        text.parse::<Targets>().map_err(|error| error.to_string())
    };
    match filter {
        Ok(filter) => {
            config.filter = Some(filter);
            // A target without a level enables all levels, which is seldom intended.
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
fn parsed<T: FromStr<Err = UnknownName>>(value: &str) -> Result<T, Refused> {
    value.parse().map_err(|error: UnknownName| refused(value, error.expected()))
}

fn reports(value: &str) -> Result<Vec<Report>, Refused> {
    let report = |name: &str| parsed(name.trim()).map_err(Refused::joined);
    value.split('+').map(report).collect()
}

fn switch(value: &str) -> Result<bool, Refused> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(refused(value, "on or off")),
    }
}

/// Which names stay as they are: those of ranges, and those of kernels.
fn names_kept(config: &mut Config, value: &str) -> Result<(), Refused> {
    for part in value.split('+') {
        match part {
            "whole" | "cut" => config.whole_names = part == "whole",
            "full" | "short" => config.full_kernel_names = part == "full",
            _ => return Err(refused(value, "whole or cut, full or short, joined by +")),
        }
    }
    Ok(())
}

fn gpu(value: &str) -> Result<Gpu, Refused> {
    match parsed(value)? {
        Gpu::Events | Gpu::Cupti if !cfg!(feature = "cuda") => {
            Err(Refused::Needs { features: "feature `cuda`", with_value: true })
        }
        gpu => Ok(gpu),
    }
}

fn percent(value: &str) -> Result<f64, Refused> {
    let percent = value.trim_end_matches('%').trim_end().parse::<f64>().ok();
    percent
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| refused(value, "a percentage from 0 to 100"))
}

fn percentiles(value: &str) -> Result<Vec<f64>, Refused> {
    let all: Result<Vec<f64>, Refused> = value.split('+').map(|one| percent(one.trim())).collect();
    all.map_err(|_| refused(value, "percentages from 0 to 100, joined by +"))
}

/// A time with its unit.
fn duration(value: &str) -> Result<Duration, Refused> {
    let number = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms = match value.get(number.len()..) {
        Some("ms") => Some(1),
        Some("s") => Some(1_000),
        Some("m") => Some(60_000),
        Some("h") => Some(3_600_000),
        _ => None,
    };
    let ms = unit_ms.zip(number.parse::<u64>().ok()).and_then(|(unit, number)| number.checked_mul(unit));
    let duration = ms.map(Duration::from_millis).filter(|duration| *duration >= LEAST_EVERY);
    duration.ok_or_else(|| refused(value, "a time of at least 10ms: a whole number with ms, s, m or h"))
}

/// The size and the number of files: `256MB*8`.
fn rotation(value: &str) -> Result<(u64, u64), Refused> {
    let part = || {
        let (size, files) = value.split_once('*')?;
        let number = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match size.get(number.len()..)? {
            "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            _ => return None,
        };
        let bytes = number.parse::<u64>().ok()?.checked_mul(unit)?;
        let files = files.parse().ok().filter(|files| *files > 0)?;
        (bytes >= LEAST_ROTATED).then_some((bytes, files))
    };
    part().ok_or_else(|| refused(value, "a size of at least 100KB and a number of files, as 256MB*8"))
}

/// Where metrics are pushed to.
fn otlp(config: &mut Config, value: &str) -> Result<(), Refused> {
    let address = match value {
        "on" => Some(String::new()),
        "off" => None,
        _ if ["http://", "https://"].iter().any(|start| value.starts_with(start)) => Some(value.to_owned()),
        _ => return Err(refused(value, "on, off or an address that begins with http:// or https://")),
    };
    #[cfg(feature = "otlp")]
    {
        config.otlp = address;
        Ok(())
    }
    #[cfg(not(feature = "otlp"))]
    {
        let _without_it = config;
        address.map_or(Ok(()), |_| Err(Refused::Needs { features: "feature `otlp`", with_value: false }))
    }
}

fn refused(value: &str, expected: &str) -> Refused {
    Refused::Value { value: value.to_owned(), expected: expected.to_owned() }
}

impl Refused {
    /// Of values that are joined.
    fn joined(self) -> Self {
        match self {
            Self::Value { value, expected } => Self::Value { value, expected: expected + ", joined by +" },
            other => other,
        }
    }

    /// The line about a key that was given this value.
    fn complaint(self, key: &str, given: &str) -> String {
        match self {
            Self::Value { value, expected } => {
                format!("TRACING_GPU: `{key}` cannot be `{}`: expected {expected}", value.escape_debug())
            }
            Self::Needs { features, with_value } => {
                let value = if with_value { format!("={given}") } else { String::new() };
                format!("TRACING_GPU: `{key}{value}` needs the {features} of the crate tracing-gpu")
            }
        }
    }
}

/// If the last value won silently, an expected file would not be written.
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
    if item.split_once('=').is_some_and(|(key, _)| key.trim() == "flamegraph") {
        return "TRACING_GPU: `flamegraph` is no longer a key: `html` writes a page with flame graphs, and `folded` the \
                stacks that inferno-flamegraph draws"
            .to_owned();
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

fn names(value: &str) -> Result<Vec<String>, Refused> {
    if value == "off" {
        return Ok(Vec::new());
    }
    let names: Vec<String> = value.split('+').map(|name| name.trim().to_owned()).in_vec();
    match names.iter().any(String::is_empty) {
        true => Err(refused(value, "off, or names of fields, joined by +")),
        false => Ok(names),
    }
}

fn most(value: &str) -> Result<usize, Refused> {
    match value {
        "all" => Ok(usize::MAX),
        _ => value.parse().map_err(|_| refused(value, "a number or all")),
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

//! Summaries as JSON, which later versions can read.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

#[cfg(feature = "compare")]
use crate::Comparison;
use crate::analysis::Finding;
use crate::notes::sentences;
use crate::report::{self, RenderOptions};
use crate::text::width::shorten;
#[cfg(feature = "compare")]
use range_model::MergedSummary;
use range_model::{Note, Summary};

/// The JSON Schema (draft 2020-12) of a summary.
pub(crate) const SCHEMA: &str = include_str!("../../schema/summary.schema.json");
/// The name of the format, before its version.
const FORMAT: &str = "tracing-gpu/";
/// The version that is written, and the newest that can be read.
const VERSION: u32 = 1;

/// The hint for a timeline: it is also JSON, often in the same folder.
const TIMELINE: &str =
    "it is a timeline of Chrome trace events, as `trace=` writes it; a summary is what `json=` writes";

/// Why a summary could not be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum JsonError {
    /// Reading or writing failed; the source has the reason.
    Io(io::Error),
    /// The text is not JSON, or it is cut off: the error and its place.
    Syntax(String),
    /// It is JSON but no summary: what it is instead, or which part is missing or invalid.
    NotASummary(String),
    /// A newer version of this crate wrote it, in a form that this version cannot read.
    Newer {
        /// Version of the format in the text.
        found: u32,
        /// Newest version that is read here.
        newest: u32,
    },
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) => f.write_str("reading or writing failed"),
            Self::Syntax(what) => write!(f, "not JSON: {what}"),
            Self::NotASummary(what) => write!(f, "not a summary of tracing-gpu: {what}"),
            Self::Newer { found, newest } => write!(
                f,
                "written by a newer tracing-gpu, in version {found} of the format: this one reads up to version {newest}"
            ),
        }
    }
}

impl std::error::Error for JsonError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<JsonError> for io::Error {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Io(error) => error,
            other => Self::other(other),
        }
    }
}

impl JsonError {
    /// An error of `serde_json` in our words.
    fn of(error: serde_json::Error) -> Self {
        match error.classify() {
            serde_json::error::Category::Io => Self::Io(error.into()),
            serde_json::error::Category::Data => Self::NotASummary(error.to_string()),
            serde_json::error::Category::Syntax | serde_json::error::Category::Eof => Self::Syntax(error.to_string()),
        }
    }
}

/// The written document: first the name of the format, then the fields.
#[derive(Serialize)]
struct Document<'a, T> {
    schema: &'a str,
    #[serde(flatten)]
    fields: &'a T,
}

/// The largest size of the findings in a file in bytes, and the largest width of a name and of a sentence.
const MOST_FINDINGS: usize = 1_900;
const LONGEST_NAME: usize = 40;
const LONGEST_SENTENCE: usize = 360;

/// A summary in words: with the sentences of its notes, and its findings.
#[derive(Serialize)]
struct Concluded<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    notes: Vec<String>,
    findings: Vec<Finding>,
    findings_left_out: usize,
}

impl<'a> Concluded<'a> {
    /// As many findings as there is room for, the most costly first.
    fn of(summary: &'a Summary, options: &RenderOptions) -> Result<Self, JsonError> {
        let (mut findings, mut findings_left_out, mut room) = (Vec::new(), 0, MOST_FINDINGS);
        for mut finding in report::findings(summary, options) {
            finding.span.iter_mut().for_each(|name| *name = shorten(name, LONGEST_NAME, LONGEST_NAME / 2));
            finding.sentence = shorten(&finding.sentence, LONGEST_SENTENCE, 0);
            let size = serde_json::to_string(&finding).map_err(JsonError::of)?.len() + 1;
            match room.checked_sub(size) {
                Some(left) => {
                    room = left;
                    findings.push(finding);
                }
                None => findings_left_out += 1,
            }
        }
        let notes = sentences(&summary.notes);
        Ok(Self { summary, notes, findings, findings_left_out })
    }
}

/// The part that is checked first.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Header {
    schema: Option<serde_json::Value>,
    /// Present in timelines of other programs, which write an object.
    #[serde(rename = "traceEvents")]
    trace_events: Option<IgnoredAny>,
    /// Sentences, read beside the figures of the notes.
    #[serde(default)]
    notes: serde_json::Value,
}

impl Header {
    fn read(text: &[u8]) -> Result<Self, JsonError> {
        match text.trim_ascii_start().strip_prefix(b"[") {
            Some(elements) => Err(of_array(text, elements)),
            None => serde_json::from_slice(text).map_err(JsonError::of),
        }
    }
}

/// The error for an array, which a summary never is. The timeline of a killed program has no end, so it is recognised
/// by its first event.
fn of_array(text: &[u8], elements: &[u8]) -> JsonError {
    let mut elements = serde_json::Deserializer::from_slice(elements).into_iter::<BTreeMap<String, IgnoredAny>>();
    if elements.next().is_some_and(|first| first.is_ok_and(|event| event.contains_key("ph"))) {
        return JsonError::NotASummary(TIMELINE.to_owned());
    }
    match serde_json::from_slice::<IgnoredAny>(text) {
        Ok(_) => JsonError::NotASummary("it is an array, and a summary is an object".to_owned()),
        Err(error) => JsonError::of(error),
    }
}

/// Writes the name of the format and `fields` as one line of JSON.
pub(crate) fn write(schema: &str, fields: &impl Serialize, mut out: impl io::Write) -> Result<(), JsonError> {
    let mut text = serde_json::to_vec(&Document { schema, fields }).map_err(JsonError::of)?;
    text.push(b'\n');
    out.write_all(&text).map_err(JsonError::Io)
}

/// Writes a summary and its findings as one line of JSON.
pub(crate) fn write_summary(summary: &Summary, options: &RenderOptions, out: impl io::Write) -> Result<(), JsonError> {
    write(&format!("{FORMAT}{VERSION}"), &Concluded::of(summary, options)?, out)
}

/// Reads what [`write_summary`] wrote in this version or an older one.
pub(crate) fn read_summary(mut input: impl io::Read) -> Result<Summary, JsonError> {
    let mut text = Vec::new();
    input.read_to_end(&mut text).map_err(JsonError::Io)?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text); // some editors and shells add a byte order mark
    let header = Header::read(text)?;
    version(&header)?;
    let mut summary: Summary = serde_json::from_slice(text).map_err(JsonError::of)?;
    let sentences: Vec<String> = serde_json::from_value(header.notes).map_err(JsonError::of)?;
    let mut notes = std::mem::take(&mut summary.notes).into_iter();
    summary.notes = sentences.into_iter().map(|text| known(notes.next(), text)).collect();
    Ok(summary)
}

/// The note, or its sentence alone: an older version wrote no figures, a newer one may write others.
fn known(note: Option<Note>, text: String) -> Note {
    note.filter(|note| *note != Note::Unknown).unwrap_or(Note::Text { text })
}

/// Whether this version of the format can be read.
fn version(header: &Header) -> Result<(), JsonError> {
    let Some(schema) = &header.schema else {
        let what = if header.trace_events.is_some() { TIMELINE } else { "it has no `schema`" };
        return Err(JsonError::NotASummary(what.to_owned()));
    };
    let found = schema.as_str().and_then(|schema| schema.strip_prefix(FORMAT)).and_then(|version| version.parse().ok());
    match found {
        Some(found) if found > VERSION => Err(JsonError::Newer { found, newest: VERSION }),
        Some(1..) => Ok(()),
        _ => Err(JsonError::NotASummary(format!("its `schema` is {schema}, and not \"{FORMAT}{VERSION}\""))),
    }
}

/// Writes a merged summary as one line of JSON.
#[cfg(feature = "compare")]
pub(crate) fn write_merged(merged: &MergedSummary, out: impl io::Write) -> Result<(), JsonError> {
    #[derive(Serialize)]
    struct Worded<'a> {
        #[serde(flatten)]
        merged: &'a MergedSummary,
        notes: Vec<String>,
    }
    write("tracing-gpu-merged/1", &Worded { merged, notes: sentences(&merged.notes) }, out)
}

#[cfg(all(feature = "compare", feature = "json"))] // repeated for the documentation of `tracing-gpu`
impl Comparison {
    /// Writes it as a line of JSON: the fields of this type after `"schema":"tracing-gpu-comparison/1"`.
    ///
    /// ```
    /// use range_report::Comparison;
    /// use range_model::Summary;
    ///
    /// let mut text = Vec::new();
    /// Comparison::of([("old", &Summary::default())]).write_json(&mut text)?;
    /// let text = String::from_utf8_lossy(&text);
    /// let (schema, rest) = text.split_once(',').unwrap_or_default();
    /// assert_eq!(schema, r#"{"schema":"tracing-gpu-comparison/1""#);
    /// assert!(rest.starts_with(r#""runs":["old"],"repeats":[1],"processes":[{"pid":0,"#));
    /// assert!(text.ends_with("\"ranges\":[]}\n"));
    /// # Ok::<(), range_report::JsonError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn write_json(&self, out: impl io::Write) -> Result<(), JsonError> {
        write("tracing-gpu-comparison/1", self, out)
    }
}

#[cfg(test)]
mod tests;

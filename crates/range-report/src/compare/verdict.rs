//! The result of a gate in few words, for scripts.

use super::comparison::Comparison;
use super::sides::Side;
use crate::analysis::{Basis, Figure, Gate, Regression, confidence};
use range_model::names::label_or_none;
use range_model::stats::Lean;

/// The result of a gate: whether all figures pass, those that do not, and how far the sides can be compared.
///
/// ```
/// use range_report::{Comparison, Gate};
/// use range_model::Summary;
///
/// let (old, new) = (Summary::default(), Summary::default());
/// let verdict = Comparison::of([("old", &old), ("new", &new)]).verdict(&Gate::new(2.0));
/// assert!(verdict.passes);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Verdict {
    /// Whether no figure became slower than the gate allows.
    pub passes: bool,
    /// The growth that is allowed, in percent.
    pub threshold_percent: f64,
    /// Figures that were judged.
    pub judged: usize,
    /// So many of 100 comparisons of equal runs pass at least, whatever their number of figures, with 8 pairs of
    /// runs or more.
    pub confidence_percent: f64,
    /// What became slower, as [`Comparison::check`] orders it.
    pub slower: Vec<Slower>,
    /// How many more did.
    pub more: usize,
    /// The first run, then the others.
    pub sides: Vec<Side>,
}

/// A figure that became slower.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Slower {
    /// The run it is slower in.
    pub run: String,
    /// Label of the row, at most 80 characters of it.
    pub row: String,
    /// What is judged of the row.
    pub figure: Figure,
    /// By which figure.
    pub basis: Basis,
    /// In the first run, in nanoseconds.
    pub base_ns: f64,
    /// The change in percent.
    pub percent: f64,
    /// The lower end of its interval.
    pub low_percent: Option<f64>,
    /// What grew, in words, at most 160 characters of them.
    pub reason: Option<String>,
}

/// The largest size of a verdict in JSON.
#[cfg(feature = "json")]
const LARGEST: usize = 2_048;
/// The most regressions and sides in it.
#[cfg(feature = "json")]
const MOST: usize = 16;
impl Comparison {
    /// The result of a gate.
    #[must_use]
    pub fn verdict(&self, gate: &Gate) -> Verdict {
        let slower = self.check(gate);
        let judged = (1..self.runs.len()).map(|run| self.changes(gate, run).iter().flatten().flatten().count()).sum();
        Verdict {
            passes: slower.is_empty(),
            threshold_percent: gate.threshold_percent.max(0.0),
            judged,
            confidence_percent: confidence(),
            slower: slower.iter().map(Slower::of).in_vec(),
            more: 0,
            sides: self.sides.clone(),
        }
    }
}

impl Slower {
    fn of(regression: &Regression) -> Self {
        let Regression { run, figure, change, .. } = regression;
        let label = label_or_none(regression.domain.as_deref(), &regression.name);
        Self {
            run: run.chars().take(80).collect(),
            row: label.chars().take(80).collect(),
            figure: *figure,
            basis: change.basis,
            base_ns: change.base_ns,
            percent: change.percent,
            low_percent: change.low_percent,
            reason: regression.reason.as_ref().map(|reason| reason.to_string().chars().take(160).collect()),
        }
    }
}

#[cfg(feature = "json")]
impl Verdict {
    /// Writes it as JSON in one line of at most 2 KB, with as many of [`slower`](Self::slower) as fit; others are in
    /// [`more`](Self::more).
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn write_json(&self, mut out: impl std::io::Write) -> std::io::Result<()> {
        let sides = self.sides.iter().take(MOST).cloned().map(|mut side| {
            side.run = side.run.chars().take(80).collect();
            side.cpu = side.cpu.chars().take(80).collect();
            side.notes.truncate(3);
            side.notes.iter_mut().for_each(|note| *note = note.chars().take(120).collect());
            side
        });
        let slower = self.slower.iter().take(MOST).cloned().in_vec();
        let mut part = Self { sides: sides.in_vec(), slower, ..self.clone() };
        loop {
            part.more = self.slower.len() - part.slower.len();
            let mut text = serde_json::to_vec(&part)?;
            text.push(b'\n');
            if text.len() <= LARGEST {
                return out.write_all(&text);
            }
            // The first regressions and the first two sides stay longest.
            let is_dropped = if part.slower.len() > 3 {
                part.slower.pop().is_some()
            } else {
                part.sides.len() > 2 && part.sides.pop().is_some()
            };
            if !is_dropped && part.slower.pop().is_none() && part.sides.pop().is_none() {
                return out.write_all(&text);
            }
        }
    }
}

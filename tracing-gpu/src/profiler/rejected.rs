//! Spans that the filter has rejected, and the cheapest filter that measures some of them.
//!
//! A rejected call site costs the program nothing, so nobody counts its spans, and the number that a more verbose level
//! would measure is unknown. The advice is therefore the least verbose level of each crate. TRACE is offered only if
//! nothing else is left, for crates without any measured span.

use std::cmp::Reverse;

use range_model::stats::{Lean, order};
use range_model::summary::{AdvisedFilter, Note, RejectedCrate};
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

use crate::core::session::front_end::{CallSites, DOMAIN, Rejected};

/// The largest number of crates that are named; further ones are counted.
const MAX_CRATES: usize = 4;

/// A note about spans that the filter has rejected, and how to measure them. `None` if it has rejected nothing.
pub(super) fn not_measured(filter: &Targets, sites: &CallSites) -> Option<Note> {
    let mut crates: Vec<(&str, &Rejected)> = sites.rejected.iter().map(|(name, of)| (name.as_str(), of)).in_vec();
    order::by_key(&mut crates, |(_, rejected)| Reverse(rejected.call_sites())); // stable: else by name
    let has_trace = crates.iter().any(|(_, rejected)| rejected.levels.iter().any(|(of, _)| *of == Level::TRACE));
    let named = |(name, rejected): &(&str, &Rejected)| {
        let mut named = RejectedCrate::default();
        (named.name, named.call_sites) = ((*name).to_owned(), rejected.call_sites() as u64);
        named.first = (rejected.name != DOMAIN).then(|| rejected.name.to_owned());
        named
    };
    let advised = advised(filter, sites, &crates).map(|advised| {
        let (mut found, (of, measured)) = (AdvisedFilter::default(), counted(&crates, &advised));
        (found.filter, found.measured, found.of) = (written(&advised), measured, of);
        found
    });
    (!crates.is_empty()).then(|| Note::Rejected {
        filter: written(filter),
        crates: crates.iter().take(MAX_CRATES).map(named).in_vec(),
        more_crates: crates.len().saturating_sub(MAX_CRATES) as u64,
        advised,
        has_trace,
    })
}

/// The filter with, for each crate, the least verbose level that measures more of it. With more crates than are named,
/// one level for all: a partial list would leave out crates in which the time may be.
fn advised(filter: &Targets, sites: &CallSites, crates: &[(&str, &Rejected)]) -> Option<Targets> {
    let levels = crates.iter().filter_map(|&(name, rejected)| Some((name, rejected.levels.first()?.0)));
    let (cheap, trace): (Vec<_>, Vec<_>) = levels.partition(|&(_, level)| level < Level::TRACE);
    if let Some(most) = cheap.iter().map(|&(_, level)| level).max().filter(|_| crates.len() > MAX_CRATES) {
        return Some(raised(filter, None, most));
    }
    let unknown =
        trace.into_iter().filter(|(name, _)| !sites.measured_crates.contains_key(&(*name).to_owned())).take(MAX_CRATES);
    let offered = if cheap.is_empty() { unknown.in_vec() } else { cheap };
    let raise = |filter: Targets, (name, level)| raised(&filter, Some(name), level);
    (!offered.is_empty()).then(|| offered.into_iter().fold(filter.clone(), raise))
}

/// The filter with at least this level for a crate, or for all. It has one directive for each target, and none that is
/// less verbose.
fn raised(filter: &Targets, name: Option<&str>, level: Level) -> Targets {
    let level = LevelFilter::from_level(level);
    let is_inside = |target: &str| {
        let inside = name.map_or(Some(""), |name| target.strip_prefix(name));
        name.is_none() || inside.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let kept = filter.iter().filter(|&(target, of)| of >= level || !is_inside(target));
    let raised: Targets = kept.map(|(target, level)| (target.to_owned(), level)).collect();
    match (name, filter.default_level()) {
        (Some(name), None) => raised.with_target(name, level),
        (Some(name), Some(default)) => raised.with_default(default).with_target(name, level),
        (None, default) => raised.with_default(default.map_or(level, |default| default.max(level))),
    }
}

/// The number of rejected call sites of these crates, and how many of them the filter lets through.
fn counted(crates: &[(&str, &Rejected)], filter: &Targets) -> (u64, u64) {
    let (mut all, mut some) = (0, 0);
    for (name, rejected) in crates {
        for (level, count) in &rejected.levels {
            let count = *count as u64;
            all += count;
            some += if filter.would_enable(name, level) { count } else { 0 };
        }
    }
    (all, some)
}

/// The filter as text: the default level, then the targets by name.
fn written(filter: &Targets) -> String {
    let level = |level: LevelFilter| level.to_string().to_ascii_lowercase();
    let mut targets: Vec<(&str, LevelFilter)> = filter.iter().in_vec();
    order::by_key(&mut targets, |&(target, _)| target);
    let targets = targets.into_iter().map(|(target, of)| format!("{target}={}", level(of)));
    filter.default_level().map(level).into_iter().chain(targets).in_vec().join(",")
}

#[cfg(test)]
mod tests {
    use range_report::NoteExt as _;

    use super::*;

    /// For each crate, its name and the levels of its rejected spans.
    fn note(filter: &str, measured: &[&str], rejected: &[(&str, &[Level])]) -> String {
        let mut sites = CallSites::default();
        sites.measured_crates = measured.iter().map(|&name| (name.to_owned(), ())).collect();
        for &(name, levels) in rejected {
            let none = || Rejected { levels: Vec::new(), name: "span" };
            let of = sites.rejected.row_or(name.to_owned(), none);
            levels.iter().for_each(|level| of.add(*level));
        }
        let filter = if filter.is_empty() { Targets::new() } else { filter.parse().expect("a filter") };
        let note = not_measured(&filter, &sites).expect("a note").sentence();
        note.split_once(". ").map_or(note.clone(), |(_, advice)| advice.replace("TRACING_GPU_FILTER=", ""))
    }

    const TRACED: &str = "Spans of TRACE can be so many that they slow down what they measure.";

    #[test]
    fn the_cheapest_level_that_measures_more_is_advised() {
        const A: Level = Level::DEBUG;
        const B: Level = Level::TRACE;
        for (filter, measured, rejected, expected) in [
            ("info", &["app"][..], &[("db", &[A, A][..])][..], "info,db=debug measures them.".to_owned()),
            ("info", &["db"], &[("db", &[A, B, B])], format!("info,db=debug measures 1 of these 3. {TRACED}")),
            ("info", &[], &[("db", &[A]), ("nn", &[B])], format!("info,db=debug measures 1 of these 2. {TRACED}")),
            ("warn", &[], &[("db", &[Level::INFO, A])], "warn,db=info measures 1 of these 2.".to_owned()),
            // Only TRACE is left: for a crate without a measured span, there is no cheaper level.
            ("info", &["app"], &[("nn", &[B, B])], format!("info,nn=trace measures them. {TRACED}")),
            ("info,db=debug", &["db"], &[("db", &[B])], TRACED.to_owned()),
            ("", &[], &[("db", &[Level::INFO])], "db=info measures them.".to_owned()),
        ] {
            assert_eq!(note(filter, measured, rejected), expected, "{filter} {rejected:?}");
        }
    }

    #[test]
    fn the_filter_that_is_advised_has_one_directive_for_each_target() {
        let debug: (_, &[Level]) = ("a", &[Level::DEBUG]);
        for (filter, expected) in [
            ("a=warn,info", "info,a=debug"),
            ("info,a::quiet=off,a::loud=trace,ab=off", "info,a=debug,a::loud=trace,ab=off"),
            ("b=error,c=trace", "a=debug,b=error,c=trace"),
        ] {
            assert_eq!(note(filter, &[], &[debug]), format!("{expected} measures them."), "{filter}");
        }
        let five: Vec<(&str, &[Level])> = ["a", "b", "c", "d", "e"].map(|name| (name, debug.1)).to_vec();
        assert_eq!(note("a=info,b=trace,warn", &[], &five), "debug,b=trace measures them.");
    }
}

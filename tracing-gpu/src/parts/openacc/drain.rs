//! Rows of OpenACC's events: merges all threads, and replaces numbers by names and addresses by lines.

use std::sync::atomic::Ordering::Relaxed;

use range_model::stats::{Distribution, Keyed, Lean, order};
use range_model::{Note, OpenAccStats, Summary};

use crate::clock::{Rate, Ticks};
use crate::core::drain::cursor::Reader;
use crate::core::drain::part::{Part, Run};
use crate::core::session::Session;
use crate::core::thread::state::ThreadState;
use crate::parts::openacc::runtime::{name_of, source};
use crate::parts::openacc::thread::{Key, OpenAccLog, OpenAccLosses, Site};

pub(crate) struct OpenAcc;

impl Part for OpenAcc {
    fn finish(&mut self, run: &Run<'_>, reader: &mut Reader<'_>, summary: &mut Summary) {
        summary.openacc = reader.openacc(stats(run.all_threads, run.window, run.rate, run.asked));
        summary.notes.extend(notes(run.all_threads, run.window, &run.engine.session));
    }
}

/// Logs with events of this window.
fn logs<'a>(threads: &'a [&'static ThreadState], window: Ticks) -> impl Iterator<Item = &'a OpenAccLog> {
    let of_window = threads.iter().filter(move |thread| thread.window.is(window));
    of_window.filter_map(|thread| thread.parts.openacc.get().map(Box::as_ref))
}

/// By total time descending, then by kind, place and name.
fn stats(threads: &[&'static ThreadState], window: Ticks, rate: Rate, asked: &[f64]) -> Vec<OpenAccStats> {
    let rows: Vec<(&Key<'_>, Distribution)> = logs(threads, window).flat_map(OpenAccLog::rows).in_vec();
    let addresses = rows.iter().filter_map(|(key, _)| match key.site {
        Site::Code(address) => Some(address),
        Site::Line(..) | Site::Unknown => None,
    });
    let places = source::places(addresses);
    let mut merged: Keyed<(&str, Option<String>, Option<String>), Distribution> = Keyed::default();
    for (key, times) in rows {
        let place = match &key.site {
            Site::Line(file, line) => Some(source::line(file.to_bytes(), *line)),
            Site::Code(address) => places.get(address).cloned().flatten(),
            Site::Unknown => None,
        };
        let detail = key.detail.as_ref().map(|detail| detail.to_string_lossy().into_owned());
        merged.row((name_of(key.kind), place, detail)).merge(&times);
    }
    let rows = merged.into_iter().map(|((event, place, detail), times)| {
        let mut row = OpenAccStats::new(event, crate::core::drain::times::times(&times, rate, asked));
        (row.place, row.detail) = (place, detail);
        row
    });
    let mut rows: Vec<OpenAccStats> = rows.in_vec();
    order::by_most(&mut rows, |row| row.times.total_ns); // stable
    rows
}

/// A note about events that are in no row.
fn notes(threads: &[&'static ThreadState], window: Ticks, session: &Session) -> Option<Note> {
    let all = logs(threads, window).map(OpenAccLog::losses).fold(OpenAccLosses::default(), |all, more| OpenAccLosses {
        unended: all.unended.saturating_add(more.unended),
        unbegun: all.unbegun.saturating_add(more.unbegun),
        over_limit: all.over_limit.saturating_add(more.over_limit),
    });
    let OpenAccLosses { unended, unbegun, over_limit } = all;
    let of_ending_threads = session.parts.openacc_unfollowed.load(Relaxed);
    let is_none = [unended, unbegun, over_limit, of_ending_threads] == [0; 4];
    (!is_none).then_some(Note::OpenAccLost { unended, unbegun, over_limit, of_ending_threads })
}

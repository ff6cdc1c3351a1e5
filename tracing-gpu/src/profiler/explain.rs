//! Explains why spans are missing from the report: those that the filter rejects, and an empty report.

use range_model::{Note, Summary};
use range_report::NoteExt as _;
use tracing::dispatcher;
use tracing::level_filters::{LevelFilter, STATIC_MAX_LEVEL};
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::filter::Targets;

use super::rejected;
use crate::core::session::front_end::Stage;
use crate::core::session::{DEFAULT_LEVEL, Session};

/// A guard that is dropped within this time may be bound to `_`; that cannot be known for sure.
const AT_ONCE_NS: u64 = 20_000_000;

/// A note about spans that the filter has rejected, and how to measure them. `None` if it has rejected nothing.
pub(super) fn not_measured(session: &Session) -> Option<Note> {
    let by_default = || Targets::new().with_default(DEFAULT_LEVEL);
    rejected::not_measured(&session.filter().cloned().unwrap_or_else(by_default), &session.front_end.met())
}

/// The cause, or the possible causes, of an empty report.
pub(super) fn why_empty(session: &Session, summary: &Summary) -> String {
    let met = session.front_end.met();
    let most = session.filter().map_or(LevelFilter::from_level(DEFAULT_LEVEL), |filter| {
        let levels = filter.iter().map(|(_, level)| level).chain(filter.default_level());
        levels.max().unwrap_or(LevelFilter::OFF)
    });
    let created: u64 = summary.tree.iter().map(|node| node.calls).sum();
    if !summary.losses.open.is_empty() {
        return "none has ended; the notes name the open ones.".to_owned();
    }
    if session.was_reset() {
        return "the profiler was reset, and no span was entered and exited since then.".to_owned();
    }
    match session.front_end.stage() {
        Stage::NotMade if session.parts.foreign.is_received() && !met.rejected.is_empty() => {
            "the filter rejects all of them; the notes name them."
        }
        Stage::NotMade if session.parts.foreign.is_received() => "no code of this process made an NVTX range.",
        Stage::NotMade => {
            "the profiler was never attached. Add `profiler.layer()` to the program's subscriber, or start with \
             `tracing_gpu::init()`."
        }
        Stage::NotInstalled => {
            "the profiler's layer or subscriber was never installed. Call `.init()` on the subscriber that it is part \
             of, or pass it to `set_global_default`."
        }
        _ if created > 0 => "spans were created, but none was entered.",
        Stage::Dropped if met.measured == 0 && is_other_installed() => {
            "the program's global subscriber is another one, which was installed first. Add `profiler.layer()` to that \
             one."
        }
        _ if met.measured == 0 && !met.rejected.is_empty() => {
            let said = not_measured(session).map_or_else(String::new, |note| note.sentence());
            return said.replacen("Not measured", "all spans were rejected", 1);
        }
        _ if met.measured > 0 && session.front_end.has_own_filter() => {
            "the filter on the profiler's layer, or one of the whole subscriber, hides all spans."
        }
        _ if met.measured > 0 => {
            "the subscriber hides all spans from the profiler, by a filter of its own (`EnvFilter` and RUST_LOG). Put \
             that filter on the layer that it is for, with `with_filter`."
        }
        Stage::Installed | Stage::Dropped if STATIC_MAX_LEVEL < most => {
            "the crate `tracing` is built without spans of the levels that are measured, by one of its features \
             `max_level_..` or `release_max_level_..`."
        }
        Stage::Installed if met.own_level.is_some_and(|level| level < most) => {
            return format!(
                "the filter on the profiler's layer lets {} through. Remove it, or, for an `EnvFilter`, set RUST_LOG.",
                shown(met.own_level.unwrap_or(LevelFilter::OFF))
            );
        }
        Stage::Installed if LevelFilter::current() < most => {
            return format!(
                "the subscriber lets {} through, by a filter of its own (`EnvFilter` and RUST_LOG). Put that filter on \
                 the layer that it is for, with `with_filter`.",
                shown(LevelFilter::current())
            );
        }
        _ if summary.elapsed_ns < AT_ONCE_NS && session.front_end.is_alone() => {
            "no span was entered before the guard was dropped. Functions have a span with `#[tracing::instrument]`. \
             `let _ = ...` drops a guard at once, `let _profile = ...` at the end of its block."
        }
        _ if summary.elapsed_ns < AT_ONCE_NS => {
            "no span was entered, or a filter of the subscriber hid all of them (RUST_LOG, `EnvFilter`, \
             `with_filter`). If the profiler was dropped at once, keep it until the end of `main`."
        }
        Stage::Dropped => "the subscriber was dropped before a span was entered.",
        Stage::Installed if session.front_end.is_alone() => {
            "no span was entered. Functions have one with `#[tracing::instrument]`."
        }
        Stage::Installed => {
            "no span was entered, or a filter of the subscriber hid all of them (RUST_LOG, `EnvFilter`, \
             `with_filter`). Functions have a span with `#[tracing::instrument]`."
        }
    }
    .to_owned()
}

/// The name of a filter's level.
fn shown(level: LevelFilter) -> String {
    match level {
        LevelFilter::OFF => "nothing".to_owned(),
        level => format!("only {}", level.to_string().to_ascii_uppercase()),
    }
}

/// Whether another subscriber is installed here, of any kind.
fn is_other_installed() -> bool {
    dispatcher::get_default(|installed| !installed.is::<NoSubscriber>())
}

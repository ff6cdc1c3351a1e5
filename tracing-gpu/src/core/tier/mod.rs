//! The front ends and their shared code: from a callback to the thread's state.
//!
//! A layer and a subscriber differ in where a span's data is stored, which [`Home`](home::Home) abstracts. All other
//! code is here once, and compiled for each of them. The paths and their conditions:
//! [`choice`](crate::parts::thread::choice).

pub(crate) mod counting;
pub(crate) mod home;
pub(crate) mod layer;
pub(crate) mod slabs;
pub(crate) mod subscriber;

use tracing_core::span;

use crate::core::thread::engine::Engine;
use crate::core::thread::state::CountingExit;
use crate::parts::tier::general::{
    enter_called, enter_otherwise, exit_noted, exit_otherwise, new_span_called, new_span_otherwise,
};
use crate::parts::tier::home::PartsHome;
use counting::{known_child, new_span_counting};

/// A new span; `None` where it is not followed.
#[inline]
fn new_span<H: PartsHome>(
    engine: &'static Engine,
    home: &H,
    given: H::Given,
    attributes: &span::Attributes<'_>,
) -> Option<H::Created> {
    if let Some(thread) = engine.creating()
        && let Some(known) = known_child(thread, attributes)
    {
        if let Some(created) = new_span_counting::<H>(thread, given, known) {
            return Some(created);
        }
        if known.1.is_reentered() {
            return new_span_called(engine, home, thread, given, attributes, known);
        }
    }
    new_span_otherwise(engine, home, given, attributes)
}

#[inline]
fn enter<H: PartsHome>(engine: &'static Engine, home: &H, id: u64) {
    if let Some(thread) = engine.counting()
        && let Some(place) = H::place_here(thread, id)
    {
        let is_plain = place.is_plain();
        if is_plain && thread.enter_counting(id, place) || !is_plain && enter_called::<H>(thread, id, place) {
            return;
        }
    }
    enter_otherwise(engine, home, id);
}

#[inline]
fn exit<H: PartsHome>(engine: &'static Engine, home: &H, id: u64) {
    let Some(thread) = engine.counting() else { return exit_otherwise(engine, home, id) };
    match thread.exit_counting(id) {
        CountingExit::Done => {}
        CountingExit::Uncounted(ended) => {
            thread.add_uncounted(ended.place, ended.entered, ended.duration, ended.nested)
        }
        CountingExit::Noted => exit_noted(engine, home, thread, id),
        CountingExit::Not => exit_otherwise(engine, home, id),
    }
}

#[cfg(test)]
mod tests;

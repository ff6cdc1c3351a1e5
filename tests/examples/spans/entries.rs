//! Entries and exits in every order, on one thread and on several.

use crate::stage::{Pending, enter, exit, measure, measure_with, on_thread, poll, print, silent};
use crate::{Outcome, Scenario, Tier};
use std::pin::pin;
use tracing::{Instrument as _, Span, info_span};
use tracing_gpu::Domain;

pub(crate) const ALL: &[Scenario] = &[
    ("async-re-entry", async_re_entry),
    ("recursive-entry", recursive_entry),
    ("concurrent-entry", concurrent_entry),
    ("current-handed-on", current_handed_on),
    ("exit-elsewhere", exit_elsewhere),
    ("exit-elsewhere-then-1000", exit_elsewhere_then_1000),
    ("exit-elsewhere-forgotten", exit_elsewhere_forgotten),
    ("exit-elsewhere-left-open", exit_elsewhere_left_open),
    ("out-of-order", out_of_order),
    ("out-of-order-same-span", out_of_order_same_span),
    ("guards-across-await", guards_across_await),
    ("per-target", per_target),
    ("per-target-split", per_target_split),
    ("deep", deep),
];

fn async_re_entry(tier: Tier) -> Outcome {
    measure(tier, || {
        let mut task = pin!(Pending(4).instrument(info_span!("task")));
        while poll(task.as_mut()).is_pending() {}
    })
}

fn recursive_entry(tier: Tier) -> Outcome {
    measure(tier, || {
        let span = info_span!("again");
        span.in_scope(|| span.in_scope(|| info_span!("inside").in_scope(|| ())));
    })
}

/// One span, open on two threads at once.
fn concurrent_entry(tier: Tier) -> Outcome {
    measure(tier, || {
        let span = info_span!("shared");
        let _here = span.enter();
        let there = span.clone();
        on_thread("worker", move || there.in_scope(|| ()));
    })
}

fn current_handed_on(tier: Tier) -> Outcome {
    measure(tier, || {
        info_span!("outer").in_scope(|| {
            let current = Span::current();
            on_thread("worker", move || current.in_scope(|| info_span!("work").in_scope(|| ())));
        });
    })
}

/// `moved` is entered here and exited by a worker; `outer`, below it, is then exited here.
fn exit_elsewhere(tier: Tier) -> Outcome {
    measure(tier, || {
        let (outer, moved) = (info_span!("outer"), info_span!("moved"));
        enter(&outer);
        enter(&moved);
        let there = moved.clone();
        on_thread("worker", move || exit(&there));
        exit(&outer);
        info_span!("after").in_scope(|| ());
    })
}

/// 1,000 ranges, `moved` above them, `top` above that; `moved` is exited elsewhere, then all 1,000 exit below the rest.
fn exit_elsewhere_then_1000(tier: Tier) -> Outcome {
    measure(tier, || {
        let below: Vec<Span> = (0..1_000).map(|_| info_span!("below")).collect();
        below.iter().for_each(enter);
        let (moved, top) = (info_span!("moved"), info_span!("top"));
        enter(&moved);
        enter(&top);
        let there = moved.clone();
        on_thread("worker", move || exit(&there));
        exit(&below[999]);
        exit(&top);
        below[..999].iter().rev().for_each(exit);
    })
}

/// The entry that was exited elsewhere is exited here all the same: a later entry of the same span is a different one.
fn exit_elsewhere_forgotten(tier: Tier) -> Outcome {
    measure(tier, || {
        let span = info_span!("span");
        enter(&span);
        let there = span.clone();
        on_thread("worker", move || exit(&there));
        exit(&span);
        let outer = info_span!("outer");
        enter(&outer);
        enter(&span);
        exit(&outer);
        exit(&span);
    })
}

/// The owning thread makes no out-of-order exit after the exit elsewhere: the finish closes the entry.
fn exit_elsewhere_left_open(tier: Tier) -> Outcome {
    measure(tier, || {
        let moved = info_span!("moved");
        enter(&moved);
        let there = moved.clone();
        on_thread("worker", move || exit(&there));
        info_span!("above").in_scope(|| ());
    })
}

fn out_of_order(tier: Tier) -> Outcome {
    measure(tier, || {
        let below = info_span!("below").entered();
        let outer = info_span!("outer").entered();
        let inner = info_span!("inner").entered();
        let top = info_span!("top").entered();
        drop(outer);
        drop(top);
        drop(inner);
        drop(below);
    })
}

/// The exit of a span that is open twice ends the innermost entry.
fn out_of_order_same_span(tier: Tier) -> Outcome {
    measure(tier, || {
        let (twice, top) = (info_span!("twice"), info_span!("top"));
        enter(&twice);
        enter(&twice);
        enter(&top);
        exit(&twice);
        exit(&top);
        exit(&twice);
    })
}

/// Two tasks of one thread that hold guards while they wait.
fn guards_across_await(tier: Tier) -> Outcome {
    measure(tier, || {
        let task = |span: Span| async move {
            let _held = span.entered();
            Pending(1).await;
        };
        let mut a = pin!(task(info_span!("a")));
        let mut b = pin!(task(info_span!("b")));
        assert!(poll(a.as_mut()).is_pending() && poll(b.as_mut()).is_pending());
        assert!(poll(a.as_mut()).is_ready() && poll(b.as_mut()).is_ready());
    })
}

/// Each domain has its own stack: the exit of `outer` does not affect `inner`.
fn per_target(tier: Tier) -> Outcome {
    measure_with(tier, silent().domain(Domain::PerTarget), |_| {
        let outer = info_span!(target: "x", "outer").entered();
        let inner = info_span!(target: "y", "inner").entered();
        drop(outer);
        drop(inner);
        Ok(())
    })
}

/// Of the ranges above `outer`, only the one of its own domain is split.
fn per_target_split(tier: Tier) -> Outcome {
    measure_with(tier, silent().domain(Domain::PerTarget), |_| {
        let outer = info_span!(target: "x", "outer").entered();
        let other = info_span!(target: "y", "other").entered();
        let same = info_span!(target: "x", "same").entered();
        drop(outer);
        drop(same);
        drop(other);
        Ok(())
    })
}

/// 1,500 ranges inside each other, exited from the outside in on a thread of their own, and in order on this one.
fn deep(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |profiler| {
        let spans: Vec<Span> = (0..1_500).map(|_| info_span!("level")).collect();
        spans.iter().for_each(enter);
        spans.iter().rev().for_each(exit);
        print(&profiler.summary())?;
        on_thread("worker", || {
            let spans: Vec<Span> = (0..40).map(|_| info_span!("crossed")).collect();
            spans.iter().for_each(enter);
            spans.iter().for_each(exit);
        });
        Ok(())
    })
}

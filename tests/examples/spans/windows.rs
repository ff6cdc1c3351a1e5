//! The ends of windows: `reset`, `finish`, and ranges that are open then.

use crate::stage::{enter, exit, measure_with, on_thread, print, silent, thread};
use crate::{Outcome, Scenario, Tier};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use tracing::{Span, info, info_span};
use tracing_gpu::{Output, Profiler, Report};

pub(crate) const ALL: &[Scenario] = &[
    ("open-at-the-end", open_at_the_end),
    ("open-in-a-summary", open_in_a_summary),
    ("open-lifetimes", open_lifetimes),
    ("after-finish", after_finish),
    ("reset", reset),
    ("reset-open", reset_open),
    ("reset-then-finish", reset_then_finish),
    ("reset-order", reset_order),
    ("entry-order", entry_order),
    ("reset-losses", reset_losses),
];

/// The file that the test asks for.
fn report_file() -> Result<Output, Box<dyn std::error::Error>> {
    Ok(Output::File(PathBuf::from(std::env::var_os("SPANS_REPORT").ok_or("SPANS_REPORT names a file")?)))
}

fn open_at_the_end(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().output(report_file()?).report([Report::Ranges]).build()?;
    tier.install(&profiler)?;
    let outer = info_span!("outer").entered();
    let inner = info_span!("inner", nvtx.name = "named").entered();
    let (entered, is_entered) = channel();
    let (leave, may_leave) = channel::<()>();
    let worker = thread("worker", move || {
        let _elsewhere = info_span!("elsewhere").entered();
        let sent = entered.send(());
        (sent.is_ok(), may_leave.recv().is_err())
    })?;
    is_entered.recv()?;
    profiler.finish()?;
    drop(leave);
    assert!(matches!(worker.join(), Ok((true, true))));
    drop(inner);
    drop(outer);
    info_span!("after").in_scope(|| info!("after"));
    Ok(())
}

fn open_in_a_summary(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |profiler| {
        let outer = info_span!("outer").entered();
        let inner = info_span!("inner").entered();
        on_thread("leaving", || std::mem::forget(info_span!("left open").entered()));
        print(&profiler.summary())?;
        drop(inner);
        std::mem::forget(outer); // open in the next summary too
        Ok(())
    })
}

/// Lifetimes that began here and on a thread that has ended: one ends elsewhere, one here, and one not at all.
fn open_lifetimes(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().output(report_file()?).report([Report::Ranges]).build()?;
    tier.install(&profiler)?;
    let request = || info_span!("request", nvtx.lifetime = true);
    let (first, second) = (request(), request());
    let third = on_thread("ended", || info_span!("span", nvtx.name = "third", nvtx.lifetime = true));
    first.in_scope(|| ());
    print(&profiler.summary())?;
    let clone = third.clone();
    on_thread("closing", move || drop((first, clone)));
    print(&profiler.summary())?;
    profiler.reset();
    print(&profiler.summary())?;
    drop(third);
    print(&profiler.summary())?;
    profiler.finish()?;
    drop(second);
    Ok(())
}

/// Every callback there is, for spans from before and after the finish.
fn after_finish(tier: Tier) -> Outcome {
    let profiler = silent().build()?;
    tier.install(&profiler)?;
    let span = info_span!("span", nvtx.lifetime = true, nvtx.category = tracing::field::Empty);
    let plain = info_span!("plain");
    enter(&plain);
    print(&profiler.summary())?;
    profiler.finish()?;
    exit(&plain);
    span.record("nvtx.category", "late");
    span.in_scope(|| info_span!("after").in_scope(|| info!("after")));
    on_thread("worker", move || {
        plain.in_scope(|| ());
        drop((span, plain));
        info_span!("after").in_scope(|| info!("after"));
    });
    assert!(Span::current().is_none() || tier == Tier::Layer);
    Ok(())
}

fn reset(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |profiler| {
        for _ in 0..20 {
            info_span!("warm-up", nvtx.category = "c").in_scope(|| ());
            info_span!("both").in_scope(|| info_span!("child").in_scope(|| ()));
        }
        on_thread("worker", || info_span!("only before").in_scope(|| ()));
        profiler.reset();
        print(&profiler.summary())?;
        for _ in 0..3 {
            info_span!("both").in_scope(|| info_span!("child").in_scope(|| ()));
        }
        Ok(())
    })
}

/// Ranges that are open when the window begins count from then on.
fn reset_open(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |profiler| {
        let outer = info_span!("outer").entered();
        let request = info_span!("request", nvtx.lifetime = true);
        let (go, may_go) = channel::<()>();
        let (entered, is_entered) = channel();
        let worker = thread("worker", move || {
            let _elsewhere = info_span!("elsewhere").entered();
            assert!(entered.send(()).is_ok() && may_go.recv().is_err());
        })?;
        is_entered.recv()?;
        info_span!("inside").in_scope(|| ());
        profiler.reset();
        drop(go);
        worker.join().map_err(|_| "the worker failed")?;
        info_span!("inside").in_scope(|| ());
        drop((outer, request));
        Ok(())
    })
}

/// No callback happens between the reset and the finish, which cuts the open range.
fn reset_then_finish(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().output(report_file()?).report([Report::Ranges]).build()?;
    tier.install(&profiler)?;
    let _outer = info_span!("outer").entered();
    profiler.reset();
    profiler.finish()?;
    Ok(())
}

/// Siblings stay in the order of their first creation in the window.
fn reset_order(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |profiler| {
        for name in ["a", "b", "c", "d"] {
            info_span!("span", nvtx.name = name).in_scope(|| ());
        }
        profiler.reset();
        for name in ["c", "a", "d", "b"] {
            info_span!("span", nvtx.name = name).in_scope(|| ());
        }
        Ok(())
    })
}

fn reset_losses(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |profiler| {
        let lose = || {
            let (outer, inner) = (info_span!("outer").entered(), info_span!("inner").entered());
            drop(outer);
            drop(inner);
            exit(&info_span!("never entered"));
            on_thread("leaving", || std::mem::forget(info_span!("left open").entered()));
            for number in 0..65_540u32 {
                drop(info_span!("span", nvtx.name = number));
            }
            for number in 0..65_543u32 {
                drop(info_span!("categories", nvtx.category = number));
            }
        };
        lose();
        let inner = on_thread("creates", || info_span!("inner")); // which has no room outside of `outer`
        print(&profiler.summary())?;
        profiler.reset();
        on_thread("enters", move || info_span!("outer").in_scope(|| inner.in_scope(|| ())));
        Ok(())
    })
}

/// Created in one order and entered in another: one on another thread first, then two whose inner one ends
/// first, then one on another thread only.
fn entry_order(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let elsewhere = info_span!("span", nvtx.name = "elsewhere");
        let spans = ["a", "b", "c"].map(|name| info_span!("span", nvtx.name = name));
        let [a, b, c] = spans.clone();
        on_thread("first", move || c.in_scope(|| ()));
        b.in_scope(|| a.in_scope(|| ()));
        spans.iter().for_each(|span| span.in_scope(|| ()));
        on_thread("last", move || elsewhere.in_scope(|| ()));
        Ok(())
    })
}

//! More of everything than the fast paths have room for, and a run without statistics.

use crate::stage::{enter, exit, measure_with, on_thread, silent};
use crate::{Outcome, Scenario, Tier};
use tracing::{Span, info_span};

pub(crate) const ALL: &[Scenario] = &[("many-places", many_places), ("without-statistics", without_statistics)];

/// 16 call sites for each first digit, named by two digits.
macro_rules! sites {
    ($($first:literal)*) => { vec![$(sites!(@ $first 0 1 2 3 4 5 6 7 8 9 "a" "b" "c" "d" "e" "f")),*].concat() };
    (@ $first:literal $($second:literal)*) => { vec![$(sites!(@ @ $first $second)),*] };
    (@ @ $first:literal $second:literal) => {{
        fn make() -> Span {
            info_span!(concat!("s", $first, $second))
        }
        make as fn() -> Span
    }};
}

fn many_places(tier: Tier) -> Outcome {
    let sites: Vec<fn() -> Span> = sites!(0 1 2 3 4 5 6 7 8 9 "a" "b" "c" "d" "e" "f");
    measure_with(tier, silent(), |_| {
        for _ in 0..3 {
            for parent in [|| info_span!("first"), || info_span!("second"), || info_span!("third")] {
                parent().in_scope(|| sites.iter().for_each(|site| site().in_scope(|| ())));
            }
        }
        let live: Vec<Span> = sites.iter().map(|site| site()).collect();
        (0..2).for_each(|_| live.iter().for_each(|span| span.in_scope(|| ())));
        on_thread("worker", move || (0..2).for_each(|_| live.iter().for_each(|span| span.in_scope(|| ()))));
        Ok(())
    })
}

/// Only NVTX: in order, out of order, on two threads, and with an entry left open.
fn without_statistics(tier: Tier) -> Outcome {
    measure_with(tier, silent().statistics(false), |_| {
        let outer = info_span!("outer");
        for _ in 0..3 {
            outer.in_scope(|| {
                info_span!("inner", n = 1).in_scope(|| info_span!("named", nvtx.name = "own").in_scope(|| ()))
            });
        }
        let (a, b) = (info_span!("a"), info_span!("b"));
        enter(&a);
        enter(&b);
        exit(&a);
        exit(&b);
        let moved = outer.clone();
        on_thread("worker", move || moved.in_scope(|| info_span!("there").in_scope(|| ())));
        enter(&info_span!("left open"));
        Ok(())
    })
}

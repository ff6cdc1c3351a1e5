//! Spans that are entered by tasks other than their creator.

use super::*;

/// Calls of each scenario, and the shortest wait in each of its pauses.
const CALLS: u64 = 10;
const WAIT_NS: u64 = 2_000_000;

fn calls<'a>(summary: &'a Summary, name: &str) -> &'a CallStats {
    let found = summary.calls.iter().find(|row| row.name == name);
    found.unwrap_or_else(|| panic!("no calls of {name} in {:?}", summary.calls))
}

/// Each is polled twice and dropped where it was created, and the same by the actor.
#[test]
fn a_span_that_is_handed_over_in_a_message_stays_the_call_of_its_sender() {
    for tier in BOTH {
        for scenario in ["handed-over", "handed-over-and-held"] {
            for ran in [recorded(scenario, tier), untold(scenario, tier)] {
                let summary = ran.summary();
                assert_eq!(tree(&summary), ["request 10/30", "actor 1/22", "  request 0/30"], "{scenario} {tier}");
                let request = calls(&summary, "request");
                assert_eq!((request.latency.instances, known_cancelled(request, 0)), (CALLS, 0), "{scenario} {tier}");
                assert!(request.awaited_self_ns >= CALLS * 2 * WAIT_NS, "{scenario} {tier}: {request:?}");
                assert_eq!(summary.tree[0].awaited_ns, Some(request.awaited_ns), "{scenario} {tier}");
                assert_whole(&summary);
            }
        }
    }
}

/// Each is polled three times by the future around it, and dropped.
#[test]
fn a_future_without_a_parent_is_one_call_of_the_future_that_polls_it() {
    for tier in BOTH {
        for ran in [recorded("roots-inside", tier), untold("roots-inside", tier)] {
            let summary = ran.summary();
            assert_eq!(tree(&summary), ["lifecycle 10/40", "  handle 10/40"], "{tier}");
            let (outer, inner) = (calls(&summary, "lifecycle"), calls(&summary, "handle"));
            assert_eq!((outer.latency.instances, inner.latency.instances), (CALLS, CALLS), "{tier}");
            assert!(inner.awaited_self_ns >= CALLS * 2 * WAIT_NS, "{tier}: {inner:?}");
            let in_calls = outer.awaited_ns - outer.awaited_self_ns;
            assert!(in_calls >= CALLS * 2 * WAIT_NS, "{tier}: {outer:?}");
            assert_whole(&summary);
        }
    }
}

#[test]
fn each_run_of_a_system_is_a_call_also_on_workers() {
    for tier in BOTH {
        for ran in [recorded("systems-on-workers", tier), untold("systems-on-workers", tier)] {
            let summary = ran.summary();
            let mut shown = tree(&summary);
            shown.sort_unstable();
            assert_eq!(shown, ["frame 10/10", "physics 10/10", "sound 10/10"], "{tier}");
            assert!(summary.calls.is_empty(), "{tier}: {:?}", summary.calls);
            assert!(matches!(summary.notes[..], [Note::AtTheRoot { others: 1, .. }]), "{tier}: {:?}", summary.notes);
            assert_whole(&summary);
        }
    }
}

/// A cancelled future differs only in the delay of its drop, which the tests of `parts/calls/session/table.rs` judge.
#[test]
fn a_server_that_enters_a_span_after_its_future_makes_no_further_call() {
    for tier in BOTH {
        for ran in [recorded("kept-by-a-server", tier), untold("kept-by-a-server", tier)] {
            let summary = ran.summary();
            assert_eq!(tree(&summary), ["rpc 10/40", "pump 13/13", "aborted 1/4"], "{tier}");
            let (rpc, aborted) = (calls(&summary, "rpc"), calls(&summary, "aborted"));
            assert_eq!((rpc.latency.instances, known_cancelled(aborted, 1)), (CALLS, 1), "{tier}");
            assert!(rpc.awaited_ns >= CALLS * WAIT_NS, "{tier}: {rpc:?}");
            assert_whole(&summary);
        }
    }
}

/// Nothing distinguishes the last poll of each from the drop of a cancelled future, except that none looks dropped.
#[test]
fn of_futures_that_are_not_entered_to_be_dropped_it_is_unknown_how_many_were_cancelled() {
    for tier in BOTH {
        for ran in [recorded("entered-in-polls", tier), untold("entered-in-polls", tier)] {
            let summary = ran.summary();
            let drive = calls(&summary, "drive");
            assert_eq!((drive.latency.instances, drive.cancelled), (CALLS, None), "{tier}");
            assert!(
                drive.latency.total_ns >= CALLS * WAIT_NS && drive.awaited_ns >= CALLS * WAIT_NS,
                "{tier}: {drive:?}"
            );
            assert_whole(&summary);
        }
    }
}

/// The order of polls decides, and no time: a future that waits in the poll in which its child has finished, and one
/// that drops its child in a later poll.
#[test]
fn what_is_dropped_in_a_later_poll_was_cancelled() {
    for tier in BOTH {
        for ran in [recorded("dropped-in-polls", tier), untold("dropped-in-polls", tier)] {
            let summary = ran.summary();
            let [outer, kept, aborted] = ["outer", "kept", "aborted"].map(|name| calls(&summary, name));
            assert_eq!([kept.cancelled, aborted.cancelled], [Some(0), Some(CALLS)], "{tier}");
            assert_eq!([kept, aborted].map(|row| row.latency.instances), [CALLS; 2], "{tier}");
            assert_eq!(known_cancelled(outer, 0), 0, "{tier}");
            assert_whole(&summary);
        }
    }
}

#[test]
fn a_call_ends_with_its_span_and_is_outlived_after_its_last_poll() {
    for tier in BOTH {
        for ran in [recorded("outlived", tier), untold("outlived", tier)] {
            let summary = ran.summary();
            let request = calls(&summary, "request");
            assert_eq!((request.latency.instances, known_cancelled(request, 0)), (CALLS, 0), "{tier}");
            // A registry keeps a span for those below it, the subscriber does not.
            let outlived = if tier == "layer" { CALLS } else { CALLS / 2 };
            assert!(request.outlived_ns >= outlived * 2 * WAIT_NS, "{tier}: {request:?}");
            assert!(request.awaited_self_ns >= CALLS / 2 * WAIT_NS, "{tier}: {request:?}");
            assert!(request.awaited_ns >= CALLS * WAIT_NS, "{tier}: {request:?}");
            let parts = request.busy_ns + request.awaited_ns + request.outlived_ns;
            assert!(request.latency.total_ns.abs_diff(parts) <= 2, "{tier}: {request:?}"); // each is rounded
            assert_eq!(summary.tree[0].awaited_ns, Some(request.awaited_ns), "{tier}");
            assert_whole(&summary);
        }
    }
}

//! Spans that are entered by tasks other than their creator: passed in a message, without a parent inside another
//! future, kept by a server until the answer is sent, run by an executor's workers.

use std::cell::RefCell;
use std::pin::pin;
use std::task::Poll;
use std::thread::sleep;
use std::time::Duration;

use crate::stage::{Pending, measure, on_thread, poll};
use crate::{Outcome, Scenario, Tier};
use tracing::{Instrument as _, Span, info_span};

pub(crate) const ALL: &[Scenario] = &[
    ("handed-over", handed_over),
    ("handed-over-and-held", handed_over_and_held),
    ("roots-inside", roots_inside),
    ("kept-by-a-server", kept_by_a_server),
    ("entered-in-polls", entered_in_polls),
    ("dropped-in-polls", dropped_in_polls),
    ("outlived", outlived),
    ("systems-on-workers", systems_on_workers),
];

/// The shortest wait of each call, in each of its pauses.
const WAIT: Duration = Duration::from_millis(2);
const CALLS: usize = 10;

/// An actor, and requests that send their span in a message. The actor handles each in the span of its sender, and
/// waits once meanwhile. `is_held`: it still has the span when the request is over.
fn ask(tier: Tier, is_held: bool) -> Outcome {
    measure(tier, || {
        let (mailbox, held) = (RefCell::new(Vec::<Span>::new()), RefCell::new(None));
        let actor = async {
            loop {
                let message = mailbox.borrow_mut().pop();
                let Some(span) = message else {
                    Pending(1).await;
                    continue;
                };
                Pending(1).instrument(span.clone()).await;
                held.replace(Some(span).filter(|_| is_held));
            }
        };
        let mut actor = pin!(actor.instrument(info_span!("actor")));
        for _ in 0..CALLS {
            let request = async {
                mailbox.borrow_mut().push(Span::current());
                Pending(1).await;
            };
            let mut request = Box::pin(request.instrument(info_span!("request")));
            assert!(poll(request.as_mut()).is_pending());
            assert!(poll(actor.as_mut()).is_pending());
            sleep(WAIT); // for the actor's wait
            assert!(poll(actor.as_mut()).is_pending());
            sleep(WAIT); // for the answer
            assert!(poll(request.as_mut()).is_ready());
        }
        assert!(poll(actor.as_mut()).is_pending());
        held.take();
    })
}

fn handed_over(tier: Tier) -> Outcome {
    ask(tier, false)
}

fn handed_over_and_held(tier: Tier) -> Outcome {
    ask(tier, true)
}

/// Futures whose spans have no parent, in another future, which is polled for each.
fn roots_inside(tier: Tier) -> Outcome {
    measure(tier, || {
        for _ in 0..CALLS {
            let outer = async { Pending(2).instrument(info_span!(parent: None, "handle")).await };
            let mut outer = pin!(outer.instrument(info_span!("lifecycle")));
            for _ in 0..2 {
                assert!(poll(outer.as_mut()).is_pending());
                sleep(WAIT);
            }
            assert!(poll(outer.as_mut()).is_ready());
        }
    })
}

/// A server that keeps the span of a request, and enters it again on another thread to send the answer.
fn kept_by_a_server(tier: Tier) -> Outcome {
    measure(tier, || {
        for _ in 0..CALLS {
            let span = info_span!("rpc");
            let kept = span.clone();
            {
                let mut request = pin!(Pending(1).instrument(span));
                assert!(poll(request.as_mut()).is_pending());
                sleep(WAIT);
                assert!(poll(request.as_mut()).is_ready());
            }
            on_thread("sender", move || {
                info_span!("pump").in_scope(|| ());
                sleep(WAIT);
                kept.in_scope(|| ());
            });
        }
        let mut aborted = Box::pin(Pending(9).instrument(info_span!("aborted")));
        for _ in 0..3 {
            assert!(poll(aborted.as_mut()).is_pending());
            info_span!("pump").in_scope(|| ());
            sleep(WAIT);
        }
    })
}

/// Futures that enter their span in `poll` themselves, and not for their drop.
fn entered_in_polls(tier: Tier) -> Outcome {
    measure(tier, || {
        for _ in 0..CALLS {
            let span = info_span!("drive");
            let mut future = pin!(Pending(1));
            assert!(span.in_scope(|| poll(future.as_mut())).is_pending());
            info_span!("pump").in_scope(|| ());
            sleep(WAIT);
            assert!(span.in_scope(|| poll(future.as_mut())).is_ready());
        }
    })
}

/// Futures that have two children: one finishes in the second poll, and is kept for a while in that poll; the other is
/// dropped in the third.
fn dropped_in_polls(tier: Tier) -> Outcome {
    measure(tier, || {
        for _ in 0..CALLS {
            let (mut kept, mut aborted) = (Some(Box::pin(Pending(1).instrument(info_span!("kept")))), None);
            let mut polls = 0;
            let outer = std::future::poll_fn(|_context| {
                polls += 1;
                if polls < 3 {
                    let new = || Box::pin(Pending(9).instrument(info_span!("aborted")));
                    assert!(poll(aborted.get_or_insert_with(new).as_mut()).is_pending());
                    let is_ready = kept.as_mut().is_some_and(|kept| poll(kept.as_mut()).is_ready());
                    if is_ready {
                        sleep(WAIT);
                        kept = None;
                    }
                    return Poll::Pending;
                }
                aborted = None;
                Poll::Ready(())
            });
            let mut outer = pin!(outer.instrument(info_span!("outer")));
            while poll(outer.as_mut()).is_pending() {
                sleep(WAIT);
            }
        }
    })
}

/// Futures whose spans live on after them for two waits: with a clone, or with a span below them.
fn outlived(tier: Tier) -> Outcome {
    measure(tier, || {
        for number in 0..CALLS {
            let span = info_span!("request");
            let kept = if number % 2 == 0 { span.clone() } else { info_span!(parent: &span, "below") };
            let mut request = Box::pin(Pending(1).instrument(span));
            assert!(poll(request.as_mut()).is_pending());
            sleep(WAIT);
            assert!(poll(request.as_mut()).is_ready());
            drop(request);
            sleep(2 * WAIT);
            drop(kept);
        }
    })
}

/// An executor whose workers run the systems of each frame, which have spans of their own without a parent, while the
/// frame waits.
fn systems_on_workers(tier: Tier) -> Outcome {
    measure(tier, || {
        let systems = ["physics", "sound"].map(|name| info_span!(parent: None, "system", nvtx.name = name));
        for _ in 0..CALLS {
            let _frame = info_span!("frame").entered();
            std::thread::scope(|scope| {
                for system in &systems {
                    scope.spawn(|| system.in_scope(|| sleep(WAIT)));
                }
            });
        }
    })
}

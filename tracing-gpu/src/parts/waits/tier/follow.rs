//! A future that notes when it is woken, so that its call's time until the next poll is known as *ready*.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use pin_project_lite::pin_project;

use crate::clock::{Moment, moment};
use crate::parts::waits::session::owed::Owed;
use crate::parts::waits::thread::polls;
use crate::parts::waits::thread::woken::NOT_WOKEN;

/// Follows who wakes a future, and so how long its call is *ready*: woken, but not polled yet because all workers are
/// busy. Without it that time counts as another wait.
///
/// It belongs around the future whose span is meant, directly around `instrument`. A profiler need not be active. A
/// poll and a wake take a lock each, which only wakers of the same future use.
///
/// ```
/// use tracing::Instrument as _;
///
/// async fn answer() -> u32 {
///     42
/// }
///
/// # let block_on = |future: std::pin::Pin<&mut dyn Future<Output = u32>>| {
/// #     let std::task::Poll::Ready(answer) =
/// #         future.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) else { panic!() };
/// #     answer
/// # };
/// let request = tracing_gpu::follow(answer().instrument(tracing::info_span!("request")));
/// assert_eq!(block_on(std::pin::pin!(request)), 42);
/// ```
pub fn follow<F: IntoFuture>(future: F) -> Follow<F::IntoFuture> {
    Follow { future: future.into_future(), waking: None }
}

pin_project! {
    /// The future that [`follow`] returns.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Follow<F> {
        #[pin]
        future: F,
        waking: Option<(Arc<Waking>, Waker)>,
    }
}

/// A waker in front of the executor's.
#[derive(Debug)]
struct Waking {
    /// The first wake since the last poll began; 0 before it.
    at: AtomicU64,
    /// To whom the wait until then is owed, and the executor's waker.
    by: Mutex<(Owed, Waker)>,
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut by = self.by.lock();
        if self.at.load(Relaxed) == 0 {
            let now = moment();
            by.0 = polls::wakes(now);
            self.at.store(now, Relaxed);
        }
        let waker = by.1.clone();
        drop(by); // it may poll at once
        waker.wake();
    }
}

impl<F: Future> Future for Follow<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let is_first = this.waking.is_none();
        let (waking, waker) = this.waking.get_or_insert_with(|| {
            let by = Mutex::new((Owed::NONE, context.waker().clone()));
            let waking = Arc::new(Waking { at: AtomicU64::new(0), by });
            let waker = Waker::from(Arc::clone(&waking));
            (waking, waker)
        });
        let is_known = waking.by.lock().1.will_wake(context.waker());
        // The last waker of a task drops it, and that may wake this future: not while the lock is held.
        let new = if is_known { None } else { Some(context.waker().clone()) };
        let (woken, by, _old): (Moment, Owed, Option<Waker>) = {
            let mut known = waking.by.lock();
            let old = new.map(|new| std::mem::replace(&mut known.1, new));
            (waking.at.swap(0, Relaxed), known.0, old)
        };
        // Others poll it, too: the rest of its task was woken. It waits on, for what it has waited so far.
        let is_again = woken == 0 && !is_first;
        polls::polls_woken(if is_again { NOT_WOKEN } else { woken }, &by);
        let result = this.future.poll(&mut Context::from_waker(waker));
        polls::polls_woken(0, &Owed::NONE);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;

    use tracing::{Instrument as _, info_span};

    use super::*;
    use crate::{Output, Profiler};

    /// What others wait for until it is opened.
    #[derive(Default)]
    struct Door(Mutex<(bool, Option<Waker>)>);

    impl Door {
        async fn opened(&self) {
            poll_fn(|context| {
                let mut door = self.0.lock();
                door.1 = Some(context.waker().clone());
                if door.0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await
        }

        fn open(&self) {
            let mut door = self.0.lock();
            door.0 = true;
            let waker = door.1.take();
            drop(door);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// As a task that receives messages, too: each of them polls the future that waits for a lock.
    #[test]
    fn polls_without_a_wake_end_no_wait() {
        let profiler = Profiler::builder().nvtx(false).output(Output::None).build().unwrap();
        let waited = tracing::subscriber::with_default(profiler.subscriber(), || {
            let door = Door::default();
            let mut request = pin!(follow(door.opened().instrument(info_span!("request"))));
            let context = &mut Context::from_waker(Waker::noop());
            assert!(request.as_mut().poll(context).is_pending());
            let began = std::time::Instant::now();
            std::thread::sleep(std::time::Duration::from_millis(5)); // the time that is measured
            let waited = began.elapsed();
            for _ in 0..2 {
                assert!(request.as_mut().poll(context).is_pending());
            }
            info_span!("compact").in_scope(|| door.open());
            assert!(request.poll(context).is_ready());
            waited
        });
        let waits = profiler.summary().waits;
        let [row] = &waits[..] else { panic!("{waits:?}") };
        assert_eq!((row.by.as_deref(), row.waits), (Some("compact"), 1));
        assert!(u128::from(row.time_ns) >= waited.as_nanos(), "{row:?}, {waited:?}");
        profiler.finish().unwrap();
    }

    /// A wait that is told is not inferred once more, for a call inside.
    #[test]
    fn what_ended_the_wait_of_a_call_inside_is_not_inferred() {
        let profiler = Profiler::builder().nvtx(false).output(Output::None).build().unwrap();
        tracing::subscriber::with_default(profiler.subscriber(), || {
            for _ in 0..15 {
                let door = Door::default();
                let append = async { door.opened().instrument(info_span!("append")).await };
                let mut request = pin!(follow(append.instrument(info_span!("request"))));
                let context = &mut Context::from_waker(Waker::noop());
                assert!(request.as_mut().poll(context).is_pending());
                let hold = || {
                    std::thread::sleep(std::time::Duration::from_millis(25)); // long enough for a look at each wait
                    door.open();
                };
                info_span!("compact").in_scope(hold);
                assert!(request.poll(context).is_ready());
            }
        });
        let waits = profiler.summary().waits;
        let [row] = &waits[..] else { panic!("{waits:?}") };
        assert_eq!((&*row.waiter, row.by.as_deref(), row.waits, row.of_waits), ("request", Some("compact"), 15, None));
        profiler.finish().unwrap();
    }

    /// As in a server whose requests are followed, where functions with spans of their own hold locks.
    #[test]
    fn a_queue_is_followed_to_its_head_where_an_inner_span_wakes_the_next() {
        let profiler = Profiler::builder().nvtx(false).output(Output::None).build().unwrap();
        tracing::subscriber::with_default(profiler.subscriber(), || {
            let (first_door, second_door) = (Door::default(), Door::default());
            let append = async || {
                first_door.opened().await;
                second_door.open();
            };
            let first = async { append().instrument(info_span!("append")).await };
            let mut first = pin!(follow(first.instrument(info_span!("first request"))));
            let mut second = pin!(follow(second_door.opened().instrument(info_span!("second request"))));
            let context = &mut Context::from_waker(Waker::noop());
            assert!(first.as_mut().poll(context).is_pending());
            assert!(second.as_mut().poll(context).is_pending());
            info_span!("compact").in_scope(|| first_door.open());
            assert!(first.poll(context).is_ready());
            assert!(second.poll(context).is_ready());
        });
        let waits = profiler.summary().waits;
        let mut pairs: Vec<_> = waits.iter().map(|row| (&*row.waiter, row.by.as_deref().unwrap())).collect();
        pairs.sort_unstable();
        let expected = [("first request", "compact"), ("second request", "append"), ("second request", "compact")];
        assert_eq!(pairs, expected);
        profiler.finish().unwrap();
    }
}

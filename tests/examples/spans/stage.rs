//! The measuring of a scenario, and entries of spans without guards.

use crate::Outcome;
use std::error::Error;
use std::io::Write as _;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll, Waker};
use std::thread::{Builder, JoinHandle};
use tracing::Span;
use tracing::subscriber::set_global_default;
use tracing_gpu::{Output, Profiler, ProfilerBuilder, Summary};
use tracing_subscriber::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    Layer,
    Subscriber,
    #[cfg(feature = "nvidia")]
    Nvidia,
}

impl FromStr for Tier {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "layer" => Ok(Self::Layer),
            "subscriber" => Ok(Self::Subscriber),
            #[cfg(feature = "nvidia")]
            "nvidia" => Ok(Self::Nvidia),
            _ => Err(format!("no tier {name:?}: build with the feature `nvidia` if it is that")),
        }
    }
}

impl Tier {
    /// Makes this profiler the process's own.
    pub(crate) fn install(self, profiler: &Profiler) -> Outcome {
        match self {
            Self::Layer => set_global_default(tracing_subscriber::registry().with(profiler.layer()))?,
            Self::Subscriber => set_global_default(profiler.subscriber())?,
            #[cfg(feature = "nvidia")]
            Self::Nvidia => return Err("this scenario needs a profiler of ours".into()),
        }
        Ok(())
    }
}

/// A profiler that prints nothing.
pub(crate) fn silent() -> ProfilerBuilder {
    Profiler::builder().output(Output::None)
}

/// Runs `body` measured with the defaults, and prints the counts.
pub(crate) fn measure(tier: Tier, body: impl FnOnce()) -> Outcome {
    measure_by(tier, silent(), body)
}

/// The same with a given builder of ours.
pub(crate) fn measure_by(tier: Tier, builder: ProfilerBuilder, body: impl FnOnce()) -> Outcome {
    #[cfg(feature = "nvidia")]
    if tier == Tier::Nvidia {
        set_global_default(tracing_subscriber::registry().with(nvtx::tracing::NvtxLayer::default()))?;
        body();
        return Ok(());
    }
    measure_with(tier, builder, |_| {
        body();
        Ok(())
    })
}

/// Runs `body` measured with this builder, and prints the counts.
pub(crate) fn measure_with(tier: Tier, builder: ProfilerBuilder, body: impl FnOnce(&Profiler) -> Outcome) -> Outcome {
    let profiler = builder.build()?;
    tier.install(&profiler)?;
    body(&profiler)?;
    print(&profiler.summary())?;
    profiler.finish()?;
    Ok(())
}

/// Prints a summary as one line of JSON.
pub(crate) fn print(summary: &Summary) -> Outcome {
    let line = serde_json::to_string(summary)?;
    writeln!(std::io::stdout(), "{line}")?;
    Ok(())
}

/// A thread with a name.
pub(crate) fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Box<dyn Error>> {
    Ok(Builder::new().name(name.to_owned()).spawn(work)?)
}

/// Runs `work` on a thread of this name, to its end.
pub(crate) fn on_thread<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    match thread(name, work).map(JoinHandle::join) {
        Ok(Ok(value)) => value,
        _ => panic!("the thread {name} failed"),
    }
}

/// Enters like a guard, without a guard, because some code does not exit where it entered.
pub(crate) fn enter(span: &Span) {
    span.with_subscriber(|(id, dispatch)| dispatch.enter(id));
}

/// Exits like a guard, wherever the span was entered.
pub(crate) fn exit(span: &Span) {
    span.with_subscriber(|(id, dispatch)| dispatch.exit(id));
}

/// Polls once.
pub(crate) fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Is ready after this many pending polls.
#[derive(Debug)]
pub(crate) struct Pending(pub(crate) usize);

impl Future for Pending {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        match self.0.checked_sub(1) {
            None => Poll::Ready(()),
            Some(left) => {
                self.0 = left;
                Poll::Pending
            }
        }
    }
}

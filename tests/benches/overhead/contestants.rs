//! The contestants.

use std::any::Any;
use std::str::FromStr;

use tracing::span;
use tracing_gpu::{Output, Profiler};
use tracing_subscriber::Layer;
use tracing_subscriber::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Contestant {
    Nobody,
    Clock,
    EmptySubscriber,
    Floor,
    LayerNvtx,
    Layer,
    LayerTool,
    Subscriber,
    SubscriberTool,
    #[cfg(feature = "nvidia")]
    Nvidia,
    #[cfg(feature = "nvidia")]
    Fastrace,
}

impl Contestant {
    pub(crate) fn all() -> Vec<Self> {
        vec![
            Self::Nobody,
            Self::Clock,
            Self::EmptySubscriber,
            Self::Floor,
            Self::LayerNvtx,
            Self::Layer,
            Self::LayerTool,
            Self::Subscriber,
            Self::SubscriberTool,
            #[cfg(feature = "nvidia")]
            Self::Nvidia,
            #[cfg(feature = "nvidia")]
            Self::Fastrace,
        ]
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nobody => "nobody",
            Self::Clock => "clock",
            Self::EmptySubscriber => "empty-subscriber",
            Self::Floor => "floor",
            Self::LayerNvtx => "layer-nvtx",
            Self::Layer => "layer",
            Self::LayerTool => "layer-tool",
            Self::Subscriber => "subscriber",
            Self::SubscriberTool => "subscriber-tool",
            #[cfg(feature = "nvidia")]
            Self::Nvidia => "nvidia",
            #[cfg(feature = "nvidia")]
            Self::Fastrace => "fastrace",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Nobody => "no subscriber",
            Self::Clock => "two readings of the clock alone",
            Self::EmptySubscriber => "empty subscriber",
            Self::Floor => "registry + empty layer (the floor)",
            Self::LayerNvtx => "our layer: NVTX",
            Self::Layer => "our layer: NVTX + statistics",
            Self::LayerTool => "  the same, tool attached",
            Self::Subscriber => "our subscriber: NVTX + statistics",
            Self::SubscriberTool => "  the same, tool attached",
            #[cfg(feature = "nvidia")]
            Self::Nvidia => "NVIDIA's NvtxLayer",
            #[cfg(feature = "nvidia")]
            Self::Fastrace => "fastrace LocalSpan, recorded only",
        }
    }

    /// Makes this contestant the process's subscriber. The caller keeps the result alive.
    pub(crate) fn install(self) -> Box<dyn Any> {
        let profiler = || Profiler::builder().output(Output::None).build().expect("a profiler");
        match self {
            Self::Nobody | Self::Clock => Box::new(()),
            Self::EmptySubscriber => {
                tracing::subscriber::set_global_default(EmptySubscriber).expect("no other subscriber");
                Box::new(())
            }
            Self::Floor => {
                tracing_subscriber::registry().with(EmptyLayer).init();
                Box::new(())
            }
            Self::LayerNvtx => {
                let profiler = Profiler::builder().output(Output::None).statistics(false).build().expect("a profiler");
                tracing_subscriber::registry().with(profiler.layer()).init();
                Box::new(profiler)
            }
            Self::Layer | Self::LayerTool => {
                if self == Self::LayerTool {
                    attach_tool();
                }
                let profiler = profiler();
                tracing_subscriber::registry().with(profiler.layer()).init();
                Box::new(profiler)
            }
            Self::Subscriber | Self::SubscriberTool => {
                if self == Self::SubscriberTool {
                    attach_tool();
                }
                let profiler = profiler();
                tracing::subscriber::set_global_default(profiler.subscriber()).expect("no other subscriber");
                Box::new(profiler)
            }
            #[cfg(feature = "nvidia")]
            Self::Nvidia => {
                tracing_subscriber::registry().with(nvtx::tracing::NvtxLayer::default()).init();
                Box::new(())
            }
            #[cfg(feature = "nvidia")]
            Self::Fastrace => Box::new(()),
        }
    }
}

impl FromStr for Contestant {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::all().into_iter().find(|contestant| contestant.name() == name).ok_or(())
    }
}

struct EmptyLayer;

impl<S: tracing::Subscriber> Layer<S> for EmptyLayer {}

struct EmptySubscriber;

impl tracing::Subscriber for EmptySubscriber {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// A tool in the process that accepts every call and does nothing.
fn attach_tool() {
    nvtx_rs::tool::attach(Box::new(|_: &nvtx_rs::tool::Call<'_>| {})).expect("the first NVTX call of this process");
}

/// The minimum cost of every measured span: the time-stamp counter (elsewhere `Instant`) is read before and after the
/// body.
pub(crate) fn readings(depth: usize, iterations: u64, body: impl Fn()) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    // SAFETY: every x86-64 processor has RDTSC, and it touches no memory.
    let now = || unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    let now = std::time::Instant::now;
    for _ in 0..iterations / depth as u64 {
        for _ in 0..depth {
            std::hint::black_box(now());
        }
        for _ in 0..depth {
            body();
            std::hint::black_box(now());
        }
    }
}

/// The same shapes as fastrace's local spans, collected in batches of 256. Larger batches are slower, because the
/// buffer is then a new mapping each time.
#[cfg(feature = "nvidia")]
pub(crate) fn fastrace_spans(depth: usize, fields: usize, iterations: u64, body: impl Fn()) {
    use fastrace::local::{LocalCollector, LocalSpan};
    let mut left = iterations;
    while left > 0 {
        let batch = left.min(256);
        left -= batch;
        let collector = LocalCollector::start();
        if depth == 1 {
            for i in 0..batch {
                let span = LocalSpan::enter_with_local_parent("flat");
                let _span = if fields == 0 {
                    span
                } else {
                    span.with_properties(|| [("a", i.to_string()), ("b", "text".to_owned())])
                };
                body();
            }
        } else {
            for _ in 0..batch / 8 {
                let _s1 = LocalSpan::enter_with_local_parent("n1");
                let _s2 = LocalSpan::enter_with_local_parent("n2");
                let _s3 = LocalSpan::enter_with_local_parent("n3");
                let _s4 = LocalSpan::enter_with_local_parent("n4");
                let _s5 = LocalSpan::enter_with_local_parent("n5");
                let _s6 = LocalSpan::enter_with_local_parent("n6");
                let _s7 = LocalSpan::enter_with_local_parent("n7");
                let _s8 = LocalSpan::enter_with_local_parent("n8");
                for _ in 0..8 {
                    body();
                }
            }
        }
        drop(collector.collect());
    }
}

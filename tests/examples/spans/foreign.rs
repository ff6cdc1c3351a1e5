//! Spans and other NVTX ranges on one thread: the profiler is also the tool that receives both.

#[cfg(feature = "nvidia")]
use crate::stage::on_thread;
use crate::stage::{measure_with, print, silent};
use crate::{Outcome, Scenario, Tier};
use nvtx_rs::{Attributes, Domain};
use tracing::{Span, info, info_span};

pub(crate) const ALL: &[Scenario] = &[
    ("foreign", foreign),
    ("foreign-streams", foreign_streams),
    #[cfg(feature = "nvidia")]
    ("foreign-linked", foreign_linked),
];

fn current() -> Option<&'static str> {
    Span::current().metadata().map(|metadata| metadata.name())
}

fn foreign(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |profiler| {
        nvtx_rs::tool::attach(Box::new(profiler.nvtx_tool()))?;
        let (own, library) = (Domain::DEFAULT, Domain::named("library")?);
        for _ in 0..3 {
            library.push(&Attributes::new().message("call"));
            info_span!("callback", nvtx.category = "of a span").in_scope(|| {
                own.push(&Attributes::new().message("inside"));
                assert_eq!(current(), Some("callback"));
                info_span!("deeper").in_scope(|| info!("a mark"));
                own.pop();
            });
            assert_eq!(current(), None);
            library.pop();
        }
        info_span!("lifetime", nvtx.lifetime = true).in_scope(|| ());
        // Each is exited while the other is above it.
        let outer = info_span!("outer").entered();
        own.push(&Attributes::new().message("crossing"));
        drop(outer);
        own.pop();
        own.push(&Attributes::new().message("crossed"));
        let kept = info_span!("kept").entered();
        own.pop();
        drop(kept);
        own.pop(); // without an open range
        let request = library.start(&Attributes::new().message("request"));
        std::thread::scope(|scope| scope.spawn(move || library.end(request)).join().map_err(|_| "the thread failed"))?;
        Ok(())
    })
}

/// The search for a parent's stream finds no span while a foreign range is open.
fn foreign_streams(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |profiler| {
        nvtx_rs::tool::attach(Box::new(profiler.nvtx_tool()))?;
        info_span!("on a stream", gpu.stream = 1_u64).in_scope(|| ());
        Domain::DEFAULT.push(&Attributes::new().message("around"));
        info_span!("inside").in_scope(|| ());
        print(&profiler.summary())?;
        Domain::DEFAULT.pop();
        Ok(())
    })
}

/// NVIDIA's client, which is C code in this program, beside spans that go through ours.
#[cfg(feature = "nvidia")]
fn foreign_linked(tier: Tier) -> Outcome {
    let calls = || {
        let domain = nvtx::Domain::new(c"linked");
        for _ in 0..3 {
            let _range = domain.local_range(c"call");
            info_span!("callback").in_scope(|| ());
        }
    };
    measure_with(tier, silent().foreign_ranges(true), |profiler| {
        info_span!("outer").in_scope(calls);
        on_thread("worker", || drop(nvtx::Domain::new(c"linked").local_range(c"call")));
        let other = silent().foreign_ranges(true).build()?;
        print(&other.summary())?;
        print(&profiler.summary())?;
        Ok(())
    })
}

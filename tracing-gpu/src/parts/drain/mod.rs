//! What the parts add to a summary.

pub(crate) mod cursor;
pub(crate) mod nodes;
mod reading;

use std::time::Duration;

use range_model::stats::Lean;
use range_model::{OpenRange, RangeStyle};

use crate::core::drain::part::Part;
use crate::core::session::Session;
use crate::core::thread::state::ThreadState;
use crate::parts::launches::collector::Collector;
use crate::parts::launches::thread::lifetimes::OpenLifetimes;
use crate::parts::off_cpu::sampler::Sampler;

/// The parts of this run. Their notes stand in this order.
pub(crate) fn parts(
    session: &'static Session,
    collector: Option<&'static Collector>,
    sampler: Option<&'static Sampler>,
    patience: Option<Duration>,
) -> Vec<Box<dyn Part>> {
    let mut parts: Vec<Box<dyn Part>> = vec![
        Box::new(crate::parts::calls::drain::Calls::default()),
        Box::new(crate::parts::waits::drain::Waits::default()),
    ];
    #[cfg(feature = "cuda")]
    {
        if session.parts.gpu {
            parts.push(Box::new(crate::parts::streams::drain::Streams::new(session, patience)));
        }
        if let Some(collector) = collector {
            parts.push(Box::new(crate::parts::launches::drain::Gpu::new(collector, session)));
            parts.push(Box::new(crate::parts::launches::drain::helpers::Helpers));
        }
    }
    #[cfg(not(feature = "cuda"))]
    let _there_is_no_gpu = (session, collector, patience);
    #[cfg(feature = "injection")]
    {
        parts.push(Box::new(crate::parts::openacc::drain::OpenAcc));
        parts.push(Box::new(crate::parts::foreign::drain::Foreign));
    }
    if let Some(sampler) = sampler {
        parts.push(Box::new(crate::parts::off_cpu::drain::OffCpu(sampler)));
    }
    parts
}

/// Lifetimes of a thread that are open now, by the numbers of their labels.
pub(crate) fn open_lifetimes(thread: &ThreadState) -> Vec<(u32, OpenRange)> {
    let open = thread.open_lifetimes().into_iter().map(|OpenLifetimes { label, thread, count }| {
        let mut open = OpenRange::new(String::new(), thread);
        (open.style, open.count) = (RangeStyle::StartEnd, count);
        (label, open)
    });
    open.in_vec()
}

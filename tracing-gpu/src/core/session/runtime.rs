//! Spans and events of tokio about itself, where it is built to tell of them (`--cfg tokio_unstable` and its feature
//! `tracing`): around tasks, of wakers, and of resources. They are in no output.

use tracing_core::Metadata;

/// Whether this is one of them.
pub(crate) fn is_of_tokio(metadata: &Metadata<'_>) -> bool {
    let (name, target) = (metadata.name(), metadata.target());
    name.starts_with("runtime.") && target.starts_with("tokio::")
        || target == "tokio::task::waker"
        || target.starts_with("runtime::resource")
}

#[cfg(test)]
mod tests {
    use tracing::{info_span, trace, trace_span};
    use tracing_subscriber::prelude::*;

    use crate::{Output, Profiler};

    #[test]
    fn tokio_s_own_spans_are_in_no_table() {
        let profiler = Profiler::builder().nvtx(false).output(Output::None).filter("trace".parse().unwrap());
        let profiler = profiler.build().unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(profiler.layer()), || {
            // With tokio's names and fields.
            let task =
                trace_span!(target: "tokio::task", parent: None, "runtime.spawn", kind = "task", task.id = 7_u64);
            let resource = trace_span!(target: "tokio::sync::mutex", "runtime.resource", kind = "Sync");
            let work = || resource.in_scope(|| info_span!("lock").in_scope(|| ()));
            task.in_scope(|| info_span!("request").in_scope(work));
            trace!(target: "tokio::task::waker", op = "waker.wake", task.id = 7_u64);
        });
        let summary = profiler.summary();
        let mut names: Vec<&str> = summary.ranges.iter().map(|row| &*row.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["lock", "request"]);
        assert_eq!(summary.tree[0].children[0].name, "lock", "what is inside of them stays in its place");
        profiler.finish().unwrap();
    }
}

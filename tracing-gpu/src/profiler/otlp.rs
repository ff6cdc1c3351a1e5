//! Metrics that are pushed to an OpenTelemetry collector: the windows of a cursor, added up.

mod message;
mod post;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opentelemetry_otlp::{ExporterBuildError, MetricExporter, Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use range_model::{Note, Summary};
use range_report::export::Metrics;
use tracing_core::dispatcher::{self, Dispatch};

use super::complaint::complain;
use super::environment::variable;
use super::handle::Inner;
use super::pusher::{PushState, Pusher};
use crate::config::LEAST_EVERY;
use crate::core::drain::End;
use crate::process::{spawn, without_signals};
use message::Resource;
use post::Post;

/// How long the end of the profiler waits for the last push.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// How long the time between pushes is, and how long one may take, unless it is set.
const EVERY: Duration = Duration::from_secs(60);
const TIMEOUT: Duration = Duration::from_secs(10);

impl Inner {
    /// Starts the thread that pushes metrics, if the settings ask for it.
    pub(super) fn start_pushing(&'static self) {
        if self.config.otlp.is_none() {
            return;
        }
        let pusher = self.pusher.get_or_init(Pusher::default);
        // What the libraries log on this thread is not the program's.
        let body = move || dispatcher::with_default(&Dispatch::none(), || self.push_every(pusher));
        if let Err(error) = without_signals(|| spawn("tracing-otlp", Box::new(body))) {
            pusher.shared.lock().ended = true;
            complain(&format!("cannot start the thread that pushes metrics: {error}"));
        }
    }

    fn push_every(&'static self, pusher: &'static Pusher) {
        let every = self.config.every.or_else(|| millis(&["OTEL_METRIC_EXPORT_INTERVAL"])).unwrap_or(EVERY);
        let every = every.max(LEAST_EVERY);
        let mut sender = Sender::new(self).map_err(|error| error.to_string());
        let mut next = Instant::now() + every;
        loop {
            let (is_end, last) = pusher.wait(next);
            if is_end && last.is_none() {
                break;
            }
            let window = last.map_or_else(|| self.window(&pusher.cursor, None), |last| *last);
            pusher.count(sender.as_mut().map_err(|error| error.clone()).and_then(|sender| sender.push(window)));
            if is_end {
                break;
            }
            next = (next + every).max(Instant::now());
        }
        pusher.shared.lock().ended = true;
        pusher.changed.notify_all();
    }

    /// Has the last window pushed, and waits for that for a short time. Returns a note on pushes that failed.
    pub(super) fn push_last(&'static self, end: &End) -> Option<Note> {
        let (pusher, until) = (self.pusher.get()?, Instant::now() + LAST_PATIENCE);
        let last = Box::new(self.window(&pusher.cursor, Some(end)));
        let mut shared = pusher.shared.lock();
        (shared.last, shared.stop) = (Some(last), true);
        pusher.changed.notify_all();
        while !shared.ended && !pusher.changed.wait_until(&mut shared, until).timed_out() {}
        let PushState { pushes, failed, error, .. } = &*shared;
        (!shared.ended || *failed > 0).then(|| Note::MetricsNotPushed {
            pushes: *pushes,
            failed: *failed,
            reason: error.clone(),
            awaited_s: (!shared.ended).then(|| LAST_PATIENCE.as_secs()),
        })
    }
}

/// Sends what was measured.
struct Sender {
    exporter: MetricExporter,
    post: Arc<Post>,
    resource: Resource,
    /// What the next push has: everything, or what no push has delivered.
    unsent: Metrics,
    /// When that begins.
    since: u64,
}

impl Sender {
    fn new(inner: &Inner) -> Result<Self, ExporterBuildError> {
        let timeout = millis(&["OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]).unwrap_or(TIMEOUT);
        let post = Arc::new(Post::new(timeout));
        let builder = MetricExporter::builder().with_http().with_protocol(Protocol::HttpBinary).with_timeout(timeout);
        let builder = builder.with_shared_http_client(Arc::clone(&post) as _);
        let builder = match inner.config.otlp.as_deref().unwrap_or_default() {
            "" => builder, // the library reads the environment
            base => builder.with_endpoint(format!("{}/v1/metrics", base.trim_end_matches('/'))),
        };
        let resource = Resource::new(&inner.identity);
        let since = inner.identity.started_unix_ns;
        Ok(Self { exporter: builder.build()?, post, resource, unsent: Metrics::default(), since })
    }

    fn push(&mut self, window: Summary) -> Result<(), String> {
        self.resource.look_for_gpus(&window);
        self.unsent.add(window);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = u64::try_from(now.as_nanos()).unwrap_or(0);
        let is_delta = self.exporter.temporality() != Temporality::Cumulative;
        self.post.set(message::encode(&self.resource, &self.unsent, [self.since, now], is_delta));
        // The library's own metrics cannot be made of sums. It does all else: address, headers, repetitions.
        let pushed = post::ready(self.exporter.export(&ResourceMetrics::default()));
        pushed.map_err(|error| self.post.take_error().unwrap_or_else(|| error.to_string()))?;
        if is_delta {
            (self.unsent, self.since) = (Metrics::default(), now);
        }
        Ok(())
    }
}

/// The first of these variables that is set, in milliseconds.
fn millis(names: &[&str]) -> Option<Duration> {
    names.iter().find_map(|name| variable(name).parse().ok()).map(Duration::from_millis)
}

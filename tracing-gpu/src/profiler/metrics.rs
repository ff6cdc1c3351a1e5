//! Metrics for a route that is scraped: the windows of a cursor, added up.

use std::io::{self, Write};

use parking_lot::Mutex;
use range_report::export::Metrics;

use super::handle::Profiler;
use super::windows::Windows;

/// The metrics of a profiler, for a `/metrics` route: counters and histograms that never become smaller.
///
/// Each scrape reads a window of its own cursor and adds it to the earlier ones, so it does not disturb others, and
/// measured threads do not wait for it. Several scrapers may share one, because the metrics are sums. Memory does not
/// grow with the number of scrapes.
///
/// ```
/// use tracing_gpu::metrics::Scraped;
/// use tracing_gpu::{Output, Profiler};
///
/// let profiler = Profiler::builder().output(Output::None).build()?;
/// let scraped = Scraped::new(&profiler);
/// tracing::subscriber::with_default(profiler.subscriber(), || tracing::info_span!("step").in_scope(|| ()));
/// for _scrape in 0..2 {
///     let mut body = Vec::new();
///     scraped.openmetrics(&mut body)?;
///     assert!(String::from_utf8(body)?.contains("tracing_gpu_range_duration_seconds_count{span=\"step\"} 1\n"));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Scraped {
    windows: Windows,
    all: Mutex<Metrics>,
}

impl Scraped {
    /// The metrics since the start of the measurement.
    #[must_use]
    pub fn new(profiler: &Profiler) -> Self {
        Self { windows: profiler.windows(), all: Mutex::default() }
    }

    /// Writes all metrics up to now as OpenMetrics: `application/openmetrics-text; version=1.0.0; charset=utf-8`.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn openmetrics(&self, out: impl Write) -> io::Result<()> {
        self.up_to_now().openmetrics(out)
    }

    /// Writes all metrics up to now in the format of Prometheus: `text/plain; version=0.0.4`.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn prometheus(&self, out: impl Write) -> io::Result<()> {
        self.up_to_now().prometheus(out)
    }

    /// A copy, so that a slow scraper holds nobody up.
    fn up_to_now(&self) -> Metrics {
        let mut all = self.all.lock();
        all.add(self.windows.next());
        all.clone()
    }
}

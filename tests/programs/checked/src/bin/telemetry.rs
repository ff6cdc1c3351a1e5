//! OpenTelemetry, a log whose filter is reloaded meanwhile, and the profiler in one stack. Each sees the same as it
//! would alone.

use std::io::Write;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use checked::{Expected, Run, spin};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use tracing::{debug, info, info_span, instrument};
use tracing_subscriber::{EnvFilter, fmt, prelude::*, reload};

const ORDERS: u64 = 30;

#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[instrument]
fn price(order: u64) {
    debug!("pricing");
    spin(Duration::from_millis(1));
}

#[instrument(fields(otel.name = "POST /orders"))]
fn place(order: u64) {
    price(order);
    info!("placed");
    info_span!("store").in_scope(|| std::thread::sleep(Duration::from_millis(3)));
}

fn main() -> ExitCode {
    let run = Run::new("info");
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let (filter, log_filter) = reload::Layer::new(EnvFilter::new("info"));
    let log = Log::default();
    let lines = log.clone();
    tracing_subscriber::registry()
        .with(tracing_opentelemetry::layer().with_tracer(provider.tracer("shop")))
        .with(run.layer())
        .with(fmt::layer().with_writer(move || lines.clone()).with_filter(filter))
        .init();
    for order in 0..ORDERS {
        if order == ORDERS / 2 {
            log_filter.reload(EnvFilter::new("debug")).expect("it is there");
        }
        place(order);
    }
    let exported = exporter.get_finished_spans().expect("no error");
    provider.shutdown().expect("no error");
    assert_eq!(exported.len() as u64, 3 * ORDERS);
    assert_eq!(exported.iter().filter(|span| span.name == "POST /orders").count() as u64, ORDERS);
    let log = String::from_utf8(log.0.lock().expect("no panic").clone()).expect("text");
    let count = |words: &str| log.lines().filter(|line| line.contains(words)).count() as u64;
    assert_eq!((count("placed"), count("pricing")), (ORDERS, ORDERS / 2));
    run.finish(Expected {
        spans: &[("POST /orders", ORDERS), ("price", ORDERS), ("store", ORDERS)],
        parents: &[("POST /orders", &[""]), ("price", &["POST /orders"]), ("store", &["POST /orders"])],
        says: &["most time of its own: store "],
        culprits: &["store"],
        ..Expected::default()
    })
}

//! A program with known durations, for `tests/otlp/run`: `otlp on` or `otlp ADDRESS`. It pushes its metrics, and what
//! `TRACING_GPU` says is written too.

use std::error::Error;
use std::time::{Duration, Instant};

use tracing::{Instrument, info_span};
use tracing_gpu::{Profiler, Report};

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).filter(|address| address != "on");
    let profiler = Profiler::builder().report([Report::Ranges]).otlp(address.as_deref()).build()?;
    tracing::subscriber::set_global_default(profiler.subscriber())?;
    for power in 0..16 {
        let (name, wanted) = (format!("one of 2^{power} us"), Duration::from_micros(1 << power));
        let _span = info_span!("one", nvtx.name = name.as_str()).entered();
        let began = Instant::now();
        while began.elapsed() < wanted {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        for number in 0..100 {
            let request = async {
                tokio::time::sleep(Duration::from_millis(2)).await;
                (0..5).for_each(|_| info_span!("step").in_scope(|| ()));
                tokio::time::sleep(Duration::from_millis(1 + number % 2)).await;
            };
            request.instrument(info_span!("request")).await;
        }
    });
    Ok(profiler.finish()?)
}

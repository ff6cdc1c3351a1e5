//! A server with a `/metrics` route, without any framework: `cargo run -p examples --example metrics_route -- ADDRESS`.
//!
//! It answers Prometheus at ADDRESS, for example 127.0.0.1:9464, while a thread works in spans. Without an address it
//! asks itself once, prints the durations of one span, and ends.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use tracing::{Instrument, info_span};
use tracing_gpu::metrics::Scraped;
use tracing_gpu::{Output, Profiler};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A request each 5 ms: it waits, as for a database, and then computes.
async fn serve_requests() {
    for number in 0_u64.. {
        let request = async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            info_span!("compute").in_scope(|| (0..100_000 + number % 7).fold(0_u64, |sum, more| sum ^ (more * more)))
        };
        std::hint::black_box(request.instrument(info_span!("request")).await);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Answers one request of a scraper.
fn answer(mut stream: TcpStream, scraped: &Scraped) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let (mut accepts, mut lines) = (false, BufReader::new(stream.try_clone()?.take(16 << 10)).lines());
    let first = lines.next().transpose()?.unwrap_or_default();
    for line in lines {
        let line = line?.to_ascii_lowercase();
        accepts |= line.starts_with("accept:") && line.contains("application/openmetrics-text");
        if line.is_empty() {
            break;
        }
    }
    let (mut body, kind) = (Vec::new(), if accepts { OPEN_METRICS } else { TEXT });
    let status = match (first.starts_with("GET /metrics "), accepts) {
        (true, true) => scraped.openmetrics(&mut body).map(|()| "200 OK")?,
        (true, false) => scraped.prometheus(&mut body).map(|()| "200 OK")?,
        (false, _) => "404 Not Found",
    };
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n")?;
    stream.write_all(b"Connection: close\r\n\r\n")?;
    stream.write_all(&body)
}

fn main() -> Result<(), Box<dyn Error>> {
    let profiler = Profiler::builder().output(Output::None).build()?;
    let scraped = Scraped::new(&profiler);
    tracing::subscriber::set_global_default(profiler.subscriber())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build()?;
    runtime.spawn(serve_requests());
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0"))?;
    if address.is_some() {
        for stream in listener.incoming() {
            if let Err(error) = stream.and_then(|stream| answer(stream, &scraped)) {
                eprintln!("a scraper went away: {error}");
            }
        }
        return Ok(());
    }
    std::thread::sleep(Duration::from_millis(100));
    let mut asking = TcpStream::connect(listener.local_addr()?)?;
    asking.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    answer(listener.accept()?.0, &scraped)?;
    let mut text = String::new();
    asking.read_to_string(&mut text)?;
    text.lines().filter(|line| line.contains("call_duration_seconds")).for_each(|line| println!("{line}"));
    Ok(())
}

//! A server for `tests/gate`: requests that wait for a pool and for a lock, which one setting makes slower.
//!
//! ```sh
//! TRACING_GPU=output=none,json=run.json gate_server equal
//! ```
//!
//! `equal`: as it is. `query`: each query takes 1 ms longer. `lock`: the job `compact ledger` holds the lock of
//! `append_ledger` 20 % longer.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{Mutex, Semaphore};
use tokio::time::sleep;
use tracing::{Instrument as _, info_span};

const CLIENTS: usize = 12;
const REQUESTS: usize = 25;
const POOL: usize = 4;
/// Turns of the loop in `render`, some 0.4 ms.
const TURNS: u64 = 400_000;

#[derive(Clone, Copy)]
struct Settings {
    query: Duration,
    held: Duration,
}

struct Server {
    settings: Settings,
    pool: Semaphore,
    ledger: Mutex<u64>,
    is_done: AtomicBool,
}

impl Server {
    async fn query(&self) {
        let _connection = self.pool.acquire().await.expect("it stays open");
        sleep(self.settings.query).instrument(info_span!("execute")).await;
    }

    async fn append_ledger(&self) {
        *self.ledger.lock().await += 1;
    }

    fn render(&self) {
        let _span = info_span!("render").entered();
        black_box((0..TURNS).fold(1_u64, |hash, turn| black_box(hash.wrapping_mul(3) ^ turn)));
    }

    async fn request(&self) {
        self.query().instrument(info_span!("query")).await;
        self.render();
        self.append_ledger().instrument(info_span!("append_ledger")).await;
    }

    async fn compact(&self) {
        let mut ledger = self.ledger.lock().await;
        sleep(self.settings.held).await;
        *ledger = 0;
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut settings = Settings { query: Duration::from_millis(3), held: Duration::from_millis(20) };
    match std::env::args().nth(1).as_deref() {
        Some("query") => settings.query += Duration::from_millis(1),
        Some("lock") => settings.held += settings.held / 5,
        _ => {}
    }
    let guard = tracing_gpu::init();
    let server =
        Server { settings, pool: Semaphore::new(POOL), ledger: Mutex::new(0), is_done: AtomicBool::new(false) };
    let server = Arc::new(server);
    let background = Arc::clone(&server);
    let job = tokio::spawn(async move {
        while !background.is_done.load(Relaxed) {
            background.compact().instrument(info_span!("compact ledger")).await;
            sleep(Duration::from_millis(15)).await;
        }
    });
    let clients = (0..CLIENTS).map(|client| {
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            sleep(Duration::from_millis(client as u64)).await;
            for request in 0..REQUESTS {
                server.request().instrument(info_span!("GET /orders", request)).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("it does not panic");
    }
    server.is_done.store(true, Relaxed);
    job.await.expect("it does not panic");
    drop(guard);
}

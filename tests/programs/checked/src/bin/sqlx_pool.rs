//! sqlx with a pool of two connections for eight tasks. SQLite is linked once, for sqlx and for the profiler's own
//! database, which sqlx reads at the end.

use std::process::ExitCode;
use std::time::Duration;

use checked::{Expected, Run};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use tracing::{Instrument as _, info_span, instrument};
use tracing_gpu::Profiler;
use tracing_subscriber::prelude::*;

const TASKS: u64 = 8;
const LOOKUPS: u64 = 10;

#[instrument(skip_all)]
async fn lookup(pool: &SqlitePool, id: i64) -> String {
    let mut connection = pool.acquire().instrument(info_span!("acquire")).await.expect("a connection");
    // A slow query: SQLite counts.
    let slow = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000) \
                select name from users where id = ? + 0 * (select sum(i) from n)";
    sqlx::query_scalar(slow).bind(id).fetch_one(&mut *connection).instrument(info_span!("query")).await.expect("a user")
}

async fn tasks() {
    let memory = SqliteConnectOptions::new().filename("file:users?mode=memory&cache=shared");
    let pool =
        SqlitePoolOptions::new().max_connections(2).min_connections(2).connect_with(memory).await.expect("a pool");
    sqlx::query("create table users (id integer primary key, name text)").execute(&pool).await.expect("a table");
    sqlx::query("insert into users values (1, 'ann'), (2, 'bob')").execute(&pool).await.expect("rows");
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let pool = pool.clone();
            let task = async move {
                for _ in 0..LOOKUPS {
                    assert_eq!(lookup(&pool, 2).await, "bob");
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::spawn(task.instrument(info_span!("task")))
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    pool.close().await;
}

/// The ranges in the database that the profiler wrote.
async fn ranges(path: &str) -> i64 {
    let pool = SqlitePool::connect(path).await.expect("the database");
    sqlx::query_scalar("select count(*) from NVTX_EVENTS where eventType = 59")
        .fetch_one(&pool)
        .await
        .expect("a number")
}

fn main() -> ExitCode {
    let path = std::env::temp_dir().join(format!("checked-{}.sqlite", std::process::id()));
    let run = Run::with("info", Profiler::builder().sqlite(&path));
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(tasks());
    drop(runtime);
    let instances: u64 = run.summary().ranges.iter().map(|row| row.times.instances).sum();
    let lookups = TASKS * LOOKUPS;
    let outcome = run.finish(Expected {
        spans: &[("task", TASKS), ("lookup", lookups), ("acquire", lookups), ("query", lookups)],
        futures: &["task", "lookup", "acquire", "query"],
        parents: &[("task", &[""]), ("lookup", &["task"]), ("acquire", &["lookup"]), ("query", &["lookup"])],
        says: &["most time awaited: task", "most time of its own: query "],
        ..Expected::default()
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    assert_eq!(runtime.block_on(ranges(path.to_str().expect("a name"))) as u64, instances);
    std::fs::remove_file(path).expect("the database");
    outcome
}

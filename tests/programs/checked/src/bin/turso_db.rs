//! A database of turso in a file. It has spans of its own inside of a statement, at DEBUG: each commit waits for the
//! disk.

use std::process::ExitCode;

use checked::{Expected, Run};
use tracing::instrument;
use tracing_subscriber::prelude::*;
use turso::{Builder, Connection};

const ORDERS: u64 = 50;

#[instrument(skip_all)]
async fn place(connection: &Connection, order: u64) {
    let insert = "insert into orders (id, item) values (?1, ?2)";
    assert_eq!(connection.execute(insert, (order, "book")).await.expect("a row"), 1);
}

#[instrument(skip_all)]
async fn count_orders(connection: &Connection) -> u64 {
    let mut rows = connection.query("select count(*) from orders", ()).await.expect("rows");
    rows.next().await.expect("no error").expect("a row").get(0).expect("a number")
}

async fn shop(path: &str) {
    let database = Builder::new_local(path).build().await.expect("a database");
    let connection = database.connect().expect("a connection");
    connection.execute("create table orders (id integer primary key, item text)", ()).await.expect("a table");
    for order in 0..ORDERS {
        place(&connection, order).await;
    }
    assert_eq!(count_orders(&connection).await, ORDERS);
}

fn main() -> ExitCode {
    let folder = std::env::temp_dir().join(format!("checked-{}-turso", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let run = Run::new("info,turso_core=debug");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(shop(folder.join("orders.db").to_str().expect("a name")));
    drop(runtime);
    std::fs::remove_dir_all(folder).expect("the folder");
    run.finish(Expected {
        spans: &[("place", ORDERS), ("count_orders", 1)],
        futures: &["place", "count_orders"],
        parents: &[("place", &[""]), ("count_orders", &[""])],
        culprits: &["sync"],
        ..Expected::default()
    })
}

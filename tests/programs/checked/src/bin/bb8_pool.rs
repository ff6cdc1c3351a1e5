//! bb8 in front of rusqlite: a pool of two connections for 16 customers, and a connection that is held while another
//! service is called.
//!
//! Cause: the pool. `checkout`, the wait for a connection, takes some seven times as long as `charge_card`, which waits
//! for a timer of 6 ms while its order has the connection. The first line names `checkout`, not `charge_card`, nor the
//! statements of SQLite.

use std::process::ExitCode;
use std::time::Duration;

use bb8::{ManageConnection, Pool};
use checked::{Cause, Expected, Run, Stopwatch};
use rusqlite::Connection;
use tracing::{Instrument as _, info_span, instrument};
use tracing_subscriber::prelude::*;

const CUSTOMERS: i64 = 16;
const ORDERS: i64 = 12;
const CONNECTIONS: u32 = 2;

static CHECKOUT: Stopwatch = Stopwatch::new();
static CHARGE: Stopwatch = Stopwatch::new();

/// A database in memory that all connections share.
struct Shop(String);

impl ManageConnection for Shop {
    type Connection = Connection;
    type Error = rusqlite::Error;

    async fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.0)?;
        connection.execute_batch("pragma read_uncommitted = 1")?;
        Ok(connection)
    }

    async fn is_valid(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        connection.execute_batch("select 1")
    }

    fn has_broken(&self, _: &mut Connection) -> bool {
        false
    }
}

#[instrument(skip(connection))]
fn price_of(connection: &Connection, item: i64) -> rusqlite::Result<i64> {
    connection.query_row("select price from items where id = ?", [item], |row| row.get(0))
}

#[instrument]
async fn charge_card(price: i64) -> bool {
    tokio::time::sleep(Duration::from_millis(6)).await;
    price > 0
}

#[instrument(skip(pool))]
async fn order(pool: &Pool<Shop>, item: i64) -> bool {
    let connection = CHECKOUT.follow(pool.get().instrument(info_span!("checkout"))).await.expect("a connection");
    let price = price_of(&connection, item).expect("an item");
    CHARGE.follow(charge_card(price)).await
}

#[instrument]
fn thank(customer: i64) -> String {
    format!("thank you, {customer}")
}

async fn customer(pool: Pool<Shop>, customer: i64) {
    for number in 0..ORDERS {
        assert!(order(&pool, number % 3 + 1).await);
        assert!(thank(customer).ends_with(&customer.to_string()));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let shop = Shop("file:shop?mode=memory&cache=shared".to_owned());
        let keeper = shop.connect().await.expect("a database");
        keeper
            .execute_batch(
                "create table items (id integer primary key, price integer);
                 insert into items values (1, 10), (2, 20), (3, 30)",
            )
            .expect("items");
        let pool = Pool::builder().max_size(CONNECTIONS).build(shop).await.expect("a pool");
        let customers: Vec<_> = (0..CUSTOMERS).map(|id| tokio::spawn(customer(pool.clone(), id))).collect();
        for customer in customers {
            customer.await.expect("no panic");
        }
    });
    drop(runtime);
    let orders = (CUSTOMERS * ORDERS) as u64;
    run.finish(Expected {
        spans: &[
            ("order", orders),
            ("checkout", orders),
            ("price_of", orders),
            ("charge_card", orders),
            ("thank", orders),
        ],
        futures: &["order", "checkout", "charge_card"],
        parents: &[
            ("order", &[""]),
            ("checkout", &["order"]),
            ("price_of", &["order"]),
            ("charge_card", &["order"]),
            ("thank", &[""]),
        ],
        cause: Some(Cause {
            name: "checkout",
            costs: CHECKOUT.total(),
            second: CHARGE.total(),
            own: CHECKOUT.total(),
            also_true: &[],
        }),
        ..Expected::default()
    })
}

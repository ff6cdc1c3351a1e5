//! Three callers of one actor of kameo. The actor's messages hold their callers' spans. Each is handled in a span
//! without a parent, inside the span that lives as long as the actor.

use std::process::ExitCode;
use std::time::Duration;

use checked::{Expected, Run};
use kameo::prelude::*;
use tracing::instrument;
use tracing_subscriber::prelude::*;

const CALLERS: u64 = 3;
const REQUESTS: u64 = 60;

#[derive(Actor)]
struct Account {
    balance: u64,
}

struct Deposit(u64);

impl Message<Deposit> for Account {
    type Reply = u64;

    async fn handle(&mut self, Deposit(amount): Deposit, _: &mut Context<Self, u64>) -> u64 {
        store().await;
        self.balance += amount;
        self.balance
    }
}

#[instrument]
async fn store() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

#[instrument(skip_all)]
async fn request(account: &ActorRef<Account>) {
    assert!(account.ask(Deposit(1)).await.expect("an answer") <= CALLERS * REQUESTS);
}

async fn caller(account: ActorRef<Account>) {
    for _ in 0..REQUESTS {
        request(&account).await;
    }
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let account = Account::spawn(Account { balance: 0 });
        let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(caller(account.clone()))).collect();
        for caller in callers {
            caller.await.expect("no panic");
        }
        account.stop_gracefully().await.expect("it runs");
        account.wait_for_shutdown().await;
    });
    drop(runtime);
    let requests = CALLERS * REQUESTS;
    run.finish(Expected {
        spans: &[
            ("actor.lifecycle", 1),
            ("actor.handle_message", requests),
            ("request", requests),
            ("store", requests),
        ],
        futures: &["actor.lifecycle", "actor.handle_message", "request", "store"],
        parents: &[
            ("actor.lifecycle", &[""]),
            ("actor.handle_message", &["actor.lifecycle"]),
            ("request", &[""]),
            ("store", &["actor.handle_message"]),
        ],
        culprits: &["store"],
        ..Expected::default()
    })
}

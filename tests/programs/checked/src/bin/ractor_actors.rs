//! Three callers of one actor of ractor. A message holds its caller's span, in which the actor handles it. The actor
//! starts in one span and lives in another of the same name; then it waits for more messages.

use std::process::ExitCode;
use std::time::Duration;

use checked::{Expected, Run};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, call};
use tracing::instrument;
use tracing_subscriber::prelude::*;

const CALLERS: u64 = 3;
const REQUESTS: u64 = 60;
/// How long the actor waits for more messages in the end.
const IDLE: Duration = Duration::from_millis(400);

struct Account;

struct Deposit(u64, RpcReplyPort<u64>);

impl Actor for Account {
    type Msg = Deposit;
    type State = u64;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Deposit>, (): ()) -> Result<u64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: ActorRef<Deposit>,
        Deposit(amount, reply): Deposit,
        balance: &mut u64,
    ) -> Result<(), ActorProcessingErr> {
        store().await;
        *balance += amount;
        Ok(reply.send(*balance)?)
    }
}

#[instrument]
async fn store() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

#[instrument(skip_all)]
async fn request(account: &ActorRef<Deposit>) {
    let balance = call!(account, |reply| Deposit(1, reply)).expect("an answer");
    assert!(balance <= CALLERS * REQUESTS);
}

async fn caller(account: ActorRef<Deposit>) {
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
        let (account, actor) = Actor::spawn(Some("account".to_owned()), Account, ()).await.expect("it starts");
        let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(caller(account.clone()))).collect();
        for caller in callers {
            caller.await.expect("no panic");
        }
        tokio::time::sleep(IDLE).await;
        account.stop(None);
        actor.await.expect("no panic");
    });
    drop(runtime);
    let requests = CALLERS * REQUESTS;
    run.finish(Expected {
        spans: &[("Actor: account", 2), ("request", requests), ("store", requests)],
        futures: &["Actor: account", "request", "store"],
        parents: &[("Actor: account", &[""]), ("request", &["", "Actor: account"]), ("store", &["request"])],
        says: &["~~ as long as the run: Actor: account .. (1 call)"],
        culprits: &["request", "store"],
        ..Expected::default()
    })
}

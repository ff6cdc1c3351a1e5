//! An actor whose messages hold the span of their sender: it handles some in that span, and some in one without a
//! parent.

use std::process::ExitCode;
use std::time::Duration;

use checked::{Expected, Run};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use tracing::{Instrument as _, Span, info_span, instrument};
use tracing_subscriber::prelude::*;

const ASKS: u64 = 40;
const ORDERS: u64 = 30;

struct Message {
    /// The span in which it is handled, unless that is one of the actor's own.
    sender: Option<Span>,
    answer: oneshot::Sender<()>,
}

#[instrument(skip_all)]
async fn actor(mut mailbox: mpsc::Receiver<Message>) {
    while let Some(Message { sender, answer }) = mailbox.recv().await {
        let handling = sender.unwrap_or_else(|| info_span!(parent: None, "handle"));
        sleep(Duration::from_millis(2)).instrument(handling).await;
        answer.send(()).expect("it is awaited");
    }
}

async fn send(mailbox: &mpsc::Sender<Message>, sender: Option<Span>) {
    let (answer, answered) = oneshot::channel();
    assert!(mailbox.send(Message { sender, answer }).await.is_ok());
    answered.await.expect("an answer");
}

#[instrument(skip_all)]
async fn ask(mailbox: &mpsc::Sender<Message>) {
    send(mailbox, Some(Span::current())).await;
}

#[instrument(skip_all)]
async fn order(mailbox: &mpsc::Sender<Message>) {
    send(mailbox, None).await;
}

fn main() -> ExitCode {
    let run = Run::new("info");
    tracing_subscriber::registry().with(run.layer()).init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (sender, mailbox) = mpsc::channel(8);
        let actor = tokio::spawn(actor(mailbox));
        let asks = async {
            for _ in 0..ASKS {
                ask(&sender).await;
            }
        };
        let orders = async {
            for _ in 0..ORDERS {
                order(&sender).await;
            }
        };
        tokio::join!(asks, orders);
        drop(sender);
        actor.await.expect("no panic");
    });
    drop(runtime);
    run.finish(Expected {
        spans: &[("actor", 1), ("ask", ASKS), ("order", ORDERS), ("handle", ORDERS)],
        futures: &["actor", "ask", "order", "handle"],
        parents: &[("actor", &[""]), ("ask", &["", "actor"]), ("order", &[""]), ("handle", &["actor"])],
        ..Expected::default()
    })
}

//! Processes by their host, rank and run.

use crate::tests::with;
use serde_json::Value as Json;

use super::super::Chrome;
use super::{events, process};
use range_model::summary::{Process, Summary};
use range_model::timeline::{Item, Sink as _};

#[test]
fn a_process_says_which_of_the_run_it_is() {
    let (host, run_id) = ("node7".to_owned(), "77".to_owned());
    let labels = |process: Process| -> Vec<(u64, String)> {
        let mut out = Vec::new();
        let mut sink = Chrome::new(&mut out);
        sink.begin(&process).unwrap();
        sink.item(&Item::Device { device: 0, name: "NVIDIA H200" }).unwrap();
        sink.end(&Summary::default(), 0).unwrap();
        drop(sink);
        let events = events(&out);
        let labels = events.iter().filter(|event| event["name"] == "process_labels");
        let label =
            |event: &Json| (event["pid"].as_u64().unwrap(), event["args"]["labels"].as_str().unwrap().to_owned());
        labels.map(label).collect()
    };
    let command = "/opt/bin/serve --model \"a b\"";
    assert_eq!(labels(process()), [(1234, command.to_owned())]);
    let whose = "rank 3, host node7, run 77, started 2025-11-20T15:35:42Z".to_owned();
    assert_eq!(
        labels(with(process(), |it| {
            it.rank = Some(3);
            it.host = host;
            it.run_id = run_id;
            it.started_unix_ns = 1_763_652_942_000_000_000;
        })),
        [(1234, format!("{whose}, {command}")), (10_001_234, whose)]
    );
}

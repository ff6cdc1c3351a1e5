//! The shipped examples, unchanged: their output compared with Nsight Systems' recording of the same run.

use std::process::Command;

use tests::nsight::{Recording, Row, Table, profile, release_example};
use tracing_gpu::summary::RangeStyle;

use crate::compare::{agree, printed_rows};

#[test]
fn phases() {
    agree("phases", || run_with_table("phases"));
}

#[test]
fn cnn_layers() {
    agree("cnn_layers", || run_with_table("cnn_layers"));
}

#[test]
fn async_pipeline() {
    agree("async_pipeline", || run_with_table("async_pipeline"));
}

/// It prints no table, but every segment is sieved, counted and sent once.
#[test]
fn ranges_without_tracing() {
    let (recording, _) = profile(&Command::new(release_example("ranges_without_tracing")));
    let rows = recording.table(Table::Both);
    let find = |label: &str, style: RangeStyle| -> &Row {
        let found = rows.iter().find(|row| row.label == label && row.style == style);
        found.unwrap_or_else(|| panic!("no {label} in {rows:#?}"))
    };
    assert_eq!(find("primes:primes up to 1000000000", RangeStyle::PushPop).instances, 1);
    assert_eq!(find("primes:find sieving primes", RangeStyle::PushPop).instances, 1);
    let segments = find("primes:segment", RangeStyle::PushPop).instances;
    assert!(segments > 100, "{segments}");
    assert_eq!(find("primes:cross off", RangeStyle::PushPop).instances, segments);
    assert_eq!(find("primes:count", RangeStyle::PushPop).instances, segments);
    assert_eq!(find("primes:on its way", RangeStyle::StartEnd).instances, segments);
    assert_eq!(rows.len(), 6, "{rows:#?}");
}

/// Runs an example under Nsight Systems. Returns the recording, and the example's own printed table.
fn run_with_table(name: &str) -> (Recording, Vec<Row>) {
    let file = std::env::temp_dir().join(format!("nsight-{name}-{}.txt", std::process::id()));
    let setting = format!("report=ranges,out={}", file.display());
    let (recording, _) = profile(Command::new(release_example(name)).env("TRACING_GPU", setting));
    let text = std::fs::read_to_string(&file).expect("the example's table");
    let _ = std::fs::remove_file(&file);
    (recording, printed_rows(&text))
}

//! A server whose small requests wait behind a hog in one stream: what its report says.

use range_report::{Finding, FindingKind, RenderOptions, Report, SummaryExt as _};

use super::*;

const MS: u64 = 1_000_000;

/// 1,960 small requests with a kernel of 0.2 ms and 40 hogs with one of 30 ms, four at a time, on eight threads. The
/// next request begins when one of the four ends. `stream_of` has the stream of each kind.
fn served(stream_of: fn(&str) -> u32, kind_of: fn(usize) -> &'static str) -> Summary {
    let mut run = Run { is_numbered: true, devices: 1, requests: vec![Request::default()], ..Run::default() };
    let mut free = BTreeMap::new();
    let mut permits = [0, 30_000, 60_000, 90_000];
    for request in 1..=2_000 {
        let kind = kind_of(request);
        let permit = permits.iter_mut().min().unwrap();
        let (start, at) = (*permit + 1_000, *permit + 20_000 + request as u64);
        let ns = if kind == "hog" { 30 * MS } else { MS / 5 };
        let path = vec![kind.to_owned(), "launch".to_owned()];
        let command = Command::Launch { request, path, ns, late: 0 };
        let stream = stream_of(kind);
        run.asked.push(Asked { at, thread: 1 + request as u32 % 8, stream, command });
        let done = free.entry(stream).or_insert(0);
        *done = (at + 2_000).max(*done) + ns;
        *permit = *done + 10_000;
        run.requests.push(Request { is_future: true, start, end: *permit });
    }
    run.simulate();
    let mut fold = Interference::default();
    in_order(&run, 1).iter().for_each(|(_, record)| run.give(record, &mut fold));
    let mut summary = Summary::default();
    summary.elapsed_ns = permits.into_iter().max().unwrap_or(0);
    fold.finish(&mut summary);
    summary
}

fn kind(request: usize) -> &'static str {
    if request % 50 == 25 { "hog" } else { "small" }
}

fn found(summary: &Summary) -> Vec<Finding> {
    summary.findings().into_iter().filter(|finding| finding.kind() == FindingKind::Interference).collect()
}

#[test]
fn small_requests_wait_behind_a_hog() {
    let summary = served(|_| 7, kind);
    let mut text = Vec::new();
    let options = RenderOptions::default().width(100);
    summary.render(&[Report::Why, Report::Interference], &options, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let documented = include_str!("../../../../../docs/gpu.md");
    assert!(documented.contains(text.trim_matches('\n')), "{text}");
    let found = found(&summary);
    assert_eq!(found.len(), 1, "the small ones cost next to nothing: {found:?}");
    assert_eq!(found[0].span, ["hog", "launch"]);
}

#[test]
fn no_stream_is_shared_and_nothing_is_claimed() {
    let summary = served(|kind| if kind == "hog" { 7 } else { 8 }, kind);
    let behind = |row: &&InterferenceStats| row.waiter != row.by;
    assert!(summary.interference.iter().filter(behind).all(|row| row.operations == 0), "{:?}", summary.interference);
    assert!(found(&summary).is_empty());
}

/// Requests of one span wait for each other, but nothing tells them apart.
#[test]
fn requests_of_one_span_are_no_finding() {
    let summary = served(|_| 7, |_| "small");
    assert_eq!(summary.interference.len(), 1);
    assert!(found(&summary).is_empty());
}

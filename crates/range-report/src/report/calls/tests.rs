use super::*;
use crate::text::width::width_of;
use crate::{Report, SummaryExt as _};
use range_model::summary::{ThreadStats, WaitStats};

fn call(name: &str, calls: u64, mean_ms: u64, busy_ms: u64, own_ms: u64) -> CallStats {
    const MS: u64 = 1_000_000;
    let mut latency = Times {
        instances: calls,
        total_ns: calls * mean_ms * MS,
        max_ns: 3 * mean_ms * MS,
        median_ns: Some(mean_ms as f64 * 900_000.0),
        median_exact: true,
        ..Times::default()
    };
    latency.quantiles = vec![
        Quantile::new(0.9, mean_ms as f64 * 1.5e6, true),
        Quantile::new(0.99, mean_ms as f64 * 2.5e6, calls < 1_000),
    ];
    let mut row = CallStats::new(name, latency);
    row.busy_ns = busy_ms * MS;
    row.awaited_ns = row.latency.total_ns - row.busy_ns;
    row.awaited_self_ns = own_ms * MS;
    row
}

/// A service whose requests wait for a connection.
pub(crate) fn service() -> Summary {
    let request = CallStats { cancelled: Some(4), ..call("request", 1_000, 85, 3_400, 200) };
    let serialise = call("serialise", 996, 3, 2_988, 0);
    let query = CallStats { domain: Some("db".to_owned()), ..call("query", 996, 80, 100, 11_680) };
    let wait = CallStats { cancelled: Some(4), ..call("wait for a connection", 1_000, 69, 20, 68_900) };
    let never_ended = CallStats::new("listen", Times::default());
    let calls = vec![request, serialise, never_ended, query, wait];
    Summary { calls, ..Summary::default() }
}

fn printed(summary: &Summary, width: usize) -> String {
    calls(summary, &RenderOptions::default().width(width))
}

#[test]
fn at_80_columns() {
    let expected = "
 ** Calls and Waiting (calls):

 Call                   Calls       p50       p90        p99       Max  Aw. self
 ---------------------  -----  --------  --------  ---------  --------  --------
 wait for a connection  1,000  62.10 ms  103.5 ms  ~172.5 ms  207.0 ms  68.90 s
 db:query                 996  72.00 ms  120.0 ms   200.0 ms  240.0 ms  11.68 s
 request                1,000  76.50 ms  127.5 ms  ~212.5 ms  255.0 ms  200.0 ms
 serialise                996  2.700 ms  4.500 ms   7.500 ms  9.000 ms      0 ns
 Columns left out: Mean, On thread, Awaited, Cancelled.

";
    assert_eq!(printed(&service(), 80), expected);
}

#[test]
fn at_200_columns() {
    let expected = "
 ** Calls and Waiting (calls):

 Call                   Calls  Cancelled       p50       p90        p99       Max      Mean  On thread   Awaited  Awaited self
 ---------------------  -----  ---------  --------  --------  ---------  --------  --------  ---------  --------  ------------
 wait for a connection  1,000          4  62.10 ms  103.5 ms  ~172.5 ms  207.0 ms  69.00 ms   20.00 ms  68.98 s       68.90 s
 db:query                 996          0  72.00 ms  120.0 ms   200.0 ms  240.0 ms  80.00 ms   100.0 ms  79.58 s       11.68 s
 request                1,000          4  76.50 ms  127.5 ms  ~212.5 ms  255.0 ms  85.00 ms   3.400 s   81.60 s       200.0 ms
 serialise                996          0  2.700 ms  4.500 ms   7.500 ms  9.000 ms  3.000 ms   2.988 s       0 ns          0 ns

";
    assert_eq!(printed(&service(), 200), expected);
}

#[test]
fn time_after_the_last_poll_has_a_column_if_it_is_a_hundredth() {
    let mut summary = service();
    let has_column = |summary: &Summary| printed(summary, 200).contains("Awaited self  Outlived\n");
    let hundredth = summary.calls[0].latency.total_ns / 100;
    for (outlived, expected) in [(0, false), (hundredth - 1, false), (hundredth, true)] {
        summary.calls[0].outlived_ns = outlived;
        assert_eq!(has_column(&summary), expected, "{outlived}");
    }
    assert!(printed(&summary, 200).contains("200.0 ms  850.0 ms\n"), "{}", printed(&summary, 200));
}

#[test]
fn states_have_columns_where_they_say_more() {
    let columns = |change: &dyn Fn(&mut CallStates)| {
        let mut summary = service();
        let mut states = CallStates { on_cpu_ns: summary.calls[0].busy_ns, ..CallStates::default() };
        change(&mut states);
        summary.calls[0].states = Some(states);
        summary.calls.truncate(1);
        let text = printed(&summary, 200);
        let after = text.lines().nth(3).unwrap().split("Mean").nth(1).unwrap().to_owned();
        after.split("  ").map(str::trim).filter(|header| !header.is_empty()).collect::<Vec<_>>().join(", ")
    };
    let hundredth = service().calls[0].latency.total_ns / 100;
    assert_eq!(columns(&|_| ()), "On thread, Awaited, Awaited self");
    let off_cpu = |states: &mut CallStates| states.off_cpu_ns = hundredth;
    assert_eq!(columns(&off_cpu), "Awaited, Awaited self, On CPU, Off CPU");
    let unknown = service().calls[0].busy_ns / 20;
    let partly = |states: &mut CallStates| (states.off_cpu_ns, states.on_thread_ns) = (hundredth, unknown);
    assert_eq!(columns(&partly), "On thread, Awaited, Awaited self, On CPU, Off CPU");
    let ready = |states: &mut CallStates| states.ready_ns = hundredth;
    assert_eq!(columns(&ready), "On thread, Awaited, Awaited self, Ready");
    let on_gpu = |states: &mut CallStates| (states.in_cuda_ns, states.gpu_work_ns) = (hundredth, hundredth);
    assert_eq!(columns(&on_gpu), "On thread, Awaited, Awaited self, In CUDA, GPU work");
}

fn served(row: &mut CallStats) {
    (row.batches, row.in_batch_ns, row.share_ns) = (Some(70), Some(16), Some(17));
    row.gpu_share_ns = Some(20);
}

#[test]
fn batches_have_columns_where_they_served_a_call() {
    let mut summary = service();
    assert!(!printed(&summary, 200).contains("atch"), "{}", printed(&summary, 200));
    served(&mut summary.calls[0]);
    let text = printed(&summary, 200);
    assert!(text.contains("  Cancelled  Batches  ") && text.contains("  In batch  Share~  GPU share~\n"), "{text}");
    assert!(text.contains("  70  ") && text.contains("     16 ns   17 ns       20 ns\n"), "{text}");
}

#[test]
fn the_slowest_calls_say_what_their_time_was() {
    let mut summary = service();
    let mut states = CallStates::default();
    (states.child_call_ns, states.otherwise_ns, states.on_cpu_ns) = (5_000_000_000, 900_000_000, 59_000_000);
    (states.ready_ns, states.outlived_ns) = (41_000_000, 0);
    let slowest = SlowestCalls { calls: 12, latency_ns: 6_000_000_000, states };
    summary.calls[0].slowest = Some(slowest);
    // Those of another row are not slow.
    summary.calls[3].slowest = Some(SlowestCalls { calls: 10, latency_ns: 800_000_000, states });
    let text = printed(&summary, 100);
    let line = " :: slowest 12 of 1,000 calls of request, 500.0 ms each: 83.3% in child calls, 15.0% waiting itself\n";
    assert!(text.ends_with(&format!("\n\n{line}\n")), "{text}");
    let one = SlowestCalls { calls: 1, ..slowest };
    let mut alone = summary.clone();
    alone.calls[0].slowest = Some(one);
    let said = " :: the slowest of 1,000 calls of request, 6.000 s: 83.3% in child calls";
    assert!(printed(&alone, 100).contains(said), "{}", printed(&alone, 100));
    alone.calls[0].slowest.as_mut().unwrap().states = CallStates { otherwise_ns: 6_000_000_000, ..Default::default() };
    assert!(!printed(&alone, 100).contains("::"), "it only waited: {}", printed(&alone, 100));
    // With busy workers, only a call whose waits were told is known to wait.
    summary.elapsed_ns = 1_000;
    let busy = |ns| ThreadStats { in_polls_ns: Some(ns), ..ThreadStats::default() };
    summary.threads = vec![busy(900), busy(0)];
    let nearly_all = summary.calls[0].awaited_ns / 10 * 9;
    for (told, is_known) in [(0, false), (nearly_all - 10, false), (nearly_all, true)] {
        summary.waits = vec![WaitStats::new("request", None, 1, told, 1)];
        let (text, unknown) = (printed(&summary, 100), "15.0% ready or\n    waiting\n");
        assert_eq!((text.contains(line), text.contains(unknown)), (is_known, !is_known), "{told}: {text}");
    }
    summary.waits[0].time_ns -= 10;
    summary.calls[0].states = Some(CallStates { ready_ns: 10, ..CallStates::default() });
    assert!(printed(&summary, 100).contains(line), "it was ready, too");
}

#[test]
fn rows_beyond_the_bound_are_one() {
    let text = calls(&service(), &RenderOptions::default().width(140).rows(2));
    let last = text.trim_end().lines().last().unwrap();
    let cells: Vec<&str> = last.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    let expected = "(2 more)|1,996|4|-|-|-|255.0 ms|44.08 ms|6.388 s|81.60 s|200.0 ms";
    assert_eq!(cells.join("|"), expected, "{text}");
    let all = calls(&service(), &RenderOptions::default().width(140));
    assert_eq!(calls(&service(), &RenderOptions::default().width(140).rows(3)), all, "one more is as short");
}

/// For all names and widths.
#[test]
fn lines_are_no_wider_than_there_is_room() {
    let mut summary = service();
    summary.calls[0].name = "日本語モデル".repeat(20);
    summary.calls[1].name = "\u{1b}\n".to_owned();
    summary.calls[3].latency.quantiles.push(Quantile::new(0.999, 1e12, false));
    for width in 60..=220 {
        let text = printed(&summary, width);
        let widest = text.lines().map(width_of).max();
        assert!(widest <= Some(width) && !text.contains('\u{1b}'), "{width}:\n{text}");
        assert!(text.contains("p99") && text.contains(if width < 100 { "Aw. self" } else { "Awaited self" }), "{text}");
        assert!(text.contains("p99.9") || width < 70, "{text}");
    }
}

#[test]
fn nothing_that_waits_is_one_sentence() {
    assert!(printed(&Summary::default(), 80).contains("No span of a future has ended"));
    let mut summary = service();
    summary.calls.truncate(2);
    summary.calls.iter_mut().for_each(|row| row.cancelled = Some(0));
    let text = printed(&summary, 80);
    assert!(text.contains("Columns left out: Cancelled, Mean"), "{text}");
}

#[test]
fn csv_has_all_figures() {
    let mut text = Vec::new();
    let mut service = service();
    let mut states = CallStates::default();
    (states.on_cpu_ns, states.off_cpu_ns, states.on_thread_ns) = (11, 12, 99);
    (states.ready_ns, states.child_call_ns, states.otherwise_ns) = (13, 14, 15);
    (states.in_cuda_ns, states.gpu_work_ns) = (18, 19);
    service.calls[0].states = Some(states);
    served(&mut service.calls[0]);
    service.write_csv(Report::Calls, &mut text).unwrap();
    let expected = "\
Calls,Cancelled,Batches,p50 (ns),p90 (ns),p99 (ns),Max (ns),Mean (ns),On Thread (ns),Awaited (ns),Awaited Self (ns),Outlived (ns),In CUDA (ns),On CPU (ns),Off CPU (ns),Ready (ns),Child Call (ns),GPU Work (ns),Otherwise (ns),In Batch (ns),Share~ (ns),GPU Share~ (ns),Call
1000,4,,62100000.0,103500000.0,172500000.0,207000000,69000000,20000000,68980000000,68900000000,0,,,,,,,,,,,wait for a connection
996,0,,72000000.0,120000000.0,200000000.0,240000000,80000000,100000000,79580000000,11680000000,0,,,,,,,,,,,db:query
1000,4,70,76500000.0,127500000.0,212500000.0,255000000,85000000,3400000000,81600000000,200000000,0,18,11,12,13,14,19,15,16,17,20,request
996,0,,2700000.0,4500000.0,7500000.0,9000000,3000000,2988000000,0,0,0,,,,,,,,,,,serialise
";
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}

#[test]
fn a_mean_is_rounded() {
    assert_eq!([5, 6, 9, 10].map(|total_ns| mean(&Times::new(4, total_ns))), [1, 2, 2, 3]);
    assert_eq!(mean(&Times::default()), 0);
}

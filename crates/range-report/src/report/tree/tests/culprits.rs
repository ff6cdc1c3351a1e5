//! Programs with known call times: the report must name the cause of their waits.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use range_model::Times;
use range_model::stats::Distribution;
use range_model::summary::CallStats;

const MS: u64 = 1_000_000;

/// A call that waits all the time: for its child calls while they are alive.
#[derive(Clone, Debug)]
struct Call {
    name: &'static str,
    at: u64,
    took: u64,
    below: Vec<Call>,
}

fn call(name: &'static str, at: u64, took: u64, below: Vec<Call>) -> Call {
    Call { name, at, took, below }
}

/// A run of this length, in milliseconds.
fn run(length: u64, calls: &[Call]) -> Summary {
    let mut durations = BTreeMap::new();
    let tree = nodes(&calls.iter().collect::<Vec<_>>(), &mut durations);
    let stats = durations.into_iter().map(|(name, mut all)| {
        all.sort_unstable();
        let mut latency = Times::new(all.len() as u64, all.iter().sum());
        (latency.min_ns, latency.max_ns) = (all[0], all[all.len() - 1]);
        latency.median_ns = Some(all[all.len() / 2] as f64);
        latency.stddev_ns = Distribution::of(all.iter().copied()).stddev();
        CallStats::new(name, latency)
    });
    Summary { elapsed_ns: length * MS, tree, calls: stats.collect(), ..Summary::default() }
}

fn nodes(calls: &[&Call], durations: &mut BTreeMap<&'static str, Vec<u64>>) -> Vec<TreeNode> {
    let mut names: Vec<&str> = calls.iter().map(|call| call.name).collect();
    names.sort_by_key(|name| calls.iter().position(|call| call.name == *name));
    names.dedup();
    let node = |name: &str| {
        let these: Vec<&Call> = calls.iter().copied().filter(|call| call.name == name).collect();
        let took = || these.iter().map(|call| call.took * MS);
        durations.entry(these[0].name).or_default().extend(took());
        let below: Vec<&Call> = these.iter().flat_map(|call| &call.below).collect();
        let own: u64 = these.iter().map(|call| (call.took - covered(&call.below)) * MS).sum();
        let mut it = node(name, these.len() as u64, 0, 0, nodes(&below, durations));
        it.instances *= 3;
        (it.awaited_ns, it.awaited_self_ns) = (Some(took().sum()), Some(own));
        it.first_ns = these.iter().map(|call| call.at * MS).min().unwrap_or(0);
        it
    };
    names.into_iter().map(node).collect()
}

/// How long at least one of these is alive.
fn covered(calls: &[Call]) -> u64 {
    let mut spans: Vec<(u64, u64)> = calls.iter().map(|call| (call.at, call.at + call.took)).collect();
    spans.sort_unstable();
    let mut until = 0;
    let mut more = |(from, to): (u64, u64)| {
        let before = until;
        until = before.max(to);
        to.saturating_sub(from.max(before))
    };
    spans.into_iter().map(&mut more).sum()
}

/// The report's lines on waits: the named phases without figures, and the separate loops.
fn blamed(summary: &Summary) -> Vec<String> {
    let text = tree(summary, &RenderOptions::default().width(200));
    let lines = text.lines().skip_while(|line| !line.starts_with(" ~~"));
    let lines = lines.take_while(|line| line.starts_with(" ~~") || line.starts_with("      "));
    let plain = |line: &str| {
        let mut line = line.trim_start_matches(" ~~ most time awaited:").trim().to_owned();
        while let Some((from, to)) = line.find(" (").and_then(|from| Some((from, from + line[from..].find(')')?))) {
            let figure = line[..from].rmatch_indices(' ').nth(1).map_or(0, |(at, _)| at);
            line.replace_range(figure..=to, "");
        }
        line
    };
    lines.map(plain).collect()
}

/// Calls of clients, each making one after another, that a server in the same process answers. It has few connections.
fn clients_and_server(clients: u64, each: u64, on_the_way: u64, waits: &[u64], query: u64) -> Vec<Call> {
    let mut all = Vec::new();
    for client in 0..clients {
        let mut at = client;
        for number in 0..each {
            let wait = waits[((client * each + number) % waits.len() as u64) as usize];
            let (arrives, took) = (at + on_the_way, wait + query);
            let below = vec![call("wait", arrives, wait, vec![]), call("query", arrives + wait, query, vec![])];
            all.push(call("call", at, took + 2 * on_the_way, vec![]));
            all.push(call("request", arrives, took, below));
            at += took + 2 * on_the_way;
        }
    }
    all
}

/// Tasks that do one thing after the other, again and again.
fn one_after_another(tasks: u64, took: &[(u64, u64)]) -> Vec<Call> {
    let mut all = Vec::new();
    for task in 0..tasks {
        let mut at = task;
        for &(user, cart) in took {
            all.push(call("load_user", at, user, vec![]));
            all.push(call("load_cart", at + user, cart, vec![]));
            at += user + cart;
        }
    }
    all
}

#[test]
fn a_call_of_the_own_server_is_not_the_cause() {
    let calls = clients_and_server(20, 10, 1, &[63, 57], 3);
    let expected = ["request > wait", "call, perhaps for `request`"];
    assert_eq!(blamed(&run(900, &calls)), expected);
    // The first named phase has the mark.
    let text = tree(&run(900, &calls), &RenderOptions::default());
    let marked: Vec<&str> = text.lines().filter(|line| line.starts_with("~~")).collect();
    assert!(marked.len() == 1 && marked[0].contains("  wait"), "{text}");
    // Without room on the line, the aside gets a line of its own.
    let text = tree(&run(900, &calls), &RenderOptions::default().width(60));
    let narrow = "
 ~~ most time awaited: request > wait 12.00 s (48.4%)
                       call 13.00 s (52.4%),
                         perhaps for `request`
";
    let figures = |line: &str| line.split(['(', ')']).step_by(2).collect::<String>();
    let said: Vec<String> = text.lines().skip_while(|line| !line.starts_with(" ~~")).take(3).map(figures).collect();
    assert_eq!(said, narrow[1..].lines().map(figures).collect::<Vec<_>>());
}

/// A load test that alternates between two requests.
#[test]
fn calls_of_one_function_with_other_values_are_no_reason() {
    let run_of = |requests: [&'static str; 2], loads: [&'static str; 2]| {
        let calls = (0..100).map(|i| {
            let (which, took) = (i as usize % 2, 7 - i % 2);
            call(requests[which], i, took + 1, vec![call(loads[which], i, took, vec![])])
        });
        blamed(&run(150, &calls.collect::<Vec<_>>()))
    };
    let said = [
        run_of(["request: /a", "request: /b"], ["load: 1", "load: 2"]),
        run_of(["request: /a", "request: /b"], ["load", "load"]),
    ];
    assert!(said.iter().all(|said| said.len() > 1), "{said:?}");
    assert!(said.iter().flatten().all(|said| !said.contains("perhaps")), "{said:?}");
}

/// As many calls of the same length, although neither waits for the other.
#[test]
fn other_calls_of_the_same_number_are_no_reason() {
    let sequence = one_after_another(4, &[(60, 50); 25]);
    assert_eq!(blamed(&run(3_000, &sequence)), ["load_user", "load_cart"]);
    let both = |at| vec![call("load_user", at, 60, vec![]), call("load_cart", at, 50, vec![])];
    let joined: Vec<Call> = (0..100).map(|i| call("request", i * 60, 60, both(i * 60))).collect();
    assert_eq!(blamed(&run(6_500, &joined)), ["request > load_user", "request > load_cart"]);
    // Few calls, another number, or shorter ones are coincidence.
    let beside = |count, others, took| {
        let calls = (0..count).map(|i| call("call", i * 70, 70, vec![]));
        run(9_000, &calls.chain((0..others).map(|i| call("task", i * 70 + 5, took, vec![]))).collect::<Vec<_>>())
    };
    assert_eq!(blamed(&beside(100, 100, 60)), ["task", "call, perhaps for `task`"]);
    for (count, others, took) in [(9, 9, 60), (100, 98, 60), (100, 100, 34)] {
        assert_eq!(blamed(&beside(count, others, took)), ["call", "task"], "{count} {others} {took}");
    }
}

/// Two independent timers: the order may be wrong, but both are named.
#[test]
fn a_false_coincidence_hides_nothing() {
    let calls = |name, took| (0..50).map(move |i| call(name, i * 100, took, vec![]));
    let timers: Vec<Call> = calls("heartbeat", 90).chain(calls("sweep", 60)).chain(calls("other", 30)).collect();
    assert_eq!(blamed(&run(9_000, &timers)), ["other", "heartbeat, perhaps for `sweep`", "sweep, perhaps for `other`"]);
}

proptest! {
    #[test]
    fn the_server_is_blamed(
        (clients, each) in (1_u64..20, 10_u64..30),
        waits in prop::collection::vec(20_u64..90, 1..40),
        query in 1_u64..15,
        on_the_way in 1_u64..4,
    ) {
        let said = blamed(&run(100_000, &clients_and_server(clients, each, on_the_way, &waits, query)));
        prop_assert_eq!(&said[0], "request > wait");
        prop_assert!(said[1..].iter().any(|line| line == "call, perhaps for `request`"), "{:?}", said);
    }

    #[test]
    fn what_follows_is_not_waited_for(
        tasks in 1_u64..8,
        took in prop::collection::vec((50_u64..100, 1_u64..60), 10..40),
    ) {
        let calls = one_after_another(tasks, &took);
        let said = blamed(&run(100_000, &calls));
        prop_assert!(said.iter().all(|line| !line.contains("perhaps")), "{:?}", said);
        prop_assert_eq!(&said[0], longer(&calls));
    }

    /// If the second takes nearly as long by chance, the order may be wrong, but both are named.
    #[test]
    fn what_follows_is_named(tasks in 1_u64..8, took in prop::collection::vec((1_u64..100, 50_u64..100), 10..40)) {
        let calls = one_after_another(tasks, &took);
        let said = blamed(&run(100_000, &calls));
        prop_assert!(said.len() == 2 && said.iter().any(|line| line.starts_with(longer(&calls))), "{:?}", said);
    }
}

fn longer(calls: &[Call]) -> &'static str {
    let sum = |name| calls.iter().filter(|call| call.name == name).map(|call| call.took).sum::<u64>();
    let [user, cart] = ["load_user", "load_cart"].map(sum);
    if user >= cart { "load_user" } else { "load_cart" }
}

/// Workers that wait for messages, a timer and an actor, which live as long as the run; and the waits of requests.
#[test]
fn loops_stand_apart_and_last() {
    let mut calls: Vec<Call> = (0..100).map(|i| call("load_user", i * 190, 80, vec![])).collect();
    let loops = [("worker", 19_900), ("worker", 19_000), ("timer", 20_000), ("actor.lifecycle", 18_000)];
    calls.extend(loops.map(|(name, took)| call(name, 10, took, vec![])));
    let served = run(20_000, &calls);
    let apart =
        "~~ as long as the run: worker 19.45 s (2 calls), timer 20.00 s (1 call), actor.lifecycle 18.00 s (1 call)";
    let text = tree(&served, &RenderOptions::default().width(200));
    assert!(text.contains("\n ~~ most time awaited: load_user 8.000 s (100.0%)\n"), "{text}");
    assert!(text.contains(&format!("\n {apart}\n")), "{text}");
    // The same at 80 columns; of many loops the longest is named.
    let text = tree(&served, &RenderOptions::default().width(80));
    let narrow = "
 ~~ as long as the run: worker 19.45 s (2 calls), timer 20.00 s (1 call),
                        actor.lifecycle 18.00 s (1 call)
";
    assert!(text.contains(narrow), "{text}");
    calls.extend(["a", "b"].map(|name| call(name, 0, 17_000, vec![])));
    let text = tree(&run(20_000, &calls), &RenderOptions::default().width(200));
    assert!(text.contains("actor.lifecycle 18.00 s (1 call), and 2 more\n"), "{text}");
    // A call that ends sooner is no such loop.
    let shorter = [call("worker", 10, 15_900, vec![]), call("load_user", 0, 4_000, vec![])];
    assert_eq!(blamed(&run(20_000, &shorter)), ["worker", "load_user"]);
}

/// Queries that are awaited one after another or all at once, before something else is.
#[test]
fn queries_are_no_loops() {
    let flush = |at| call("flush", at, 14, vec![]);
    let one_by_one = (0..20).map(|i| call("query", i * 5, 5, vec![])).chain([flush(100)]).collect::<Vec<_>>();
    let at_once = (0..20).map(|_| call("query", 0, 100, vec![])).chain([flush(102)]).collect::<Vec<_>>();
    let in_one_call = [call("query", 0, 100, vec![]), flush(102)];
    for calls in [&one_by_one[..], &at_once, &in_one_call] {
        assert_eq!(blamed(&run(120, calls))[0], "query", "{calls:?}");
    }
    // So many are no loops, whatever goes on beside them.
    let many = |count| (0..count).map(|_| call("query", 0, 115, vec![])).chain([flush(102)]).collect::<Vec<_>>();
    assert_eq!([blamed(&run(120, &many(9)))[0].as_str(), &blamed(&run(120, &many(10)))[0]], ["flush", "query"]);
    // A call that renders what it has awaited, again and again.
    let mut page = run(112, &[call("page", 0, 112, vec![])]);
    page.tree[0].children.push(node("render", 20, 50 * MS, 50 * MS, vec![]));
    (page.tree[0].total_ns, page.tree[0].awaited_ns, page.tree[0].awaited_self_ns) =
        (51 * MS, Some(61 * MS), Some(61 * MS));
    assert_eq!(blamed(&page), ["page"]);
    page.tree.push(node("render", 20, 60 * MS, 60 * MS, vec![]));
    page.tree[0].children.clear();
    assert_eq!(blamed(&page), ["~~ as long as the run: page"], "others run beside it");
}

/// A worker whose jobs take most of its time, and that then waits for more.
#[test]
fn a_loop_that_drives_many_calls_waits_for_work() {
    let worker = |count| {
        let jobs = (0..count).map(|i| call("job", i * 400, 400, vec![])).collect();
        run(20_000, &[call("worker", 0, 20_000, jobs), call("load_user", 0, 2_000, vec![])])
    };
    let busy = worker(30);
    assert_eq!(blamed(&busy), ["worker > job", "load_user"]);
    let text = tree(&busy, &RenderOptions::default());
    assert!(text.contains(" ~~ as long as the run: worker 20.00 s (1 call, 8.000 s awaited)\n"), "{text}");
    let mut two = busy.clone();
    two.tree[0] = TreeNode { calls: 2, awaited_ns: Some(40_000 * MS), ..two.tree[0].clone() };
    let text = tree(&two, &RenderOptions::default());
    assert!(text.contains(" ~~ as long as the run: worker 20.00 s (2 calls, 4.000 s awaited each)\n"), "{text}");
    // A few calls may be the steps of a program, which waits for something in between.
    let steps = vec![call("copy", 0, 12_000, vec![])];
    assert_eq!(blamed(&run(20_000, &[call("main", 0, 20_000, steps)])), ["main > copy", "main"]);
    // It runs longer than it waits.
    let mut runs = worker(30);
    (runs.tree[0].self_ns, runs.tree[0].total_ns) = (8_100 * MS, 8_100 * MS);
    assert_eq!(blamed(&runs)[1], "worker");
}

/// An actor starts in one call, and lives in another of the same name.
#[test]
fn short_calls_of_its_name_make_no_loop_a_culprit() {
    let served = |others: &[u64]| {
        let mut calls = vec![call("request", 0, 9_000, vec![]), call("Actor", 10, 19_000, vec![])];
        calls.extend(others.iter().map(|took| call("Actor", 0, *took, vec![])));
        run(20_000, &calls)
    };
    let started = served(&[100]);
    assert_eq!(blamed(&started), ["request"]);
    let text = tree(&started, &RenderOptions::default());
    assert!(text.contains(" ~~ as long as the run: Actor 19.00 s (1 call)\n"), "{text}");
    assert_eq!(blamed(&served(&[19_000, 100, 100])), ["request"]);
    // Other calls that take long, or that are many, may be the cause.
    assert_eq!(blamed(&served(&[3_000])), ["Actor", "request"]);
    assert_eq!(blamed(&served(&[100, 100])), ["Actor", "request"]);
}

/// A program that is one download: it lives as long as the run, and is the cause.
#[test]
fn a_wait_that_is_the_whole_run_is_the_cause() {
    let download = |below| run(1_000, &[call("main", 0, 990, vec![call("download", 20, 950, below)])]);
    assert_eq!(blamed(&download(vec![])), ["main > download"]);
    // If something else runs or is awaited, the download may be a loop. It is named all the same.
    let mut busy = download(vec![]);
    busy.tree.push(node("render", 10, 600 * MS, 600 * MS, vec![]));
    let text = tree(&busy, &RenderOptions::default());
    assert!(text.contains(" >> most time of its own: render 600.0 ms (100.0%)\n"), "{text}");
    assert!(text.contains(" ~~ as long as the run: download 950.0 ms (1 call)\n"), "{text}");
}

/// A request awaits a job on a blocking thread, whose span is a child.
#[test]
fn a_wait_for_a_child_elsewhere_is_not_the_cause() {
    let mut calls: Vec<Call> = (0..20).map(|i| call("request", i * 50, 40, vec![])).collect();
    calls.extend((0..20).map(|i| call("connect", i * 50, 10, vec![])));
    let mut summary = run(2_000, &calls);
    summary.tree[0].children.push(node("render", 20, 700 * MS, 700 * MS, vec![]));
    let expected = ["connect", "request, perhaps for `render`"];
    assert_eq!(blamed(&Summary { tree: summary.tree.clone(), ..summary.clone() }), expected);
    // Time inside of its polls is no wait.
    (summary.tree[0].total_ns, summary.tree[0].self_ns) = (700 * MS, 0);
    assert_eq!(blamed(&summary), ["request", "connect"]);
}

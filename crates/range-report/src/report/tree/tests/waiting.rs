//! Waiting, a single long call, and quantiles.

use super::*;
use range_model::Quantile;
use range_model::summary::{LongestInstance, ThreadStats};

const MS: u64 = 1_000_000;

fn future(name: &str, calls: u64, own_ms: u64, awaited: [u64; 2], children: Vec<TreeNode>) -> TreeNode {
    let own_ns = own_ms * MS;
    let total_ns = own_ns + children.iter().map(|child| child.total_ns).sum::<u64>();
    let [awaited_ns, awaited_self_ns] = awaited.map(|ms| Some(ms * MS));
    let instances = 3 * calls;
    TreeNode { instances, awaited_ns, awaited_self_ns, ..node(name, calls, total_ns, own_ns, children) }
}

/// A handler that waits for a connection, and renders.
fn service() -> Summary {
    let wait = future("wait for a connection", 1_000, 0, [60_000, 60_000], vec![]);
    let load_user = future("load_user", 1_000, 12, [69_000, 9_000], vec![wait]);
    let render = node("render", 1_000, 3_000 * MS, 3_000 * MS, vec![]);
    summary(vec![future("request", 1_000, 200, [70_500, 1_500], vec![load_user, render])])
}

#[test]
fn what_waits_comes_first_at_80_columns() {
    let expected = "
 ** Phase Tree (tree):

      Total      Self   Awaited  Of par   Calls  Phase
   --------  --------  --------  ------  ------  -------------------------
 > 3.212 s   200.0 ms  70.50 s   100.0%  1,000+  request
   12.00 ms  12.00 ms  69.00 s     0.4%  1,000+    load_user
~~     0 ns      0 ns  60.00 s     0.0%  1,000+      wait for a connection
>> 3.000 s   3.000 s       -      93.4%  1,000     render
 Columns left out: Instances, Avg/Call.

 ~~ most time awaited: … > load_user > wait for a connection 60.00 s (85.1%)
                       request > load_user 9.000 s (12.8%)
 >> most time of its own: render 3.000 s (93.4%), request 200.0 ms (6.2%)
 +  one instance per poll: Awaited is the time between polls

";
    assert_eq!(tree(&service(), &RenderOptions::default().width(80)), expected);
}

#[test]
fn what_waits_comes_first_at_200_columns() {
    let expected = "
 ** Phase Tree (tree):

      Total      Self   Awaited  Of parent   Calls  Avg/Call  Instances  Phase                      Self, of all
   --------  --------  --------  ---------  ------  --------  ---------  -------------------------  -------------------------------------
 > 3.212 s   200.0 ms  70.50 s      100.0%  1,000+  3.212 ms      3,000  request                      6.2% ##
   12.00 ms  12.00 ms  69.00 s        0.4%  1,000+  12.00 us      3,000    load_user                  0.4%
~~     0 ns      0 ns  60.00 s        0.0%  1,000+      0 ns      3,000      wait for a connection
>> 3.000 s   3.000 s       -         93.4%  1,000   3.000 ms      1,000    render                    93.4% ############################

 ~~ most time awaited: request > load_user > wait for a connection 60.00 s (85.1%)
                       request > load_user 9.000 s (12.8%)
 >> most time of its own: render 3.000 s (93.4%), request 200.0 ms (6.2%)
 +  one instance per poll: Awaited is the time between polls

";
    assert_eq!(tree(&service(), &RenderOptions::default().width(200)), expected);
}

#[test]
fn a_long_way_is_cut_at_its_beginning() {
    let mut below = future("wait for a connection", 1, 0, [60_000, 60_000], vec![]);
    for name in ["load_user", "handler", "route", "request", "connection", "server"] {
        below = future(name, 1, 1, [60_000, 0], vec![below]);
    }
    let text = tree(&summary(vec![below]), &RenderOptions::default().width(80));
    assert!(
        text.contains("\n ~~ most time awaited: … > load_user > wait for a connection 60.00 s (100.0%)\n"),
        "{text}"
    );
}

/// Clients, and the server that they call.
fn clients_and_server() -> Summary {
    let mut summary = service();
    summary.tree.insert(0, future("client call", 1_000, 4, [87_700, 87_700], vec![]));
    summary
}

#[test]
fn no_culprit_is_cut_off() {
    let awaited = |width| {
        let text = tree(&clients_and_server(), &RenderOptions::default().width(width));
        let lines =
            text.lines().skip_while(|line| !line.starts_with(" ~~")).take_while(|line| !line.starts_with(" >>"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let narrow = "
 ~~ most time awaited: client call 87.70 s (55.4%)
                       … > load_user > wait for a connection 60.00 s (37.9%)
                       request > load_user 9.000 s (5.7%)";
    assert_eq!(awaited(80), narrow[1..]);
    let wide = narrow.replace('…', "request");
    assert_eq!([awaited(100), awaited(200)], [&wide[1..]; 2]);
}

/// Neither the figures nor the end of a name are cut.
#[test]
fn a_culprit_with_a_long_name_is_cut_in_the_middle() {
    let long = "a wait whose name is by far too long for any line of 80 columns in its whole length";
    let below = future(long, 1, 0, [60_000, 60_000], vec![]);
    let text =
        tree(&summary(vec![future("request", 1, 1, [60_000, 0], vec![below])]), &RenderOptions::default().width(80));
    let line = " ~~ most time awaited: … > a wait whose name…n its whole length 60.00 s (100.0%)";
    assert!(text.contains(&format!("\n{line}\n")), "{text}");
}

/// A query that was ready soon, and a thread that was busy with rendering.
#[test]
fn busy_threads_come_before_what_is_awaited() {
    let query = future("query", 10, 0, [1_240, 1_240], vec![]);
    let render = node("render", 10, 199 * MS, 199 * MS, vec![]);
    let mut summary = summary(vec![future("request", 10, 1, [1_245, 5], vec![query, render])]);
    summary.elapsed_ns = 204 * MS;
    let awaited = " ~~ most time awaited: request > query 1.240 s (99.6%)\n";
    let own = " >> most time of its own: render 199.0 ms (99.5%)\n    100% is 200.0 ms in spans, on all threads, in 204.0 ms of wall time\n";
    let polls = " +  one instance per poll: Awaited is the time between polls\n\n";
    let said = |threads: &[Option<u64>]| {
        let thread = |polled_ms: &Option<u64>| {
            let mut thread = ThreadStats::new(204 * MS);
            thread.in_polls_ns = polled_ms.map(|ms| ms * MS);
            thread
        };
        let summary = Summary { threads: threads.iter().map(thread).collect(), ..summary.clone() };
        let text = tree(&summary, &RenderOptions::default().width(200));
        text[text.find("\n\n ").unwrap() + 2..].split_once("\n\n").unwrap().1.to_owned()
    };
    let first = |sentence: &str| {
        format!("{own}{awaited}    {sentence} of the time: some of this may be waiting for a free thread\n{polls}")
    };
    let last = format!("{awaited}{own}{polls}");
    assert_eq!(said(&[]), last, "a summary of an older version");
    assert_eq!(said(&[Some(200)]), first("the thread that polls futures was busy for 98.0%"));
    assert_eq!(said(&[Some(163)]), last);
    assert_eq!(said(&[Some(200), Some(180), None]), first("all 2 threads that poll futures were busy for 93.1%"));
    assert_eq!(said(&[Some(200), Some(1)]), first("1 of 2 threads that poll futures was busy for 98.0%"));
    assert_eq!(said(&[Some(200), Some(1), Some(1)]), last, "others were free");
    assert_eq!(said(&[None, None]), last, "threads that compute");
}

/// If more time is run than waited, the report does not mention waiting; the column stays.
#[test]
fn what_runs_longer_than_it_waits_is_no_matter_of_waiting() {
    let text = tree(&summary(vec![future("work", 1, 900, [100, 100], vec![])]), &RenderOptions::default().width(80));
    assert!(text.contains("  Awaited  ") && text.contains("100.0 ms") && !text.contains("~~"), "{text}");
    assert!(!tree(&phases(), &RenderOptions::default()).contains("Awaited"));
}

/// Twenty calls of a kernel that is compiled at first.
fn warm_up() -> Summary {
    let first = |ns: u64| Some(LongestInstance { ns, is_first: true, number: Some(1), of: 20, start_ns: 0 });
    let linear = |name: &str, longest_us: u64, own_us: u64| TreeNode {
        max_ns: longest_us * 1_000,
        longest: first(longest_us * 1_000),
        ..node(name, 20, own_us * 1_000, own_us * 1_000, vec![])
    };
    let layers = vec![linear("linear a", 450_700, 454_500), linear("linear b", 400, 8_000), linear("relu", 90, 900)];
    let total_ns = layers.iter().map(|layer| layer.total_ns).sum::<u64>() + 200_000;
    let forward =
        TreeNode { max_ns: 452_000_000, longest: first(452_000_000), ..node("forward", 20, total_ns, 200_000, layers) };
    summary(vec![forward])
}

#[test]
fn one_call_that_took_more_than_half_is_told_apart() {
    let mut summary = warm_up();
    summary.elapsed_ns = 500 * MS;
    let expected = "
 ** Phase Tree (tree):

      Total      Self  Of parent  Calls  Avg/Call  Instances  Phase       Self, of all
   --------  --------  ---------  -----  --------  ---------  ----------  --------------------------
 > 463.6 ms  200.0 us     100.0%    20!  610.5 us         20  forward       0.0%
   454.5 ms  454.5 ms      98.0%    20!  200.0 us         20    linear a   98.0% ###################
>> 8.000 ms  8.000 ms       1.7%    20   400.0 us         20    linear b    1.7%
   900.0 us  900.0 us       0.2%    20   45.00 us         20    relu        0.2%

 >> most time of its own: linear b 8.000 ms (62.0%), linear a 3.800 ms (29.5%), relu 900.0 us (7.0%)
 !  `linear a`: first call 450.7 ms, the others 200.0 us each
    Avg/Call and the order above are of later calls; reset() after a warm-up leaves such calls out
    100% is 12.90 ms in spans without 450.7 ms of first calls, on all threads, in 500.0 ms of wall
    time

";
    assert_eq!(tree(&summary, &RenderOptions::default().width(100)), expected);
    // What a parent's longest call did besides its children is not known.
    summary.tree[0].children.truncate(1);
    summary.tree[0].children[0].max_ns = 0;
    let text = tree(&summary, &RenderOptions::default());
    assert!(text.contains("\n !  `forward`: first call 452.0 ms, the others 610.5 us each\n"), "{text}");
}

#[test]
fn few_calls_polls_equal_ones_and_recursion_are_not() {
    let said = |change: &dyn Fn(&mut TreeNode)| {
        let mut summary = warm_up();
        change(&mut summary.tree[0].children[0]);
        summary.tree[0].max_ns = 0;
        tree(&summary, &RenderOptions::default()).contains("first call 4")
    };
    assert!(said(&|_| ()));
    assert!(!said(&|node| (node.calls, node.instances) = (9, 9)));
    assert!(!said(&|node| node.instances = 21), "an instance is a poll");
    assert!(!said(&|node| node.max_ns = node.total_ns / 2));
    assert!(!said(&|node| node.max_ns = 0), "a summary of an older version");
    assert!(!said(&|node| node.children.push(self::node("linear a", 20, MS, MS, vec![]))), "it calls itself");
    assert!(!said(&|node| node.name = "forward".to_owned()), "and is called by itself");
    // A call of 4 ms in a run of half a second was probably interrupted.
    let short = |node: &mut TreeNode| (node.total_ns, node.self_ns, node.max_ns) = (6 * MS, 6 * MS, 4 * MS);
    assert!(said(&short));
    let mut long = warm_up();
    short(&mut long.tree[0].children[0]);
    long.tree.push(node("other", 1, 500 * MS, 500 * MS, vec![]));
    long.tree[0].max_ns = 0;
    assert!(!tree(&long, &RenderOptions::default()).contains("first call 4"));
}

/// A hundred tiles, one of which takes most of the run.
#[test]
fn a_long_call_in_the_middle_is_the_answer() {
    let longest = LongestInstance { ns: 400 * MS, start_ns: 50_310_000, is_first: false, number: Some(51), of: 100 };
    let said = |longest: Option<LongestInstance>| {
        let tile = TreeNode { max_ns: 400 * MS, longest, ..node("tile", 100, 499 * MS, 499 * MS, vec![]) };
        let text = tree(&summary(vec![tile, node("save", 1, 150 * MS, 150 * MS, vec![])]), &RenderOptions::default());
        text[text.find(" >> ").unwrap()..].to_owned()
    };
    let expected = " >> most time of its own: tile 499.0 ms (76.9%), save 150.0 ms (23.1%)
 !  `tile`: call 51 of 100, at 50.31 ms, 400.0 ms, the others 1.000 ms each

";
    assert_eq!(said(Some(longest)), expected);
    let with = |words: &str| expected.replace("call 51 of 100, at 50.31 ms,", words);
    assert_eq!(said(None), with("one call"), "a summary of an older version");
    let other = |change: &dyn Fn(&mut LongestInstance)| {
        let mut longest = longest;
        change(&mut longest);
        said(Some(longest))
    };
    assert_eq!(other(&|it| it.of = 60), with("call 51 of 60 on its thread, at 50.31 ms,"));
    assert_eq!(other(&|it| it.number = None), with("a call at 50.31 ms,"));
    // The first call of a thread is a warm-up if the thread makes many, or if it is the first of all.
    let first = |of: u64, start_ns: u64| {
        let text = other(&|it| (it.is_first, it.number, it.of, it.start_ns) = (true, Some(1), of, start_ns));
        text.contains("`tile`: first call 400.0 ms") && text.contains("own: save 150.0 ms (60.2%), tile 99.00 ms")
    };
    assert_eq!(
        [first(100, 50), first(10, 50), first(9, 50), first(1, 50), first(1, 0)],
        [true, true, false, false, true]
    );
}

#[test]
fn quantiles_have_columns_where_they_were_asked_for() {
    let mut summary = warm_up();
    for layer in &mut summary.tree[0].children {
        layer.quantiles = vec![Quantile::new(0.5, 200_400.0, true), Quantile::new(0.99, 450_700_000.0, false)];
    }
    let text = tree(&summary, &RenderOptions::default().width(120));
    let expected = [
        "      Total      Self  Of parent  Calls  Avg/Call  Instances       p50        p99  Phase       Self, of all",
        "   --------  --------  ---------  -----  --------  ---------  --------  ---------  ----------  -------------------------",
        " > 463.6 ms  200.0 us     100.0%    20!  610.5 us         20      -          -     forward       0.0%",
        "   454.5 ms  454.5 ms      98.0%    20!  200.0 us         20  200.4 us  ~450.7 ms    linear a   98.0% ##################",
    ];
    let head: Vec<&str> = text.lines().skip(3).take(4).collect();
    assert_eq!(head, expected);
    // The last quantile stays if there is little room.
    let text = tree(&summary, &RenderOptions::default().width(66));
    assert!(text.contains("        p99  Phase\n") && !text.contains("Inst."), "{text}");
    assert!(text.contains("\n Columns left out: Instances, Avg/Call, p50.\n"), "{text}");
}

/// A span that mostly waits for its children on other threads is not the slow one.
#[test]
fn a_wait_for_children_elsewhere_has_no_rank() {
    let chunk = node("chunk", 64, 2_400 * MS, 2_400 * MS, vec![]);
    let run = TreeNode { blocked_ns: 2_900 * MS, ..node("run", 1, 3_000 * MS, 3_000 * MS, vec![chunk]) };
    let mut all = summary(vec![run, node("load", 1, 600 * MS, 600 * MS, vec![])]);
    all.elapsed_ns = 4_000 * MS;
    let expected = "
 ** Phase Tree (tree):

      Total       Self  Of par  Calls  Avg/Call  Inst.  Phase    Self, of all
   --------  ---------  ------  -----  --------  -----  -------  ---------------
 > 3.000 s   3.000 s ^   50.0%      1  3.000 s       1  run       50.0% ####
>> 2.400 s   2.400 s     80.0%     64  37.50 ms     64    chunk   40.0% ###
   600.0 ms  600.0 ms    10.0%      1  600.0 ms      1  load      10.0% #

 >> most time of its own: chunk 2.400 s (77.4%), load 600.0 ms (19.4%)
    100% is 3.100 s in spans without 2.900 s of waiting for children, on all
    threads, in 4.000 s of wall time
 ^  most of this Self is a wait for children that ran on other threads or were
    awaited: the order above leaves it out

";
    assert_eq!(tree(&all, &RenderOptions::default().width(80)), expected);
    // A wait of less than half of the own time is not marked, and the span ranks as usual.
    all.tree[0].blocked_ns = 1_400 * MS;
    let text = tree(&all, &RenderOptions::default().width(80));
    assert!(text.contains("its own: run 3.000 s (50.0%)") && !text.contains('^'), "{text}");
}

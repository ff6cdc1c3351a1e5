//! Bad input has a defined outcome: no panic, no lost statistics, no changed exit code.

#[path = "faults/crowds.rs"]
mod crowds;
#[path = "faults/memory.rs"]
mod memory;
mod scenario;
#[path = "faults/writes.rs"]
mod writes;

use scenario::{
    BOTH, Ran, TemporaryFile, assert_whole, command, instances, outcome, outcome_recorded, recorded, rows, tree, untold,
};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use tests::recorder::library;
use tests::with;
use tracing_gpu::summary::Losses;
use tracing_gpu::{Report, Summary, SummaryExt as _};

const INJECTION_PATH: &str = "NVTX_INJECTION64_PATH";

/// The figures that are the same in every run.
fn counts(summary: &Summary) -> (BTreeMap<String, u64>, Vec<String>, Losses, Vec<String>) {
    (instances(summary), tree(summary), summary.losses.clone(), summary.notes_as_text())
}

fn steady() -> BTreeMap<String, u64> {
    rows([("inner", 20), ("named", 1), ("outer", 10), ("request", 10), ("request (start/end)", 10), ("step", 10)])
}

#[test]
fn a_tool_that_cannot_be_loaded_changes_nothing() {
    let text = TemporaryFile::new("text.so");
    std::fs::write(&text.0, "not a library\n").expect("a file can be written");
    for tier in BOTH {
        let expected = counts(&untold("steady", tier).summary());
        assert_eq!(expected.0, steady());
        // Without a file to record to, the recorder's entry point fails and states the reason.
        for tool in [Path::new("/no/such/tool.so"), &text.0, Path::new("libm.so.6"), Path::new(""), &library()] {
            let ran = outcome(command("steady", tier).env(INJECTION_PATH, tool));
            assert_eq!(ran.status.code(), Some(0), "{tier} {}", tool.display());
            assert!(ran.stderr.is_empty() || tool == library(), "{tier} {}: {}", tool.display(), ran.stderr);
            assert_eq!(counts(&ran.summary()), expected, "{tier} {}", tool.display());
            assert_whole(&ran.summary());
        }
        let told = recorded("steady", tier);
        assert_eq!(counts(&told.summary()), expected, "{tier} with a tool");
        assert_eq!((told.count("push"), told.count("pop")), (51, 51), "{tier}");
    }
}

/// Runs to the end with these variables; the program must continue.
fn went_on(tier: &str, variables: &[(&str, &str)]) -> Ran {
    let ran = outcome(command("defaults", tier).envs(variables.iter().copied()));
    assert!(ran.status.success() && ran.stdout.starts_with("went on\n"), "{}\n{}", ran.status, ran.stderr);
    ran
}

#[test]
fn each_bad_setting_is_one_line_and_the_rest_counts() {
    for tier in BOTH {
        let settings = "report=rangs,style=old,nvtx=1,wat,domain=,gpu=on,out,signals=maybe,out=,,style=legacy,report=ranges,style=current";
        let ran = went_on(tier, &[("TRACING_GPU", settings)]);
        // Behind that, all keys.
        let begun = |line: &'_ str| line.split_inclusive("allowed are off, ").next().map(str::to_owned);
        let complaints: Vec<String> =
            ran.stderr.lines().take_while(|line| !line.is_empty()).filter_map(begun).collect();
        let reports = "rangs".parse::<Report>().expect_err("it is none");
        let expected = [
            format!(
                "tracing-gpu: TRACING_GPU: `report` cannot be `rangs`: expected {}, joined by +",
                reports.expected()
            ),
            "tracing-gpu: TRACING_GPU: `style` cannot be `old`: expected current or legacy".to_owned(),
            "tracing-gpu: TRACING_GPU: `nvtx` cannot be `1`: expected on or off".to_owned(),
            "tracing-gpu: TRACING_GPU: `wat` is not known: allowed are off, ".to_owned(),
            "tracing-gpu: TRACING_GPU: `domain` cannot be ``: expected default, target or a name".to_owned(),
            "tracing-gpu: TRACING_GPU: `gpu` cannot be `on`: expected auto, events, cupti or off".to_owned(),
            "tracing-gpu: TRACING_GPU: `out` needs a value: write out=...".to_owned(),
            "tracing-gpu: TRACING_GPU: `signals` cannot be `maybe`: expected on or off".to_owned(),
            "tracing-gpu: TRACING_GPU: `out` cannot be ``: expected stderr, stdout, none or a path".to_owned(),
            "tracing-gpu: TRACING_GPU: `style` is given twice: `legacy` is used, `current` is ignored".to_owned(),
        ];
        assert_eq!(complaints, expected, "{tier}");
        assert!(ran.stderr.contains("Range Statistics:"), "the legacy style: {}", ran.stderr);
        assert!(!ran.stderr.contains("Phase Tree"), "{}", ran.stderr);
    }
}

#[test]
fn the_environment_wins_over_the_program() {
    for tier in BOTH {
        let ran = went_on(tier, &[("TRACING_GPU", "off")]);
        assert_eq!(ran.stderr, "", "{tier}");
        let off = outcome_recorded(command("defaults", tier).env("TRACING_GPU", "off"));
        assert!(off.calls.iter().all(|call| !call.is_event()), "{:?}", off.calls);

        let ran = went_on(tier, &[("TRACING_GPU", "out=stdout,report=categories")]);
        assert_eq!(ran.stderr, "");
        assert!(ran.stdout.contains("net") && !ran.stdout.contains("Phase Tree"), "{}", ran.stdout);

        let ran = went_on(tier, &[("TRACING_GPU", "out=none")]);
        assert_eq!((ran.stderr.as_str(), ran.stdout.as_str()), ("", "went on\n"));

        let file = TemporaryFile::new("a,b.txt");
        let path = file.0.display().to_string().replace(',', "\\,");
        let ran = went_on(tier, &[("TRACING_GPU", &format!("out={path},report=ranges"))]);
        assert_eq!(ran.stderr, "");
        assert!(file.text().contains("Range Summary"), "{}", file.text());

        let ran = outcome_recorded(command("defaults", tier).env("TRACING_GPU", "nvtx=off,out=none"));
        assert!(ran.calls.iter().all(|call| !call.is_event()), "{:?}", ran.calls);
        let ran = outcome_recorded(command("defaults", tier).env("TRACING_GPU", "domain=app,out=none"));
        assert!(ran.calls.iter().filter(|call| call.kind == "push").all(|call| call.domain.as_deref() == Some("app")));
        assert_eq!(ran.count("push"), 51);

        let ran = went_on(tier, &[("TRACING_GPU_FILTER", "spans=loud")]);
        let lines: Vec<&str> = ran.stderr.lines().take_while(|line| !line.is_empty()).collect();
        assert_eq!(lines.len(), 1, "{}", ran.stderr);
        assert!(lines[0].starts_with("tracing-gpu: TRACING_GPU_FILTER=`spans=loud` is not a filter"), "{}", lines[0]);
        assert!(ran.stderr.contains("request"), "{}", ran.stderr);
        let ran = went_on(tier, &[("TRACING_GPU_FILTER", "warn")]);
        assert!(ran.stderr.contains("No range was recorded: "), "{}", ran.stderr);
    }
}

#[test]
fn a_setting_that_is_not_utf8_is_one_line() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    for tier in BOTH {
        let ran = outcome(command("defaults", tier).env("TRACING_GPU", OsStr::from_bytes(b"style=\xff,report=ranges")));
        assert_eq!((ran.status.code(), ran.stdout.as_str()), (Some(0), "went on\n"), "{}", ran.stderr);
        let lines: Vec<&str> = ran.stderr.lines().take_while(|line| !line.is_empty()).collect();
        let said = "tracing-gpu: TRACING_GPU: `style` cannot be `\u{fffd}`: expected current or legacy";
        assert_eq!(lines, [said], "{tier}");
    }
}

#[test]
fn ten_thousand_names_are_ten_thousand_rows() {
    for tier in BOTH {
        let summary = untold("many-names", tier).summary();
        assert_eq!(summary.ranges.len(), 10_000, "{tier}");
        assert!(summary.ranges.iter().all(|row| row.times.instances == 2 && row.times.median_exact));
        assert_eq!(summary.tree.len(), 10_000);
        assert_eq!(summary.losses, Losses::default());
        assert_whole(&summary);
    }
}

#[test]
fn names_beyond_the_bound_are_counted_under_the_spans_own() {
    for tier in BOTH {
        let summary = untold("too-many-names", tier).summary();
        assert_eq!(summary.ranges.len(), 65_536 + 1, "{tier}");
        let own = summary.ranges.iter().find(|row| row.name == "span").expect("the span's own name");
        assert_eq!(
            (own.times.instances, summary.losses.names_over_limit),
            (70_000 - 65_536, 70_000 - 65_536),
            "{tier}"
        );
        // 10 names that were already kept were used again.
        assert_eq!(summary.ranges.iter().filter(|row| row.times.instances == 2).count(), 10);
        assert_eq!(summary.ranges.iter().map(|row| row.times.instances).sum::<u64>(), 70_010);
        assert_whole(&summary);
    }
}

#[test]
fn names_of_a_megabyte_are_cut() {
    for tier in BOTH {
        let summary = untold("long-names", tier).summary();
        // Names that differ only at their end share a row.
        assert_eq!(summary.ranges.len(), 201, "{tier}");
        assert!(summary.ranges.iter().all(|row| row.name.len() == 32_768 && row.name.ends_with('…')));
        assert_eq!(summary.ranges.iter().map(|row| row.times.instances).sum::<u64>(), 400);
        assert_eq!(summary.losses, Losses::default());
    }
}

#[test]
fn nodes_beyond_the_bound_are_in_more() {
    for tier in BOTH {
        let summary = untold("too-many-nodes", tier).summary();
        assert_eq!(summary.ranges.iter().map(|row| row.times.instances).sum::<u64>(), 300 * 301, "{tier}");
        // 65,536 nodes; every span beyond is in a `(more)` row, and counted.
        let nodes = tree(&summary);
        let (more, own): (Vec<&String>, Vec<&String>) =
            nodes.iter().partition(|line| line.trim_start().starts_with("(more) "));
        let calls = |line: &String| -> u64 {
            line.rsplit_once(' ')
                .and_then(|(_, counts)| counts.split_once('/')?.0.parse().ok())
                .expect("calls/instances")
        };
        let sum = |lines: Vec<&String>| lines.into_iter().map(calls).sum::<u64>();
        assert!(own.len() > 65_000 && own.len() < 65_536, "{tier}: {}", own.len());
        assert_eq!(sum(own) + sum(more), 300 * 301, "{tier}");
        assert!(summary.losses.nodes_over_limit > 0, "{tier}");
        // Rows are by name, independent of their nodes.
        let named = |name: &str| summary.ranges.iter().find(|row| row.name == name).map(|row| row.times.instances);
        assert_eq!(named("0"), Some(301), "{tier}: once as an outer span, 300 times as an inner one");
        assert_eq!(named("299"), Some(301), "{tier}");
        assert_whole(&summary);
    }
}

#[test]
fn each_span_in_more_is_counted_in_the_footer() {
    for tier in BOTH {
        let summary = untold("too-many-nodes", tier).summary();
        let calls = |line: &String| -> u64 {
            line.rsplit_once(' ')
                .and_then(|(_, counts)| counts.split_once('/')?.0.parse().ok())
                .expect("calls/instances")
        };
        let more =
            tree(&summary).iter().filter(|line| line.trim_start().starts_with("(more) ")).map(calls).sum::<u64>();
        assert_eq!(summary.losses.nodes_over_limit, more, "{tier}");
    }
}

#[test]
fn a_domain_that_does_not_fit_is_the_default_one() {
    for tier in BOTH {
        let ran = recorded("too-many-domains", tier);
        assert_eq!(ran.told_on_main(), ["push domain 7:fits", "pop domain 7:", "push left over", "mark event", "pop"]);
        assert_eq!(instances(&ran.summary()), rows([("domain 7:fits", 1), ("left over", 1)]), "{tier}");
    }
}

#[test]
fn a_crowd_of_names_stays_within_the_budget() {
    for tier in BOTH {
        let summary = untold("crowded-budget", tier).summary();
        assert_eq!(summary.ranges.len(), 128, "{tier}");
        for row in &summary.ranges {
            let times = &row.times;
            assert_eq!(times.instances, 64 * 100, "{tier} {}", row.name);
            assert!(times.min_ns > 0 && times.min_ns <= times.max_ns && times.total_ns >= times.max_ns, "{row:?}");
        }
        let without = summary.ranges.iter().filter(|row| row.times.median_ns.is_none()).count() as u64;
        // 1 MiB is enough for the durations of 512 of 8,192 rows.
        assert!(without > 0, "{tier}");
        assert_eq!(summary.losses, with(Losses::default(), |it| it.rows_without_median = without), "{tier}");
        assert_whole(&summary);
    }
}

#[test]
fn a_spent_budget_saves_memory() {
    for tier in BOTH {
        let kib = |scenario: &str| -> u64 { untold(scenario, tier).stderr.trim().parse().expect("a number of KiB") };
        let (spent, roomy) = (kib("crowded-budget"), kib("crowded-roomy-budget"));
        // At least 87 durations of each of 8,192 rows are kept or not: 16 MiB, in chunks of 16, 48 and 192 durations.
        assert!(spent + (8 << 10) < roomy, "{tier}: {spent} KiB without room for the durations, {roomy} KiB with it");
    }
}

#[test]
fn a_spent_budget_takes_medians_and_nothing_else() {
    for tier in BOTH {
        let ran = untold("spent-budget", tier);
        let summary = ran.summary();
        let row = |name: &str| &summary.ranges.iter().find(|row| row.name == name).expect("a row").times;
        assert_eq!((row("first").instances, row("last").instances), (100_000, 40), "{tier}");
        let last = row("last");
        // The bodies take 2, 30, 10 and 37 times 2 ms.
        assert!(last.min_ns >= 2_000_000 && last.max_ns >= 30_000_000 && last.total_ns >= 116_000_000, "{last:?}");
        assert!(last.total_ns >= last.max_ns + last.min_ns && last.stddev_ns > 0.0, "{last:?}");
        assert_eq!(last.median_ns, None, "{tier}");
        assert_eq!(summary.ranges.len(), 1_002);
        let without = summary.losses.rows_without_median;
        assert_eq!(without, summary.ranges.iter().filter(|row| row.times.median_ns.is_none()).count() as u64);
        let printed = ran.stderr.lines().find(|line| line.split_whitespace().last() == Some("last")).expect("a row");
        assert_eq!(printed.split_whitespace().nth(4), Some("-"), "{printed}");
        let thousands = format!("{},{:03}", without / 1_000, without % 1_000);
        let count = if without < 1_000 { without.to_string() } else { thousands };
        let said = format!("{count} rows have no median (-): the memory for durations was used up.");
        assert!(scenario::notes(&ran.stderr).contains(&said), "{said}\n{}", scenario::notes(&ran.stderr));
        assert_whole(&summary);
    }
}

#[test]
fn settings_that_cannot_be_used_are_errors_of_build() {
    for tier in BOTH {
        assert_eq!(untold("empty-domain", tier).stdout, "Err(EmptyDomain)\n");
        let said = untold("tiny-budget", tier).stdout;
        assert!(said.starts_with("Err(SampleBudget { bytes: 1000, least: "), "{said}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_that_names_the_file() {
    let said = "cannot write the report to `/no/such/folder/report.txt`: No such file or directory (os error 2)";
    for tier in BOTH {
        // The exit code is the program's own, and the report goes to a readable place.
        let ran = outcome(&mut command("unwritable-finish", tier));
        assert_eq!((ran.status.code(), ran.stdout), (Some(0), format!("{said}\n")), "{tier}");
        assert!(ran.stderr.contains("Range Summary ("), "{tier}: {}", ran.stderr);
        for scenario in ["unwritable-drop", "unwritable-exit"] {
            let ran = outcome(&mut command(scenario, tier));
            assert_eq!(ran.status.code(), Some(7), "{scenario} {tier}");
            let line = format!("tracing-gpu: {said}; the profiler tries again at the end\n");
            assert!(ran.stderr.starts_with(&line), "{scenario} {tier}: {}", ran.stderr);
            assert_eq!(ran.stderr.matches("tracing-gpu:").count(), 1, "{scenario} {tier}: {}", ran.stderr);
            assert!(ran.stderr.contains("Range Summary ("), "{scenario} {tier}: {}", ran.stderr);
        }
        let full = outcome(command("defaults", tier).env("TRACING_GPU", "out=/dev/full"));
        assert_eq!(full.status.code(), Some(0));
        let said = "tracing-gpu: cannot write the report to `/dev/full`: No space left on device (os error 28)\n";
        assert!(full.stderr.ends_with(said), "{tier}: {}", full.stderr);
        assert!(full.stderr.contains("Range Summary ("), "{tier}: {}", full.stderr);
    }
}

/// Runs a shell that starts the scenario with an odd standard error.
fn through_shell(script: &str, scenario: &str, tier: &str) -> std::process::Output {
    let inner = command(scenario, tier);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).arg("sh").arg(inner.get_program()).args(inner.get_args()).arg0("sh");
    for variable in ["TRACING_GPU", "TRACING_GPU_FILTER", INJECTION_PATH] {
        shell.env_remove(variable);
    }
    shell.stdin(Stdio::null()).output().expect("sh can be started")
}

#[test]
fn standard_error_may_be_closed_or_full() {
    for tier in BOTH {
        for script in [r#""$@" 2>&-"#, r#""$@" 2>/dev/full"#, r#"{ "$@"; echo $? >&3; } 2>&1 >/dev/null 3>&1 | true"#] {
            for (scenario, code) in [("defaults", 0), ("leaked-process-exit", 7), ("unwritable-drop", 7)] {
                if script.ends_with("true") && scenario != "defaults" {
                    continue; // the pipe's own status
                }
                let output = through_shell(script, scenario, tier);
                assert_eq!(output.status.code(), Some(code), "{tier} {scenario} {script}");
                assert!(!output.stdout.starts_with(b"thread"), "{tier} {scenario} {script}");
            }
        }
    }
}

/// A pipe whose reader has closed it.
fn closed_pipe() -> Stdio {
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().expect("`true` can be started");
    let end = reader.stdin.take().expect("its input is piped");
    reader.wait().expect("it ends");
    end.into()
}

/// The reader may be `| head`. Other failures are one line, and an error of `finish`.
#[test]
fn a_report_that_nobody_reads_is_no_error() {
    for tier in BOTH {
        let run = |scenario: &str, out: &str, stdout: Stdio, stderr: Stdio| {
            let mut command = command(scenario, tier);
            let output = command.env("TRACING_GPU", format!("out={out}")).stdout(stdout).stderr(stderr).spawn();
            let output = output.and_then(std::process::Child::wait_with_output).expect("a scenario can be started");
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").expect("a device"));
        let said = "cannot write the report to standard output: No space left on device (os error 28)";
        for scenario in ["guard", "finish"] {
            let unread = run(scenario, "stdout", closed_pipe(), Stdio::piped());
            assert_eq!(unread, (Some(0), String::new()), "{tier} {scenario}");
            assert_eq!(run(scenario, "stderr", Stdio::null(), closed_pipe()).0, Some(0), "{tier} {scenario}");
            let (status, text) = run(scenario, "stdout", full(), Stdio::piped());
            assert_eq!((status, text.contains(said)), (Some(i32::from(scenario == "finish")), true), "{tier}: {text}");
            assert_eq!(text.lines().count(), 1, "{tier} {scenario}: {text}");
        }
    }
}

#[test]
fn names_and_messages_may_be_anything() {
    for tier in BOTH {
        let (told, untold) = (recorded("odd-names", tier), untold("odd-names", tier));
        assert_eq!(counts(&told.summary()), counts(&untold.summary()), "{tier}");
        assert_eq!(told.summary().losses, Losses::default());
    }
}

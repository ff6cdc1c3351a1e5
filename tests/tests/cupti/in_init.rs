//! The command `tracing-gpu` on programs that do not know it: the driver loads it inside `cuInit`. See `injected.rs`.

use std::process::Command;
use std::time::Duration;

use tests::in_time;
use tests::launcher::{Folder, binary};
use tracing_gpu::summary::{ActivityLosses, IdleCause};
use tracing_gpu::{RenderOptions, Report, Summary, SummaryExt as _};

use super::made_up::{empty_library, folder, set};
use super::unset;

/// The command's summaries of the processes of a program.
fn all_measured(scenario: &str, environment: &[(&str, &str)]) -> Vec<Summary> {
    all_measured_with(&[], scenario, environment).0
}

/// The same with these options; also returns the command's messages.
fn all_measured_with(options: &[&str], scenario: &str, environment: &[(&str, &str)]) -> (Vec<Summary>, String) {
    let folder = Folder::new();
    let mut command = Command::new(binary());
    unset(&mut command);
    set(&mut command);
    command.env_remove("TRACING_GPU").env_remove("NVTX_INJECTION64_PATH").envs(environment.iter().copied());
    if !options.contains(&"-o") {
        command.args(["-o", "none"]);
    }
    command.args(options).arg("--json").arg(folder.0.join("%p.json"));
    command.args([env!("CARGO_BIN_EXE_cupti_child"), "injected", scenario]);
    let said = command.output().expect("the command");
    let stderr = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success(), "{:?}\n{stderr}", said.status);
    let files = folder.names().into_iter().map(|name| std::fs::File::open(folder.0.join(name)).expect("a file"));
    (files.map(|file| Summary::read_json(file).expect("a summary")).collect(), stderr)
}

/// The summary of a program with one process.
fn measured(scenario: &str, environment: &[(&str, &str)]) -> Summary {
    let mut all = all_measured(scenario, environment);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// The number of ranges `annotated`, and of kernel executions.
fn counts(summary: &Summary) -> (u64, u64) {
    let ranges = summary.ranges.iter().filter(|row| row.name == "annotated").map(|row| row.times.instances);
    let kernels = summary.gpu.iter().flat_map(|gpu| &gpu.kernels).map(|row| row.times.instances);
    (ranges.sum(), kernels.sum())
}

/// Ranges, calls and operations reach the folds of reports under the command.
#[test]
fn idle_time_and_launches_are_followed() {
    let (all, _) = all_measured_with(&["-r", "idle+kernel_exec"], "outside", &[]);
    let [summary] = &all[..] else { panic!("{} processes", all.len()) };
    let idle = summary.idle.as_ref().unwrap_or_else(|| panic!("nothing was followed: {:?}", summary.notes));
    assert_eq!((idle.devices.len(), idle.late), (1, 0));
    let device = &idle.devices[0];
    assert!(device.busy_ns > 0);
    assert_eq!(device.wall_ns, device.busy_ns + device.causes.total_ns());
    let executed: u64 = summary.kernel_exec.iter().map(|row| row.execution.kernel.instances).sum();
    let ran: u64 = summary.gpu.iter().flat_map(|gpu| &gpu.kernels).map(|row| row.times.instances).sum();
    assert_eq!(executed, ran);
}

/// A page shows idle time whatever the reports are, with each idle time on its timeline.
#[test]
fn a_page_shows_idle_time_that_no_report_asked_for() {
    let folder = Folder::new();
    let page = folder.0.join("run.html");
    let (all, _) = all_measured_with(&["-r", "kernels", "--html", &page.to_string_lossy()], "outside", &[]);
    let causes = all[0].idle.as_ref().expect("a page asks for it").devices[0].causes;
    let page = std::fs::read_to_string(page).expect("a page");
    let (_, data) = page.split_once(r#"id="data">"#).expect("data");
    let data: serde_json::Value = serde_json::from_str(data.split_once("</script>").expect("its end").0).expect("JSON");
    assert!(causes.total_ns() > 0);
    assert_eq!(data["idle"]["devices"][0]["drawn_ns"], causes.total_ns());
    assert_eq!(data["idle"]["devices"][0]["causes"], serde_json::json!(IdleCause::ALL.map(|cause| causes.of(cause))));
    let lowest = data["groups"].as_array().expect("groups").last().expect("lanes");
    assert_eq!(lowest["label"], "GPU 0 idle");
}

/// By default, in text and in JSON, by what CUPTI records of the calls.
#[test]
fn calls_that_failed_are_found() {
    let (all, text) = all_measured_with(&["-o", "stderr"], "fails", &[]);
    let [summary] = &all[..] else { panic!("{} processes", all.len()) };
    let found = "cuLaunchKernel failed 3 times in `step`, with error 700 (illegal address)";
    assert!(text.lines().any(|line| line.trim_start_matches([' ', '-']).starts_with(found)), "{text}");
    assert_eq!(summary.findings()[0].sentence, found);
    let (_, text) = all_measured_with(&["-o", "stderr", "--without", "failed_calls"], "fails", &[]);
    assert!(text.contains("GPU busy") && !text.contains("failed"), "{text}");
    assert_eq!(
        all_measured("outside", &[])[0].idle.as_ref().map(|idle| idle.calls.iter().any(|row| row.code > 0)),
        Some(false)
    );
}

/// In nvprof's columns, in the order of time, and nothing but that.
#[test]
fn operations_are_listed_as_nvprof_lists_them() {
    let listed = |options: &[&str]| {
        let mut command = Command::new(binary());
        unset(&mut command);
        set(&mut command);
        command.env_remove("TRACING_GPU").env_remove("NVTX_INJECTION64_PATH").args(options);
        let said =
            command.args([env!("CARGO_BIN_EXE_cupti_child"), "injected", "outside"]).output().expect("it starts");
        assert!(said.status.success() && said.stdout.is_empty(), "{said:?}");
        String::from_utf8(said.stderr).expect("text")
    };
    let text = listed(&["--print-gpu-trace"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("== Profiling application: ") && lines[1].ends_with("== Profiling result:"), "{text}");
    assert!(lines[2].starts_with("   Start  Duration            Grid Size"), "{text}");
    let rows: Vec<&str> = lines[3..].iter().copied().take_while(|line| !line.is_empty()).collect();
    let ran: u64 = measured("outside", &[]).gpu.map_or(0, |gpu| gpu.total.operations);
    assert_eq!(rows.len() as u64, ran, "{text}");
    assert!(rows.iter().all(|row| row.len() > 165), "{text}");
    assert!(!text.contains("**"), "no other report: {text}");
    let csv = listed(&["--print-gpu-trace", "--csv"]);
    let starts = csv.lines().skip(4).filter_map(|line| line.split(',').next()?.parse::<f64>().ok());
    let starts: Vec<f64> = starts.collect();
    assert!(starts.len() as u64 == ran && starts.is_sorted(), "{csv}");
    let both = listed(&["--print-gpu-trace", "-r", "kernels"]);
    assert!(both.contains("Grid Size") && both.contains("cuda_gpu_kern_sum"), "{both}");
}

/// Every operation and call is in the tables, though there is no range.
#[test]
fn work_outside_of_all_ranges_is_in_the_tables() {
    let summary = measured("outside", &[]);
    let gpu = summary.gpu.as_ref().unwrap_or_else(|| panic!("nothing was recorded: {:?}", summary.notes));
    let kernels: Vec<_> = gpu.kernels.iter().map(|row| (row.name.as_str(), row.times.instances)).collect();
    assert_eq!(kernels, [("void scale<float>(float*, float, int)", 3), ("spin", 1)]);
    let memory: Vec<_> = gpu.memory.iter().map(|row| (format!("{:?}", row.kind), row.times.instances)).collect();
    assert_eq!(memory, [("HtoD".to_owned(), 2), ("DtoH".to_owned(), 1), ("Set".to_owned(), 1)]);
    let mut calls: Vec<_> = gpu.calls.iter().flatten().map(|row| (row.name.as_str(), row.times.instances)).collect();
    calls.sort_unstable();
    let expected = [
        ("cuCtxSynchronize", 1),
        ("cuLaunchKernel", 1),
        ("cuMemcpyHtoDAsync_v2", 3),
        ("cuMemsetD8_v2", 1),
        ("cudaLaunchKernel_v7000", 3),
    ];
    assert_eq!(calls, expected, "those of the driver in one of the runtime are not counted twice, ours not at all");
    assert_eq!(summary.losses.activity, ActivityLosses::default());
    let render = |report| {
        let mut text = Vec::new();
        summary.render(&[report], &RenderOptions::default(), &mut text).expect("memory");
        String::from_utf8(text).expect("text")
    };
    for (report, rows) in [
        (Report::Nvprof, &["scale<float>", "spin", "memcpy HtoD", "memcpy DtoH", "memset", "cudaLaunchKernel"][..]),
        (Report::Hot, &["scale<float>", "cudaLaunchKernel"]),
    ] {
        let text = render(report);
        rows.iter().for_each(|row| assert!(text.contains(row), "no {row} in\n{text}"));
    }
}

#[test]
fn threads_that_begin_nvtx_and_cuda_at_once_share_one_profiler() {
    for _ in 0..10 {
        let summary = measured("threads", &[]);
        assert_eq!((counts(&summary), summary.losses.activity), ((6, 1200), ActivityLosses::default()));
    }
}

/// Nothing touches CUDA before the program does.
#[test]
fn a_program_that_only_annotates_leaves_cuda_alone() {
    let summary = measured("annotates", &[("FAKE_INIT", "100")]);
    assert_eq!((counts(&summary), &summary.gpu), ((1, 0), &None));
}

/// `mpirun` does this: it asks for devices, and its children use them.
#[test]
fn a_program_that_only_initialises_cuda_ends_as_it_does_alone() {
    assert_eq!(all_measured("initialises", &[("FAKE_CRASHES", "1")]).len(), 0);
}

#[test]
fn a_forked_child_that_uses_cuda_first_has_a_profiler_of_its_own() {
    let mut both: Vec<_> = all_measured("fork", &[]).iter().map(counts).collect();
    both.sort_unstable();
    assert_eq!(both, [(0, 1), (1, 2)]);
}

/// Two processes used device 0: each has a group for it, and `nsys stats` finds it once.
#[test]
fn the_timelines_of_two_processes_with_gpu_work_become_one() {
    let folder = Folder::new();
    let [trace, database] = ["run.trace", "run.sqlite"].map(|name| folder.0.join(name));
    let (trace_to, database_to) = (trace.to_string_lossy(), database.to_string_lossy());
    let (all, said) = all_measured_with(&["--trace", &trace_to, "--sqlite", &database_to], "fork", &[]);
    assert_eq!((all.len(), &*said, folder.names()), (2, "", vec!["run.sqlite".to_owned(), "run.trace".to_owned()]));
    let events: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(trace).expect("a trace")).expect("a whole trace");
    let connection = rusqlite::Connection::open(database).expect("a database");
    let count = |query: &str| connection.query_row(query, [], |row| row.get::<_, u64>(0)).expect("a count");
    for summary in &all {
        let (pid, (_, kernels)) = (summary.process.pid, counts(summary));
        let of_device = || events.iter().filter(|event| event["pid"] == 10_000_000 + pid);
        let names = || of_device().filter(|event| event["name"] == "process_name");
        assert_eq!(names().count(), 1);
        assert!(names().all(|event| event["args"]["name"] == format!("GPU 0 Made-up GPU A of {pid} cupti_child")));
        assert_eq!(of_device().filter(|event| event["cat"] == "kernel").count() as u64, kernels);
        let in_database =
            format!("SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE globalPid >> 24 & 0xFFFFFF = {pid}");
        assert_eq!(count(&in_database), kernels);
    }
    // No two arrows have one number: each begins once and ends once.
    let of = |phase: &str| {
        let mut numbers: Vec<_> =
            events.iter().filter(|event| event["ph"] == phase).map(|event| event["id"].to_string()).collect();
        numbers.sort();
        numbers
    };
    let mut distinct = of("s");
    distinct.dedup();
    assert_eq!((of("s").len(), of("s"), of("f")), (3, distinct.clone(), distinct));
    assert_eq!((count("SELECT COUNT(*) FROM TARGET_INFO_GPU"), count("SELECT COUNT(*) FROM PROCESSES")), (1, 2));
}

/// Only the first part counts. A range that was open at its begin does not belong to it, and is no mistake.
#[test]
fn what_the_program_marks_for_profilers_is_measured_alone() {
    let captured = |options: &[&str], scenario| {
        let (mut all, said) = all_measured_with(options, scenario, &[]);
        assert_eq!((all.len(), &*said), (1, ""));
        all.remove(0)
    };
    for options in [["--capture-range", "cuda"], ["--profile-from-start", "off"]] {
        for scenario in ["parts", "part"] {
            let summary = captured(&options, scenario);
            assert_eq!((counts(&summary), summary.losses.activity), ((1, 2), ActivityLosses::default()), "{scenario}");
            assert_eq!((summary.ranges.len(), summary.losses.stray_exits), (1, 0), "{scenario}");
        }
    }
    assert_eq!(counts(&captured(&["--profile-from-start", "on"], "parts")), (5, 7));
    let (none, said) = all_measured_with(&["--capture-range", "cuda"], "outside", &[]);
    assert_eq!((none.len(), &*said), (0, "tracing-gpu: nothing was measured: no call of cudaProfilerStart was seen\n"));
    let (none, said) = all_measured_with(&["--capture-range", "cuda"], "parts", &[("FAKE_SUBSCRIBE", "39")]);
    assert!(none.is_empty() && said.contains("is not measured: cudaProfilerStart is seen by CUPTI alone."), "{said}");
}

/// The program itself says what is recorded.
#[test]
fn graphs_from_before_the_measured_part_are_recorded_by_their_nodes() {
    for scenario in ["graph before the part", "graph in the part"] {
        let (all, _) = all_measured_with(&["--capture-range", "cuda"], scenario, &[]);
        assert_eq!(all.iter().map(counts).collect::<Vec<_>>(), [(0, 1)], "{scenario}");
    }
    let (all, _) = all_measured_with(&["--capture-range", "nvtx:annotated"], "graph before the range", &[]);
    assert_eq!(all.iter().map(counts).collect::<Vec<_>>(), [(1, 1)]);
}

#[test]
fn work_that_has_not_finished_at_the_end_is_counted() {
    let bound = Duration::from_secs(20);
    let (summary, took) = in_time(bound, || measured("unfinished", &[("FAKE_NEVER_DONE", "1")]));
    assert!(took < bound, "{took:?}");
    assert_eq!((counts(&summary), summary.losses.activity.outstanding), ((0, 1), 1));
}

#[test]
fn a_context_that_is_gone_at_the_end_is_not_waited_for() {
    let summary = measured("reset", &[("FAKE_NEVER_DONE", "1")]);
    assert_eq!((counts(&summary), summary.losses.activity), ((1, 1), ActivityLosses::default()));
}

/// A note names the holder of CUPTI, and never this library itself, which was set for the driver to load.
#[test]
fn who_has_cupti_is_named() {
    let note = |libraries: &str, code: &str| {
        let summary = measured("reset", &[("LD_PRELOAD", libraries), ("FAKE_SUBSCRIBE", code)]);
        assert_eq!(summary.gpu.is_some(), code == "0");
        summary.notes_as_text()
    };
    let (nsight, torch) = (empty_library("libToolsInjection64.so"), empty_library("libtorch_cuda.so"));
    let refused = "CUPTI recorded no GPU activity: ";
    let all_the_same = ". Ranges were measured all the same.";
    for (libraries, who) in [
        ("", "another profiler of this process is using CUPTI, which serves one at a time"),
        (&*nsight, "Nsight Systems is using CUPTI, which serves one profiler at a time"),
        (&*torch, "torch.profiler is using CUPTI, which serves one profiler at a time"),
    ] {
        assert_eq!(note(libraries, "39"), [format!("{refused}{who}{all_the_same}")]);
    }
    let library = folder().join("libcupti.so.13");
    let without = "without calls that only query or set something (`api=all` records them)";
    let cupti = format!("CUPTI 13.0 ({}), driver for CUDA 13.0; {without}", library.display());
    assert_eq!(note("", "0"), [&*cupti]);
    let others = "If the program uses torch.profiler, that shows no device events: CUPTI serves one profiler at a time, \
                  here this one (`gpu=off` leaves it CUPTI).";
    assert_eq!(note(&torch, "0"), [&*cupti, others]);
}

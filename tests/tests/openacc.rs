//! OpenACC programs, built by GCC and run on the host under the command `tracing-gpu`: counts, places and durations of
//! events.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::launcher::{Ran, run};
use tracing_gpu::summary::OpenAccStats;
use tracing_gpu::{Summary, SummaryExt as _};

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openacc");
/// The number of rounds of each thread in `main.c`.
const TIMES: u64 = 20;

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openacc").join(name);
    let _of_an_earlier_run = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Compiles sources of this test's folder into that file.
fn compiled<A: AsRef<OsStr>>(sources: &[&str], arguments: impl IntoIterator<Item = A>, to: PathBuf) -> PathBuf {
    let sources = sources.iter().map(|source| Path::new(SOURCES).join(source));
    let mut compiler = Command::new("gcc");
    compiler.arg("-fopenacc").args(sources).args(arguments).arg("-o").arg(&to);
    let output = compiler.output().expect("gcc, which `bash tests/install` installs");
    assert!(output.status.success(), "{compiler:?}\n{}", String::from_utf8_lossy(&output.stderr));
    to
}

/// A program with this number of threads, under the command.
fn ran(program: &Path, threads: u64) -> Ran {
    let ran = run(&["--gpu", "off"], |command| command.arg(program).arg(threads.to_string()));
    assert!(ran.status.success() && ran.said().is_empty() && ran.summaries.len() == 1, "{ran:?}");
    ran
}

/// The notes about events that were not counted.
fn uncounted(ran: &Ran) -> Vec<String> {
    let notes = ran.summaries.iter().flat_map(Summary::notes_as_text);
    notes.filter_map(|note| Some(note.strip_prefix("OpenACC events that are in no row: ")?.to_owned())).collect()
}

/// The events of a program, all of which must be in rows, and its threads' own account of their working time.
fn measured(program: &Path, threads: u64) -> (Vec<OpenAccStats>, u64) {
    let mut ran = ran(program, threads);
    assert_eq!(uncounted(&ran), Vec::<&str>::new());
    let took = ran.stdout.trim().parse().expect("nanoseconds");
    (ran.summaries.remove(0).openacc, took)
}

fn counts(rows: &[OpenAccStats]) -> BTreeMap<String, u64> {
    rows.iter().map(|row| (row.label(), row.times.instances)).collect()
}

/// The line with this comment.
fn line(source: &str, comment: &str) -> usize {
    let text = std::fs::read_to_string(Path::new(SOURCES).join(source)).expect("a source");
    1 + text.lines().position(|line| line.contains(&format!("/* {comment} */"))).expect("the comment")
}

/// The events of this many threads, by event and place; `at` is the printed form of a place.
fn expected(threads: u64, at: impl Fn(&str, &str) -> String) -> BTreeMap<String, u64> {
    let mut expected = BTreeMap::new();
    for (event, source, comment, count) in [
        ("acc_device_init", "main.c", "enter", 1),
        ("acc_enter_data", "main.c", "enter", 1),
        ("acc_enter_data", "scale.c", "data", TIMES * threads),
        ("acc_compute_construct", "scale.c", "parallel", TIMES * threads),
        ("acc_update", "scale.c", "update", TIMES * threads),
        ("acc_compute_construct", "scale.c", "kernels", TIMES * threads),
        ("acc_exit_data", "scale.c", "end of data", TIMES * threads),
        ("acc_exit_data", "main.c", "exit", 1),
    ] {
        *expected.entry(format!("{event}@{}", at(source, comment))).or_default() += count;
    }
    expected
}

/// The end of a block may have any of its lines as its place, because compilers differ.
fn with_the_end_where_it_is(rows: &[OpenAccStats], comment: &str) -> String {
    let lines = line("scale.c", "data")..=line("scale.c", comment);
    let mut ends = rows.iter().filter(|row| row.event == "acc_exit_data").filter_map(|row| row.place.clone());
    let is_in = |place: &String| {
        place.strip_prefix("scale.c:").and_then(|line| line.parse().ok()).is_some_and(|line| lines.contains(&line))
    };
    ends.find(is_in).unwrap_or_else(|| panic!("{rows:?}"))
}

fn by_lines(rows: &[OpenAccStats], threads: u64) -> BTreeMap<String, u64> {
    expected(threads, |source, comment| match comment {
        "end of data" => with_the_end_where_it_is(rows, comment),
        _ => format!("{source}:{}", line(source, comment)),
    })
}

/// For all kinds of programs, the lines match the source, and every event is counted.
#[test]
fn events_are_counted_by_the_lines_of_the_source() {
    let all = ["main.c", "scale.c"];
    for (name, arguments) in [("pie", ["-g", "-pie"]), ("fixed", ["-g", "-no-pie"]), ("optimised", ["-g", "-O2"])] {
        let program = compiled(&all, arguments, folder(name).join("program"));
        let (rows, _) = measured(&program, 1);
        assert_eq!(counts(&rows), by_lines(&rows, 1), "{name}");
    }
    let folder = folder("shared");
    let library = compiled(&["scale.c"], ["-g", "-shared", "-fPIC"], folder.join("libscale.so"));
    let found = format!("-Wl,-rpath,{}", folder.display());
    let arguments = ["-g".as_ref(), library.as_os_str(), found.as_ref()];
    let program = compiled(&["main.c"], arguments, folder.join("program"));
    let (rows, _) = measured(&program, 3);
    assert_eq!(counts(&rows), by_lines(&rows, 3), "a library, and three threads");
}

/// Without debugging information places are functions; without symbols, offsets in the file.
#[test]
fn without_lines_there_are_functions_or_addresses() {
    let all = ["main.c", "scale.c"];
    let folder = folder("bare");
    let (rows, _) = measured(&compiled(&all, ["-O0"], folder.join("symbols")), 2);
    let function = |source: &str, _: &str| if source == "main.c" { "main" } else { "scale" }.to_owned();
    assert_eq!(counts(&rows), expected(2, function));

    let (rows, _) = measured(&compiled(&all, ["-s"], folder.join("stripped")), 1);
    let found = counts(&rows);
    let instances = |event: &str| {
        let of_it = found.iter().filter(|(label, _)| label.starts_with(&format!("{event}@stripped+0x")));
        of_it.map(|(_, count)| *count).collect::<Vec<_>>()
    };
    assert_eq!(instances("acc_compute_construct"), [TIMES, TIMES]);
    assert_eq!(instances("acc_update"), [TIMES]);
    assert_eq!(found.values().sum::<u64>(), expected(1, function).values().sum::<u64>());
}

/// The report of nvprof has the rows, in its section, although there is no GPU.
#[test]
fn the_report_has_a_section() {
    let program = compiled(&["main.c", "scale.c"], ["-g"], folder("report").join("program"));
    let report = run(&["--gpu", "off", "-r", "nvprof"], |command| command.arg(&program)).stderr;
    let (_, section) = report.split_once(" OpenACC (excl):").unwrap_or_else(|| panic!("{report}"));
    let update =
        section.lines().find(|row| row.ends_with(&format!("acc_update@scale.c:{}", line("scale.c", "update"))));
    assert_eq!(update.and_then(|row| row.split_whitespace().nth(2)), Some("20"), "{report}");

    let csv = run(&["--gpu", "off", "--csv"], |command| command.arg(&program)).stderr;
    let (headers, rows) = csv.split_once('\n').expect("lines");
    assert!(headers.starts_with("Time (%),Total Time (ns),Events,") && headers.ends_with(",Event"), "{csv}");
    assert!(rows.lines().any(|row| row.contains(",20,") && row.contains(",acc_update@scale.c:")), "{csv}");
}

/// Each moment in a construct counts once: own times add up to the program's own measurement.
#[test]
fn own_times_add_up_to_what_the_program_measures() {
    let program = compiled(&["main.c", "scale.c"], ["-g"], folder("times").join("program"));
    let part = || {
        let (rows, took) = measured(&program, 2);
        let in_scale = rows.iter().filter(|row| row.place.as_ref().is_some_and(|place| place.starts_with("scale.c:")));
        let own: u64 = in_scale.map(|row| row.times.total_ns).sum();
        assert!(own <= took, "{own} of {took}");
        assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(row.times.total_ns)), "{rows:?}");
        for row in &rows {
            let times = &row.times;
            let bounds = [times.min_ns, times.max_ns].map(|ns| ns.saturating_mul(times.instances));
            assert!(bounds[0] <= times.total_ns && times.total_ns <= bounds[1], "{row:?}");
        }
        own as f64 / took as f64
    };
    // The machine may stop a thread between two constructs.
    let parts: Vec<f64> = (0..3).map(|_| part()).collect();
    assert!(parts.iter().any(|part| *part > 0.99), "{parts:?}");
}

/// The runtime gives names of files, lines, kernels and variables, as NVIDIA's compilers do: the rows equal nvprof's.
#[test]
fn a_runtime_may_name_the_source_itself() {
    let ran = ran(&compiled(&["runtime.c"], ["-ldl"], folder("runtime").join("program")), 1);
    let rows = &ran.summaries[0].openacc;
    let expected = [
        ("acc_alloc@layers.c:50", 10),
        ("acc_compute_construct@layers.c:52", 10),
        ("acc_create@layers.c:50", 20),
        ("acc_enqueue_download@layers.c:78", 10),
        ("acc_enqueue_launch@layers.c:53 (_8layers_c_forward_53_gpu)", 10),
        ("acc_enqueue_upload@layers.c:50 (.attach.)", 10),
        ("acc_enqueue_upload@layers.c:50 (X[:in_size])", 10),
        ("acc_enter_data@layers.c:50", 10),
        ("acc_update", 1),
        ("acc_wait@layers.c:53", 10),
    ];
    assert_eq!(counts(rows), expected.map(|(label, count)| (label.to_owned(), count)).into());
    assert_eq!(uncounted(&ran), ["1 did not end, 1 did not start."]);
    let without_duration = rows.iter().filter(|row| row.times.total_ns == 0);
    assert!(without_duration.map(|row| row.event.as_str()).eq(["acc_alloc", "acc_create"]), "{rows:?}");
}

//! Effects of options on measurements: ranges, tables and files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tests::foreign::{folder, headers};
use tests::launcher::{Folder, binary, command, compiled, run};

/// The ranges `a`, and `window` with `in` inside, three times each. They run in two processes, in ranked processes
/// under one that only marks, or in a program that replaces such a one.
const SOURCE: &str = r#"
    #include <nvtx3/nvToolsExt.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    int main(int count, char **arguments) {
        const char *way = count > 1 ? arguments[1] : "";
        if (strcmp(way, "twice") == 0) fork();
        if (strcmp(way, "ranks") == 0) {
            nvtxMarkA("launch");
            const char *ranks[] = {"0", "1", "1"};
            for (int i = 0; i < 3; i++) {
                if (fork() == 0) setenv("RANK", ranks[i], 1), execl(arguments[0], arguments[0], NULL);
            }
            while (wait(NULL) > 0) continue;
            return 0;
        }
        if (strcmp(way, "replaced") == 0) nvtxMarkA("replace"), usleep(100000), execl(arguments[0], arguments[0], NULL);
        for (int i = 0; i < 3; i++) {
            nvtxRangePushA("a");
            nvtxRangePop();
            nvtxRangePushA("window");
            nvtxRangePushA("in");
            nvtxRangePop();
            nvtxRangePop();
        }
        wait(NULL);
        return 0;
    }"#;

fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let source = folder.join("windows.c");
        std::fs::write(&source, SOURCE).expect("a source");
        compiled(folder, &source, &[&format!("-I{}", headers().display()), "-ldl"])
    })
}

#[test]
fn a_command_that_is_gone_names_what_does_the_same() {
    let ended =
        Command::new(binary()).args(["query", "slowest_ranks", "runs/", "--csv"]).output().expect("the command");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("`python3 docs/queries/run.py duckdb FOLDER [NAME]`") && said.lines().count() == 1, "{said}");
    assert_eq!(ended.status.code(), Some(1));
}

#[test]
fn only_the_first_range_of_a_name_is_captured() {
    let ran = run(&["--capture-range", "nvtx:window"], |command| command.arg(program()));
    assert_eq!((ran.status.code(), &*ran.ranges()), (Some(0), "in 1, window 1"), "{}", ran.stderr);
    let [summary] = &ran.summaries[..] else { panic!("{ran:?}") };
    assert_eq!((summary.losses.spans_dropped, &summary.notes[..]), (0, &[][..]), "{}", ran.stderr);
    let ran = run(&["--capture-range", "nvtx:door"], |command| command.arg(program()));
    assert_eq!((ran.status.code(), ran.said()), (Some(0), vec!["nothing was measured: no range `door` has begun"]));
}

#[test]
fn files_of_a_captured_range_are_whole() {
    let folder = Folder::new();
    let options = ["--capture-range", "nvtx:window", "--trace", "run.trace", "--html", "run.html"];
    let output = command(&options).arg(program()).current_dir(&folder.0).output().expect("it starts");
    let [page, trace] = ["run.html", "run.trace"].map(|name| std::fs::read_to_string(folder.0.join(name)));
    assert!(page.expect("a page").trim_end().ends_with("</html>"), "{output:?}");
    let trace = trace.expect("a trace");
    let counts = ["in", "window", "a"].map(|name| trace.matches(&format!("\"name\":\"{name}\"")).count());
    assert_eq!(counts, [1, 1, 0], "{trace}");
}

#[test]
fn a_filter_that_rejects_all_ranges_is_named() {
    let ran = run(&[], |command| command.arg(program()).env("TRACING_GPU_FILTER", "my_crate=debug"));
    let said = "nothing was measured: no NVTX range has a time. Not measured, because of the filter my_crate=debug: NVTX \
                ranges of nvtx. TRACING_GPU_FILTER=my_crate=debug,nvtx=info measures them.";
    assert_eq!((ran.status.code(), ran.said()), (Some(0), vec![said]));
}

/// The library of version 2 has another entry point.
#[test]
fn programs_of_version_2_are_measured() {
    let (here, wheel) = (Folder::new(), folder("v2").join("nvidia/nvtx"));
    let source = here.0.join("old.c");
    let code = "#include <nvToolsExt.h>\nint main() { nvtxRangePushA(\"old\"); nvtxRangePop(); return 0; }";
    std::fs::write(&source, code).expect("a source");
    let library = wheel.join("lib/libnvToolsExt.so.1");
    let include = format!("-I{}", wheel.join("include").display());
    let program = compiled(&here.0, &source, &[&include, &library.display().to_string()]);
    let ran = run(&[], |command| command.arg(program).env("LD_LIBRARY_PATH", wheel.join("lib")));
    assert_eq!((ran.status.code(), &*ran.ranges()), (Some(0), "old 1"), "{}", ran.stderr);
}

#[test]
fn processes_are_printed_together_or_each() {
    let titles = |options: &[&str]| {
        let ran = run(options, |command| command.args([program(), Path::new("twice")]));
        let titles = ran.stderr.lines().filter(|line| line.starts_with(" ** "));
        titles.map(|title| title.trim_start_matches(" ** ").to_owned()).collect::<Vec<String>>()
    };
    let one = "Phase Tree (tree):";
    assert_eq!(titles(&[]), ["Phase Tree of 2 Processes (merged):"]);
    assert_eq!(titles(&["--processes", "first"]), [one]);
    assert_eq!(titles(&["--processes", "each"]), [one, one]);
    assert_eq!(titles(&["--report", "ranges"]), ["Ranges of 2 Processes (merged):"]);
    assert_eq!(titles(&["--output", "none"]), [""; 0]);

    let reports = Folder::new();
    let file = reports.0.join("report-%p").display().to_string();
    assert_eq!(titles(&["--processes", "each", "--output", &file]), [""; 0]);
    assert_eq!(reports.names().len(), 2);
    let ran = run(&["--processes", "each", "--csv"], |command| command.args([program(), Path::new("twice")]));
    assert_eq!(ran.stderr.matches("\n\nTime (%),").count(), 1, "{}", ran.stderr);
}

/// Processes that only mark, and those replaced by `exec`, must not overwrite files of others.
#[test]
fn colour_is_where_the_user_asks_for_it() {
    for (no_color, colored) in [("", true), ("1", false)] {
        let ran = run(&["-r", "tree"], |command| {
            command.args([program(), Path::new("twice")]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", no_color)
        });
        assert_eq!(ran.stderr.contains("\x1b[1m>> "), colored, "{}", ran.stderr);
    }
}

#[test]
fn ranks_have_files_of_their_own_and_launchers_have_none() {
    let files = |name: &str, way: &str| {
        let folder = Folder::new();
        let mut command = command(&["-o", "none", "--trace", name]);
        let output = command.arg(program()).arg(way).current_dir(&folder.0).output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        let trace = |name: &String| std::fs::read_to_string(folder.0.join(name)).expect("a trace");
        assert!(folder.names().iter().all(|name| trace(name).contains("\"window\"")), "{name} {way}");
        folder.names()
    };
    assert_eq!(files("run.trace", "replaced"), ["run.trace"]);
    let ranks = files("run-%r.trace", "ranks");
    assert_eq!(ranks, ["run-0.trace", "run-1.trace"]); // two have rank 1
}

#[test]
fn the_processes_of_a_command_are_one_run() {
    let ids = |variables: &[(&str, &str)], way: &str| {
        let ran = run(&[], |command| command.envs(variables.iter().copied()).arg(program()).arg(way));
        let mut ids: Vec<String> = ran.summaries.iter().map(|summary| summary.process.run_id.clone()).collect();
        assert!(ids.len() > 1, "{}", ran.stderr);
        ids.dedup();
        ids
    };
    let all = ["ranks", "twice", "twice"].map(|way| ids(&[], way));
    assert!(all.iter().all(|ids| ids.len() == 1), "{all:?}");
    assert!(all[0] != all[1] && all[1] != all[2], "{all:?}");
    assert_eq!(ids(&[("SLURM_JOB_ID", "77")], "ranks"), ["77"]);
    assert_eq!(ids(&[("SLURM_JOB_ID", "77"), ("TRACING_GPU_RUN_ID", "nightly")], "ranks"), ["nightly"]);
}

/// Not UTF-8, with placeholders of file names or special characters of `TRACING_GPU`.
#[test]
fn any_name_is_the_name_of_a_file() {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = Folder::new();
    let here = folder.0.join(std::ffi::OsStr::from_bytes(b"%p %h\xff"));
    std::fs::create_dir(&here).expect("a folder");
    let name = |kind: &str| [&b"a,b;html=\\\xff."[..], kind.as_bytes()].concat();
    let mut command = command(&[]);
    for kind in ["trace", "json", "output"] {
        command.arg(format!("--{kind}")).arg(std::ffi::OsStr::from_bytes(&name(kind)));
    }
    // The folder of the run has such a name, too, and is relative to this folder.
    command.args(["sh", "-c", "cd / && exec \"$0\""]);
    let output = command.arg(program()).current_dir(&here).env("TMPDIR", ".").output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let mut names: Vec<_> =
        std::fs::read_dir(&here).expect("a folder").map(|file| file.expect("it").file_name()).collect();
    names.sort();
    let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    assert_eq!(names, [name("json"), name("output"), name("trace")]);
}

/// Only requested reports, for one process and for several.
#[test]
fn comma_separated_values_are_those_of_the_reports() {
    let name = program().to_str().expect("a name");
    for (list, program) in [("hot+tree", &[name][..]), ("hot,tree", &[name, "twice"])] {
        let ran = run(&["--csv", "-r", list], |command| command.args(program));
        assert_eq!(ran.said(), ["the report hot is no table, so --csv leaves it out"]);
        let header = ran.stderr.lines().nth(1).unwrap_or_default();
        assert!(header.starts_with("Depth,") && !ran.stderr.contains("Time (%)"), "{}", ran.stderr);
    }
}

/// A script finds its columns and tables, whatever the number of processes.
#[test]
fn values_of_several_processes_begin_with_the_columns_of_one() {
    let name = program().to_str().expect("a name");
    let header = |program: &[&str]| {
        let ran = run(&["--csv"], |command| command.args(program));
        assert_eq!((ran.said(), ran.stderr.matches("\n\n").count()), (vec![], 0), "{}", ran.stderr);
        ran.stderr.lines().next().unwrap_or_default().to_owned()
    };
    let (one, several) = (header(&[name]), header(&[name, "twice"]));
    assert!(one.ends_with(",Range") && several.starts_with(&(one + ",Processes,")), "{several}");
}

/// Cut names share a row: a note says so.
#[test]
fn names_that_are_cut_are_named() {
    let folder = Folder::new();
    let source = folder.0.join("long.c");
    let code = r#"
        #include <nvtx3/nvToolsExt.h>
        #include <string.h>
        int main() {
            static char name[40001];
            memset(name, 'x', 40000);
            for (int i = 0; i < 2; i++) {
                name[39999] = 'a' + i;
                nvtxRangePushA(name);
                nvtxRangePop();
            }
            return 0;
        }"#;
    std::fs::write(&source, code).expect("a source");
    let program = compiled(&folder.0, &source, &[&format!("-I{}", headers().display()), "-ldl"]);
    let ran = run(&[], |command| command.arg(&program));
    assert!(ran.stderr.contains("1 row has a name that was cut at 32 KiB"), "{}", ran.stderr);
    let ran = run(&["--csv"], |command| command.arg(&program));
    assert!(ran.said().len() == 1 && ran.said()[0].starts_with("1 row has a name"), "{:?}", ran.said());
}

/// Sentences mention the program's ranges and this command's options.
#[test]
fn reports_without_rows_have_no_words_of_the_library() {
    let reports = "tree+calls+categories+kernels+mem_time+mem_size+api+gpu_projection+range_kernels+nvprof+hot+torch";
    for way in [&[program()][..], &[program(), Path::new("twice")]] {
        let ran = run(&["-r", reports], |command| command.args(way));
        for word in ["span", "gpu=", "builder", "Build the profiler", "TRACING_GPU"] {
            let lines: Vec<&str> = ran.stderr.lines().filter(|line| line.contains(word)).collect();
            assert!(lines.is_empty(), "{word}: {lines:?}");
        }
    }
}

#[test]
fn a_file_has_the_name_that_was_asked_for_or_one_for_each_process() {
    let each = ["--processes", "each", "-o", "none"];
    let folder = Folder::new();
    let options = ["html", "trace", "sqlite"].map(|kind| [format!("--{kind}"), format!("run.{kind}")]).concat();
    let files = |way: &[&str], program: &[&str]| {
        let mut command = command(&options.iter().map(String::as_str).chain(way.iter().copied()).collect::<Vec<_>>());
        let output = command.args(program).current_dir(&folder.0).output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        folder.names()
    };
    let program = program().display().to_string();
    assert_eq!(files(&each, &[&program]), ["run.html", "run.sqlite", "run.trace"]);
    let several = files(&[], &[&program, "twice"]);
    assert_eq!(several, ["run.html", "run.sqlite", "run.trace"]);
    several.iter().for_each(|name| std::fs::remove_file(folder.0.join(name)).expect("a file"));
    assert_eq!(files(&[], &[&program]), ["run.html", "run.sqlite", "run.trace"]);
    let several = files(&each, &[&program, "twice"]);
    let of = |kind: &str| several.iter().filter(|name| name.ends_with(kind)).count();
    // Files of the first run are gone, so that nobody mistakes them for this run's.
    assert_eq!((of(".html"), of(".sqlite"), of(".trace"), several.len()), (2, 2, 2, 6), "{several:?}");
}

/// The processes of the page: what the script shows as their lanes.
fn processes_of(page: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(page).expect("a page");
    let (_, data) = text.split_once("id=\"data\">").expect("the data");
    let data: serde_json::Value = serde_json::from_str(data.split_once("</script>").expect("its end").0).expect("JSON");
    let names = data["processes"].as_array().expect("a list").iter();
    names.map(|name| name.as_str().expect("a name").to_owned()).collect()
}

#[test]
fn several_processes_have_one_page_or_a_page_each() {
    let folder = Folder::new();
    let source = folder.0.join("ranks.c");
    let text = "#include <nvtx3/nvToolsExt.h>
        #include <signal.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(int count, char **arguments) {
            for (int rank = 0; rank < 3; rank++) {
                if (fork() != 0) continue;
                nvtxRangePushA(\"step\"), nvtxRangePop();
                if (count > 1 && rank == 1) kill(getpid(), SIGKILL);
                return 0;
            }
            while (wait(0) > 0) continue;
        }";
    std::fs::write(&source, text).expect("a source");
    let program = compiled(&folder.0, &source, &[&format!("-I{}", headers().display()), "-ldl"]);
    let run = |options: &[&str], arguments: &[&str]| {
        let options = [&["-o", "none", "--html"], options].concat();
        let mut command = command(&options);
        let output = command.arg(&program).args(arguments).current_dir(&folder.0).output().expect("it starts");
        let names = folder.names().into_iter().filter(|name| name.ends_with(".html")).collect::<Vec<_>>();
        (names, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run(&["run.html"], &[]).0, ["run.html"]);
    let page = folder.0.join("run.html");
    assert_eq!(processes_of(&page).len(), 3);
    // One that was killed has no whole page: it is missing, and the page says so.
    assert_eq!(run(&["run.html"], &["killed"]).0, ["run.html"]);
    assert_eq!(processes_of(&page).len(), 2);
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(text.contains("1 of 3 processes left no whole page"));
    std::fs::remove_file(page).expect("it is there");
    for options in [&["run.html", "--processes", "each"][..], &["run.%p.html"]] {
        let (names, said) = run(options, &[]);
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(said.contains("html: 3 processes, a file each, from "), "{said}");
        for name in names {
            assert_eq!(processes_of(&folder.0.join(&name)), [""; 0]);
            std::fs::remove_file(folder.0.join(name)).expect("it is there");
        }
    }
}

/// Marks are in no table, but a timeline of marks must be kept.
#[test]
fn the_timeline_of_a_program_that_only_marks_is_kept() {
    let folder = Folder::new();
    let source = folder.0.join("marks.c");
    std::fs::write(&source, "#include <nvtx3/nvToolsExt.h>\nint main() { nvtxMarkA(\"here\"); }").expect("a source");
    let program = compiled(&folder.0, &source, &[&format!("-I{}", headers().display()), "-ldl"]);
    let trace = folder.0.join("run.trace");
    let output = command(&["--trace"]).arg(&trace).arg(program).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.starts_with("tracing-gpu: nothing was measured: ") && said.contains("marks are in timelines"),
        "{said}"
    );
    assert!(std::fs::read_to_string(&trace).expect("a timeline").contains("\"here\""));
}

/// A process would write under these names in the same way.
#[test]
fn a_file_of_one_process_goes_to_what_a_link_leads_to_and_one_file_has_one_output() {
    let folder = Folder::new();
    let (link, twice) = (folder.0.join("link"), folder.0.join("twice"));
    std::fs::write(folder.0.join("file"), "before").expect("a file");
    std::os::unix::fs::symlink("file", &link).expect("a link");
    let mut command = command(&["-o", "none", "--trace"]);
    command.arg(&link).arg("--json").arg(&twice).arg("--sqlite").arg(&twice);
    let output = command.arg(program()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, format!("tracing-gpu: cannot write `sqlite` to `{}`: `json` goes there\n", twice.display()));
    assert_eq!(folder.names(), ["file", "link", "twice"]);
    assert!(link.is_symlink() && std::fs::read_to_string(&link).expect("a trace").starts_with('['));
}

#[test]
fn the_page_opens_in_the_browser_of_the_user() {
    let folder = Folder::new();
    let (page, told, browser) = (folder.0.join("run.html"), folder.0.join("told"), folder.0.join("browser"));
    assert!(Command::new("mkfifo").arg(&told).status().expect("coreutils").success());
    std::fs::write(&browser, format!("#!/bin/sh\necho \"$@\" >{}\n", told.display())).expect("a script");
    assert!(Command::new("chmod").arg("+x").arg(&browser).status().expect("coreutils").success());
    let run = |browser: &Path, arguments: &[&str]| {
        let mut command = command(&["-o", "none", "--open", "--html"]);
        command.arg(&page).arg(program()).args(arguments).env("BROWSER", browser).env("PATH", &folder.0);
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert_eq!(run(&browser, &[]), format!("tracing-gpu: opening {} ({})\n", page.display(), browser.display()));
    assert_eq!(std::fs::read_to_string(&told).expect("a pipe"), format!("{}\n", page.display()));
    let said = run(Path::new(""), &["twice"]);
    let opened = said.lines().last().expect("a line");
    assert!(opened.starts_with("tracing-gpu: no browser was found ($BROWSER, xdg-open): open "), "{said}");
    assert!(opened.ends_with("run.html") && said.lines().count() == 1, "{said}");
}

#[test]
fn a_report_that_cannot_be_written_goes_to_standard_error() {
    let ran = run(&["--output", "/no/such/folder/report"], |command| command.arg(program()));
    let line = "cannot write the report to `/no/such/folder/report`: No such file or directory (os error 2)";
    assert_eq!((ran.status.code(), ran.said()), (Some(0), vec![line]));
    assert!(ran.stderr.contains("Phase Tree"), "{}", ran.stderr);
}

#[test]
fn the_users_variable_wins_and_bad_parts_of_it_have_one_line() {
    let ran = run(&["--report", "ranges"], |command| {
        command.args([program(), Path::new("twice")]).env("TRACING_GPU", "report=tree,colour=red")
    });
    assert!(ran.stderr.contains("Phase Tree") && !ran.stderr.contains("Ranges of"), "{}", ran.stderr);
    assert!(ran.said().len() == 1 && ran.said()[0].starts_with("TRACING_GPU: `colour=red` is not known"));
}

#[test]
fn summaries_of_several_commands_are_merged() {
    let folder = Folder::new();
    for rank in ["0", "1"] {
        let mut command = command(&["--output", "none", "--json"]);
        command.arg(folder.0.join("run-%q{RANK}.json")).arg(program()).env("RANK", rank);
        assert!(command.status().expect("it starts").success());
    }
    assert_eq!(folder.names(), ["run-0.json", "run-1.json"]);
    std::fs::write(folder.0.join("other\u{1b}[2J.json"), "{}").expect("a file");
    assert!(Command::new("mkfifo").arg(folder.0.join("pipe.json")).status().expect("mkfifo").success());
    std::fs::copy(folder.0.join("run-0.json"), folder.0.join("run-2.json")).expect("a copy");
    let output = Command::new(binary()).arg("merge").arg(&folder.0).arg("--csv").output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("tracing-gpu: left out: "), "{said}");
    assert!(said.contains("other\\x1b[2J.json: ") && !said.contains('\u{1b}'), "{said:?}");
    assert!(said.contains("pipe.json: not a regular file"), "{said}");
    assert!(said.contains("run-2.json: a copy of another file here"), "{said}");
    let row = said.lines().find(|line| line.contains(",window,2,")).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(row.split(',').nth(2), Some("6"), "{said}");
}

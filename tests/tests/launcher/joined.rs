//! The timelines of several processes, which the command joins: on one clock, whole or not at all.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value as Json;
use tests::foreign::headers;
use tests::launcher::{Folder, command, compiled};

use crate::ends::send;

/// Two processes that take turns: `ping 0` ends before `pong 0` begins, and that ends before `ping 1` begins. With a
/// number as a second argument, the one with the pongs is killed after so many turns, once its trace has them.
const SOURCE: &str = r#"
    #include <nvtx3/nvToolsExt.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/wait.h>
    #include <unistd.h>
    static void wait_for(const char *text) {
        static char bytes[1 << 20];
        char name[32];
        snprintf(name, sizeof name, "run.%d.trace", getpid());
        for (bytes[0] = 0; strstr(bytes, text) == NULL; usleep(1000)) {
            FILE *file = fopen(name, "r");
            if (file != NULL) bytes[fread(bytes, 1, sizeof bytes - 1, file)] = 0, fclose(file);
        }
    }
    int main(int count, char **arguments) {
        const char *role = arguments[1];
        int turns = 50, end = count > 2 ? atoi(arguments[2]) : turns;
        if (strcmp(role, "turns") == 0) {
            int to_pong[2], to_ping[2];
            if (pipe(to_pong) != 0 || pipe(to_ping) != 0) return 1;
            for (int is_ping = 0; is_ping < 2; is_ping++) {
                if (fork() != 0) continue;
                dup2(is_ping ? to_ping[0] : to_pong[0], 0);
                dup2(is_ping ? to_pong[1] : to_ping[1], 1);
                for (int i = 0; i < 2; i++) close(to_pong[i]), close(to_ping[i]);
                arguments[1] = is_ping ? "ping" : "pong";
                execv(arguments[0], arguments);
            }
            for (int i = 0; i < 2; i++) close(to_pong[i]), close(to_ping[i]);
            while (wait(NULL) > 0) continue;
            return 0;
        }
        int is_ping = strcmp(role, "ping") == 0;
        signal(SIGPIPE, SIG_IGN);
        char name[32], byte = 0;
        for (int turn = 0; turn < turns; turn++) {
            if (!is_ping && read(0, &byte, 1) != 1) return 1;
            snprintf(name, sizeof name, "%s %d", role, turn);
            nvtxRangePushA(name), nvtxRangePop();
            nvtxRangeEnd(nvtxRangeStartA("turn"));
            if (!is_ping && turn + 1 == end && end < turns) wait_for(name), kill(getpid(), SIGKILL);
            if (write(1, &byte, 1) != 1 || (is_ping && read(0, &byte, 1) != 1)) return 0;
        }
    }
"#;

fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("turns.c");
        std::fs::write(&source, SOURCE).expect("a source");
        compiled(Path::new(env!("CARGO_TARGET_TMPDIR")), &source, &[&format!("-I{}", headers().display()), "-ldl"])
    })
}

fn ran(folder: &Folder, options: &[&str], program: &[&str]) -> Output {
    let mut command: Command =
        command(&[&["-o", "none", "--trace", "run.trace", "--sqlite", "run.sqlite"], options].concat());
    command.args(program).current_dir(&folder.0).output().expect("it starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn events(path: &Path) -> Vec<Json> {
    serde_json::from_slice(&std::fs::read(path).expect("a trace")).expect("a whole trace")
}

/// Begin and end of each ping and pong, by its name.
type Times = BTreeMap<String, (u64, u64)>;

fn in_trace(folder: &Folder) -> Times {
    let ns = |time: &Json| (time.as_f64().expect("a time") * 1000.0).round() as u64;
    let slices = events(&folder.0.join("run.trace")).into_iter().filter(|event| event["ph"] == "X");
    let named = |event: Json| {
        let start = ns(&event["ts"]);
        (event["name"].as_str().expect("a name").to_owned(), (start, start + ns(&event["dur"])))
    };
    slices.map(named).collect()
}

fn in_database(folder: &Folder) -> Times {
    let connection = rusqlite::Connection::open(folder.0.join("run.sqlite")).expect("a database");
    let query = "SELECT value, start, end FROM NVTX_EVENTS JOIN StringIds ON id = textId WHERE eventType = 59";
    let mut statement = connection.prepare(query).expect("ranges");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)))).expect("rows");
    rows.map(|row| row.expect("a row")).collect()
}

/// What took turns is in its order.
fn are_in_turn(times: &Times, pings: usize, pongs: usize) {
    let of = |name: &str, turn: usize| times.get(&format!("{name} {turn}"));
    for turn in 0..pings {
        let ping = of("ping", turn).unwrap_or_else(|| panic!("no ping {turn}"));
        assert!(turn == 0 || of("pong", turn - 1).is_none_or(|before| before.1 <= ping.0), "{turn}: {times:?}");
        if turn < pongs {
            let pong = of("pong", turn).unwrap_or_else(|| panic!("no pong {turn}"));
            assert!(ping.1 <= pong.0 && pong.0 <= pong.1, "{turn}: {times:?}");
        }
    }
}

#[test]
fn what_processes_do_in_turn_is_in_its_order_in_one_file() {
    let folder = Folder::new();
    let output = ran(&folder, &[], &[&program().display().to_string(), "turns"]);
    assert!(output.status.success() && said(&output).is_empty(), "{output:?}");
    assert_eq!(folder.names(), ["run.sqlite", "run.trace"]);
    for times in [in_trace(&folder), in_database(&folder)] {
        assert_eq!(times.len(), 100);
        are_in_turn(&times, 50, 50);
    }
    let events = events(&folder.0.join("run.trace"));
    let mut by_process: BTreeMap<u64, usize> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X" || event["ph"] == "b") {
        *by_process.entry(event["pid"].as_u64().expect("a process")).or_default() += 1;
    }
    assert_eq!(by_process.values().copied().collect::<Vec<_>>(), [100, 100]);
    // A compressed one has the same.
    let mut command = command(&["-o", "none", "--trace", "run.json.gz"]);
    let output = command.arg(program()).arg("turns").current_dir(&folder.0).output().expect("it starts");
    assert!(output.status.success() && said(&output).is_empty(), "{output:?}");
    let mut text = String::new();
    let file = std::fs::File::open(folder.0.join("run.json.gz")).expect("a trace");
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(file), &mut text).expect("a compressed trace");
    assert_eq!(text.matches("\"ph\":\"X\"").count(), 100);
}

#[test]
fn perfettos_own_file_has_the_summaries_of_all_processes() {
    let folder = Folder::new();
    let mut run = command(&["-o", "none", "--perfetto", "run.pftrace"]);
    let output = run.arg(program()).arg("turns").current_dir(&folder.0).output().expect("it starts");
    assert!(output.status.success() && said(&output).is_empty(), "{output:?}");
    assert_eq!(folder.names(), ["run.pftrace"]);
    let mut merge = Command::new(tests::launcher::binary());
    let output =
        merge.args(["merge", "--csv", "-r", "ranges", "-o", "stdout"]).arg(&folder.0).output().expect("merges");
    let rows = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in ["ping 0", "ping 49", "pong 0", "pong 49"] {
        assert_eq!(rows.matches(&format!(",{name},")).count(), 1, "{name}: {rows} {}", said(&output));
    }
}

#[test]
fn a_process_that_was_killed_has_its_turns_in_the_file_of_all() {
    let folder = Folder::new();
    let output = ran(&folder, &[], &[&program().display().to_string(), "turns", "20"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(folder.names(), ["run.sqlite", "run.trace"], "{}", said(&output));
    are_in_turn(&in_trace(&folder), 20, 20);
    are_in_turn(&in_database(&folder), 20, 0); // it may have been killed before it wrote rows
}

#[test]
fn a_file_that_cannot_be_read_leaves_all_as_they_are() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("run.trace"), "of an earlier run").expect("a file");
    // The first process is not killed: it has no turn, and so it leaves a file with one ping.
    let script = "\"$0\" ping </dev/null >/dev/null & one=$!; wait $one; \"$0\" ping </dev/null >/dev/null & two=$!; wait $two; \
                  echo broken >run.$two.trace; echo $one $two";
    let output = ran(&folder, &[], &["sh", "-c", script, &program().display().to_string()]);
    let pids = String::from_utf8_lossy(&output.stdout).into_owned();
    let pids: Vec<&str> = pids.split_whitespace().collect();
    let mut expected: Vec<String> = pids.iter().map(|pid| format!("run.{pid}.trace")).collect();
    expected.push("run.sqlite".to_owned());
    expected.sort();
    let said = said(&output);
    assert_eq!(folder.names(), expected, "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines.len() == 2 && lines[1].starts_with("tracing-gpu: trace: 2 processes, a file each, from "), "{said}");
    let why = format!("run.{}.trace`: it is no trace", pids[1]);
    assert!(lines[0].starts_with("tracing-gpu: cannot join ") && lines[0].ends_with(&why), "{said}");
    assert!(!events(&folder.0.join(format!("run.{}.trace", pids[0]))).is_empty());
}

/// The file of one process becomes a pipe, which the command opens and from which nothing comes.
#[test]
fn a_signal_stops_the_joining_and_leaves_all_as_they_are() {
    let folder = Folder::new();
    let script = "for i in 1 2; do \"$0\" ping </dev/null >/dev/null & last=$!; echo $last; wait $last; done; \
                  rm run.$last.*; mkfifo run.$last.trace; exec >&-";
    let mut run = command(&["-r", "ranges", "-o", "report.txt", "--trace", "run.trace"]);
    run.args(["sh", "-c", script, &program().display().to_string()]).current_dir(&folder.0);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(run.stdout.take().expect("a pipe")).lines();
    let mut pid = || lines.next().expect("a line").expect("text");
    let [first, last] = [pid(), pid()].map(|pid| format!("run.{pid}.trace"));
    let pipe = loop {
        // There is no pipe yet, or nobody reads from it.
        match File::options().write(true).custom_flags(libc::O_NONBLOCK).open(folder.0.join(&last)) {
            Ok(file) if file.metadata().is_ok_and(|it| it.file_type().is_fifo()) => break file,
            _ => assert!(run.try_wait().expect("its state").is_none(), "it ended without reading {last}"),
        }
        std::thread::yield_now();
    };
    send(&run, libc::SIGINT);
    let output = run.wait_with_output().expect("it ends");
    drop(pipe);
    let said = said(&output);
    assert!(output.status.success() && said.contains("run.trace`: stopped by a signal\n"), "{output:?}");
    let mut expected = vec!["report.txt".to_owned(), first, last];
    expected.sort();
    assert_eq!(folder.names(), expected);
    assert!(std::fs::read_to_string(folder.0.join("report.txt")).expect("a report").contains("ping 0"));
}

/// A process that wrote no file is missing, and the only file has the name that was asked for.
#[test]
fn one_file_of_several_processes_has_the_name_that_was_asked_for() {
    let folder = Folder::new();
    let script = "\"$0\" ping </dev/null >/dev/null & one=$!; wait $one; \"$0\" ping </dev/null >/dev/null & two=$!; wait $two; \
                  rm run.$two.trace run.$two.sqlite";
    let output = ran(&folder, &[], &["sh", "-c", script, &program().display().to_string()]);
    assert_eq!((folder.names(), said(&output)), (vec!["run.sqlite".to_owned(), "run.trace".to_owned()], String::new()));
}

/// The command's own file has a name with its number, which the shell keeps by `exec`.
#[test]
fn a_link_stays_and_so_does_a_file_that_is_in_the_way() {
    let folder = Folder::new();
    std::os::unix::fs::symlink("target.json", folder.0.join("run.trace")).expect("a link");
    std::fs::write(folder.0.join("target.json"), "of an earlier run").expect("a file");
    let exec = |before: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{before}exec \"$0\" -o none --trace run.trace \"$@\"")]);
        shell.arg(tests::launcher::binary()).arg(program()).arg("turns").current_dir(&folder.0).output().expect("runs")
    };
    let output = exec("");
    assert!(output.status.success() && said(&output).is_empty(), "{output:?}");
    assert!(folder.0.join("run.trace").is_symlink());
    assert_eq!(
        (folder.names(), in_trace(&folder).len()),
        (vec!["run.trace".to_owned(), "target.json".to_owned()], 100)
    );
    let output = exec("echo mine >target.joined-$$.json; echo $$ >pid; ");
    let pid = std::fs::read_to_string(folder.0.join("pid")).expect("a number");
    let mine = std::fs::read_to_string(folder.0.join(format!("target.joined-{}.json", pid.trim()))).expect("a file");
    assert_eq!(mine, "mine\n");
    assert!(
        said(&output).starts_with("tracing-gpu: cannot join ") && said(&output).contains("File exists"),
        "{output:?}"
    );
}

#[test]
fn a_page_that_cannot_be_read_stays_beside_that_of_the_others() {
    let folder = Folder::new();
    let script = "for i in 1 2 3; do \"$0\" ping </dev/null >/dev/null & last=$!; wait $last; done; \
                  echo 'of another program </html>' >run.$last.html; echo $last";
    let mut run = command(&["-o", "none", "--html", "run.html"]);
    run.args(["sh", "-c", script, &program().display().to_string()]).current_dir(&folder.0);
    let output = run.output().expect("it starts");
    let last = format!("run.{}.html", String::from_utf8_lossy(&output.stdout).trim());
    let path = |name: &str| folder.0.join(name).display().to_string();
    let [page, other] = [path("run.html"), path(&last)];
    let expected = format!("tracing-gpu: html: pages that cannot be read are not on `{page}`: 1, as `{other}`\n");
    assert_eq!((said(&output), folder.names()), (expected, vec![last, "run.html".to_owned()]));
}

#[test]
fn sixty_processes_are_in_one_file() {
    let folder = Folder::new();
    let script = "for i in $(seq 60); do \"$0\" ping </dev/null >/dev/null & done; wait";
    let output = ran(&folder, &[], &["sh", "-c", script, &program().display().to_string()]);
    assert_eq!((folder.names(), said(&output)), (vec!["run.sqlite".to_owned(), "run.trace".to_owned()], String::new()));
    let events = events(&folder.0.join("run.trace"));
    let pings: std::collections::BTreeSet<u64> =
        events.iter().filter(|event| event["name"] == "ping 0").filter_map(|event| event["pid"].as_u64()).collect();
    assert_eq!(pings.len(), 60);
    let connection = rusqlite::Connection::open(folder.0.join("run.sqlite")).expect("a database");
    let query = "SELECT COUNT(DISTINCT globalTid), COUNT(*) FROM NVTX_EVENTS WHERE eventType = 59";
    let counts: (i64, i64) = connection.query_row(query, [], |row| Ok((row.get(0)?, row.get(1)?))).expect("ranges");
    assert_eq!(counts, (60, 60));
}

/// A process that goes on still writes its files: they stay, also its page.
#[test]
fn files_of_a_process_that_goes_on_stay() {
    let folder = Folder::new();
    let script = r#"
        mkfifo never; exec 3<>never
        "$0" ping <&3 >/dev/null 2>&1 & echo $! >pid
        until grep -q '"ping 0"' run.$!.trace 2>/dev/null; do :; done
        exec "$0" ping </dev/null >/dev/null
    "#;
    let options = ["--wait", "primary", "--html", "run.html"];
    let output = ran(&folder, &options, &["bash", "-c", script, &program().display().to_string()]);
    let goes_on = std::fs::read_to_string(folder.0.join("pid")).expect("a number").trim().to_owned();
    let names = folder.names();
    let ended = Command::new("kill").arg(&goes_on).status().expect("kill");
    assert!(output.status.success() && ended.success(), "{output:?}");
    for kind in ["trace", "sqlite", "html"] {
        let own: Vec<&String> = names.iter().filter(|name| name.ends_with(kind)).collect();
        let is_there = own.contains(&&format!("run.{goes_on}.{kind}"));
        assert!(is_there && own.len() == 2, "{names:?} {}", said(&output));
    }
}

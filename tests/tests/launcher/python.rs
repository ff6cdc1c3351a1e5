//! Python with the package `nvtx`, whose calls come from compiled modules: processes of every kind, and Ctrl-C.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use tests::foreign::folder;
use tests::launcher::{Folder, Ran, run};

const WORK: &str = "
import nvtx, os, signal, subprocess, sys, time
def work(name):
    for _ in range(3):
        with nvtx.annotate(name, domain='py'):
            pass
";

fn python(options: &[&str], script: &str) -> Ran {
    let wheel = folder("python");
    run(options, |command: &mut Command| {
        command.arg("python3").arg("-c").arg(format!("{WORK}\n{script}")).env("PYTHONPATH", wheel)
    })
}

#[test]
fn every_end_of_python_has_its_status_and_its_report() {
    for (script, status, ranges, is_cut) in [
        ("work('step')", Ok(0), "py:step 3", false),
        ("work('step'); sys.exit(3)", Ok(3), "py:step 3", false),
        ("work('step'); raise ValueError('on purpose')", Ok(1), "py:step 3", false),
        ("work('step'); signal.raise_signal(signal.SIGINT)", Err(libc::SIGINT), "py:step 3", false),
        ("work('step'); signal.raise_signal(signal.SIGTERM)", Err(libc::SIGTERM), "py:step 3", false),
        ("work('step'); os._exit(4)", Ok(4), "py:step 3", false),
        (
            "work('step')\nif os.fork() == 0: work('child'); sys.exit(0)\nos.wait()",
            Ok(0),
            "py:child 3, py:step 3",
            false,
        ),
        (
            "import multiprocessing as m\ndef child(): work('child')\nwork('step')\n\
             p = m.get_context('fork').Process(target=child); p.start(); p.join()",
            Ok(0),
            "py:child 3, py:step 3",
            false,
        ),
        (
            "work('step'); subprocess.run([sys.executable, '-c', 'import nvtx; nvtx.mark(\"m\"); nvtx.push_range(\"s\"); \
             nvtx.pop_range()'])",
            Ok(0),
            "py:step 3, s 1",
            false,
        ),
    ] {
        let ran = python(&[], script);
        let ended = ran.status.code().ok_or_else(|| ran.status.signal().expect("a signal"));
        let found = (ended, &*ran.ranges(), ran.is_cut());
        assert_eq!(found, (status, ranges, is_cut), "{script}: {}", ran.stderr);
        if status == Err(libc::SIGINT) {
            assert!(ran.stderr.contains("KeyboardInterrupt"), "{}", ran.stderr);
        }
    }
}

/// Their processes end by `_exit`, as soon as their jobs have finished.
#[test]
fn jobs_of_multiprocessing_are_all_counted() {
    let folder = Folder::new();
    let file = folder.0.join("jobs.py");
    let script = "
import nvtx, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
def job(number):
    with nvtx.annotate('job'): pass
if __name__ == '__main__':
    how = sys.argv[1]
    if how == 'executor':
        with ProcessPoolExecutor(4, get_context('fork')) as pool: list(pool.map(job, range(100)))
    elif how == 'process':
        all = [get_context('fork').Process(target=job, args=(number,)) for number in range(100)]
        for process in all: process.start()
        for process in all: process.join()
    else:
        with get_context(how).Pool(4) as pool: pool.map(job, range(100))
";
    std::fs::write(&file, script).expect("a file");
    for how in ["fork", "forkserver", "spawn", "executor", "process"] {
        let wheel = tests::foreign::folder("python");
        let ran = run(&[], |command| command.arg("python3").arg(&file).arg(how).env("PYTHONPATH", wheel));
        let rows = ran.summaries.iter().flat_map(|summary| &summary.ranges);
        let jobs: u64 = rows.filter(|row| row.name == "job").map(|row| row.times.instances).sum();
        assert_eq!((ran.status.code(), jobs), (Some(0), 100), "{how}: {}", ran.stderr);
    }
}

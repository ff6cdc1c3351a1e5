//! Python with the package `nvtx`, which makes its calls from compiled modules: processes of every kind, and Ctrl-C.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use tests::foreign::folder;
use tests::launcher::{Ran, run};

const WORK: &str = "
import nvtx, os, signal, subprocess, sys, time
def work(name):
    for _ in range(3):
        with nvtx.annotate(name, domain='py'):
            pass
def kept():
    path, seen = os.path.join(os.environ['TRACING_GPU_RUN'], f'{os.getpid()}.snapshot'), set()
    while len(seen) < 3:
        try: seen.add(os.stat(path).st_mtime_ns)
        except FileNotFoundError: pass
        time.sleep(0.001)
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
        ("work('step'); kept(); os._exit(4)", Ok(4), "py:step 3", true),
        (
            "work('step')\nif os.fork() == 0: work('child'); sys.exit(0)\nos.wait()",
            Ok(0),
            "py:child 3, py:step 3",
            false,
        ),
        (
            "import multiprocessing as m\ndef child(): work('child'); kept()\nwork('step')\n\
             p = m.get_context('fork').Process(target=child); p.start(); p.join()",
            Ok(0),
            "py:child 3, py:step 3",
            true,
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

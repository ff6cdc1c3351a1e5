//! What threads of C and Python wait for inside of ranges, by programs that time each wait by their own clock.

use std::path::Path;

use tests::foreign::{folder, headers};
use tests::launcher::{Folder, Ran, compiled, run};
use tracing_gpu::summary::OffCpuStats;

/// The row of a range with most time.
fn most<'a>(ran: &'a Ran, name: &str) -> &'a OffCpuStats {
    let mut rows = ran.summaries.iter().flat_map(|summary| &summary.off_cpu);
    rows.find(|row| row.name == name).unwrap_or_else(|| panic!("no {name} in {:?}: {}", ran.summaries, ran.stderr))
}

/// Whether each range waits for what is expected, as long as the program has printed: `pipe 2.000`. The first and the
/// last sample of a wait are uncertain: on a machine that is busy with others they stand for long.
fn check(ran: &Ran, waits: &[(&str, &str)]) {
    for (name, call) in waits {
        let took = ran.stdout.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        let expected = took.unwrap_or_else(|| panic!("{name}: {}", ran.stdout)) * 1e9;
        let row = most(ran, name);
        assert_eq!(row.call_of(), *call);
        let each = row.time_ns as f64 / row.samples as f64;
        let off = (row.time_ns as f64 - expected).abs();
        assert!(off <= 0.05 * expected + 2.0 * each, "{name} took {expected} ns: {row:?}");
    }
}

#[test]
fn waits_of_a_c_program_are_named() {
    let folder = Folder::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launcher/waits.c");
    let program = compiled(&folder.0, &source, &[&format!("-I{}", headers().display()), "-ldl", "-lpthread"]);
    let alone = std::process::Command::new(&program).arg("0.1").output().expect("it starts");
    let names = |text: &str| text.lines().filter_map(|line| line.split(' ').next()).collect::<Vec<_>>().join(" ");
    for options in [&["--report", "tree+off_cpu"][..], &["--off-cpu", "off"]] {
        let ran = run(options, |command| command.arg(&program).arg("2"));
        assert_eq!(ran.status, alone.status, "{}", ran.stderr);
        assert_eq!(names(&ran.stdout), names(&String::from_utf8_lossy(&alone.stdout)));
        if options[0] == "--off-cpu" {
            assert!(ran.summaries.iter().all(|summary| summary.off_cpu.is_empty()), "{:?}", ran.summaries);
            continue;
        }
        check(&ran, &[("pipe", "read (pipe)"), ("sleep", "clock_nanosleep"), ("lock", "futex (lock or condition)")]);
        let spin = ran.summaries[0].off_cpu.iter().filter(|row| row.name == "spin");
        assert!(spin.map(|row| row.time_ns).sum::<u64>() < 200_000_000, "{:?}", ran.summaries);
        let title = "Off CPU by Range and System Call, sampled (off_cpu):";
        assert!(ran.stderr.contains(title), "{}", ran.stderr);
    }
}

#[test]
fn waits_of_python_are_named_in_the_process_that_has_them() {
    let script = "
import nvtx, os, subprocess, sys, threading, time
def timed(name, wait):
    with nvtx.annotate(name):
        start = time.monotonic()
        wait()
        print(name, time.monotonic() - start, flush=True)
def read_pipe(name):
    out, into = os.pipe()
    threading.Timer(2, lambda: os.write(into, b'x')).start()
    timed(name, lambda: os.read(out, 1))
if sys.argv[1:] == ['child']:
    read_pipe('child')
else:
    child = subprocess.Popen([sys.executable, __file__, 'child'])
    read_pipe('pipe')
    timed('sleep', lambda: time.sleep(2))
    child.wait()
";
    let program = Folder::new();
    let file = program.0.join("waits.py");
    std::fs::write(&file, script).expect("a file");
    let wheel = folder("python");
    let ran = run(&[], |command| command.arg("python3").arg(&file).env("PYTHONPATH", wheel));
    assert!(ran.status.success(), "{}", ran.stderr);
    check(&ran, &[("pipe", "read (pipe)"), ("child", "read (pipe)"), ("sleep", most(&ran, "sleep").call.as_str())]);
    assert!(["clock_nanosleep", "select"].contains(&most(&ran, "sleep").call.as_str()), "{:?}", ran.summaries);
    let of = |name: &str| ran.summaries.iter().filter(|one| one.off_cpu.iter().any(|row| row.name == name)).count();
    assert_eq!((ran.summaries.len(), of("pipe"), of("child")), (2, 1, 1));
}

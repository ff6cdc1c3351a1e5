//! Stacks of NVTX calls: coroutines, small threads, threads with large thread-locals; and the memory of a thread.

use std::path::{Path, PathBuf};

use tests::foreign::headers;
use tests::launcher::{Folder, compiled, optimized, run, run_by};

/// `stacks.c`, compiled into this folder with these additional arguments.
fn program(folder: &Folder, more: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/launcher/stacks.c");
    let include = format!("-I{}", headers().display());
    compiled(&folder.0, &source, &[&[&*include], more, &["-ldl", "-lpthread"]].concat())
}

/// The limits of `docs/limits.md`, which hold for an optimised build.
#[test]
fn calls_take_little_of_a_stack() {
    let folder = Folder::new();
    let ran = run_by(optimized(), &[], |command| command.arg(program(&folder, &[])).arg("paint"));
    let taken: Vec<(&str, usize)> = ran.stdout.lines().filter_map(|line| line.split_once(": ")).map(number).collect();
    assert_eq!((ran.status.code(), taken.len()), (Some(0), 11), "{}", ran.stderr);
    for (name, bytes) in taken {
        let most = if name == "first of the process" { 8 << 10 } else { 4 << 10 };
        assert!(bytes <= most, "{name}: {bytes} bytes of stack, {most} allowed");
    }
}

fn number<'a>((name, bytes): (&'a str, &str)) -> (&'a str, usize) {
    (name, bytes.parse().expect("a number"))
}

#[test]
fn the_first_call_comes_on_any_stack() {
    let folder = Folder::new();
    let plain = program(&folder, &[]);
    for way in [["coroutine", "16"], ["coroutine", "128"], ["thread", "16"], ["thread", "0"]] {
        let ran = run_by(optimized(), &[], |command| command.arg(&plain).args(way));
        assert_eq!((ran.status.code(), &*ran.ranges()), (Some(0), "first 1"), "{way:?}: {}", ran.stderr);
    }
}

/// The C library takes them from the stack of each thread, including threads that we start.
#[test]
fn large_thread_locals_leave_our_threads_room() {
    for more in ["-DLARGE=450000", "-DLARGE=1048576", "-DLARGE=2096000"] {
        let folder = Folder::new();
        let program = program(&folder, &[more]);
        let ran = run(&[], |command| command.arg(program).args(["thread", "0"]));
        assert_eq!((ran.status.code(), &*ran.ranges()), (Some(0), "first 1"), "{more}: {}", ran.stderr);
    }
}

/// Sanitizers have large thread-locals, know only announced stacks, and do not see our synchronisation.
#[test]
fn sanitizers_find_nothing_in_us() {
    for sanitizer in ["-fsanitize=thread", "-fsanitize=address", "-fsanitize=undefined"] {
        let folder = Folder::new();
        let program = program(&folder, &[sanitizer]);
        for way in [["thread", "0"], ["crowd", "20"]] {
            let ran = run(&[], |command| command.arg(&program).args(way));
            assert_eq!(ran.status.code(), Some(0), "{sanitizer}: {}", ran.stderr);
            assert!(!ran.stderr.contains("Sanitizer") && ran.said().is_empty(), "{sanitizer}: {}", ran.stderr);
        }
    }
}

#[test]
fn a_thread_takes_at_most_100_kib() {
    let folder = Folder::new();
    let program = program(&folder, &[]);
    let resident = |threads: &str| {
        let ran = run(&[], |command| command.arg(&program).args(["crowd", threads]));
        ran.stdout.trim().parse::<usize>().unwrap_or_else(|_| panic!("{}", ran.stderr))
    };
    let a_thread = (resident("1100") - resident("100")) / 1000;
    assert!(a_thread <= 100, "{a_thread} KiB");
}

//! A system without memory.

use crate::scenario::{BOTH, instances, rows, untold};

/// Each allocation of a callback, a summary and a reset fails, in turn. The process ends like any Rust program, by
/// `handle_alloc_error`, or continues with all its counts. It does nothing else, and does not hang.
#[test]
fn an_allocation_that_fails_ends_the_program_as_it_does_elsewhere() {
    for tier in BOTH {
        let ran = untold("out-of-memory", tier);
        let lines: Vec<&str> = ran.stdout.lines().collect();
        assert_eq!(lines.len(), 6, "{tier}: {}", ran.stdout);
        let aborted = |line: &&str| -> usize {
            let (_, said) = line.split_once(": ").expect("a part");
            let (aborted, others) = said.split_once(" aborted, others ").expect("a count");
            assert_eq!(others, "[]", "{tier}: {line}: neither aborted nor whole");
            aborted.parse().expect("a number")
        };
        let aborted: usize = lines.iter().map(aborted).sum();
        // Only the first line of each counts, because the message may need memory, too.
        let said = ran.stderr.matches("memory allocation of ").count();
        assert!(aborted > 50 && said >= aborted, "{tier}: {aborted} aborted, {said} said why: {}", ran.stdout);
    }
}

#[test]
fn a_warm_span_needs_no_memory() {
    for tier in BOTH {
        let summary = untold("warm-without-memory", tier).summary();
        assert_eq!(instances(&summary), rows([("inner", 80_000), ("outer", 80_000)]), "{tier}");
    }
}

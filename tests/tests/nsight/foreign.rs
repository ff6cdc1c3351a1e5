//! A C program with NVIDIA's headers, seen by an injected profiler and by Nsight Systems behind it.

use std::process::Command;

use tests::foreign::{Summarised, compile, headers};
use tests::nsight::{profile, release_example};

use crate::compare::{agree, rows};

/// Nsight Systems gets every call after us.
#[test]
fn a_program_of_c() {
    let tool = release_example("workload").with_file_name("libforeign_tool.so");
    let program = compile("tests/foreign/calls.c", &[&format!("-I{}", headers().display()), "-ldl", "-lpthread"]);
    agree("a C program", || {
        let mut command = Command::new("sh");
        // While that variable is set, Nsight Systems puts its own path back into every process.
        let chained = "unset QUADD_INJECTION_PROXY; \
                       NVTX_RS_NEXT_TOOL=$NVTX_INJECTION64_PATH NVTX_INJECTION64_PATH=$TOOL exec \"$0\"";
        command.args(["-c", chained]).arg(&program.0).env("TOOL", &tool);
        let json = Summarised::new(&mut command, "names=whole");
        let (recording, _) = profile(&command);
        (recording, rows(&json.summary()))
    });
}

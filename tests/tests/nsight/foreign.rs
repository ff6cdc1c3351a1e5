//! A C program with NVIDIA's headers, measured by an injected profiler and by Nsight Systems behind it, which gets
//! every call after us.

use std::process::Command;

use tests::foreign::{Summarised, compile, headers};
use tests::nsight::{profile, release_example};
use tests::recorder::TemporaryFile;
use tracing_gpu::{Summary, SummaryExt as _};

use crate::compare::{agree, rows};

fn program() -> TemporaryFile {
    compile("tests/foreign/calls.c", &[&format!("-I{}", headers().display()), "-ldl", "-lpthread"])
}

#[test]
fn a_program_of_c() {
    let tool = release_example("workload").with_file_name("libforeign_tool.so");
    let program = program();
    agree("a C program", || {
        let mut command = Command::new("sh");
        // While that variable is set, Nsight Systems restores its own path in every process.
        let chained = "unset QUADD_INJECTION_PROXY; \
                       NVTX_RS_NEXT_TOOL=$NVTX_INJECTION64_PATH NVTX_INJECTION64_PATH=$TOOL exec \"$0\"";
        command.args(["-c", chained]).arg(&program.0).env("TOOL", &tool);
        let json = Summarised::new(&mut command, "names=whole");
        let (recording, _) = profile(&command);
        (recording, rows(&json.summary()))
    });
}

/// `nsys profile -t nvtx tracing-gpu ./app`.
#[test]
fn a_program_of_c_under_the_command() {
    let (command_itself, program) = (release_example("tracing-gpu"), program());
    agree("a C program under the command", || {
        let json = TemporaryFile::new("run.json");
        let mut command = Command::new(&command_itself);
        command.args(["--output", "none", "--json"]).arg(&json.0).arg(&program.0).env("TRACING_GPU", "names=whole");
        let (recording, _) = profile(&command);
        let file = std::fs::File::open(&json.0).expect("the summary of the command");
        (recording, rows(&Summary::read_json(file).expect("a summary")))
    });
}

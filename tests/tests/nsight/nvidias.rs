//! Programs from NVIDIA's own NVTX repository, which is not part of this one: `tests/nvtx_programs FOLDER` runs these
//! tests on a checkout.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tests::foreign;
use tests::launcher::{Folder, binary};
use tests::nsight::{Row, profile};
use tracing_gpu::summary::RangeStyle;
use tracing_gpu::{Summary, SummaryExt as _};

use crate::compare::{rows, same_counts};

/// The libraries that `runtest` loads, and the sources of each.
const LIBRARIES: [(&str, &[&str]); 13] = [
    ("inj", &["PrintInjection.cpp"]),
    ("self", &["TestSelfInjection.cpp", "SelfInjection.cpp"]),
    ("calls", &["Calls.cpp", "SelfInjection.cpp"]),
    ("coverage", &["Coverage.cpp"]),
    ("coveragec", &["CoverageC.c"]),
    ("coverage-mem", &["CoverageMem.c"]),
    ("coverage-payload", &["CoveragePayload.c"]),
    ("coverage-counter", &["CoverageCounter.c"]),
    ("attributes", &["Attributes.cpp"]),
    ("domains", &["Domains.cpp"]),
    ("categories", &["NamedCategories.cpp"]),
    ("regstrings", &["RegisteredStrings.cpp"]),
    ("linkerdupes", &["LinkerDupesMain.cpp", "LinkerDupesFileA.cpp", "LinkerDupesFileB.cpp"]),
];

/// Replaces Google's library, with as many rounds for each benchmark.
const BENCHMARK: &str = r#"
    #pragma once
    #include <vector>
    namespace benchmark {
    struct Round { ~Round() {} };
    struct State {
        struct Rounds {
            int left;
            bool operator!=(Rounds const &) const { return left != 0; }
            void operator++() { --left; }
            Round operator*() const { return {}; }
        };
        Rounds begin() { return {1000}; }
        Rounds end() { return {0}; }
    };
    inline std::vector<void (*)(State &)> &all() { static std::vector<void (*)(State &)> all; return all; }
    inline bool add(void (*one)(State &)) { all().push_back(one); return true; }
    }
    #define BENCHMARK(one) static bool added_##one = benchmark::add(one)
    int main() { benchmark::State state; for (auto one : benchmark::all()) one(state); }
"#;

/// The checkout, with its programs compiled into a folder.
struct Programs {
    source: PathBuf,
    built: Folder,
}

impl Programs {
    fn compile() -> Self {
        let source = PathBuf::from(std::env::var_os("NVTX_SOURCE").expect("run `tests/nvtx_programs FOLDER`"));
        let all = Self { source, built: Folder::new() };
        all.compiler("g++", &["tests/RunTest.cpp"], "runtest", &["-std=c++11", "-ldl"]);
        for (library, sources) in LIBRARIES {
            let (compiler, standard) =
                if sources[0].ends_with(".c") { ("gcc", "-std=gnu90") } else { ("g++", "-std=c++11") };
            let sources: Vec<String> = sources.iter().map(|source| format!("tests/{source}")).collect();
            let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
            let options = [standard, "-shared", "-fPIC", "-fvisibility=hidden"];
            all.compiler(compiler, &sources, &format!("lib{library}.so"), &options);
        }
        let benchmark = all.built.0.join("benchmark");
        std::fs::create_dir(&benchmark).expect("a folder");
        std::fs::write(benchmark.join("benchmark.h"), BENCHMARK).expect("a header");
        let include = format!("-I{}", all.built.0.display());
        all.compiler("g++", &["tools/benchmarks/nvtx/nvtx_benchmark.cpp"], "benchmarks", &["-std=c++14", &include]);
        all
    }

    fn compiler(&self, compiler: &str, sources: &[&str], output: &str, options: &[&str]) {
        let mut command = Command::new(compiler);
        command.arg("-w").arg("-I").arg(self.source.join("c/include")).args(sources).args(options);
        command.arg("-o").arg(self.built.0.join(output)).current_dir(&self.source);
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    fn library(&self, name: &str) -> PathBuf {
        self.built.0.join(format!("lib{name}.so"))
    }

    /// Runs `runtest` with this test under the command; `NVTX_INJECTION64_PATH` names the tool behind ours.
    fn run(&self, test: &str, behind: &str) -> Output {
        let mut command = Command::new(binary());
        command.args(["-o", "none"]).arg(self.built.0.join("runtest")).args(["-t", test, "-v"]);
        command.env("NVTX_INJECTION64_PATH", self.library(behind));
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
    }
}

/// The output of one of NVIDIA's tools for a program: a line for each call.
fn calls(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| line.starts_with("[inj]")).map(str::to_owned).collect()
}

/// Behind ours, NVIDIA's tools get the same calls as alone. `self` and `calls` compare each argument themselves.
#[test]
#[ignore = "needs a checkout: tests/nvtx_programs"]
fn tools_behind_ours_get_every_call() {
    let programs = Programs::compile();
    for test in ["self", "calls"] {
        let output = programs.run(test, test);
        assert!(output.status.success(), "{test}: {output:?}");
    }
    let mut count = 0;
    for (test, _) in LIBRARIES.iter().filter(|(test, _)| *test != "inj") {
        let mut alone = Command::new(programs.built.0.join("runtest"));
        let alone = calls(&alone.args(["-t", test, "-i", "inj"]).output().expect("it starts"));
        assert_eq!(calls(&programs.run(test, "inj")), alone, "{test}");
        count += alone.len();
    }
    assert!(count > 400, "only {count} calls");
}

/// `nsys stats` prints all ranges without a name in one row, whatever their domains.
fn without_names(rows: Vec<Row>) -> Vec<Row> {
    let (unnamed, mut named): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.label.ends_with("(unnamed)"));
    for style in [RangeStyle::PushPop, RangeStyle::StartEnd] {
        let instances = unnamed.iter().filter(|row| row.style == style).map(|row| row.instances).sum();
        if instances > 0 {
            named.push(Row { label: "None".to_owned(), style, instances, total_ns: 0, median_ns: 0.0 });
        }
    }
    named
}

/// Rows, styles and counts equal those of Nsight Systems.
#[test]
#[ignore = "needs a checkout: tests/nvtx_programs"]
fn ranges_are_counted_as_nsight_systems_does() {
    let programs = Programs::compile();
    let runtest = programs.built.0.join("runtest");
    let mut counted = BTreeMap::new();
    let mut count = |what: &str, program: &Path, arguments: &[&str]| {
        let json = programs.built.0.join("run.json");
        let mut command = Command::new(binary());
        command.args(["--output", "none", "--json"]).arg(&json).arg(program).args(arguments);
        command.env("TRACING_GPU", "names=whole").current_dir(&programs.built.0);
        let (recording, _) = profile(&command);
        let ours = match std::fs::File::open(&json) {
            Ok(file) => rows(&Summary::read_json(file).expect("a summary")),
            Err(_) => Vec::new(), // a program without ranges
        };
        let _there_may_be_none = std::fs::remove_file(&json);
        same_counts(what, &recording, &without_names(ours.clone()));
        counted.insert(what.to_owned(), (ours.len(), ours.iter().map(|row| row.instances).sum::<u64>()));
    };
    for (test, _) in LIBRARIES.iter().filter(|(test, _)| *test != "inj") {
        count(test, &runtest, &["-t", test]);
    }
    count("benchmarks", &programs.built.0.join("benchmarks"), &[]);
    eprintln!("rows and ranges: {counted:?}");
    assert_eq!(counted["benchmarks"], (3, 6000));
}

/// The calls in the tests of the Python package, with names, colours, categories, payloads and domains of all kinds.
/// Nsight Systems 2022.4 cannot import them, so NVIDIA's tool counts the calls.
#[test]
#[ignore = "needs a checkout: tests/nvtx_programs"]
fn ranges_of_python_are_counted() {
    let programs = Programs::compile();
    let json = programs.built.0.join("run.json");
    let tests = programs.built.0.join("test_here.py");
    std::fs::copy(programs.source.join("python/nvtx/tests/test_basic.py"), &tests).expect("its tests");
    let mut command = Command::new(binary());
    command.args(["-o", "none", "--json"]).arg(&json).args(["python3", "-m", "pytest", "-q", "-s"]).arg(&tests);
    command.env("NVTX_INJECTION64_PATH", programs.library("inj")).env("PYTHONPATH", foreign::folder("python"));
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    let calls = |name: &str| text.lines().filter(|line| *line == format!("[inj] {name}")).count() as u64;
    let ours = rows(&Summary::read_json(std::fs::File::open(&json).expect("a summary")).expect("a summary"));
    let ranges = |style| ours.iter().filter(|row| row.style == style).map(|row| row.instances).sum::<u64>();
    assert!(calls("nvtxDomainRangePushEx") > 1000, "{output:?}");
    assert_eq!(ranges(RangeStyle::PushPop), calls("nvtxDomainRangePushEx"));
    assert_eq!(ranges(RangeStyle::StartEnd), calls("nvtxDomainRangeStartEx"));
}

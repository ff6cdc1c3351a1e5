//! Properties of every public type: errors describe their own layer, types cross threads, writers and readers are taken
//! by value.

use std::error::Error;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::recorder::TemporaryFile;
use tracing_gpu::summary::OpenRange;
use tracing_gpu::{
    Comparison, Domain, Gpu, JsonError, MergedSummaryExt as _, MergedTable, Output, Profiler, RangeStyle,
    RenderOptions, Report, Summary, SummaryExt as _, TreeNode,
};

/// A reader that fails.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the cable is out"))
    }
}

/// Errors of every public kind.
fn errors() -> Vec<Box<dyn Error>> {
    let json = |text: &str| Summary::read_json(text.as_bytes()).expect_err(text);
    let builder = Profiler::builder;
    vec![
        Box::new(Summary::read_json(Broken).expect_err("it is broken")),
        Box::new(json("{")),
        Box::new(json("[]")),
        Box::new(json(r#"{"schema": "tracing-gpu/7"}"#)),
        Box::new(io::Error::from(json("{"))),
        Box::new(io::Error::from(Summary::read_json(Broken).expect_err("it is broken"))),
        Box::new(builder().domain(Domain::Named(String::new())).build().expect_err("it has no name")),
        Box::new(builder().sample_budget(1).build().expect_err("it is too small")),
        Box::new(builder().gpu_memory(1).build().expect_err("it is too small")),
        Box::new("wat".parse::<Gpu>().expect_err("it is no setting")),
        Box::new("".parse::<Output>().expect_err("it is no output")),
        Box::new("wat".parse::<Report>().expect_err("it is no report")),
        Box::new(nvtx_rs::Domain::named("").expect_err("it has no name")),
        Box::new("wat".parse::<nvtx_rs::Color>().expect_err("it is no colour")),
        Box::new(nvtx_rs::AttachError::TooLate),
        Box::new(gpu_activity::driver::CudaError::NOT_READY),
        Box::new(gpu_activity::driver::DriverMissing::Library("no such file".to_owned())),
        Box::new(gpu_activity::cupti::Unavailable::Running),
    ]
}

#[test]
fn an_error_never_repeats_its_source() {
    let mut with_source = 0;
    for error in errors() {
        assert!(!error.to_string().is_empty(), "{error:?}");
        let mut error: &dyn Error = &*error;
        while let Some(source) = error.source() {
            let (own, below) = (error.to_string(), source.to_string());
            assert!(!own.contains(&below), "{own:?} repeats {below:?}");
            with_source += 1;
            error = source;
        }
    }
    assert_eq!(with_source, 1, "one of these errors has a source");
}

#[test]
fn an_error_of_the_reader_keeps_its_cause() {
    let error = Summary::read_json(Broken).expect_err("it is broken");
    assert!(matches!(error, JsonError::Io(_)), "{error:?}");
    let chain = format!("{error}: {}", error.source().expect("the error of the reader"));
    assert_eq!(chain, "reading or writing failed: the cable is out");
    assert_eq!(io::Error::from(error).to_string(), "the cable is out");
}

/// The test is that this compiles.
#[test]
fn writers_are_taken_by_value_and_by_reference() -> Result<(), Box<dyn Error>> {
    let (summary, options, mut text) = (Summary::default(), RenderOptions::default(), Vec::new());
    summary.write_json(io::sink())?;
    summary.write_json(&mut text)?;
    summary.write_csv(Report::Tree, io::stdout().lock())?;
    summary.write_folded(&mut text as &mut dyn io::Write)?;
    summary.render(&[], &options, Box::new(&mut text))?;
    let comparison = Comparison::new(&summary, &summary);
    comparison.write_csv(io::BufWriter::new(&mut text))?;
    comparison.render(&options, io::sink())?;
    Summary::merge([]).write_csv(MergedTable::Tree, io::sink())?;
    assert_eq!(Summary::read_json(&text[..0]).expect_err("it is empty").to_string().find("not JSON"), Some(0));
    Ok(())
}

#[test]
fn types_cross_threads() {
    fn all<T: Send + Sync + Unpin + 'static>() {}
    all::<Profiler>();
    all::<tracing_gpu::ProfilerBuilder>();
    all::<tracing_gpu::Guard>();
    all::<tracing_gpu::GpuLayer>();
    all::<tracing_gpu::GpuSubscriber>();
    all::<Summary>();
    all::<tracing_gpu::summary::MergedSummary>();
    all::<Comparison>();
    all::<RenderOptions>();
    all::<JsonError>();
    all::<tracing_gpu::ConfigError>();
    all::<tracing_gpu::UnknownName>();
    all::<nvtx_rs::Domain>();
    all::<nvtx_rs::StartRange>();
}

/// The attribute in `range-model`, whose structs the tests of other crates write as literals.
const IN_MODEL: &str = "#[cfg_attr(not(feature = \"_literals\"), non_exhaustive)]";

/// Fields can be added to each result without breaking users.
#[test]
fn results_may_get_more_fields() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files =
        ["crates/range-model/src/summary", "crates/range-model/src/summary/merge", "crates/range-report/src/compare"]
            .map(|folder| root.join(folder))
            .into_iter()
            .chain([root.join("crates/gpu-activity/src/totals/figures.rs")]);
    let schema = std::fs::read_to_string(root.join("crates/range-model/src/summary/schema.rs")).expect("a source file");
    assert!(["$Row", "$Totals"].iter().all(|name| schema.contains(&format!("{IN_MODEL}\n        pub struct {name}"))));
    let mut seen = 0;
    let mut check = |file: &std::path::Path| {
        let text = std::fs::read_to_string(file).expect("a source file");
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            if line.starts_with("pub struct ") && line.ends_with('{') {
                let mut attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
                assert!(
                    attributes.any(|line| ["#[non_exhaustive]", IN_MODEL].contains(line)),
                    "{}: {line}",
                    file.display()
                );
                seen += 1;
            }
            // Declared with `figures!`, which adds the attribute.
            seen += usize::from(line.starts_with("    pub struct ") || line.starts_with("    figures "));
        }
    };
    for place in files {
        if place.is_file() {
            check(&place);
            continue;
        }
        for entry in std::fs::read_dir(&place).expect("a folder").flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                check(&path);
            }
        }
    }
    assert!(seen > 35, "{seen} structs");
}

/// The message of rustc to a program that passes a stream of another binding.
fn refusal_of_another_stream() -> String {
    let programs = std::env::current_exe().expect("the path of this program");
    let folder = programs.parent().expect("a folder");
    let is_library = |name: &str| name.starts_with("libtracing_gpu-") && name.ends_with(".rlib");
    let files = std::fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let libraries = files.filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_library));
    let built = |path: &PathBuf| path.metadata().and_then(|metadata| metadata.modified()).expect("a time");
    let library = libraries.max_by_key(built).expect("the library that this test is built with");
    let source = TemporaryFile::new("stream.rs");
    let text = "fn main() { tracing_gpu::with_stream(&std::sync::Arc::new(7), || ()); }";
    std::fs::write(&source.0, text).expect("a file");
    let compiled = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"))
        .args(["--edition", "2024", "--emit", "metadata", "-o", "/dev/null", "-L"])
        .arg(format!("dependency={}", folder.display()))
        .args(["--extern", &format!("tracing_gpu={}", library.display())])
        .arg(&source.0)
        .output();
    String::from_utf8_lossy(&compiled.expect("rustc starts").stderr).into_owned()
}

#[test]
fn a_stream_of_another_binding_is_refused_with_the_way_to_pass_it() {
    let said = refusal_of_another_stream();
    for part in [
        "`Arc<{integer}>` is no stream that tracing-gpu takes",
        "expected an `Arc<CudaStream>` of cudarc 0.19 (feature `cudarc`), or a `RawStream`",
        "`tracing_gpu::RawStream::new(context, stream)`",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn rows_of_a_summary_have_their_types_in_the_root() {
    let mut summary = Summary::default();
    summary.tree.push(TreeNode::new("step"));
    summary.losses.open.push(OpenRange::new("step", "main"));
    let nodes: Vec<&TreeNode> = summary.tree.iter().filter(|node: &&TreeNode| node.name == "step").collect();
    let styles: Vec<RangeStyle> = summary.losses.open.iter().map(|range| range.style).collect();
    assert_eq!((nodes.len(), &styles[..]), (1, &[RangeStyle::PushPop][..]));
}

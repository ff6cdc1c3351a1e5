//! Our SQLite timelines, read by the real `nsys stats`: every report runs, and agrees with its definition for the same
//! workload, with our own tables, and with our attribution of the file.

#[path = "nsight_sqlite/damage.rs"]
mod damage;
#[path = "nsight_sqlite/expected.rs"]
mod expected;
#[path = "nsight_attribution/export.rs"]
mod export;
#[path = "nsight_sqlite/generate.rs"]
mod generate;
#[path = "nsight_sqlite/stats.rs"]
mod stats;
#[path = "nsight_sqlite/summaries.rs"]
mod summaries;
#[allow(dead_code)] // the other test reads more of them
#[path = "nsight_attribution/tables.rs"]
mod tables;
#[path = "nsight_sqlite/traces.rs"]
mod traces;

use std::path::Path;

use gpu_analysis::KernelExec;
use range_files::Sqlite;
use range_model::Fold as _;
use range_model::timeline::{Item, Sink};
use tracing_gpu::summary::{Process, RangeStyle};
use tracing_gpu::{Report, Summary};

use expected::Expected;
use generate::{Calls, Clock, PROCESS, Random, Workload};
use stats::Folder;

const REPORTS: [&str; 14] = [
    "nvtxppsum",
    "nvtxsesum",
    "nvtxsum",
    "nvtxpptrace",
    "nvtxgpuproj",
    "nvtxkernsum",
    "cudaapisum",
    "cudaapitrace",
    "gpukernsum",
    "gpumemtimesum",
    "gpumemsizesum",
    "gpusum",
    "gputrace",
    "kernexecsum",
];

#[allow(clippy::needless_update)] // a process may get more fields
fn process() -> Process {
    let mut it = Process::default();
    it.pid = PROCESS;
    it.command = "program --flag".to_owned();
    it
}

/// Writes the items, with a flush now and then.
fn write(path: &Path, items: &[Item<'_>], random: &mut Random) {
    let mut sink = Sqlite::new(path);
    sink.begin(&process()).expect("it begins");
    for item in items {
        sink.item(item).expect("an item is written");
        if random.below(100) == 0 {
            sink.flush().expect("it is flushed");
        }
    }
    sink.end(&Summary::default(), 0).expect("it ends");
}

fn check(seed: u64, calls: Calls) {
    let work = Workload::new(seed, calls, Clock::Fine);
    let folder = Folder::new(&format!("{seed}-{calls:?}"));
    write(&folder.file("run.sqlite"), &work.items(seed), &mut Random::new(seed));
    let expected = Expected::of(&work);
    let mut reports = REPORTS.to_vec();
    reports.retain(|&report| report != "nvtxsesum" || work.has_lifetimes());
    let printed = folder.stats(&reports);

    let both = [RangeStyle::PushPop, RangeStyle::StartEnd];
    summaries::sums(&printed["nvtxppsum"], &["Range"], "Instances", &expected.ranges(&both[..1]));
    if work.has_lifetimes() {
        summaries::sums(&printed["nvtxsesum"], &["Range"], "Instances", &expected.ranges(&both[1..]));
    }
    summaries::sums(&printed["nvtxsum"], &["Style", "Range"], "Instances", &expected.ranges(&both));
    summaries::sums(&printed["cudaapisum"], &["Name"], "Num Calls", &expected.calls());
    summaries::sums(&printed["gpukernsum"], &["GridXYZ", "BlockXYZ", "Name"], "Instances", &expected.kernels());
    let memory = expected.memory(|operation, _| operation.end - operation.start);
    summaries::sums(&printed["gpumemtimesum"], &["Operation"], "Count", &memory);
    summaries::bytes(&printed["gpumemsizesum"], &expected.memory(|_, bytes| bytes));
    summaries::sums(&printed["gpusum"], &["Category", "Operation"], "Instances", &expected.gpu());

    traces::push_pop(&printed["nvtxpptrace"], &expected);
    traces::projections(&printed["nvtxgpuproj"], &expected);
    traces::range_kernels(&printed["nvtxkernsum"], &expected);
    traces::operations(&printed["gputrace"], &expected);
    traces::calls(&printed["cudaapitrace"], &expected);
    traces::executions(&printed["kernexecsum"], &expected);

    let summary = summaries::summary(&expected);
    summaries::same(&summary, Report::Ranges, &printed[if work.has_lifetimes() { "nvtxsum" } else { "nvtxppsum" }]);
    summaries::same(&summary, Report::Kernels, &printed["gpukernsum"]);
    summaries::same(&summary, Report::MemTime, &printed["gpumemtimesum"]);
    summaries::same(&summary, Report::MemSize, &printed["gpumemsizesum"]);
    summaries::same(&summary, Report::Api, &printed["cudaapisum"]);
    summaries::same(&summary, Report::RangeKernels, &printed["nvtxkernsum"]);
    // The file has a call for each launch, even for one without a record.
    let made = expected.calls_of_launches().map(Item::ApiCall);
    let items = work.items(seed).into_iter().filter(|item| !matches!(item, Item::ApiCall(_))).chain(made);
    let (mut fold, mut executed) = (KernelExec::default(), Summary::default());
    items.for_each(|item| fold.item(&item));
    fold.finish(&mut executed);
    (executed.process, executed.gpu) = (process(), summary.gpu.clone());
    summaries::same(&executed, Report::KernelExec, &printed["kernexecsum"]);
    let projected = traces::grouped(&printed["nvtxgpuproj"]);
    summaries::same(&summary, Report::GpuProjection, &projected);

    // The result of our attribution for the file itself.
    let totals = export::Recording::read(&folder.file("run.sqlite")).attribute();
    tables::same(&totals.kernels, &tables::KernelRow::read(&folder.file("out_nvtxkernsum.csv")));
    // Our profiler determines a range's level by the stack, Nsight Systems by the ranges around it, including start/end
    // ranges. Without those, both agree.
    let figures = if work.has_lifetimes() { 4 } else { 6 };
    let first = |mut rows: std::collections::BTreeMap<tables::Key, tables::Figures>| {
        rows.values_mut().for_each(|row| row.rounded.truncate(figures));
        rows
    };
    tables::same(&first(totals.projections), &first(traces::figures(&projected)));
}

#[test]
fn without_calls_of_the_api() {
    (1..=4).for_each(|seed| check(seed, Calls::None));
}

#[test]
fn with_calls_of_the_api() {
    (11..=15).for_each(|seed| check(seed, Calls::Some));
}

#[test]
fn ranges_with_the_same_stamps_keep_their_places() {
    for seed in 21..=23 {
        let work = Workload::new(seed, Calls::None, Clock::Coarse);
        let folder = Folder::new(&format!("{seed}-coarse"));
        write(&folder.file("run.sqlite"), &work.items(seed), &mut Random::new(seed));
        let printed = folder.stats(&["nvtxpptrace", "nvtxppsum"]);
        traces::nested(&printed["nvtxpptrace"], &work);
    }
}

#[test]
fn nothing_is_not_much() {
    let folder = Folder::new("empty");
    write(&folder.file("run.sqlite"), &[], &mut Random::new(1));
    for report in REPORTS {
        let said = folder.says(report);
        assert!(said.contains("no data was returned"), "{report}: {said}");
    }
}

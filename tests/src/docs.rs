//! The READMEs and the pages in `docs/` as doctests: each Rust snippet is compiled, and run unless it is marked
//! `no_run`.

macro_rules! page {
    ($name:ident, $path:literal) => {
        #[doc = include_str!(concat!("../../", $path))]
        struct $name;
    };
}

page!(Readme, "README.md");
page!(Async, "docs/async.md");
page!(Command, "docs/command.md");
page!(Compare, "docs/compare.md");
page!(Cost, "docs/cost.md");
page!(Dependencies, "docs/dependencies.md");
page!(Fields, "docs/fields.md");
page!(Files, "docs/files.md");
page!(Fleet, "docs/fleet.md");
page!(Gpu, "docs/gpu.md");
page!(Index, "docs/README.md");
page!(Limits, "docs/limits.md");
page!(Mpi, "docs/mpi.md");
page!(Nsight, "docs/nsight.md");
page!(Nvprof, "docs/nvprof.md");
page!(OpenAcc, "docs/openacc.md");
page!(Options, "docs/options.md");
page!(Parquet, "docs/parquet.md");
page!(Python, "docs/python.md");
page!(Reliability, "docs/reliability.md");
page!(Security, "docs/security.md");
page!(CudaActivity, "crates/gpu-activity/README.md");
page!(GpuAnalysis, "crates/gpu-analysis/README.md");
page!(NvtxRs, "nvtx-rs/README.md");
page!(RangeFiles, "crates/range-files/README.md");
page!(RangeModel, "crates/range-model/README.md");
page!(RangePage, "crates/range-page/README.md");
page!(RangeReport, "crates/range-report/README.md");
page!(TracingGpuCli, "tracing-gpu-cli/README.md");

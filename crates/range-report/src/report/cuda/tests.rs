use super::*;
use crate::{Report, SummaryExt as _};
use range_model::{ApiCallStats, GpuActivity, KernelStats, MemoryKind, MemoryStats, RangeStyle};

type Render = fn(&Summary, &RenderOptions) -> String;
/// Functions for the texts of the reports.
macro_rules! texts {
    ($($name:ident: $report:ident;)*) => {$(
        fn $name(summary: &Summary, options: &RenderOptions) -> String {
            let mut text = Vec::new();
            summary.render_one(Report::$report, options, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        }
    )*};
}

texts! {
    kernels: Kernels;
    memory_time: MemTime;
    memory_size: MemSize;
    calls: Api;
    openacc: OpenAcc;
    projection: GpuProjection;
    range_kernels: RangeKernels;
}

const ALL: [Render; 6] = [kernels, memory_time, memory_size, calls, projection, range_kernels];

fn times(instances: u64, total_ns: u64) -> Times {
    let mean = total_ns / instances.max(1);
    let (median_ns, median_exact) = (Some(mean as f64), true);
    Times {
        instances,
        total_ns,
        min_ns: mean,
        max_ns: mean,
        median_ns,
        median_exact,
        stddev_ns: 0.0,
        ..Times::default()
    }
}

fn sizes(count: u64, total_bytes: u64) -> Sizes {
    let mean = total_bytes / count;
    Sizes { count, total_bytes, min_bytes: mean, max_bytes: mean, median_bytes: None, stddev_bytes: 0.0 }
}

fn summary(gpu: GpuActivity) -> Summary {
    Summary { gpu: Some(gpu), ..Summary::default() }
}

fn activity() -> Summary {
    let memory = |kind, ns, bytes| MemoryStats { kind, times: times(2, ns), sizes: sizes(2, bytes) };
    let call = |name: &str, ns| ApiCallStats { name: name.to_owned(), times: times(1, ns) };
    summary(GpuActivity {
        kernels: ["b", "a\t", "1000"].map(|name| KernelStats { name: name.to_owned(), times: times(4, 8_000) }).into(),
        memory: vec![memory(MemoryKind::HtoD, 5_000, 2_048), memory(MemoryKind::DtoH, 5_000, 4_096_000)],
        calls: Some(vec![call("cuMemAlloc_v2", 1), call("cudaLaunchKernel_v7000", 3_000)]),
        ..GpuActivity::default()
    })
}

#[test]
fn the_legacy_style_has_the_tables_of_2021() {
    let options = RenderOptions::default().style(TableStyle::Legacy);
    let expected = "
CUDA Kernel Statistics:

 Time(%)  Total Time (ns)  Instances  Average  Minimum  Maximum  Name
 -------  ---------------  ---------  -------  -------  -------  ----
    33.3            8,000          4  2,000.0    2,000    2,000  1000
    33.3            8,000          4  2,000.0    2,000    2,000  a\\t 
    33.3            8,000          4  2,000.0    2,000    2,000  b   


CUDA Memory Operation Statistics (by time):

 Time(%)  Total Time (ns)  Operations  Average  Minimum  Maximum      Operation     
 -------  ---------------  ----------  -------  -------  -------  ------------------
    50.0            5,000           2  2,500.0    2,500    2,500  [CUDA memcpy DtoH]
    50.0            5,000           2  2,500.0    2,500    2,500  [CUDA memcpy HtoD]


CUDA Memory Operation Statistics (by size in KiB):

   Total    Operations   Average    Minimum    Maximum       Operation     
 ---------  ----------  ---------  ---------  ---------  ------------------
 4,000.000           2  2,000.000  2,000.000  2,000.000  [CUDA memcpy DtoH]
     2.000           2      1.000      1.000      1.000  [CUDA memcpy HtoD]


CUDA API Statistics:

 Time(%)  Total Time (ns)  Num Calls  Average  Minimum  Maximum        Name      
 -------  ---------------  ---------  -------  -------  -------  ----------------
   100.0            3,000          1  3,000.0    3,000    3,000  cudaLaunchKernel
     0.0                1          1      1.0        1        1  cuMemAlloc_v2   

";
    let text: String =
        [kernels, memory_time, memory_size, calls].map(|render: Render| render(&activity(), &options)).concat();
    assert_eq!(text, expected);
    assert!(
        kernels(&activity(), &options.raw_names(true)).contains("  1,000"),
        "as the tool prints a name that is a number"
    );
}

#[test]
fn a_median_of_sizes_may_be_unknown() {
    let text = memory_size(&activity(), &RenderOptions::default());
    assert!(text.contains("     4.096      2     2.048         -     2.048     2.048        0.000"), "{text}");
    assert!(text.contains("[CUDA memcpy Device-to-Host]"), "{text}");
}

#[test]
fn ranges_have_bare_names_and_domains_theirs() {
    let projected = |domain: Option<&str>, name: &str, style, ns| ProjectionStats {
        domain: domain.map(str::to_owned),
        name: name.to_owned(),
        style,
        projected: times(3, ns),
        range_total_ns: 9_000,
        operations: 7,
        level_sum: 2,
        children_sum: 4,
    };
    let gpu = GpuActivity {
        projections: vec![
            projected(None, "request", RangeStyle::StartEnd, 300),
            projected(Some("app"), "step", RangeStyle::PushPop, 6_000),
            projected(None, "", RangeStyle::PushPop, 300),
            ProjectionStats { projected: times(0, 0), ..projected(None, "open", RangeStyle::PushPop, 1) },
        ],
        ..GpuActivity::default()
    };
    let expected = "
 ** NVTX GPU Projection Summary (nvtx_gpu_proj_sum):

  Range     Style    Total Proj Time (ns)  Total Range Time (ns)  Range Instances  Proj Avg (ns)  Proj Med (ns)  Proj Min (ns)  Proj Max (ns)  Proj StdDev (ns)  Total GPU Ops  Avg GPU Ops  Avg Range Lvl  Avg Num Child
 --------  --------  --------------------  ---------------------  ---------------  -------------  -------------  -------------  -------------  ----------------  -------------  -----------  -------------  -------------
 app:step  PushPop                  6,000                  9,000                3        2,000.0        2,000.0          2,000          2,000               0.0              7          2.3            0.7            1.3
 None      PushPop                    300                  9,000                3          100.0          100.0            100            100               0.0              7          2.3            0.7            1.3
 request   StartEnd                   300                  9,000                3          100.0          100.0            100            100               0.0              7          2.3            0.7            1.3

";
    assert_eq!(projection(&summary(gpu), &RenderOptions::default()), expected);
}

#[test]
fn kernels_by_range_start_outside_of_any() {
    let row = |range: Option<&str>, tid, kernel: &str, ns| RangeKernelStats {
        range: range.map(|name| (None, name.to_owned())),
        style: range.map(|_| RangeStyle::PushPop),
        pid: 431,
        tid,
        range_instances: u64::from(range.is_some()),
        kernel_instances: 1,
        times: times(1, ns),
        kernel: kernel.to_owned(),
    };
    let gpu = GpuActivity {
        range_kernels: vec![
            row(Some("step"), 431, "short", 10),
            row(Some("step"), 431, "long", 20),
            row(Some(""), 431, "k", 40),
            row(None, 0, "k", 30),
        ],
        ..GpuActivity::default()
    };
    let expected = "
 ** NVTX Range Kernel Summary (nvtx_kern_sum):

 NVTX Range   Style   PID  TID  NVTX Inst  Kern Inst  Total Time (ns)  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Kernel Name
 ----------  -------  ---  ---  ---------  ---------  ---------------  --------  --------  --------  --------  -----------  -----------
                      431    -          0          1               30      30.0      30.0        30        30          0.0  k          
 None        PushPop  431  431          1          1               40      40.0      40.0        40        40          0.0  k          
 step        PushPop  431  431          1          1               20      20.0      20.0        20        20          0.0  long       
 step        PushPop  431  431          1          1               10      10.0      10.0        10        10          0.0  short      

";
    assert_eq!(range_kernels(&summary(gpu), &RenderOptions::default()), expected);
}

#[test]
fn events_of_openacc_have_the_columns_of_calls() {
    let mut row = range_model::OpenAccStats::new("acc_wait", times(2, 40));
    row.place = Some("a.c:5".to_owned());
    let summary = Summary { openacc: vec![row], ..Summary::default() };
    let expected = "
 ** OpenACC Events, Exclusive (openacc):

 Time (%)  Total Time (ns)  Events  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)      Event
 --------  ---------------  ------  --------  --------  --------  --------  -----------  --------------
    100.0               40       2      20.0      20.0        20        20          0.0  acc_wait@a.c:5

";
    assert_eq!(openacc(&summary, &RenderOptions::default()).replace("     \n", "\n"), expected);
    assert!(openacc(&Summary::default(), &RenderOptions::default()).contains(NO_OPENACC));
}

#[test]
fn what_is_missing_is_said() {
    let options = RenderOptions::default();
    let unrecorded = ALL.map(|render| render(&Summary::default(), &options));
    assert!(unrecorded.iter().all(|text| text.contains(NO_ACTIVITY)), "{unrecorded:?}");
    let nothing = ALL.map(|render| render(&summary(GpuActivity::default()), &options));
    let sentences = [NO_KERNEL, NO_MEMORY, NO_MEMORY, NO_CALL_RECORDED, NO_LAUNCH, NO_KERNEL];
    for (text, sentence) in nothing.iter().zip(sentences) {
        assert!(text.ends_with(&format!(":\n\n{sentence}\n")), "{text}");
    }
    let no_calls = GpuActivity { calls: Some(vec![]), ..GpuActivity::default() };
    assert!(calls(&summary(no_calls), &options).contains(NO_CALL));
    #[cfg(feature = "compare")]
    {
        let merged = Summary::merge([activity(), activity()]).as_one();
        assert!(range_kernels(&merged, &options).ends_with(&format!(":\n\n{NO_RANGE_KERNEL}\n")));
    }
}

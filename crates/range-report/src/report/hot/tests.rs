use super::*;
use range_model::{
    ApiCallStats, GpuActivity, GraphWork, KernelStats, MemoryKind, MemoryStats, NodeWork, Sizes, Times, TreeNode,
};

fn times(instances: u64, total_ns: u64) -> Times {
    Times { instances, total_ns, ..Times::default() }
}

/// The first rows of an nvprof summary, for which a student determined by hand which kernels make more than 90 %.
fn inference() -> Summary {
    let kernels = [
        (
            "void cudnn::detail::implicit_convolve_sgemm<float, float, int=1024, int=5, int=5, int=3, int=3, int=3, int=1>",
            1,
            8_453_100,
        ),
        ("volta_cgemm_64x32_tn", 1, 4_958_700),
        ("void op_generic_tensor_kernel<int=2, float, float, float, int=256>", 2, 2_928_100),
        ("void fft2d_c2r_32x32<float, bool=0, bool=0, unsigned int=1>", 1, 2_350_600),
        ("volta_sgemm_128x128_tn", 1, 2_340_000),
        ("void cudnn::detail::pooling_fw_4d_kernel<float, float>", 1, 1_882_100),
        ("void fft2d_r2c_32x32<float, bool=0, unsigned int=0, bool=0>", 1, 1_554_100),
        ("others", 33, 350_500),
    ];
    let calls = [
        ("cudaStreamCreateWithFlags_v5000", 22, 3_007_050_000),
        ("cudaMemGetInfo_v3020", 24, 2_386_330_000),
        ("cudaFree_v3020", 19, 1_518_430_000),
        ("cudaFuncSetAttribute_v9000", 912, 99_952_000),
        ("others", 1_745, 93_100_000),
    ];
    let gpu = GpuActivity {
        kernels: kernels.map(|(name, count, ns)| KernelStats { name: name.to_owned(), times: times(count, ns) }).into(),
        memory: vec![MemoryStats { kind: MemoryKind::HtoD, times: times(20, 16_127_000), sizes: Sizes::default() }],
        calls: Some(
            calls.map(|(name, count, ns)| ApiCallStats { name: name.to_owned(), times: times(count, ns) }).into(),
        ),
        ..GpuActivity::default()
    };
    Summary { gpu: Some(gpu), ..Summary::default() }
}

#[test]
fn the_few_that_make_nine_tenths() {
    let expected = "
 ** Hot Spots, 90 % of the Time (hot):

 The 6 kernels and copies that together make 90 % of GPU time (40.94 ms):

 Name                            Share  Together     Total  Calls
 ------------------------------  -----  --------  --------  -----
 [CUDA memcpy Host-to-Device]    39.4%     39.4%  16.13 ms     20
 implicit_convolve_sgemm<float>  20.6%     60.0%  8.453 ms      1
 volta_cgemm_64x32_tn            12.1%     72.1%  4.959 ms      1
 op_generic_tensor<float>         7.2%     79.3%  2.928 ms      2
 fft2d_c2r_32x32<float>           5.7%     85.0%  2.351 ms      1
 volta_sgemm_128x128_tn           5.7%     90.8%  2.340 ms      1
 3 more are left out: together 9.2%.

 The 3 API calls that together make 90 % of API time (7.105 s):

 Name                       Share  Together     Total  Calls
 -------------------------  -----  --------  --------  -----
 cudaStreamCreateWithFlags  42.3%     42.3%  3.007 s      22
 cudaMemGetInfo             33.6%     75.9%  2.386 s      24
 cudaFree                   21.4%     97.3%  1.518 s      19
 2 more are left out: together 2.7%.

";
    assert_eq!(hot(&inference(), &RenderOptions::default().width(80)), expected);
    let wide = hot(&inference(), &RenderOptions::default().width(200).full_names(true));
    assert!(wide.contains("int=3, int=3, int=3, int=1>  20.6%"), "{wide}");
}

#[test]
fn the_percentage_can_be_chosen() {
    let text = |hot_percent| {
        let options = RenderOptions { hot_percent, ..RenderOptions::default() };
        hot(&inference(), &options)
    };
    assert!(text(99.5).contains("Hot Spots, 99.5 % of the Time"));
    assert!(text(0.0).contains("The kernel or copy that makes 0 % of GPU time"), "{}", text(0.0));
    assert!(text(30.0).contains("The API call that makes 30 % of API time"));
    assert!(text(100.0).contains("The 9 kernels and copies that together"), "{}", text(100.0));
    assert!(text(100.0).contains(" None is left out.\n"));
    assert_eq!((text(700.0), text(f64::NAN)), (text(100.0), text(90.0)));
}

/// Kernels of equal time. `rows` has name, range and time of each.
fn launched(kernels: &[&str], rows: &[(&str, &str, u64)]) -> Summary {
    let range_kernels = rows.iter().map(|&(kernel, range, ns)| range_model::RangeKernelStats {
        range: Some((None, range.to_owned())),
        style: Some(RangeStyle::PushPop),
        ..range_model::RangeKernelStats::new(kernel, times(1, ns))
    });
    let gpu = GpuActivity {
        kernels: kernels.iter().map(|name| KernelStats::new(*name, times(1, 100_000))).collect(),
        range_kernels: range_kernels.collect(),
        ..GpuActivity::default()
    };
    Summary { gpu: Some(gpu), ..Summary::default() }
}

fn at(summary: &Summary, width: usize) -> String {
    hot(summary, &RenderOptions::default().width(width).hot_percent(100.0))
}

#[test]
fn what_a_helper_launched_is_in_the_range_that_waited_for_it() {
    use range_model::{GpuWork, NodeKernel, NodeWork, TreeNode};

    let node = |name: &str, children| TreeNode { name: name.to_owned(), calls: 1, children, ..TreeNode::default() };
    let mut helper = node("[thread pt]", vec![]);
    let work = NodeWork::new(GpuWork::new(2, 200_000, 200_000), GpuWork::new(2, 200_000, 200_000));
    let kernels = vec![NodeKernel::new("gemm", 1, 90_000), NodeKernel::new("relu", 1, 10_000)];
    helper.gpu = Some(NodeWork { kernels, ..work });
    let mut summary = launched(&["gemm", "relu"], &[("relu", "forward", 90_000), ("relu", "step", 90_000)]);
    summary.tree = vec![node("step", vec![node("forward", vec![]), node("backward", vec![helper])])];
    let text = at(&summary, 80);
    let rows: Vec<&str> = text.lines().skip(7).take(2).collect();
    let expected =
        [" gemm  50.0%     50.0%  100.0 us      1  backward", " relu  50.0%    100.0%  100.0 us      1  forward"];
    assert_eq!(rows, expected, "{text}");
}

#[test]
fn a_kernel_has_the_range_that_launched_most_of_it() {
    let mut summary = launched(
        &["void conv_kernel<float>(float*)", "gemm", "relu", "copy"],
        &[
            ("void conv_kernel<float>(float*)", "main", 100_000),
            ("void conv_kernel<float>(float*)", "layer 1", 60_000),
            ("void conv_kernel<float>(float*)", "layer 2", 40_000),
            ("gemm", "main", 100_000),
            ("gemm", "layer 1", 50_000),
            ("gemm", "layer 2", 50_000),
            ("relu", "layer 1", 20_000),
            ("relu", "layer 2", 30_000),
        ],
    );
    let gpu = summary.gpu.as_mut().unwrap();
    let lifetime = range_model::RangeKernelStats {
        range: Some((None, "request".to_owned())),
        style: Some(RangeStyle::StartEnd),
        ..range_model::RangeKernelStats::new("copy", times(1, 100_000))
    };
    gpu.range_kernels.extend([lifetime, range_model::RangeKernelStats::new("copy", times(1, 100_000))]);
    let text = at(&summary, 80);
    let rows: Vec<&str> = text.lines().skip(7).take(4).collect();
    let expected = [
        " conv<float>  25.0%     25.0%  100.0 us      1  layer 1",
        " gemm         25.0%     50.0%  100.0 us      1  main",
        " relu         25.0%     75.0%  100.0 us      1  layer 2",
        " copy         25.0%    100.0%  100.0 us      1",
    ];
    assert_eq!(rows, expected, "{text}");
}

/// Dropped columns are named, the range first, and two names stay distinct.
#[test]
fn columns_give_way_before_names() {
    let [a, b] = ["a", "b"].map(|part| format!("gemm{}{part}{}", "f32".repeat(9), "tn".repeat(12)));
    let summary = launched(&[&a, &b], &[(&a, "forward pass", 100_000)]);
    let wide = at(&summary, 200);
    assert!(wide.contains(&a) && wide.contains("forward pass") && !wide.contains("Columns left out"), "{wide}");
    for (width, gone) in [(80, None), (70, Some("Range")), (60, Some("Range, Together"))] {
        let text = at(&summary, width);
        let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let names: Vec<&&str> = names.iter().filter(|name| name.contains("f32") || name.contains("tn")).collect();
        assert!(names.len() == 2 && names[0] != names[1], "{width}:\n{text}");
        let said = gone.map(|gone| format!("Columns left out: {gone}.\n"));
        assert_eq!(text.contains("Columns left out"), said.is_some(), "{width}:\n{text}");
        assert!(said.is_none_or(|said| text.contains(&said)), "{width}:\n{text}");
    }
}

#[test]
fn a_list_has_ten_rows_at_most() {
    let names: Vec<String> = (10..30).map(|number| format!("kernel_{number}")).collect();
    let summary = launched(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
    let text = at(&summary, 80);
    assert!(text.contains(" The 10 kernels and copies that take longest, 50.0 % of GPU time (2.000 ms):"), "{text}");
    assert!(text.contains(" kernel_19") && !text.contains(" kernel_20"), "{text}");
    assert!(text.contains(" 10 more are left out: together 50.0%.") && !text.contains("Range"), "{text}");
}

#[test]
fn what_is_missing_is_said() {
    let text = |gpu| hot(&Summary { gpu, ..Summary::default() }, &RenderOptions::default());
    assert!(text(None).contains(NO_ACTIVITY));
    let nothing = text(Some(GpuActivity::default()));
    assert!(nothing.contains(NO_OPERATION) && nothing.contains(NO_CALL_RECORDED), "{nothing}");
    let no_calls = text(Some(GpuActivity { calls: Some(vec![]), ..GpuActivity::default() }));
    assert!(no_calls.contains(NO_CALL), "{no_calls}");
}

/// Without them, the copies before the first replay would seem to be most of the GPU's time.
#[test]
fn whole_replays_of_graphs_are_among_the_operations() {
    let mut summary = inference();
    let replay = |name: &str, whole, whole_ns| TreeNode {
        gpu: Some(NodeWork {
            graphs: GraphWork { replays: whole, whole, whole_ns, ..GraphWork::default() },
            ..NodeWork::default()
        }),
        ..TreeNode::new(name)
    };
    summary.tree = vec![replay("decode", 100, 300_000_000), replay("warm up", 3, 10_000_000)];
    let expected = "
 The kernel, copy or graph that makes 80 % of GPU time (350.9 ms):

 Name                  Share  Together     Total  Calls  Range
 --------------------  -----  --------  --------  -----  ------
 [CUDA graph replays]  88.3%     88.3%  310.0 ms    103  decode
 9 more are left out: together 11.7%.
";
    let options = RenderOptions { hot_percent: 80.0, ..RenderOptions::default().width(80) };
    let shown = hot(&summary, &options);
    assert!(shown.contains(expected), "{shown}");
    // No span launched more than half of it, and then those of one name did.
    summary.tree[1] = replay("warm up", 3, 300_000_000);
    assert!(hot(&summary, &options).contains("\n [CUDA graph replays]  93.6%     93.6%  600.0 ms    103\n"));
    summary.tree[0].children.push(replay("warm up", 1, 1));
    assert!(hot(&summary, &options).contains("  600.0 ms    104  warm up\n"));
}

/// A kernel that waits for a late rank need not be faster: only the time in which it moves data counts.
#[test]
fn collectives_have_the_rank_of_the_time_in_which_they_move_data() {
    use range_model::summary::{CollectiveStats, Lateness};
    let kernel = |name: &str, ns| KernelStats { name: name.to_owned(), times: times(60, ns) };
    let kernels = vec![
        kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 9_000_000),
        kernel("gemm", 4_000_000),
        kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 3_000_000),
        kernel("ncclDevKernel_Broadcast_RING_LL", 1_000_000),
    ];
    let operation =
        CollectiveStats { name: "AllReduce".to_owned(), waiting_ns: 8_000_000, ..CollectiveStats::default() };
    let lateness = Lateness { operations: vec![operation], ..Lateness::default() };
    let gpu = Some(GpuActivity { kernels, ..GpuActivity::default() });
    let summary = Summary { gpu, lateness: Some(lateness), ..Summary::default() };
    let text = hot(&summary, &RenderOptions::default());
    let places = ["gemm", "AllReduce_Sum_f32", "AllReduce_Sum_bf16"].map(|name| text.find(name).unwrap());
    assert!(places.is_sorted(), "{text}");
    assert!(text.contains("4.000 ms") && text.contains("3.000 ms") && text.contains("1.000 ms"), "{text}");
    assert!(text.contains(" Without 8.000 ms in which ranks waited for others in collectives.\n"), "{text}");
    assert!(!hot(&inference(), &RenderOptions::default()).contains("Without"));
}

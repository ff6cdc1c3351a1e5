use super::*;
use crate::{ApiCallStats, GpuActivity, KernelStats, MemoryKind, MemoryStats, Sizes, Times};

fn times(instances: u64, total_ns: u64) -> Times {
    Times { instances, total_ns, ..Times::default() }
}

/// The first rows of an nvprof summary that a student answered "which make more than 90 %" for, by hand.
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

 Share  Together     Total  Calls  Name
 -----  --------  --------  -----  ------------------------------
 39.4%     39.4%  16.13 ms     20  [CUDA memcpy Host-to-Device]
 20.6%     60.0%  8.453 ms      1  implicit_convolve_sgemm<float>
 12.1%     72.1%  4.959 ms      1  volta_cgemm_64x32_tn
  7.2%     79.3%  2.928 ms      2  op_generic_tensor<float>
  5.7%     85.0%  2.351 ms      1  fft2d_c2r_32x32<float>
  5.7%     90.8%  2.340 ms      1  volta_sgemm_128x128_tn
 3 more are left out: together 9.2%.

 The 3 API calls that together make 90 % of API time (7.105 s):

 Share  Together     Total  Calls  Name
 -----  --------  --------  -----  -------------------------
 42.3%     42.3%  3.007 s      22  cudaStreamCreateWithFlags
 33.6%     75.9%  2.386 s      24  cudaMemGetInfo
 21.4%     97.3%  1.518 s      19  cudaFree
 2 more are left out: together 2.7%.

";
    assert_eq!(hot(&inference(), &RenderOptions::default().width(80)), expected);
    let wide = hot(&inference(), &RenderOptions::default().width(200).full_names(true));
    assert!(wide.contains("int=3, int=3, int=3, int=1>\n"), "{wide}");
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
    assert!(
        text(100.0).contains("The 9 kernels and copies that together") && text(100.0).contains(" None is left out.\n")
    );
    assert_eq!((text(700.0), text(f64::NAN)), (text(100.0), text(90.0)));
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

use super::*;
use range_model::summary::{CallStates, OpenRange, RangeStyle};

fn times(durations: &[u64]) -> Times {
    let mut times = Times::new(durations.len() as u64, durations.iter().sum());
    for duration in durations {
        let part = vec![(range_model::summary::histogram_bucket(*duration), 1)];
        times.histogram = Vec::join(&[&times.histogram, &part]);
    }
    times
}

fn full() -> Summary {
    let mut summary = Summary::default();
    (summary.process.host, summary.process.rank) = ("node7".to_owned(), Some(3));
    summary.process.run_id = "nightly".to_owned();
    summary.elapsed_ns = 60_000_000_000;
    summary.ranges.push(RangeStats::new("odd \"name\" \\ of\ntwo lines", times(&[900, 1_024, 1_025, 3_000_000])));
    let mut request = CallStats::new("request", times(&[5_000_000]));
    (request.cancelled, request.domain) = (Some(1), Some("net".to_owned()));
    let mut states = CallStates::default();
    (states.on_cpu_ns, states.ready_ns) = (4_000_000, 1_000_000);
    request.states = Some(states);
    summary.calls.push(request);
    summary.stream_ranges.push(StreamStats::new("step", "GPU 0 #1", times(&[70])));
    let mut gpu = GpuActivity { total: GpuWork::new(4, 900, 800), ..GpuActivity::default() };
    gpu.kernels.push(KernelStats::new("gemm<float, 8>(float*)", times(&[300, 400])));
    gpu.memory.push(MemoryStats::new(MemoryKind::HtoD, times(&[100, 100]), Sizes::new(2, 4_096)));
    gpu.projections.push(ProjectionStats::new("step", times(&[800])));
    summary.gpu = Some(gpu);
    summary.waits.push(WaitStats::new("request", Some("flush".to_owned()), 3, 2_000, 900));
    summary.losses.open.push(OpenRange::new("main", "thread 1"));
    summary
}

fn written(summary: &Summary, format: Format) -> String {
    text(summary, format)
}

#[test]
fn buckets_are_cumulative_and_have_their_bounds() {
    let text = written(&full(), Format::OpenMetrics);
    let span = r#"span="odd \"name\" \\ of\ntwo lines""#;
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start).map(str::trim));
    let bucket = |le: &str| line(&format!("tracing_gpu_range_duration_seconds_bucket{{{span},le=\"{le}\"}}"));
    let found = ["0.000001024", "0.000002048", "0.002097152", "0.004194304", "68.719476736", "+Inf"].map(bucket);
    assert_eq!(found, ["2", "3", "3", "4", "4", "4"].map(Some), "{text}");
    assert_eq!(line(&format!("tracing_gpu_range_duration_seconds_sum{{{span}}}")), Some("0.003002949"));
    let state =
        |state: &str| line(&format!("tracing_gpu_call_state_seconds_total{{span=\"net:request\",state=\"{state}\"}}"));
    assert_eq!(["on_cpu", "ready", "gpu_work"].map(state), ["0.004", "0.001", "0.0"].map(Some));
    assert_eq!(line("tracing_gpu_gpu_busy_seconds_total"), Some("0.0000008"));
    assert_eq!(line("tracing_gpu_process_info{host=\"node7\",rank=\"3\",run=\"nightly\"}"), Some("1"));
}

/// Each family has its lines together, and each sample belongs to the family above it.
#[test]
fn samples_stand_below_their_family() {
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let (text, mut family, mut seen) = (written(&full(), format), String::new(), Vec::new());
        for line in text.lines() {
            if let Some(typed) = line.strip_prefix("# TYPE ") {
                family = typed.split(' ').next().unwrap_or_default().to_owned();
                assert!(!seen.contains(&family), "{family} is there twice");
                seen.push(family.clone());
            } else if line == "# EOF" {
                assert!(format == Format::OpenMetrics && text.ends_with("# EOF\n"));
            } else {
                let name = line.trim_start_matches("# UNIT ").trim_start_matches("# HELP ");
                assert!(name.starts_with(&family), "{line} below {family}");
            }
        }
        assert_eq!(text.contains("# UNIT"), format == Format::OpenMetrics);
        assert_eq!(text.contains("# TYPE tracing_gpu_wait_seconds_total counter"), format == Format::Prometheus);
    }
}

#[test]
fn rows_beyond_the_limit_are_one_and_counted() {
    let mut summary = Summary::default();
    for number in 0..MOST_ROWS + 7 {
        summary.ranges.push(RangeStats::new(format!("span {number:03}"), times(&[1_000, 3_000])));
    }
    // A lifetime of the same name shares its row.
    let mut lifetime = RangeStats::new("span 000", times(&[7]));
    lifetime.style = RangeStyle::StartEnd;
    summary.ranges.push(lifetime);
    let text = written(&summary, Format::OpenMetrics);
    let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line} in {text}");
    has("tracing_gpu_range_duration_seconds_count{span=\"span 000\"} 3");
    has("tracing_gpu_range_duration_seconds_count{span=\"other\"} 14");
    has("tracing_gpu_range_duration_seconds_bucket{span=\"other\",le=\"0.000001024\"} 7");
    has("tracing_gpu_rows_in_other{metric=\"range_duration_seconds\"} 7");
    let rows = text.lines().filter(|line| line.starts_with("tracing_gpu_range_duration_seconds_count")).count();
    assert_eq!(rows, MOST_ROWS + 1);
}

#[test]
fn windows_add_up_and_rows_keep_their_places() {
    let mut metrics = Metrics::default();
    for window in 0..3 {
        let mut summary = full();
        summary.ranges.insert(0, RangeStats::new(format!("new {window}"), times(&[9_000])));
        metrics.add(summary);
    }
    let all = &metrics.all;
    let names: Vec<&str> = all.ranges.iter().map(|row| &row.name[..3]).collect();
    assert_eq!(names, ["new", "odd", "new", "new"]);
    assert_eq!((all.ranges[1].times.instances, all.ranges[1].times.histogram[1]), (12, (80, 3)));
    let call = &all.calls[0];
    assert_eq!((call.label(), call.latency.instances, call.cancelled), ("net:request".to_owned(), 3, Some(3)));
    assert_eq!(call.states.map(|states| states.ready_ns), Some(3_000_000));
    let gpu = all.gpu.as_ref().unwrap();
    assert_eq!(
        (gpu.total.busy_ns, gpu.kernels[0].times.instances, gpu.memory[0].sizes.total_bytes),
        (2_400, 6, 12_288)
    );
    assert_eq!((all.waits[0].time_ns, all.losses.open.len(), all.elapsed_ns), (6_000, 1, 180_000_000_000));
    let mut text = Vec::new();
    metrics.openmetrics(&mut text).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), written(all, Format::OpenMetrics));
}

#[test]
fn seconds_are_exact() {
    let found = [0, 1, 1_024, 1_000_000_000, 68_719_476_736].map(seconds);
    assert_eq!(found, ["0.0", "0.000000001", "0.000001024", "1.0", "68.719476736"]);
}

use proptest::prelude::*;
use range_model::summary::RangeStats;

use super::*;

fn times(durations: &[u64], kept: usize) -> Times {
    let mut times = Times::new(durations.len() as u64, durations.iter().sum());
    for duration in durations.iter().take(kept) {
        let part = vec![(histogram_bucket(*duration), 1)];
        times.histogram = Vec::join(&[&times.histogram, &part]);
    }
    times
}

/// Bounds of the buckets that are not empty, and their counts.
fn buckets(point: &ExponentialHistogramDataPoint) -> Vec<(f64, f64, u64)> {
    let bound = |number: i32| (f64::from(number) / 8.0).exp2();
    let Buckets { offset, bucket_counts } = point.positive.as_ref().unwrap();
    let all = (*offset..).zip(bucket_counts).filter(|(_, count)| **count > 0);
    all.map(|(number, count)| (bound(number), bound(number + 1), *count)).collect()
}

proptest! {
    #[test]
    fn a_bucket_holds_its_duration(ns in 2_u64..100_000_000_000) {
        let point = histogram(Vec::new(), &times(&[ns], 1), [0, 1]);
        let [(lower, upper, 1)] = *buckets(&point) else { panic!("{point:?}") };
        // The bounds are up to 1.6 % too high.
        let (duration, higher) = (seconds(ns), seconds(ns) * 1.0157);
        prop_assert!(lower < higher && duration * 1.0155 <= upper * (1.0 + 1e-9), "{lower} < {duration} <= {upper}");
    }
}

#[test]
fn what_was_not_kept_is_with_the_mean() {
    let point = histogram(Vec::new(), &times(&[1_000, 3_000, 1_000_000, 2_996_000], 2), [0, 1]);
    assert_eq!((point.count, point.sum), (4, Some(0.004)));
    let all = buckets(&point);
    assert_eq!(all.iter().map(|(.., count)| count).sum::<u64>(), 4);
    assert!(matches!(all[2], (lower, upper, 2) if lower < 0.001_02 && 0.001 < upper), "{all:?}");
    let none = histogram(Vec::new(), &times(&[5_000], 0), [0, 1]);
    assert_eq!(buckets(&none).iter().map(|(.., count)| count).sum::<u64>(), 1);
}

#[test]
fn the_message_has_the_resource_and_the_metrics() {
    let mut process = Process::default();
    (process.host, process.pid, process.rank) = ("node7".to_owned(), 42, Some(3));
    process.run_id = "nightly".to_owned();
    let mut window = Summary::default();
    (window.elapsed_ns, window.ranges) = (1_500_000_000, vec![RangeStats::new("step", times(&[1_000_000], 1))]);
    let mut metrics = Metrics::default();
    metrics.add(window);
    let bytes = encode(&Resource::new(&process), &metrics, [7, 8], false);
    let message = ExportMetricsServiceRequest::decode(&*bytes).unwrap();
    let of_resource = &message.resource_metrics[0];
    let text = format!("{:?}", of_resource.resource);
    for part in ["host.name", "\"node7\"", "IntValue(42)", "\"node7:42\"", "tracing_gpu.rank", "\"nightly\""] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let metrics = &of_resource.scope_metrics[0].metrics;
    let named = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
    let Some(Data::Sum(measured)) = &named("tracing_gpu.measured").data else { panic!("{metrics:?}") };
    assert_eq!(measured.data_points[0].value, Some(number_data_point::Value::AsDouble(1.5)));
    assert!(measured.is_monotonic && measured.aggregation_temporality == AggregationTemporality::Cumulative as i32);
    let range = named("tracing_gpu.range.duration");
    assert_eq!(range.unit, "s");
    let Some(Data::ExponentialHistogram(histogram)) = &range.data else { panic!("{range:?}") };
    let point = &histogram.data_points[0];
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano, point.count), (7, 8, 1));
    assert_eq!(point.attributes[0].key, "span");
}

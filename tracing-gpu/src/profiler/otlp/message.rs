//! Metrics as a message of OTLP. The types of `opentelemetry_sdk` cannot be made outside of it, so that samples would
//! have to be recorded again, one by one; those of `opentelemetry-proto` can.

use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue as Attribute};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource as ResourceMessage;
use prost::Message;
use range_model::stats::Lean;
use range_model::summary::{Join, histogram_bucket};
use range_model::{Process, Summary, Times};
use range_report::export::{Family, Labels, Metrics, Rows};

/// Eight buckets for each doubling, as [`Times::histogram`] has them.
const SCALE: i32 = 3;

/// The number of the bucket of at most one second, by the count of [`Times::histogram`], whose bounds are powers of two
/// in nanoseconds. It is 239.18 in truth, so the bounds in seconds are 1.6 % too high. The number of an OTLP bucket is
/// that of its lower bound.
const SECOND: i32 = 239 + 1;

/// What the metrics are of.
pub(super) struct Resource {
    all: opentelemetry_sdk::Resource,
    has_gpus: bool,
}

impl Resource {
    pub(super) fn new(process: &Process) -> Self {
        let all = opentelemetry_sdk::Resource::builder().build();
        let mut resource = Self { all, has_gpus: false };
        let instance = format!("{}:{}", process.host, process.pid);
        resource.add(KeyValue::new("host.name", process.host.clone()));
        resource.add(KeyValue::new("process.pid", i64::from(process.pid)));
        resource.add(KeyValue::new("service.instance.id", instance));
        resource.add(KeyValue::new("tracing_gpu.run", process.run_id.clone()));
        if let Some(rank) = process.rank {
            resource.add(KeyValue::new("tracing_gpu.rank", i64::from(rank)));
        }
        resource
    }

    /// Adds an attribute, unless the user's environment has it.
    fn add(&mut self, attribute: KeyValue) {
        if self.all.get(&attribute.key).is_none() {
            let known = self.all.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())).in_vec();
            let builder = opentelemetry_sdk::Resource::builder_empty().with_attributes(known);
            self.all = builder.with_attribute(attribute).build();
        }
    }

    /// Adds the GPUs, once the program has used one.
    pub(super) fn look_for_gpus(&mut self, window: &Summary) {
        let uses_gpu = window.gpu.is_some() || !window.stream_ranges.is_empty();
        if self.has_gpus || !uses_gpu {
            return;
        }
        let uuids: Vec<StringValue> = gpu_uuids().into_iter().map(StringValue::from).in_vec();
        self.has_gpus = !uuids.is_empty();
        if self.has_gpus {
            self.add(KeyValue::new("tracing_gpu.gpu.uuids", Value::Array(Array::String(uuids))));
        }
    }
}

#[cfg(feature = "cuda")]
fn gpu_uuids() -> Vec<String> {
    gpu_activity::driver::Driver::get()
        .map(|driver| gpu_activity::own_calls::during(|| driver.device_uuids()))
        .unwrap_or_default()
}

#[cfg(not(feature = "cuda"))]
fn gpu_uuids() -> Vec<String> {
    Vec::new()
}

/// The message. `times` are when the metrics begin and end. With `is_delta`, they are no sums since the start.
pub(super) fn encode(resource: &Resource, metrics: &Metrics, times: [u64; 2], is_delta: bool) -> Vec<u8> {
    let attributes = resource.all.iter().map(Attribute::from).in_vec();
    let resource = ResourceMessage { attributes, ..ResourceMessage::default() };
    let scope = InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let metrics = metrics.families().into_iter().map(|family| metric(family, times, is_delta)).in_vec();
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, ..ScopeMetrics::default() }];
    let of_resource = ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }.encode_to_vec()
}

fn metric(family: Family<'_>, times: [u64; 2], is_delta: bool) -> Metric {
    let Family { name, unit, about, labels, rows } = family;
    let temporality = match is_delta {
        true => AggregationTemporality::Delta,
        false => AggregationTemporality::Cumulative,
    };
    let aggregation_temporality = temporality.into();
    let data = match rows {
        Rows::Histogram(rows) => {
            let data_points = rows.iter().map(|(values, row)| histogram(attributes(labels, values), row, times));
            Data::ExponentialHistogram(ExponentialHistogram {
                data_points: data_points.in_vec(),
                aggregation_temporality,
            })
        }
        Rows::Counter(rows) => {
            let value = |value: u64| match unit {
                "s" => number_data_point::Value::AsDouble(seconds(value)),
                _ => value.into(),
            };
            let data_points = rows.iter().map(|(values, row)| number(attributes(labels, values), value(*row), times));
            Data::Sum(Sum { data_points: data_points.in_vec(), aggregation_temporality, is_monotonic: true })
        }
        Rows::Gauge(rows) => {
            let data_points = rows.iter().map(|(values, row)| number(attributes(labels, values), (*row).into(), times));
            Data::Gauge(Gauge { data_points: data_points.in_vec() })
        }
    };
    let (name, description) = (format!("tracing_gpu.{name}"), about.to_owned());
    Metric { name, description, unit: unit.to_owned(), data: Some(data), ..Metric::default() }
}

fn attributes(labels: [&'static str; 2], values: &Labels<'_>) -> Vec<Attribute> {
    let all = labels.into_iter().zip(values).filter(|(label, _)| !label.is_empty());
    all.map(|(label, value)| Attribute::from((&label.into(), &value.to_string().into()))).in_vec()
}

fn number(attributes: Vec<Attribute>, value: number_data_point::Value, [start, now]: [u64; 2]) -> NumberDataPoint {
    let (start_time_unix_nano, time_unix_nano) = (start, now);
    NumberDataPoint { attributes, start_time_unix_nano, time_unix_nano, value: Some(value), ..Default::default() }
}

/// Durations that were not kept are in the bucket of the mean.
fn histogram(attributes: Vec<Attribute>, times: &Times, [start, now]: [u64; 2]) -> ExponentialHistogramDataPoint {
    let kept: u64 = times.histogram.iter().map(|(_, count)| *count).fold(0, u64::saturating_add);
    let mean = times.total_ns.checked_div(times.instances).unwrap_or(0);
    let mut others = vec![(histogram_bucket(mean), times.instances.saturating_sub(kept))];
    others.retain(|(_, count)| *count > 0);
    let all = Join::join(&[&times.histogram, &others]);
    let [first, last] = [all.first(), all.last()].map(|bucket| bucket.map_or(0, |(number, _)| *number));
    let mut bucket_counts = vec![0; (last - first) as usize + 1];
    for (number, count) in &all {
        if let Some(bucket) = bucket_counts.get_mut((number - first) as usize) {
            *bucket = *count;
        }
    }
    ExponentialHistogramDataPoint {
        attributes,
        start_time_unix_nano: start,
        time_unix_nano: now,
        count: times.instances,
        sum: Some(seconds(times.total_ns)),
        scale: SCALE,
        positive: Some(Buckets { offset: first as i32 - SECOND, bucket_counts }),
        min: Some(seconds(times.min_ns)),
        max: Some(seconds(times.max_ns)),
        ..ExponentialHistogramDataPoint::default()
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests;

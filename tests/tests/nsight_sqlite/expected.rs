//! The expected reports for a workload, from their definitions.

use std::collections::{BTreeMap, BTreeSet};

use range_model::timeline::{Api, ApiCall, Operation, Range, Work};
use tracing_gpu::summary::{MemoryKind, RangeStyle, Sizes, Times};

use crate::generate::{PROCESS, Workload};

type Numbers = BTreeSet<usize>;

/// Values by their group.
pub(crate) type Groups = BTreeMap<Vec<String>, Vec<u64>>;

/// The call that launched an operation, as it must be in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub(crate) thread: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) name: &'static str,
}

/// The workload with its relations resolved.
pub(crate) struct Expected<'a> {
    pub(crate) work: &'a Workload,
    pub(crate) launches: BTreeMap<u32, Launch>,
}

pub(crate) fn label(range: &Range<'_>) -> String {
    range.domain.map_or_else(|| range.name.to_owned(), |domain| format!("{domain}:{}", range.name))
}

pub(crate) const fn style(style: RangeStyle) -> &'static str {
    match style {
        RangeStyle::StartEnd => "StartEnd",
        _ => "PushPop",
    }
}

pub(crate) fn memory(kind: MemoryKind) -> String {
    if kind == MemoryKind::Set { "[CUDA memset]".to_owned() } else { format!("[CUDA memcpy {kind:?}]") }
}

/// A version of four digits is not shown.
fn shown(call: &str) -> String {
    let stem = call.len().checked_sub(6).filter(|&at| call[at..].starts_with("_v"));
    call[..stem.unwrap_or(call.len())].to_owned()
}

/// The call of a launch without a record of its own.
const fn made_up(operation: &Operation<'_>) -> &'static str {
    match operation.work {
        _ if operation.graph_node != 0 => "cuGraphLaunch",
        Work::Graph(_) => "cuGraphLaunch",
        Work::Kernel(_) => "cuLaunchKernel",
        Work::Memory(memory) => match memory.kind {
            MemoryKind::HtoD => "cuMemcpyHtoDAsync_v2",
            MemoryKind::DtoH => "cuMemcpyDtoHAsync_v2",
            MemoryKind::DtoD => "cuMemcpyDtoDAsync_v2",
            MemoryKind::PtoP => "cuMemcpyPeerAsync",
            MemoryKind::Set => "cuMemsetD8Async",
            _ => "cuMemcpyAsync",
        },
    }
}

impl<'a> Expected<'a> {
    pub(crate) fn of(work: &'a Workload) -> Self {
        let mut launches = BTreeMap::new();
        for wanted in [Api::Runtime, Api::Driver] {
            for call in work.calls.iter().filter(|call| call.api == wanted) {
                let (thread, start, end, name) = (call.thread, call.start, call.end, call.name);
                launches.entry(call.correlation).or_insert(Launch { thread, start, end, name });
            }
        }
        for operation in &work.operations {
            if let Some((thread, at)) = operation.launch {
                let missing = Launch { thread, start: at, end: at, name: made_up(operation) };
                launches.entry(operation.correlation).or_insert(missing);
            }
        }
        Self { work, launches }
    }

    pub(crate) fn ranges(&self, styles: &[RangeStyle]) -> Groups {
        let mut groups = Groups::new();
        for range in self.work.ranges.iter().filter(|range| styles.contains(&range.style)) {
            let key =
                if styles.len() > 1 { vec![style(range.style).to_owned(), label(range)] } else { vec![label(range)] };
            groups.entry(key).or_default().push(range.end - range.start);
        }
        groups
    }

    pub(crate) fn calls(&self) -> Groups {
        let mut groups = Groups::new();
        for launch in self.launches.values() {
            groups.entry(vec![shown(launch.name)]).or_default().push(launch.end - launch.start);
        }
        groups
    }

    pub(crate) fn kernels(&self) -> Groups {
        let mut groups = Groups::new();
        for operation in &self.work.operations {
            if let Work::Kernel(kernel) = operation.work {
                let size = |[x, y, z]: [i32; 3]| format!("{x:4} {y:4} {z:4}");
                let key = vec![size(kernel.grid), size(kernel.block), operation.kernel.to_owned()];
                groups.entry(key).or_default().push(operation.end - operation.start);
            }
        }
        groups
    }

    pub(crate) fn memory(&self, value: impl Fn(&Operation<'_>, u64) -> u64) -> Groups {
        let mut groups = Groups::new();
        for operation in &self.work.operations {
            if let Work::Memory(done) = operation.work {
                groups.entry(vec![memory(done.kind)]).or_default().push(value(operation, done.bytes));
            }
        }
        groups
    }

    pub(crate) fn gpu(&self) -> Groups {
        let kernels =
            self.kernels().into_iter().map(|(key, values)| (vec!["CUDA_KERNEL".to_owned(), key[2].clone()], values));
        let memory = self.memory(|operation, _| operation.end - operation.start);
        kernels
            .chain(memory.into_iter().map(|(key, values)| (vec!["MEMORY_OPER".to_owned(), key[0].clone()], values)))
            .collect()
    }

    /// The ranges around a launch: those of its thread that contain the whole call.
    pub(crate) fn around(&self, launch: Launch) -> impl Iterator<Item = usize> {
        let ranges = self.work.ranges.iter().enumerate();
        ranges
            .filter(move |(_, range)| {
                let here = range.thread == launch.thread && range.end_thread.is_none();
                here && range.start <= launch.start && range.end >= launch.end
            })
            .map(|(at, _)| at)
    }

    /// The innermost range around another; push/pop ranges only, or all that did not end elsewhere.
    pub(crate) fn parent(&self, child: usize, all: bool) -> Option<usize> {
        let ranges = &self.work.ranges;
        let of = &ranges[child];
        let holds = |(at, range): &(usize, &Range<'_>)| {
            let counts = if all { range.end_thread.is_none() } else { range.style == RangeStyle::PushPop };
            counts && *at != child && range.thread == of.thread && range.start <= of.start && range.end >= of.end
        };
        let tightness = |range: &Range<'_>| (of.start - range.start) + (range.end - of.end);
        ranges.iter().enumerate().filter(holds).min_by_key(|(_, range)| tightness(range)).map(|(at, _)| at)
    }

    pub(crate) fn level(&self, range: usize, all: bool) -> u64 {
        self.parent(range, all).map_or(0, |parent| 1 + self.level(parent, all))
    }

    /// Operations by the ranges in which they were launched.
    pub(crate) fn launched_in(&self) -> BTreeMap<usize, Vec<&'a Operation<'static>>> {
        let mut all: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for operation in &self.work.operations {
            if let Some(&launch) = self.launches.get(&operation.correlation) {
                self.around(launch).for_each(|range| all.entry(range).or_default().push(operation));
            }
        }
        all
    }

    /// `nvtxkernsum`: by range, style, process, thread and kernel, the executions once for every range around them, and
    /// the numbers of ranges and of kernels.
    pub(crate) fn range_kernels(&self) -> BTreeMap<Vec<String>, (Vec<u64>, usize, usize)> {
        let mut groups = BTreeMap::<Vec<String>, (Vec<u64>, Numbers, Numbers)>::new();
        for (number, operation) in self.work.operations.iter().enumerate() {
            if !matches!(operation.work, Work::Kernel(_)) {
                continue;
            }
            let launch = self.launches.get(&operation.correlation);
            let none = || "None".to_owned();
            let (pid, tid) = launch.map_or((none(), none()), |launch| (PROCESS.to_string(), launch.thread.to_string()));
            let mut ranges: Vec<Option<usize>> =
                launch.into_iter().flat_map(|&launch| self.around(launch).map(Some)).collect();
            if ranges.is_empty() {
                ranges.push(None);
            }
            for at in ranges {
                let range = at.map(|at| &self.work.ranges[at]);
                let name = range.map_or_else(none, label);
                let style = range.map_or_else(none, |range| style(range.style).to_owned());
                let group =
                    groups.entry(vec![name, style, pid.clone(), tid.clone(), operation.kernel.to_owned()]).or_default();
                group.0.push(operation.end - operation.start);
                group.1.extend(at);
                group.2.insert(number);
            }
        }
        groups
            .into_iter()
            .map(|(key, (values, ranges, kernels))| (key, (values, ranges.len(), kernels.len())))
            .collect()
    }

    /// `kernexecsum`: by process, thread, device, call and kernel, the times in total, of the call, in the queue and of
    /// the kernel.
    pub(crate) fn calls_of_launches(&self) -> impl Iterator<Item = ApiCall<'_>> {
        self.launches.iter().map(|(&correlation, launch)| ApiCall {
            api: Api::Driver,
            name: launch.name,
            thread: launch.thread,
            start: launch.start,
            end: launch.end,
            correlation,
            result: 0,
        })
    }

    pub(crate) fn executions(&self) -> BTreeMap<Vec<String>, [Vec<u64>; 4]> {
        let mut groups: BTreeMap<Vec<String>, [Vec<u64>; 4]> = BTreeMap::new();
        for operation in self.work.operations.iter().filter(|operation| matches!(operation.work, Work::Kernel(_))) {
            let Some(launch) = self.launches.get(&operation.correlation) else { continue };
            let name = shown(launch.name);
            let key = [
                PROCESS.to_string(),
                launch.thread.to_string(),
                operation.device.to_string(),
                name,
                operation.kernel.to_owned(),
            ];
            let group = groups.entry(key.to_vec()).or_default();
            group[0].push(launch.end.max(operation.end) - launch.start);
            group[1].push(launch.end - launch.start);
            group[2].extend(operation.start.checked_sub(launch.end));
            group[3].push(operation.end - operation.start);
        }
        groups
    }
}

/// Sum, mean, median and so on, from their definitions.
pub(crate) fn times(values: &[u64]) -> Times {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let (count, total) = (sorted.len(), sorted.iter().sum::<u64>());
    let median = (sorted[(count - 1) / 2] + sorted[count / 2]) as f64 / 2.0;
    let mean = total as f64 / count as f64;
    let squares: f64 = values.iter().map(|&value| (value as f64 - mean).powi(2)).sum();
    let mut it = Times::new(count as u64, total);
    it.min_ns = sorted[0];
    it.max_ns = sorted[count - 1];
    it.median_ns = Some(median);
    it.median_exact = true;
    it.stddev_ns = if count > 1 { (squares / (count as f64 - 1.0)).sqrt() } else { 0.0 };
    it
}

pub(crate) fn sizes(values: &[u64]) -> Sizes {
    let times = times(values);
    let mut it = Sizes::new(times.instances, times.total_ns);
    it.min_bytes = times.min_ns;
    it.max_bytes = times.max_ns;
    it.median_bytes = times.median_ns;
    it.stddev_bytes = times.stddev_ns;
    it
}

//! The rows of a summary: states, waits and findings of a window, and collective operations of NCCL.

use std::io;

use super::group::Cell::{self, Nothing, Number, Text};
use super::rows::{number, optional};
use super::schema::Dataset;
use range_model::summary::{CallStates, CallStats, CommunicatorStats, IdleCause, IdleCauses, Summary};
use range_report::SummaryExt as _;
use range_report::report::RenderOptions;

/// The rows of one window.
pub(super) struct Window<'a, F> {
    pub(super) summary: &'a Summary,
    pub(super) options: &'a RenderOptions,
    /// Nanoseconds from 1970 to the start of the profiler.
    pub(super) origin: u64,
    /// When the window began: nanoseconds since 1970.
    pub(super) start_ns: u64,
    /// Items that are missing in the other datasets.
    pub(super) lost: u64,
    /// Whether the window is a run whose windows have been written: what they have is left out.
    pub(super) is_rest: bool,
    /// Takes the rows.
    pub(super) add: F,
}

/// What a row of states is about.
#[derive(Clone, Copy)]
struct Subject<'a> {
    /// `call`, `device` or `span`.
    what: &'a str,
    device: Option<u32>,
    domain: Option<&'a str>,
    name: Option<&'a str>,
    /// What the states add up to, and how many instances or gaps that are.
    of_ns: u64,
    instances: u64,
}

impl<F: FnMut(Dataset, &[Cell<'_>]) -> io::Result<()>> Window<'_, F> {
    /// Writes all rows.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if !self.is_rest {
            self.calls()?;
        }
        self.idle()?;
        self.waits()?;
        self.findings()?;
        self.collectives()
    }

    fn head(&self) -> [Cell<'static>; 3] {
        [number(self.summary.process.pid), number(self.start_ns), number(self.summary.elapsed_ns)]
    }

    fn state(&mut self, subject: Subject<'_>, state: &str, time_ns: u64) -> io::Result<()> {
        let [pid, start, window] = self.head();
        let Subject { what, device, domain, name, of_ns, instances } = subject;
        let cells = [
            pid,
            start,
            window,
            Text(what),
            device.map_or(Nothing, number),
            optional(domain),
            optional(name),
            Text(state),
            number(time_ns),
            number(of_ns),
            number(instances),
        ];
        (self.add)(Dataset::States, &cells)
    }

    /// What the latencies of calls are made of. Where that is not known: on a thread, or awaited.
    fn calls(&mut self) -> io::Result<()> {
        for call in &self.summary.calls {
            let CallStats { domain, name, latency, states, busy_ns, awaited_ns, outlived_ns, .. } = call;
            let subject = Subject {
                what: "call",
                device: None,
                domain: domain.as_deref(),
                name: Some(name),
                of_ns: latency.total_ns,
                instances: latency.instances,
            };
            let Some(states) = states else {
                self.state(subject, "on thread", *busy_ns)?;
                self.state(subject, "awaited", *awaited_ns)?;
                self.state(subject, "outlived", *outlived_ns)?;
                continue;
            };
            let CallStates {
                in_cuda_ns,
                on_cpu_ns,
                off_cpu_ns,
                on_thread_ns,
                ready_ns,
                child_call_ns,
                gpu_work_ns,
                otherwise_ns,
                outlived_ns,
                ..
            } = *states;
            for (state, time_ns) in [
                ("in CUDA", in_cuda_ns),
                ("on CPU", on_cpu_ns),
                ("off CPU", off_cpu_ns),
                ("on thread", on_thread_ns),
                ("ready", ready_ns),
                ("child call", child_call_ns),
                ("GPU work", gpu_work_ns),
                ("otherwise", otherwise_ns),
                ("outlived", outlived_ns),
            ] {
                self.state(subject, state, time_ns)?;
            }
        }
        Ok(())
    }

    /// What devices did, and in which spans their idle time was spent.
    fn idle(&mut self) -> io::Result<()> {
        let Some(idle) = &self.summary.idle else { return Ok(()) };
        for device in &idle.devices {
            let what = "device";
            let (of_ns, instances) = (device.wall_ns, device.gaps);
            let subject = Subject { what, device: Some(device.device), domain: None, name: None, of_ns, instances };
            self.state(subject, "busy", device.busy_ns)?;
            self.causes(subject, &device.causes)?;
        }
        for span in &idle.spans {
            let (domain, name) = (span.domain.as_deref(), span.name.as_deref());
            let (of_ns, instances) = (span.causes.total_ns(), span.gaps);
            self.causes(Subject { what: "span", device: None, domain, name, of_ns, instances }, &span.causes)?;
        }
        Ok(())
    }

    fn causes(&mut self, subject: Subject<'_>, causes: &IdleCauses) -> io::Result<()> {
        IdleCause::ALL.iter().try_for_each(|cause| self.state(subject, cause.name(), causes.of(*cause)))
    }

    fn waits(&mut self) -> io::Result<()> {
        // Windows have the waits that were told. Only the whole run has those that are inferred.
        for wait in self.summary.waits.iter().filter(|wait| !self.is_rest || wait.of_waits.is_some()) {
            let [pid, start, window] = self.head();
            let maybe = |value: Option<u64>| value.map_or(Nothing, number);
            let cells = [
                pid,
                start,
                window,
                Text(&wait.waiter),
                optional(wait.by.as_deref()),
                optional(wait.resource.as_deref()),
                optional(wait.by_value.as_deref()),
                number(wait.waits),
                number(wait.time_ns),
                number(wait.longest_ns),
                maybe(wait.of_waits),
                maybe(wait.by_chance),
                maybe(wait.p99_without_ns),
            ];
            (self.add)(Dataset::Waits, &cells)?;
        }
        Ok(())
    }

    fn findings(&mut self) -> io::Result<()> {
        let [pid, start, window] = self.head();
        let findings = self.summary.findings_with(self.options);
        if self.lost > 0 {
            let place = Number(findings.len() as i64 + 1);
            let sentence = format!("{} rows are missing: the memory for records was used up", self.lost);
            let own = [Text("lost_rows"), Nothing, Number(0), Nothing, Text(&sentence), Nothing];
            (self.add)(Dataset::Findings, &[&[pid, start, window, place][..], &own].concat())?;
        }
        for (place, finding) in findings.iter().enumerate() {
            let path = finding.span.join(";");
            let cells = [
                pid,
                start,
                window,
                Number(place as i64 + 1),
                Text(finding.kind().name()),
                optional(Some(&path)),
                number(finding.at_stake_ns),
                finding.of_ns.map_or(Nothing, number),
                Text(&finding.sentence),
                optional(finding.advice.as_deref()),
            ];
            (self.add)(Dataset::Findings, &cells)?;
        }
        Ok(())
    }

    /// The operations that the communicators list, each with what took longest before it.
    fn collectives(&mut self) -> io::Result<()> {
        for communicator in self.summary.communicators.iter().filter(|communicator| communicator.id != 0) {
            let CommunicatorStats { earlier, names, name, start_ns, time_ns, alone_ns, parts, before, .. } =
                communicator;
            let times = start_ns.iter().zip(time_ns).zip(alone_ns);
            for ((place, name), ((start_ns, time_ns), alone_ns)) in (0..).zip(name).zip(times) {
                let longest = before.get(place).and_then(|parts| parts.first());
                let part = longest.and_then(|(part, ns)| Some((parts.get(*part as usize)?, *ns)));
                let cells = [
                    number(self.summary.process.pid),
                    Number(communicator.id.cast_signed()), // it may have all 64 bits
                    number(earlier.saturating_add(place as u64)),
                    Text(names.get(*name as usize).map_or("", |name| name)),
                    number(self.origin.saturating_add(*start_ns)),
                    number(*time_ns),
                    number(*alone_ns),
                    optional(part.and_then(|(part, _)| part.range.as_deref())),
                    optional(part.map(|(part, _)| part.state.as_str())),
                    part.map_or(Nothing, |(_, ns)| number(ns)),
                ];
                (self.add)(Dataset::Collectives, &cells)?;
            }
        }
        Ok(())
    }
}

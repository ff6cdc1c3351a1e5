//! The events for timelines: a fold that keeps all that it gets, windows or not, until it is taken.

use crate::fold::{Capture, Context, Fold, InstanceState, Instances, Launch, MadeCall, OfGraph, Operation, StreamSpan};
use crate::record::{ApiCall, Detail, GpuOp};

/// A joined event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An operation, with its launch if known, and the spans that captured it, for a node of a graph whose creation was
    /// seen.
    Operation(GpuOp, Option<Launch>, Capture),
    /// A call of the program (neither a driver call made by the runtime nor a call of the profiler), with the operating
    /// system's number of its thread; 0 if that is not known.
    Call(ApiCall, u32),
    /// A detail that the program caused, with its launch if known.
    Detail(Detail, Option<Launch>),
    /// An instance of a range on a thread's stack with GPU work, once the instance is over and its work has arrived. If
    /// more work may arrive (of a graph or a long kernel), a minute or two after the last arrival; at the bound on
    /// instances, earlier. Later work makes another projection.
    Projection {
        /// Interned domain and name.
        label: u32,
        /// Number of instances with launches around it.
        level: u32,
        /// Its work by stream.
        streams: Vec<StreamSpan>,
    },
}

/// The events that wait to be taken.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) are_asked_for: bool,
    pub(super) list: Vec<Event>,
}

impl Events {
    fn project(&mut self, instance: &mut InstanceState) {
        let streams = std::mem::take(&mut instance.streams);
        if !streams.is_empty() {
            self.list.push(Event::Projection { label: instance.began.label, level: instance.level, streams });
        }
    }

    /// Projects the kept instances in their present state.
    pub(super) fn finish(&mut self, instances: &mut Instances) {
        instances.iter_mut().for_each(|instance| self.project(instance));
    }
}

impl Fold for Events {
    fn operation(&mut self, ran: &Operation<'_>, instances: &mut Instances, _: &Context<'_>) {
        if !self.are_asked_for {
            return;
        }
        let GpuOp { device, context, stream, start, end, .. } = *ran.op;
        let mut slot = ran.instance;
        while let Some(instance) = instances.get_mut(slot) {
            instance.grew = true;
            let is_of = |it: &&mut StreamSpan| (it.device, it.context, it.stream) == (device, context, stream);
            match instance.streams.iter_mut().find(is_of) {
                Some(it) => (it.start, it.end) = (it.start.min(start), it.end.max(end)),
                None => instance.streams.push(StreamSpan { device, context, stream, start, end }),
            }
            slot = instance.parent;
        }
        let capture = if let OfGraph::Node(capture) = ran.graph { capture } else { Capture::UNKNOWN };
        self.list.push(Event::Operation(*ran.op, ran.launch, capture));
    }

    fn call(&mut self, made: &MadeCall, _: &Context<'_>) {
        if self.are_asked_for {
            self.list.push(Event::Call(made.call, made.thread));
        }
    }

    fn detail(&mut self, detail: &Detail, launch: Option<Launch>) {
        if self.are_asked_for {
            self.list.push(Event::Detail(*detail, launch));
        }
    }

    fn instance(&mut self, instance: &mut InstanceState, _: &Context<'_>) {
        self.project(instance);
    }

    /// Instances in which a graph was launched are kept as long as the graph is remembered, but are projected earlier:
    /// a file that is written while the program runs must contain them.
    fn drained(&mut self, instances: &mut Instances, ends_period: bool, _: &Context<'_>) {
        if !ends_period {
            return;
        }
        for instance in instances.iter_mut().filter(|instance| instance.over) {
            if !std::mem::take(&mut instance.grew) {
                self.project(instance);
            }
        }
    }
}

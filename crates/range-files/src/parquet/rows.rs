//! The rows of the stream: ranges, calls, operations on a GPU, calls of the CUDA API.

use std::fmt::Write as _;
use std::io;

use rustc_hash::FxHashMap;

use super::group::Cell::{self, Fields, Nothing, Number, Text, Truth};
use super::schema::Dataset;
use range_model::names::memory_name;
use range_model::summary::RangeStyle;
use range_model::timeline::{Api, ApiCall, Call, Ending, Item, Kernel, Operation, Range, Work, graph_name};

/// What takes a row.
pub(super) trait Add: FnOnce(Dataset, &[Cell<'_>]) -> io::Result<()> {}

impl<F: FnOnce(Dataset, &[Cell<'_>]) -> io::Result<()>> Add for F {}

/// What rows need beside their items.
#[derive(Debug)]
pub(super) struct Rows {
    pid: i64,
    /// Nanoseconds from 1970 to the start of the profiler.
    origin: u64,
    threads: FxHashMap<u32, Box<str>>,
    /// Memory for texts that are made for a row.
    path: String,
    captured: String,
    kind: String,
}

impl Rows {
    pub(super) fn new(pid: u32, origin: u64) -> Self {
        let [path, captured, kind] = [const { String::new() }; 3];
        Self { pid: pid.into(), origin, threads: FxHashMap::default(), path, captured, kind }
    }

    /// Passes the row of an item to `add`. Items that no dataset has are ignored.
    pub(super) fn item(&mut self, item: &Item<'_>, add: impl Add) -> io::Result<()> {
        match item {
            Item::Range(range) => self.range(range, add),
            Item::Call(call) => self.call(call, add),
            Item::Operation(operation) => self.operation(operation, add),
            Item::ApiCall(call) => self.api_call(call, add),
            Item::Thread { thread, name } => {
                if !name.is_empty() {
                    self.threads.insert(*thread, (*name).into());
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A moment of the profiler's clock, on that of the world.
    fn at(&self, ns: u64) -> Cell<'static> {
        number(self.origin.saturating_add(ns))
    }

    fn range(&self, range: &Range<'_>, add: impl Add) -> io::Result<()> {
        let style = match range.style {
            RangeStyle::PushPop => "push_pop",
            RangeStyle::StartEnd => "start_end",
        };
        let cells = [
            Number(self.pid),
            number(range.thread),
            optional(self.threads.get(&range.thread).map(|name| &**name)),
            self.at(range.start),
            number(range.end.saturating_sub(range.start)),
            optional(range.domain),
            Text(range.name),
            Text(style),
            number(range.depth),
            optional(range.category),
            range.color.map_or(Nothing, number),
            Fields(range.payload, range.fields),
            range.end_thread.map_or(Nothing, number),
            Truth(range.cut),
            number(range.on_cpu_ns),
            number(range.off_cpu_ns),
            known(range.span),
            known(range.call),
            known(range.parent),
        ];
        add(Dataset::Ranges, &cells)
    }

    fn call(&self, call: &Call<'_>, add: impl Add) -> io::Result<()> {
        let ending = match call.ending {
            Ending::Closed => "closed",
            Ending::Cancelled => "cancelled",
            Ending::Cut => "cut",
            _ => "unknown",
        };
        let cells = [
            Number(self.pid),
            number(call.thread),
            self.at(call.start),
            number(call.end.saturating_sub(call.start)),
            optional(call.domain),
            Text(call.name),
            Text(ending),
            Fields(None, call.fields),
            known(call.span),
            known(call.call),
            known(call.parent),
        ];
        add(Dataset::Calls, &cells)
    }

    fn operation(&mut self, operation: &Operation<'_>, add: impl Add) -> io::Result<()> {
        for (text, path) in [(&mut self.path, operation.path), (&mut self.captured, operation.captured)] {
            text.clear();
            for (index, label) in path.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { ";" });
                text.push_str(label);
            }
        }
        if let Work::Memory(memory) = operation.work {
            self.kind.clear();
            let _a_string_takes_all = write!(self.kind, "{:?}", memory.kind);
        }
        let place = [Number(self.pid), number(operation.device), number(operation.context), number(operation.stream)];
        let times = [self.at(operation.start), number(operation.end.saturating_sub(operation.start))];
        let launch = [
            operation.launch.map_or(Nothing, |(thread, _)| number(thread)),
            operation.launch.map_or(Nothing, |(_, at)| self.at(at)),
            optional(operation.span),
            optional(Some(&*self.path)),
            known(operation.call),
        ];
        let captured = Some(&*self.captured).filter(|captured| !captured.is_empty());
        let numbers = [known(operation.correlation), known(operation.graph_node), optional(captured)];
        let graph = if let Work::Graph(graph) = operation.work { graph_name(graph) } else { String::new() };
        match operation.work {
            Work::Kernel(_) | Work::Graph(_) => {
                let kernel = if let Work::Kernel(kernel) = operation.work { kernel } else { Kernel::default() };
                let name = [operation.kernel, operation.symbol, &graph].into_iter().find(|name| !name.is_empty());
                let names = [Text(name.unwrap_or("(unnamed kernel)")), optional(Some(operation.symbol))];
                let [grid, block] = [kernel.grid, kernel.block].map(|sizes| sizes.map(|size| Number(size.into())));
                let sizes = [
                    number(kernel.registers),
                    Number(kernel.static_shared.into()),
                    Number(kernel.dynamic_shared.into()),
                ];
                let cells: &[&[Cell<'_>]] = &[&place, &times, &names, &numbers, &grid, &block, &sizes, &launch];
                add(Dataset::Kernels, &cells.concat())
            }
            Work::Memory(memory) => {
                let own = [
                    Text(&self.kind),
                    number(memory.bytes),
                    optional(memory_name(memory.source)),
                    optional(memory_name(memory.destination)),
                ];
                let cells: &[&[Cell<'_>]] = &[&place, &times, &own, &numbers, &launch];
                add(Dataset::Copies, &cells.concat())
            }
        }
    }

    fn api_call(&self, call: &ApiCall<'_>, add: impl Add) -> io::Result<()> {
        let api = match call.api {
            Api::Driver => "driver",
            Api::Runtime => "runtime",
        };
        let cells = [
            Number(self.pid),
            number(call.thread),
            self.at(call.start),
            number(call.end.saturating_sub(call.start)),
            Text(api),
            Text(call.name),
            known(call.correlation),
            number(call.result),
        ];
        add(Dataset::Api, &cells)
    }
}

/// A number; one beyond the range of the column is the largest.
pub(super) fn number(value: impl Into<u64>) -> Cell<'static> {
    Number(i64::try_from(value.into()).unwrap_or(i64::MAX))
}

/// A number of which 0 stands for none.
pub(super) fn known(value: impl Into<u64>) -> Cell<'static> {
    match value.into() {
        0 => Nothing,
        value => number(value),
    }
}

/// A text that may be missing or empty.
pub(super) fn optional(text: Option<&str>) -> Cell<'_> {
    text.filter(|text| !text.is_empty()).map_or(Nothing, Text)
}

//! `CUPTI_ACTIVITY_KIND_*` and `TARGET_INFO_*`: operations, calls, devices.

use std::collections::HashSet;
use std::io;

use rusqlite::params;

use range_model::timeline::{Api, ApiCall, Operation, Work};

use super::api_calls::{ApiCalls, Call, MOST};
use super::events::{known, signed};
use super::file::File;
use super::ids::MACHINE;
use super::names;

const CALL: &str = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME(start,end,eventClass,globalTid,correlationId,nameId,returnValue)VALUES(?,?,?,?,?,?,?)";
const KERNEL: &str = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL(start,end,deviceId,contextId,streamId,correlationId,globalPid,graphNodeId,
    demangledName,shortName,mangledName,registersPerThread,gridX,gridY,gridZ,blockX,blockY,blockZ,staticSharedMemory,dynamicSharedMemory,callId)
    VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
const COPY: &str =
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY(start,end,deviceId,contextId,streamId,correlationId,globalPid,graphNodeId,
    bytes,copyKind,srcKind,dstKind,callId)VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)";
const SET: &str =
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET(start,end,deviceId,contextId,streamId,correlationId,globalPid,graphNodeId,
    bytes,value,memKind,callId)VALUES(?,?,?,?,?,?,?,?,?,?,?,?)";
const GRAPH: &str =
    "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start,end,deviceId,contextId,streamId,correlationId,globalPid,
    graphId,graphExecId,callId)VALUES(?,?,?,?,?,?,?,?,?,?)";
const DEVICE: &str = "INSERT INTO TARGET_INFO_GPU(vmId,id,name,cuDevice)VALUES(?,?,?,?)";
const CUDA_DEVICE: &str = "INSERT INTO TARGET_INFO_CUDA_DEVICE(gpuId,cudaId,pid)VALUES(?,?,?)";

/// A better call is always written after the one that it replaces.
const KEEP_THE_LAST: &str = "DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId IN (SELECT id FROM temp.replaced) AND rowid NOT IN
    (SELECT max(rowid) FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId IN (SELECT id FROM temp.replaced) GROUP BY correlationId)";

#[derive(Debug, Default)]
pub(super) struct Gpu {
    pub(super) api_calls: ApiCalls,
    devices: HashSet<u32>,
}

impl Gpu {
    pub(super) fn device(&mut self, file: &mut File, device: u32, name: &str) -> io::Result<()> {
        if !self.devices.insert(device) {
            return Ok(()); // a second row would double every operation of the device
        }
        file.run(DEVICE, (MACHINE, device, name, device))?;
        file.run(CUDA_DEVICE, (device, device, file.ids.process >> 24 & 0xFF_FFFF))
    }

    pub(super) fn operation(&mut self, file: &mut File, operation: &Operation<'_>) -> io::Result<()> {
        let Operation { device, context, stream, correlation, work, .. } = *operation;
        let (start, end) = (signed(operation.start), signed(operation.end.max(operation.start)));
        let launched = Some(correlation).filter(|&correlation| correlation != 0);
        let node = Some(operation.graph_node as i64).filter(|&node| node != 0);
        let (process, call) = (file.ids.process, known(operation.call));
        if let (Some(correlation), Some((thread, at))) = (launched, operation.launch)
            && self.api_calls.is_missing(correlation)
        {
            let name = file.string(names::launcher(&work, node.is_some()))?;
            let thread = file.ids.thread(thread);
            self.api_calls.make_up(Call { start: at, end: at, class: 1, thread, correlation, name, result: 0 });
            if self.api_calls.waiting.len() >= MOST {
                write_all(file, &self.api_calls.take_all())?;
            }
        }
        let common = params![start, end, device, context, stream, launched, process, node];
        match work {
            Work::Kernel(kernel) => {
                let shown = [operation.kernel, operation.symbol].into_iter().find(|name| !name.is_empty());
                let shown = shown.unwrap_or("(unnamed kernel)");
                let symbol = Some(operation.symbol).filter(|symbol| !symbol.is_empty());
                let [demangled, short, mangled] = [shown, names::base(shown), symbol.unwrap_or(shown)];
                let names = (file.string(demangled)?, file.string(short)?, file.string(mangled)?);
                let ([grid_x, grid_y, grid_z], [x, y, z]) = (kernel.grid, kernel.block);
                let names = params![names.0, names.1, names.2, kernel.registers];
                let shape = params![grid_x, grid_y, grid_z, x, y, z, kernel.static_shared, kernel.dynamic_shared, call];
                file.run(KERNEL, &*[common, names, shape].concat())
            }
            Work::Memory(memory) => {
                let (bytes, to) = (signed(memory.bytes), names::memory(memory.destination));
                match names::copy(memory.kind) {
                    Some(kind) => {
                        let own = params![bytes, kind, names::memory(memory.source), to, call];
                        file.run(COPY, &*[common, own].concat())
                    }
                    None => file.run(SET, &*[common, params![bytes, memory.value, to, call]].concat()),
                }
            }
            // The number of the graph from which it was made is not known: its own stands there, too.
            Work::Graph(graph) => {
                file.run(GRAPH, params![start, end, device, context, stream, launched, process, graph, graph, call])
            }
        }
    }

    pub(super) fn api_call(&mut self, file: &mut File, call: &ApiCall<'_>) -> io::Result<()> {
        let row = Call {
            start: call.start,
            end: call.end.max(call.start),
            class: i64::from(call.api == Api::Driver),
            thread: file.ids.thread(call.thread),
            correlation: call.correlation,
            name: file.string(call.name)?,
            result: call.result,
        };
        if call.correlation == 0 || self.api_calls.recorded(row) { write_all(file, &[row]) } else { Ok(()) }
    }

    /// Writes made-up calls that have waited for long enough.
    pub(super) fn flush(&mut self, file: &mut File) -> io::Result<()> {
        write_all(file, &self.api_calls.take_due())
    }

    /// Writes all waiting calls, and removes calls that have been replaced.
    pub(super) fn end(&mut self, file: &mut File) -> io::Result<()> {
        write_all(file, &self.api_calls.take_all())?;
        if self.api_calls.replaced.is_empty() {
            return Ok(());
        }
        file.batch("CREATE TEMP TABLE replaced(id INTEGER PRIMARY KEY)")?;
        let replace = "INSERT OR IGNORE INTO temp.replaced VALUES(?)";
        self.api_calls.replaced.iter().try_for_each(|id| file.run(replace, [id]))?;
        file.run(KEEP_THE_LAST, [])
    }
}

fn write_all(file: &mut File, calls: &[Call]) -> io::Result<()> {
    calls.iter().try_for_each(|call| {
        let correlation = Some(call.correlation).filter(|&correlation| correlation != 0);
        let (start, end) = (signed(call.start), signed(call.end));
        file.run(CALL, (start, end, call.class, call.thread, correlation, call.name, call.result))
    })
}

//! Every operation on a GPU in the order of time, as nvprof prints it with `--print-gpu-trace`.

use std::io::{self, BufWriter, Write};

use range_model::stats::Keyed;

use crate::report::gpu_work::bracketed;
use crate::report::{TableStyle, nvprof_bytes, nvprof_time};
use range_model::names::escaped;
use range_model::stats::order;
use range_model::summary::{MemoryKind, Process, Summary};
use range_model::timeline::{Item, Kernel, Memory, Operation, Sink, Work, graph_name};

/// The largest number of operations, some 100 MB. They are kept until the end, because they arrive in any order.
const MOST: usize = 1 << 20;
/// Bytes that are written together. All of the list may be a gigabyte.
const BUFFER: usize = 256 << 10;
/// Columns of the name of a device.
const DEVICE: usize = 15;
/// What nvprof prints below the list.
const LEGEND: &str = "
Regs: Number of registers used per CUDA thread. This number includes registers used internally by the CUDA driver \
and/or tools and can be more than what the compiler shows.
SSMem: Static shared memory allocated per CUDA block.
DSMem: Dynamic shared memory allocated per CUDA block.
SrcMemType: The type of source memory accessed by memory operation/copy
DstMemType: The type of destination memory accessed by memory operation/copy
";
const CSV: &str = "\"Start\",\"Duration\",\"Grid X\",\"Grid Y\",\"Grid Z\",\"Block X\",\"Block Y\",\"Block Z\",\
                   \"Registers Per Thread\",\"Static SMem\",\"Dynamic SMem\",\"Size\",\"Throughput\",\"SrcMemType\",\
                   \"DstMemType\",\"Device\",\"Context\",\"Stream\",\"Name\",\"Correlation_ID\"
us,us,,,,,,,,KB,KB,KB,GB/s,,,,,,,
";

/// One operation.
#[derive(Clone, Copy, Debug)]
struct Row {
    start: u64,
    ns: u64,
    device: u32,
    context: u32,
    stream: u32,
    correlation: u32,
    work: Work,
    /// The number of the kernel's name, if it is a kernel.
    name: u32,
}

/// Writes the list at the end. It has the first 1,048,576 operations that arrived, and a line counts the others. A
/// program that is killed leaves no list.
///
/// ```
/// use range_model::Summary;
/// use range_report::export::GpuTrace;
/// use range_model::summary::Process;
/// use range_model::timeline::Sink as _;
///
/// let mut list = GpuTrace::new(Vec::new());
/// list.begin(&Process::default())?;
/// list.end(&Summary::default(), 0)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct GpuTrace<W> {
    out: W,
    is_csv: bool,
    process: Process,
    rows: Vec<Row>,
    left_out: u64,
    names: Keyed<String, u32>,
    devices: Keyed<u32, String>,
}

impl<W: Write + Send> GpuTrace<W> {
    /// In columns.
    #[must_use]
    pub fn new(out: W) -> Self {
        Self {
            out,
            is_csv: false,
            process: Process::default(),
            rows: Vec::new(),
            left_out: 0,
            names: Keyed::default(),
            devices: Keyed::default(),
        }
    }

    /// Separated by commas, as nvprof does it with `--csv --normalized-time-unit us`.
    #[must_use]
    pub fn csv(out: W) -> Self {
        Self { is_csv: true, ..Self::new(out) }
    }

    fn add(&mut self, operation: &Operation<'_>) {
        if self.rows.len() >= MOST {
            self.left_out += 1;
            return;
        }
        let name = match self.names.get(operation.kernel) {
            Some(known) => *known,
            None => {
                let next = self.names.len() as u32;
                *self.names.row_or(operation.kernel.to_owned(), || next)
            }
        };
        let Operation { start, end, device, context, stream, correlation, work, .. } = *operation;
        let ns = end.saturating_sub(start);
        self.rows.push(Row { start, ns, device, context, stream, correlation, work, name });
    }

    fn write(&mut self, lost: u64) -> io::Result<()> {
        let mut names = vec![""; self.names.len()];
        for (name, number) in self.names.iter() {
            if let Some(place) = names.get_mut(*number as usize) {
                *place = name;
            }
        }
        let (pid, is_empty) = (self.process.pid, self.rows.is_empty());
        let mut out = BufWriter::with_capacity(BUFFER, &mut self.out);
        writeln!(out, "=={pid}== Profiling application: {}", escaped(&self.process.command))?;
        writeln!(out, "=={pid}== Profiling result:")?;
        order::by_key(&mut self.rows, |row| (row.start, row.correlation));
        let heading = match (self.is_csv, is_empty) {
            (true, _) => CSV.to_owned(),
            (false, true) => "No kernels were profiled.\n".to_owned(),
            (false, false) => line(HEADERS.map(str::to_owned)),
        };
        out.write_all(heading.as_bytes())?;
        for row in &self.rows {
            let device = self.devices.get(&row.device).map_or("", String::as_str);
            let device = format!("{device} ({})", row.device);
            let name = match row.work {
                Work::Kernel(_) => {
                    let name = names.get(row.name as usize).copied().unwrap_or_default();
                    format!("{} [{}]", escaped(name), row.correlation)
                }
                Work::Memory(Memory { kind, .. }) => bracketed(kind, TableStyle::Legacy),
                Work::Graph(graph) => format!("{} [{}]", graph_name(graph), row.correlation),
            };
            let line = if self.is_csv { comma_separated(row, &device, &name) } else { in_columns(row, &device, name) };
            out.write_all(line.as_bytes())?;
        }
        if !self.is_csv && !is_empty {
            out.write_all(LEGEND.as_bytes())?;
        }
        if self.left_out > 0 {
            writeln!(out, "=={pid}== {} operations more are not in this list.", self.left_out)?;
        }
        if lost > 0 {
            writeln!(out, "=={pid}== {lost} records were lost on their way to this list.")?;
        }
        out.flush()
    }
}

impl<W: Write + Send> Sink for GpuTrace<W> {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        self.process = process.clone();
        Ok(())
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        match item {
            Item::Device { device, name } => {
                self.devices.insert(*device, (*name).to_owned());
            }
            Item::Operation(operation) => self.add(operation),
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _: &Summary, lost: u64) -> io::Result<()> {
        self.write(lost)
    }
}

const HEADERS: [&str; 15] = [
    "Start",
    "Duration",
    "Grid Size",
    "Block Size",
    "Regs*",
    "SSMem*",
    "DSMem*",
    "Size",
    "Throughput",
    "SrcMemType",
    "DstMemType",
    "Device",
    "Context",
    "Stream",
    "Name",
];

/// Width of each column except the last one, the name, which is never padded.
const WIDTHS: [usize; 14] = [8, 8, 19, 14, 8, 8, 8, 8, 10, 10, 10, DEVICE, 8, 8];

fn line(cells: [String; 15]) -> String {
    let [.., name] = &cells;
    let mut line = String::new();
    for (cell, width) in cells.iter().zip(&WIDTHS) {
        line += &format!("{cell:>width$}  ");
    }
    line + name + "\n"
}

fn in_columns(row: &Row, device: &str, name: String) -> String {
    let none = || "-".to_owned();
    let sizes = |[x, y, z]: [i32; 3]| format!("({x} {y} {z})");
    let bytes = |bytes: i32| nvprof_bytes(f64::from(bytes), "");
    let [grid, block, registers, fixed, asked, size, rate, from, to] = match row.work {
        Work::Kernel(Kernel { grid, block, registers, static_shared, dynamic_shared, .. }) => [
            sizes(grid),
            sizes(block),
            registers.to_string(),
            bytes(static_shared),
            bytes(dynamic_shared),
            none(),
            none(),
            none(),
            none(),
        ],
        Work::Memory(memory) => {
            let (from, to) = kinds(&memory);
            let word = |word: &str| if word.is_empty() { none() } else { word.to_owned() };
            let rate = rate(&memory, row.ns).map_or_else(none, |rate| nvprof_bytes(rate, "/s"));
            let size = nvprof_bytes(memory.bytes as f64, "");
            [none(), none(), none(), none(), none(), size, rate, word(from), word(to)]
        }
        Work::Graph(_) => std::array::from_fn(|_| none()),
    };
    let device = device.chars().take(DEVICE).collect();
    let (start, duration) = (nvprof_time(row.start), nvprof_time(row.ns));
    let (context, stream) = (row.context.to_string(), row.stream.to_string());
    line([start, duration, grid, block, registers, fixed, asked, size, rate, from, to, device, context, stream, name])
}

fn comma_separated(row: &Row, device: &str, name: &str) -> String {
    const KIB: f64 = 1024.0;
    const GIB: f64 = KIB * KIB * KIB;
    let what = match row.work {
        Work::Kernel(Kernel {
            grid: [a, b, c], block: [x, y, z], registers, static_shared, dynamic_shared, ..
        }) => {
            let [fixed, asked] = [static_shared, dynamic_shared].map(|bytes| f64::from(bytes) / KIB);
            format!("{a},{b},{c},{x},{y},{z},{registers},{fixed:.6},{asked:.6},,,,")
        }
        Work::Memory(memory) => {
            let (from, to) = kinds(&memory);
            let word = |word: &str| if word.is_empty() { String::new() } else { quoted(word) };
            let rate = rate(&memory, row.ns).map_or_else(String::new, |rate| format!("{:.6}", rate / GIB));
            format!(",,,,,,,,,{:.6},{rate},{},{}", memory.bytes as f64 / KIB, word(from), word(to))
        }
        Work::Graph(_) => ",".repeat(12),
    };
    let [start, duration] = [row.start, row.ns].map(|ns| ns as f64 / 1e3);
    let (context, stream) = (row.context, row.stream);
    format!(
        "{start:.6},{duration:.6},{what},{},\"{context}\",\"{stream}\",{},{}\n",
        quoted(device),
        quoted(name),
        row.correlation
    )
}

/// Bytes in a second; `None` where that is not known.
fn rate(memory: &Memory, ns: u64) -> Option<f64> {
    (ns > 0).then(|| memory.bytes as f64 * 1e9 / ns as f64)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// The kinds of the source and the destination memory. For a set, the first is that of the destination.
const fn kinds(memory: &Memory) -> (&'static str, &'static str) {
    match memory.kind {
        MemoryKind::Set => (kind(memory.destination), ""),
        _ => (kind(memory.source), kind(memory.destination)),
    }
}

const fn kind(number: u8) -> &'static str {
    match number {
        1 => "Pageable",
        2 => "Pinned",
        3 => "Device",
        4 => "Array",
        5 => "Managed",
        6 => "Static",
        7 => "Managed Static",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(is_csv: bool) -> String {
        let mut out = Vec::new();
        let mut list = if is_csv { GpuTrace::csv(&mut out) } else { GpuTrace::new(&mut out) };
        let mut process = Process::default();
        (process.pid, process.command) = (31_050, "./pi-gpu 1000000000".to_owned());
        list.begin(&process).unwrap();
        list.item(&Item::Device { device: 0, name: "Tesla P100-PCIE-16GB" }).unwrap();
        let operation = |start, ns, correlation, work, kernel| Operation {
            start,
            end: start + ns,
            context: 1,
            stream: 7,
            correlation,
            work,
            kernel,
            ..Operation::default()
        };
        let copy =
            |kind, bytes, source, destination| Work::Memory(Memory { kind, bytes, source, destination, value: 0 });
        let kernel = |registers, static_shared| {
            let (grid, block) = ([512, 1, 1], [128, 1, 1]);
            Work::Kernel(Kernel { grid, block, registers, static_shared, ..Kernel::default() })
        };
        // Not in the order of time.
        for (start, ns, correlation, work, name) in [
            (184_870_000, 11_450_000, 119, kernel(19, 1_142), "throw_dart(curandStateXORWOW*, int*, unsigned long*)"),
            (182_840_000, 23_136, 117, copy(MemoryKind::HtoD, 256 << 10, 1, 3), ""),
            (1_196_330_000, 1_280, 120, copy(MemoryKind::DtoH, 1, 3, 1), ""),
            (182_890_000, 1_976_900, 118, kernel(31, 0), "setup_rng(curandStateXORWOW*, unsigned long)"),
            (182_700_000, 1_888, 100, copy(MemoryKind::Set, 1_028, 0, 3), ""),
        ] {
            list.item(&Item::Operation(operation(start, ns, correlation, work, name))).unwrap();
        }
        list.end(&Summary::default(), 0).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Lines that users of nvprof published.
    #[test]
    fn columns_are_those_of_nvprof() {
        let expected = "\
==31050== Profiling application: ./pi-gpu 1000000000
==31050== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput  SrcMemType  DstMemType           Device   Context    Stream  Name
182.70ms  1.8880us                    -               -         -         -         -  1.0039KB  519.27MB/s      Device           -  Tesla P100-PCIE         1         7  [CUDA memset]
182.84ms  23.136us                    -               -         -         -         -  256.00KB  10.552GB/s    Pageable      Device  Tesla P100-PCIE         1         7  [CUDA memcpy HtoD]
182.89ms  1.9769ms            (512 1 1)       (128 1 1)        31        0B        0B         -           -           -           -  Tesla P100-PCIE         1         7  setup_rng(curandStateXORWOW*, unsigned long) [118]
184.87ms  11.450ms            (512 1 1)       (128 1 1)        19  1.1152KB        0B         -           -           -           -  Tesla P100-PCIE         1         7  throw_dart(curandStateXORWOW*, int*, unsigned long*) [119]
1.19633s  1.2800us                    -               -         -         -         -        1B  762.94KB/s      Device    Pageable  Tesla P100-PCIE         1         7  [CUDA memcpy DtoH]

Regs: ";
        let text = trace(false);
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("by memory operation/copy\n"), "{text}");
    }

    #[test]
    fn values_are_those_of_nvprof() {
        let text = trace(true);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[3], "us,us,,,,,,,,KB,KB,KB,GB/s,,,,,,,");
        let set = "182700.000000,1.888000,,,,,,,,,,1.003906,0.507097,\"Device\",,\"Tesla P100-PCIE-16GB (0)\",\"1\",\"7\",\
                   \"[CUDA memset]\",100";
        let kernel = "182890.000000,1976.900000,512,1,1,128,1,1,31,0.000000,0.000000,,,,,\"Tesla P100-PCIE-16GB (0)\",\"1\",\
                      \"7\",\"setup_rng(curandStateXORWOW*, unsigned long) [118]\",118";
        assert_eq!((lines[4], lines[6]), (set, kernel));
        let columns = |line: &str| line.split(',').count();
        assert_eq!((columns(lines[2]), columns(lines[3]), columns(lines[4])), (20, 20, 20));
        assert_eq!(lines.len(), 2 + 2 + 5);
    }

    #[test]
    fn a_list_without_operations_says_so() {
        let mut out = Vec::new();
        let mut list = GpuTrace::new(&mut out);
        list.begin(&Process::default()).unwrap();
        list.end(&Summary::default(), 0).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with("Profiling result:\nNo kernels were profiled.\n"));
    }

    /// A list of a million kernels with long names takes a gigabyte.
    #[test]
    fn the_list_is_written_in_pieces() {
        #[derive(Default)]
        struct Pieces {
            longest: usize,
            all: usize,
        }
        impl Write for Pieces {
            fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
                (self.longest, self.all) = (self.longest.max(piece.len()), self.all + piece.len());
                Ok(piece.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (mut out, name) = (Pieces::default(), "k".repeat(500));
        let mut list = GpuTrace::new(&mut out);
        for start in 0..2_000 {
            list.item(&Item::Operation(Operation { start, kernel: &name, ..Operation::default() })).unwrap();
        }
        list.end(&Summary::default(), 3).unwrap();
        assert!(out.all > 2_000 * 500 && out.longest <= BUFFER, "{} of {}", out.longest, out.all);
    }
}

//! Programs at random, which know their figures, through a database; and a recording of Nsight Systems.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use range_model::timeline::{Api, Kernel, Memory};
use rusqlite::Connection;

use super::*;
use crate::Sqlite;

/// SplitMix64: a seed always gives the same program.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }
}

const NAMES: [&str; 4] = ["step", "load", "a:b", ""];
const KERNELS: [&str; 2] = ["sgemm<float>", "scale"];

/// What is known of a path of ranges: how many there were, how long, how much of that below, and the operations that
/// they launched directly.
#[derive(Default)]
struct PathFigures {
    calls: u64,
    total: u64,
    nested: u64,
    launched: Vec<(u32, u64, u64)>,
}

#[derive(Default)]
struct Program {
    ranges: Vec<(u32, u64, u64, Option<&'static str>, &'static str)>,
    calls: Vec<(u32, u64, u64, u32)>,
    operations: Vec<(u32, u64, u64, u32, usize)>,
    paths: BTreeMap<Vec<String>, PathFigures>,
}

impl Program {
    /// Runs some ranges and launches, from `now` on. Returns when it is done.
    fn run(&mut self, numbers: &mut Numbers, thread: u32, path: &mut Vec<String>, mut now: u64) -> u64 {
        for _ in 0..numbers.below(4) + 1 {
            now += numbers.below(50) + 1;
            if path.len() < 4 && numbers.below(3) > 0 {
                let domain = [None, Some("app")][numbers.below(2) as usize];
                let name = NAMES[numbers.below(4) as usize];
                let start = now;
                path.push(in_domain(domain, name));
                now = self.run(numbers, thread, path, now) + numbers.below(20) + 1;
                let known = self.paths.entry(path.clone()).or_default();
                known.calls += 1;
                known.total += now - start;
                path.pop();
                if !path.is_empty() {
                    self.paths.entry(path.clone()).or_default().nested += now - start;
                }
                self.ranges.push((thread, start, now, domain, name));
            } else {
                let correlation = self.calls.len() as u32 + 1;
                self.calls.push((thread, now, now + 5, correlation));
                let (device, start) = (numbers.below(2) as u32, now + numbers.below(200) + 5);
                let end = start + numbers.below(300) + 1;
                self.operations.push((device, start, end, correlation, numbers.below(2) as usize));
                self.paths.entry(path.clone()).or_default().launched.push((device, start, end));
                now += 5;
            }
        }
        now
    }

    /// Writes the program as a database of a process.
    fn write(&self, file: &mut dyn Sink) -> io::Result<()> {
        let mut process = Process::default();
        process.pid = 42;
        file.begin(&process)?;
        for &(thread, start, end, domain, name) in &self.ranges {
            file.item(&Item::Range(Range { thread, start, end, domain, name, ..Range::default() }))?;
        }
        for &(thread, start, end, correlation) in &self.calls {
            let name = "cudaLaunchKernel_v7000";
            file.item(&Item::ApiCall(ApiCall { api: Api::Runtime, name, thread, start, end, correlation, result: 0 }))?;
        }
        for &(device, start, end, correlation, kernel) in &self.operations {
            let memory = Memory { kind: MemoryKind::DtoH, bytes: end - start, source: 3, destination: 1, value: 0 };
            let is_copy = correlation % 5 == 0;
            let work = if is_copy { Work::Memory(memory) } else { Work::Kernel(Kernel::default()) };
            let kernel = if is_copy { "" } else { KERNELS[kernel] };
            let times = Operation { start, end, device, context: 1, stream: 7, ..Operation::default() };
            file.item(&Item::Operation(Operation { correlation, work, kernel, symbol: kernel, ..times }))?;
        }
        file.end(&Summary::default(), 0)
    }
}

/// The time in which at least one ran, on each device.
fn busy(operations: &[(u32, u64, u64)]) -> u64 {
    let times = |device: u32| operations.iter().filter(move |(of, ..)| *of == device);
    let on = |device: u32| {
        let last = times(device).map(|(.., end)| *end).max().unwrap_or(0);
        (0..last).filter(|at| times(device).any(|(_, start, end)| (*start..*end).contains(at))).count() as u64
    };
    on(0) + on(1)
}

/// All nodes of a tree, by their paths.
fn nodes<'a>(tree: &'a [TreeNode], above: &[String], all: &mut BTreeMap<Vec<String>, &'a TreeNode>) {
    for node in tree {
        let path = [above, &[in_domain(node.domain.as_deref(), &node.name)]].concat();
        nodes(&node.children, &path, all);
        assert!(all.insert(path, node).is_none(), "a path has one node");
    }
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tracing-gpu-figures-{}-{name}.sqlite", std::process::id()))
}

#[test]
fn the_figures_of_programs_at_random_are_found() {
    let path = temporary("random");
    let mut launched = 0;
    for seed in 0..40 {
        let (mut numbers, mut program) = (Numbers(seed), Program::default());
        for thread in 1..=2 {
            program.run(&mut numbers, thread, &mut Vec::new(), 0);
        }
        program.write(&mut Sqlite::new(&path)).unwrap();
        let read = conclusions(&path, Vec::new).unwrap();
        std::fs::remove_file(&path).unwrap();
        if program.ranges.is_empty() && program.operations.is_empty() {
            continue;
        }
        let [summary] = &read[..] else { panic!("seed {seed}: {} processes", read.len()) };
        assert_eq!(summary.process.pid, 42);
        let ends = program.ranges.iter().map(|range| range.2).chain(program.operations.iter().map(|done| done.2));
        let ends = ends.chain(program.calls.iter().map(|call| call.2));
        let first = program.ranges.iter().map(|range| range.1).chain(program.calls.iter().map(|call| call.1)).min();
        let first = first.unwrap_or(0);
        assert_eq!(summary.elapsed_ns, ends.max().unwrap_or(0) - first, "seed {seed}");
        let tree = summary.tree.iter().map(|node| node.first_ns).min();
        let outermost = program.ranges.iter().map(|range| range.1 - first).min();
        assert_eq!(tree, outermost, "seed {seed}");

        let mut found = BTreeMap::new();
        nodes(&summary.tree, &[], &mut found);
        let named: Vec<_> = program.paths.keys().filter(|path| !path.is_empty()).collect();
        assert_eq!(found.keys().collect::<Vec<_>>(), named, "seed {seed}");
        for (path, known) in program.paths.iter().filter(|(path, _)| !path.is_empty()) {
            let node = found[path];
            let figures = [node.calls, node.instances, node.total_ns, node.self_ns];
            assert_eq!(figures, [known.calls, known.calls, known.total, known.total - known.nested], "{path:?}");
            let below = program.paths.iter().filter(|(other, _)| other.starts_with(path));
            let below: Vec<_> = below.flat_map(|(_, known)| known.launched.clone()).collect();
            let work = node.gpu.clone().unwrap_or_default();
            let sum = |all: &[(u32, u64, u64)]| all.iter().map(|(_, start, end)| end - start).sum::<u64>();
            for (work, all) in [(&work.own, &known.launched), (&work.total, &below)] {
                let figures = [work.operations, work.sum_ns, work.busy_ns];
                assert_eq!(figures, [all.len() as u64, sum(all), busy(all)], "seed {seed}: {path:?}");
            }
            launched += known.launched.len();
        }
        let all: Vec<_> = program.operations.iter().map(|done| (done.0, done.1, done.2)).collect();
        let Some(gpu) = &summary.gpu else { panic!("seed {seed}: it has operations") };
        assert_eq!([gpu.total.operations, gpu.total.busy_ns], [all.len() as u64, busy(&all)], "seed {seed}");
        let outside = program.paths.get(&Vec::new()).map_or(0, |known| known.launched.len());
        assert_eq!([gpu.outside.operations, gpu.unmatched.operations], [outside as u64, 0], "seed {seed}");
        let copies = program.operations.iter().filter(|done| done.3 % 5 == 0).count() as u64;
        let copied: Vec<_> = gpu.memory.iter().map(|row| (row.kind, row.sizes.count)).collect();
        assert_eq!(copied, if copies > 0 { vec![(MemoryKind::DtoH, copies)] } else { Vec::new() });
        let kernels: u64 = gpu.kernels.iter().map(|row| row.times.instances).sum();
        assert_eq!(kernels, all.len() as u64 - copies);
        let calls: u64 = gpu.calls.iter().flatten().map(|row| row.times.instances).sum();
        assert_eq!(calls, program.calls.len() as u64);
    }
    assert!(launched > 500, "hardly a launch in a range: {launched}");
}

/// A recording of Nsight Systems on an H200: sums by its own tables, without a range or a launch of ours.
#[test]
fn a_recording_of_nsight_systems_has_its_sums() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/attribution/run.sqlite");
    if !path.is_file() {
        return; // a package of this crate alone
    }
    let read = conclusions(&path, Vec::new).unwrap();
    let [summary] = &read[..] else { panic!("{} processes", read.len()) };
    let connection = Connection::open(&path).unwrap();
    let rows = |query: &str| -> BTreeMap<String, [u64; 2]> {
        let mut statement = connection.prepare(query).unwrap();
        let rows = statement.query_map([], |row| {
            let [count, sum] = [row.get::<_, i64>(1)?, row.get::<_, i64>(2)?];
            Ok((row.get(0)?, [count as u64, sum as u64]))
        });
        rows.unwrap().map(Result::unwrap).collect()
    };
    let kernels = rows(
        "SELECT value, COUNT(*), SUM(\"end\" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = demangledName
         GROUP BY value",
    );
    let gpu = summary.gpu.as_ref().unwrap();
    let figures = |times: &Times| [times.instances, times.total_ns];
    let found: BTreeMap<_, _> = gpu.kernels.iter().map(|row| (row.name.clone(), figures(&row.times))).collect();
    assert_eq!(found, kernels);
    let ranges = rows(
        "SELECT COALESCE(value, text, '') AS name, COUNT(*), SUM(\"end\" - start) FROM NVTX_EVENTS
         LEFT JOIN StringIds ON id = textId WHERE eventType IN (59, 60) GROUP BY name",
    );
    let mut found = BTreeMap::<String, [u64; 2]>::new();
    for row in &summary.ranges {
        let sums = found.entry(row.name.clone()).or_default();
        *sums = [sums[0] + row.times.instances, sums[1] + row.times.total_ns];
    }
    assert_eq!(found, ranges);
}

/// Writes a database with these ranges and launches on one thread. Each launch has a kernel of 100 ns, right after it.
fn write(path: &Path, ranges: &[(u64, u64, Option<&'static str>, &'static str)], launches: &[u64]) {
    let mut program = Program::default();
    program.ranges = ranges.iter().map(|&(start, end, domain, name)| (1, start, end, domain, name)).collect();
    for (correlation, &at) in (1..).zip(launches) {
        program.calls.push((1, at, at + 5, correlation));
        program.operations.push((0, at + 10, at + 110, correlation, 0));
    }
    program.write(&mut Sqlite::new(path)).unwrap();
}

/// Domains have stacks of their own: a range may end inside of one that began later in another domain.
#[test]
fn ranges_that_overlap_are_beside_each_other() {
    let path = temporary("overlap");
    let ranges = [(0, 1_000, Some("io"), "prefetch"), (900, 10_000, None, "train"), (1_100, 2_000, None, "step")];
    write(&path, &ranges, &[500, 950, 1_110]);
    let read = conclusions(&path, Vec::new).unwrap();
    std::fs::remove_file(&path).unwrap();
    let mut found = BTreeMap::new();
    nodes(&read[0].tree, &[], &mut found);
    let figures = |node: &TreeNode| [node.self_ns, node.gpu.as_ref().map_or(0, |work| work.own.operations)];
    let found: Vec<_> = found.iter().map(|(path, node)| (path.join(" > "), figures(node))).collect();
    let expected = [("io:prefetch", [1_000, 1]), ("train", [8_200, 1]), ("train > step", [900, 1])];
    assert_eq!(found, expected.map(|(path, figures)| (path.to_owned(), figures)));
}

/// A range without an end lasts until the last item, and is around a closed one that began with it.
#[test]
fn a_range_that_is_open_at_the_end_has_what_came_later() {
    let path = temporary("open");
    write(&path, &[(100, 150, None, "inner"), (100, 400, None, "outer")], &[300, 2_000]);
    let connection = Connection::open(&path).unwrap();
    let changed = connection.execute("UPDATE NVTX_EVENTS SET \"end\" = NULL WHERE \"end\" = 400", []).unwrap();
    assert_eq!(changed, 1);
    connection.execute("UPDATE StringIds SET value = CAST(x'696ee972' AS TEXT) WHERE value = 'inner'", []).unwrap();
    drop(connection);
    let read = conclusions(&path, Vec::new).unwrap();
    std::fs::remove_file(&path).unwrap();
    let [outer] = &read[0].tree[..] else { panic!("{:#?}", read[0].tree) };
    let work = outer.gpu.clone().unwrap();
    assert_eq!((outer.name.as_str(), outer.total_ns, work.own.operations), ("outer", 2_010, 2));
    let inner: Vec<_> = outer.children.iter().map(|child| (child.name.as_str(), child.total_ns)).collect();
    assert_eq!(inner, [("in\u{fffd}r", 50)], "a name that is no UTF-8 is shown as far as it goes");
    let open: Vec<_> = read[0].losses.open.iter().map(|open| (open.label.as_str(), open.cut)).collect();
    assert_eq!(open, [("outer", true)]);
}

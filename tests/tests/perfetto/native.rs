//! Timelines in Perfetto's own format, beside the same as JSON.

use std::io::Cursor;
use std::path::Path;

use fastrand::Rng;
use range_files::{Chrome, Perfetto, Sqlite};
use range_model::timeline::{Api, ApiCall, Call, Item, Kernel, Memory, Operation, Range, Sink, Value, Work};
use serde_json::{Value as Json, json};
use tracing_gpu::Summary;
use tracing_gpu::summary::{MemoryKind, Process};

use super::{FAULTS, SLICES, ask, demonstration, native, temporary};

/// The most bytes of a range, and of a launch with its call, its kernel and their arrow.
const RANGE: f64 = 24.0;
const LAUNCH: f64 = 60.0;

fn begin(sink: &mut dyn Sink) {
    let mut process = Process::default();
    process.pid = 4000;
    process.command = "/opt/bin/train --model gpt".to_owned();
    sink.begin(&process).expect("a beginning");
    for (thread, name) in [(4000, "main"), (4001, "tokio-worker-1"), (4002, "tokio-worker-2")] {
        sink.item(&Item::Thread { thread, name }).expect("an item");
    }
    sink.item(&Item::Device { device: 0, name: "NVIDIA H100" }).expect("an item");
}

/// Writes launches of a model's kernels: 12 layers of seven kernels, from one thread, on one stream; a copy a step.
fn launches(sink: &mut dyn Sink, count: u32) {
    const KERNELS: [(&str, u32, u64); 7] = [
        ("void layer_norm<float, 256>(float const*, float*, int)", 256, 4_000),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", 1056, 38_000),
        ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >(Flash_fwd_params)", 384, 22_000),
        ("void add_bias<float>(float*, float const*)", 512, 3_000),
        ("void gelu<float>(float*, int)", 512, 3_500),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x128x64_warpgroupsize1x1x1", 264, 41_000),
        ("void softmax_warp_forward<float, float, float, 9, false>(float*, float const*, int)", 96, 6_000),
    ];
    let mut random = Rng::with_seed(7);
    let (mut host, mut device) = (1_000_000_u64, 1_010_000_u64);
    for number in 0..count {
        let (kernel, blocks, ns) = KERNELS[number as usize % KERNELS.len()];
        let correlation = 40 + 3 * number;
        let (start, end) = (host, host + random.u64(2_300..9_000));
        host = end + random.u64(700..6_000);
        let call =
            ApiCall { api: Api::Runtime, name: "cudaLaunchKernel", thread: 4000, start, end, correlation, result: 0 };
        sink.item(&Item::ApiCall(call)).expect("an item");
        let from = device.max(end) + random.u64(800..1_500);
        device = from + ns + random.u64(0..ns / 8);
        let launched = Operation {
            start: from,
            end: device,
            context: 1,
            stream: 7,
            correlation,
            work: Work::Kernel(Kernel {
                name: 1,
                grid: [blocks as i32, 1, 1],
                block: [256, 1, 1],
                registers: 96,
                static_shared: 0,
                dynamic_shared: 49_152,
            }),
            kernel,
            symbol: "_ZN7kernels4name",
            launch: Some((4000, start)),
            span: Some(["attention", "mlp"][number as usize / 4 % 2]),
            call: 1_000 + u64::from(number / 4),
            ..Operation::default()
        };
        sink.item(&Item::Operation(launched)).expect("an item");
        if number % 84 == 83 {
            sink.flush().expect("a flush");
        }
    }
}

/// Writes requests whose futures are polled on several threads, with their ranges, and copies.
fn requests(sink: &mut dyn Sink, count: u64) {
    let mut random = Rng::with_seed(9);
    for number in 0..count {
        let (call, at) = (10 * number + 1, 1_000_000 * number + 5_000);
        let fields = [("route", Value::Text("/v1/generate")), ("tokens", Value::Unsigned(number % 100))];
        let mut polled = at + 10;
        for poll in 0..4 {
            let thread = 4000 + random.u32(0..3);
            let end = polled + random.u64(2_000..50_000);
            let inner = Range {
                thread,
                start: polled + 100,
                end: if poll == 2 { end } else { end - 100 },
                name: "parse",
                depth: 1,
                call: call + 1 + poll,
                parent: call,
                ..Range::default()
            };
            // They begin or end at once. (Of two that do both, JSON does not tell which is the outer one.)
            let (start, end) = (inner.start, inner.end);
            for (name, start, end) in [("letter", start, start), ("word", start, start + 50), ("line", start + 60, end)]
            {
                let call = 0;
                sink.item(&Item::Range(Range { name, start, end, call, ..inner.clone() })).expect("an item");
            }
            sink.item(&Item::Range(inner)).expect("an item");
            let range = Range {
                thread,
                start: polled,
                end,
                name: "request",
                call,
                span: call,
                fields: &fields,
                ..Range::default()
            };
            sink.item(&Item::Range(range)).expect("an item");
            polled = end + random.u64(1_000..90_000);
            if number % 7 == poll {
                sink.flush().expect("a flush");
            }
        }
        let called = Call {
            call,
            span: call,
            thread: 4000,
            start: at,
            end: polled,
            name: "request",
            fields: &fields,
            ..Call::default()
        };
        sink.item(&Item::Call(called)).expect("an item");
        let memory = Memory { kind: MemoryKind::HtoD, bytes: 4096 + number, source: 2, destination: 3, value: 0 };
        let copy = Operation {
            start: at + 100,
            end: at + 900,
            context: 1,
            stream: 13,
            correlation: 7 + number as u32,
            work: Work::Memory(memory),
            launch: Some((4001, at)),
            ..Operation::default()
        };
        sink.item(&Item::Operation(copy)).expect("an item");
    }
}

fn end(sink: &mut dyn Sink) {
    sink.end(&Summary::default(), 0).expect("an end");
}

/// The bytes of a timeline as JSON, compressed JSON, a database, and in Perfetto's format.
fn sizes(write: fn(&mut dyn Sink, u32), count: u32) -> [f64; 4] {
    let (mut json, mut gz, mut own) = (Vec::new(), Cursor::new(Vec::new()), Cursor::new(Vec::new()));
    let database = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sizes.sqlite");
    let mut sinks: [Box<dyn Sink + '_>; 4] = [
        Box::new(Chrome::new(&mut json)),
        Box::new(Chrome::gzip(&mut gz)),
        Box::new(Sqlite::new(&database)),
        Box::new(Perfetto::new(&mut own)),
    ];
    for sink in &mut sinks {
        begin(&mut **sink);
        write(&mut **sink, count);
        end(&mut **sink);
    }
    drop(sinks);
    let database = std::fs::metadata(database).expect("the database").len() as usize;
    [json.len(), gz.into_inner().len(), database, own.into_inner().len()].map(|bytes| bytes as f64 / f64::from(count))
}

#[test]
fn a_launch_takes_60_bytes_at_most() {
    let [json, gz, database, own] = sizes(launches, 20_000);
    println!("bytes a launch: JSON {json:.0}, gz {gz:.1}, database {database:.0}, Perfetto {own:.1}");
    assert!(own <= LAUNCH, "{own}");
    assert!(own < json / 10.0);
}

/// A program of three threads with spans, as its profiler writes them.
#[test]
fn a_range_takes_24_bytes_at_most() {
    use tracing_gpu::{Output, Profiler};
    const RANGES: u64 = 100_000;

    let file = |name: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let files = ["ranges.json", "ranges.json.gz", "ranges.sqlite", "ranges.pftrace"].map(file);
    let [json, _, database, own] = &files;
    let profiler = Profiler::builder().output(Output::None).trace(json).sqlite(database).perfetto(own).build();
    let profiler = profiler.expect("a profiler");
    let subscriber = tracing::Dispatch::new(profiler.subscriber());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let subscriber = subscriber.clone();
            scope.spawn(move || tracing::dispatcher::with_default(&subscriber, || work(thread, RANGES / 4)));
        }
    });
    profiler.finish().expect("written");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gz, &std::fs::read(json).expect("the trace")).expect("memory");
    std::fs::write(&files[1], gz.finish().expect("memory")).expect("the compressed trace");
    let [json, gz, database, bytes] =
        files.each_ref().map(|file| std::fs::metadata(file).expect("a file").len() as f64 / RANGES as f64);
    println!("bytes a range: JSON {json:.0}, gz {gz:.1}, database {database:.0}, Perfetto {bytes:.1}");
    assert!(bytes <= RANGE, "{bytes}");
    let slices = ask(own, &[FAULTS, SLICES]);
    assert_eq!(slices, [json!([]), json!([[RANGES]])]);
    let sums =
        "select name, depth, count(*), sum(dur), sum(ts), min(ts), max(ts) from slice group by 1, 2 order by 1, 2";
    assert_eq!(ask(own, &[sums]), ask(&files[0], &[sums]));
}

/// Of several files, the latest are kept, and each is read by itself.
#[test]
fn files_follow_one_another() {
    use tracing_gpu::{Output, Profiler};
    const SIZE: u64 = 100_000;

    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rotated");
    let _of_an_earlier_run = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("run.pftrace");
    let settings = format!("perfetto={},rotate=100KB*3", path.display());
    let (builder, complaints) = Profiler::builder().output(Output::None).settings(&settings);
    assert_eq!(complaints, [""; 0]);
    let profiler = builder.build().expect("a profiler");
    tracing::subscriber::with_default(profiler.subscriber(), || work(0, 60_000));
    profiler.finish().expect("written");
    let mut names: Vec<_> = std::fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path()).collect();
    names.sort();
    let number = |path: &Path| path.to_string_lossy().rsplit('.').nth(1).and_then(|number| number.parse().ok());
    let numbers: Vec<u64> = names.iter().filter_map(|path| number(path)).collect();
    assert!(numbers.len() == 3 && names.len() == 3 && numbers[0] > 1, "{names:?}");
    assert!(numbers.is_sorted_by(|one, next| next - one == 1), "{numbers:?}");
    let mut last = 0;
    for path in &names {
        let bytes = std::fs::metadata(path).expect("a file").len();
        assert!(bytes < SIZE * 3 / 2 && (bytes >= SIZE || *path == names[2]), "{bytes}");
        let all = "select min(ts), max(ts), count(*) from slice";
        let answers = ask(path, &[FAULTS, all]);
        let of = |column: usize| answers[1][0][column].as_u64().unwrap_or_default();
        assert_eq!(answers[0], json!([]));
        if of(2) == 0 {
            assert_eq!(*path, names[2], "a file begins with a block, and the last one may have none");
            continue;
        }
        assert!(of(0) > last && of(1) > of(0) && (of(2) > 1_000 || *path == names[2]), "{}", answers[1]);
        last = of(0);
        let imported = tracing_gpu::import::timeline(path, &Default::default(), &folder, &mut |process| {
            assert_eq!(process.pid, std::process::id());
            Box::new(Chrome::new(std::io::sink()))
        });
        assert_eq!(imported.expect("a timeline").ranges, of(2));
    }
    assert_eq!(names.iter().filter(|path| tracing_gpu::import::summaries(path).expect("read").len() == 1).count(), 1);
}

/// A step has ten spans: layers with their parts, of which some have fields.
fn work(thread: u64, ranges: u64) {
    let spin = |turns: u64| (0..turns).fold(0, |sum: u64, turn| std::hint::black_box(sum ^ turn));
    for step in 0..ranges / 10 {
        let _step = tracing::info_span!("step", step, thread).entered();
        for layer in 0..3 {
            let _layer = tracing::info_span!("layer", layer).entered();
            tracing::info_span!("attention", heads = 12).in_scope(|| spin(40 + step % 90));
            tracing::info_span!("mlp").in_scope(|| spin(30 + step % 70));
        }
    }
}

/// Whether the processor says the same of both files.
fn same(own: &Path, json: &Path) -> Result<(), String> {
    let queries = [
        "select p.pid, t.name, s.ts, s.dur, s.depth, s.name, s.category from slice s join thread_track k on k.id = s.track_id \
         join thread t using (utid) join process p using (upid) order by 1, 2, 3, 4, 5, 6",
        // Of calls.
        "select ts, dur, depth, name, category from slice where track_id not in (select id from thread_track) \
         order by 1, 2, 3, 4",
        "select o.ts, o.name, i.ts, i.name, ot.name, it.name from flow f join slice o on o.id = f.slice_out join slice i \
         on i.id = f.slice_in join thread_track ok on ok.id = o.track_id join thread ot on ot.utid = ok.utid \
         join thread_track ik on ik.id = i.track_id join thread it on it.utid = ik.utid where o.name = 'launch' \
         order by 1, 3, 2, 4",
        "select c.ts, c.value, k.name from counter c join counter_track k on k.id = c.track_id order by 1, 3, 2",
        "select s.ts, replace(replace(a.key, 'args.', ''), 'debug.', '') as key, a.display_value from slice s \
         join args a using (arg_set_id) where key not like '%legacy%' and key not like '%passthrough%' order by 1, 2, 3",
        FAULTS,
    ];
    let (own, json) = (ask(own, &queries), ask(json, &queries));
    for ((query, own), json) in queries.iter().zip(&own).zip(&json) {
        let [own, json] = [own, json].map(|rows| rows.as_array().expect("rows"));
        if let Some((own, json)) = own.iter().zip(json).find(|(own, json)| own != json) {
            return Err(format!("{query}\n  {own}\n  {json}"));
        }
        if own.len() != json.len() {
            return Err(format!("{query}\n  {} rows, and {} in JSON", own.len(), json.len()));
        }
    }
    Ok(())
}

/// Writes what another process wrote, by other numbers of processes and threads, as one that began later.
struct Other<'a> {
    sink: &'a mut dyn Sink,
    number: u32,
}

impl Sink for Other<'_> {
    fn begin(&mut self, process: &Process) -> std::io::Result<()> {
        let mut process = process.clone();
        process.pid += self.number;
        process.started_unix_ns = 1_763_652_942_007_999_999 + 5_000 * u64::from(self.number);
        self.sink.begin(&process)
    }

    fn item(&mut self, item: &Item<'_>) -> std::io::Result<()> {
        let of = |thread: u32| thread + self.number;
        let mut moved = item.clone();
        match &mut moved {
            Item::Thread { thread, .. } => *thread = of(*thread),
            Item::Range(range) => range.thread = of(range.thread),
            Item::Call(call) => call.thread = of(call.thread),
            Item::ApiCall(call) => call.thread = of(call.thread),
            Item::Operation(operation) => operation.launch = operation.launch.map(|(thread, at)| (of(thread), at)),
            _ => {}
        }
        self.sink.item(&moved)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.sink.flush()
    }

    fn end(&mut self, summary: &Summary, lost: u64) -> std::io::Result<()> {
        self.sink.end(summary, lost)
    }
}

fn files(name: &str, number: u32, write: &dyn Fn(&mut dyn Sink)) -> [std::path::PathBuf; 2] {
    let (mut json, mut own) = (Vec::new(), Cursor::new(Vec::new()));
    for sink in [&mut Chrome::new(&mut json) as &mut dyn Sink, &mut Perfetto::new(&mut own)] {
        let mut sink = Other { sink, number };
        begin(&mut sink);
        write(&mut sink);
        end(&mut sink);
    }
    [temporary(&format!("{name}.pftrace"), &own.into_inner()), temporary(&format!("{name}.json"), &json)]
}

#[test]
fn both_formats_say_the_same() {
    let [own, json] = files("launches", 0, &|sink| launches(sink, 2_000));
    assert_eq!(same(&own, &json), Ok(()));
    let [own, json] = files("requests", 0, &|sink| requests(sink, 300));
    assert_eq!(same(&own, &json), Ok(()));
}

/// The files of several processes that became one have all their slices and arrows, in both formats, one process
/// behind the other, and each arrow stays in its process.
#[test]
fn joined_timelines_have_the_tracks_of_all_processes() {
    use range_files::joined::{Format, join};
    let parts = [0, 1000, 2000].map(|number| {
        files(&format!("part-{number}"), number, &|sink| {
            launches(sink, 5_000);
            requests(sink, 100);
        })
    });
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let [own, json] = [("pftrace", Format::Perfetto), ("json", Format::Trace)].map(|(kind, format)| {
        let to = folder.join(format!("joined.{kind}"));
        let _of_an_earlier_test = std::fs::remove_file(&to);
        let own = parts.iter().map(|[own, json]| if kind == "json" { json } else { own }.clone()).collect::<Vec<_>>();
        join(format, &own, &to).unwrap_or_else(|error| panic!("{kind}: {error}"));
        to
    });
    assert_eq!(same(&own, &json), Ok(()));
    let queries = [
        FAULTS,
        "select count(*), min(ts) from slice group by (select 1)",
        "select count(*) from flow",
        "select count(*) from flow f join slice o on o.id = f.slice_out join slice i on i.id = f.slice_in \
         join thread_track ok on ok.id = o.track_id join thread ot on ot.utid = ok.utid join process op on op.upid = ot.upid \
         join thread_track ik on ik.id = i.track_id join thread it on it.utid = ik.utid join process ip on ip.upid = it.upid \
         where op.pid % 10000000 = ip.pid % 10000000",
        "select p.pid, p.name, min(s.ts) from slice s join thread_track k on k.id = s.track_id join thread t using (utid) \
         join process p using (upid) group by 1 order by 1",
        "select count(distinct track_id) from slice where track_id not in (select id from thread_track)",
    ];
    for at in 0..2 {
        let [joined, first] = [[&own, &json][at], &parts[0][at]].map(|file| ask(file, &queries));
        assert_eq!(joined[0], json!([]));
        let times_three = |of: &Json| json!(3 * of.as_u64().expect("a count"));
        assert_eq!(joined[1][0][0], times_three(&first[1][0][0]));
        assert_eq!(joined[1][0][1], first[1][0][1]);
        assert_eq!(joined[2][0][0], times_three(&first[2][0][0]));
        assert_eq!(joined[3], joined[2], "no arrow leads from process to process");
        let groups = joined[4].as_array().expect("rows");
        assert_eq!(groups.len(), 6);
        for (number, name) in [(4000, "train"), (10_004_000, "GPU 0 NVIDIA H100")] {
            for later in 0..3 {
                let group = groups.iter().find(|group| group[0] == number + 1000 * later).expect("a group");
                let before = groups.iter().find(|group| group[0] == number).expect("a group");
                let of_which = format!("{name} of {} train", 4000 + 1000 * later);
                assert_eq!(group[1], if number > 4000 { of_which } else { name.to_owned() });
                let time = |group: &Json| group[2].as_u64().expect("a time");
                assert_eq!(time(group), time(before) + 5_000_000 * later, "{number}");
            }
        }
        assert!(joined[5][0][0].as_u64() >= Some(3), "each process has tracks of its own for its calls: {}", joined[5]);
    }
}

/// Each poll of a call has an arrow to the next one, also where a block ends between them.
#[test]
fn arrows_lead_from_poll_to_poll() {
    let [own, _] = files("polls", 0, &|sink| requests(sink, 300));
    let polls = "select count(*), count(distinct extract_arg(o.arg_set_id, 'debug.call')), min(i.ts - o.ts - o.dur) \
                 from flow f join slice o on o.id = f.slice_out join slice i on i.id = f.slice_in \
                 where o.name = 'request' and i.name = 'request' \
                 and extract_arg(o.arg_set_id, 'debug.call') = extract_arg(i.arg_set_id, 'debug.call')";
    let answers = ask(&own, &[polls, FAULTS]);
    assert_eq!((&answers[0][0][0], &answers[0][0][1]), (&json!(3 * 300), &json!(300)));
    assert!(answers[0][0][2].as_i64() >= Some(1_000), "{}", answers[0]);
    assert_eq!(answers[1], json!([]));
}

/// A file that is cut anywhere has what its whole blocks have.
#[test]
fn a_timeline_in_blocks_is_read_up_to_a_cut() {
    let mut own = Cursor::new(Vec::new());
    let mut sink = Perfetto::new(&mut own);
    begin(&mut sink);
    launches(&mut sink, 20_000);
    end(&mut sink);
    drop(sink);
    let own = own.into_inner();
    let count = |bytes: &[u8]| {
        let answers = ask(&temporary("cut.pftrace", bytes), &[FAULTS, SLICES]);
        assert_eq!(answers[0], json!([]), "{} bytes", bytes.len());
        answers[1][0][0].as_u64().expect("a count")
    };
    let ends = ends(&own);
    assert!(ends.len() > 10, "{ends:?}");
    let all = count(&own);
    assert_eq!(all, 3 * 20_000);
    for block in [1, 3, ends.len() / 2] {
        let whole = count(&own[..ends[block]]);
        assert!(whole > 0 && whole < all);
        for cut in [ends[block] + 1, ends[block] + 2, ends[block] + 100, ends[block + 1] - 1] {
            assert_eq!(count(&own[..cut]), whole, "{cut}");
        }
    }
    let whole = native();
    let steps =
        |bytes: &[u8]| ask(&temporary("cut.pftrace", bytes), &["select count(*) from slice where name = 'forward'"]);
    assert_eq!(steps(&whole)[0][0][0], json!(2 * demonstration::STEPS));
}

/// Where each block ends.
fn ends(file: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (0, Vec::new());
    while at < file.len() {
        let (mut length, mut shift) = (0, 0);
        at += 1;
        loop {
            length |= usize::from(file[at] & 127) << shift;
            (at, shift) = (at + 1, shift + 7);
            if file[at - 1] < 128 {
                break;
            }
        }
        at += length;
        ends.push(at);
    }
    ends
}

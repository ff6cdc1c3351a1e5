//! What it costs to look at threads inside of spans: `off_cpu_cost THREADS SECONDS` waits on so many threads, and
//! prints the processor time of the thread that looks, here and in the command that runs this program, per second.

use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tracing_gpu::{Output, Profiler};

/// The processor time of the looking thread of a process, in nanoseconds.
fn spent(process: &str) -> Option<u64> {
    let threads = std::fs::read_dir(Path::new("/proc").join(process).join("task")).ok()?;
    let is_it = |folder: &Path| std::fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.trim() == NAME);
    let folder = threads.flatten().map(|entry| entry.path()).find(|folder| is_it(folder))?;
    std::fs::read_to_string(folder.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
}

const NAME: &str = "tracing-off-cpu";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let (Some(Ok(threads)), Some(Ok(seconds))) = (arguments.next(), arguments.next()) else {
        return Err("off_cpu_cost THREADS SECONDS".into());
    };
    let profiler = Profiler::builder().off_cpu(true).output(Output::None).build()?;
    tracing::subscriber::set_global_default(profiler.subscriber())?;
    let (out, into) = std::io::pipe()?;
    for _ in 0..threads {
        let mut out = out.try_clone()?;
        std::thread::spawn(move || tracing::info_span!("read").in_scope(|| out.read_exact(&mut [0])));
    }
    std::thread::sleep(Duration::from_secs(1)); // until all of them wait
    let processes =
        [("this process", "self".to_owned()), ("the command", std::os::unix::process::parent_id().to_string())];
    let before = processes.each_ref().map(|(_, process)| spent(process));
    let samples = || profiler.summary().off_cpu.iter().map(|row| row.samples).sum::<u64>();
    let (begun, seen) = (Instant::now(), samples());
    std::thread::sleep(Duration::from_secs(seconds));
    let took = begun.elapsed().as_secs_f64();
    println!("{threads} threads, {:.0} samples a second here", (samples() - seen) as f64 / took);
    for ((name, process), before) in processes.iter().zip(before) {
        let Some((before, now)) = before.zip(spent(process)) else { continue };
        println!("{name}: {:.3} % of a core", (now - before) as f64 / took / 1e7);
    }
    drop(into);
    std::process::exit(0) // without waiting for threads, which have a descriptor of the pipe themselves
}

//! The machine at the end of a run: read once, for files that are compared.

use std::fs::File;
use std::io::Read;

use once_cell::sync::OnceCell;
use range_model::summary::Machine;

/// The first bytes of the system's list of processors: the first of them is in there. The system writes the whole list
/// only where all of it is read, which takes long with many processors.
const FIRST: u64 = 2_048;

/// The machine when this was called first. `with_gpus`: the process may have used CUDA.
pub(super) fn at_end(with_gpus: bool) -> &'static Machine {
    static MACHINE: OnceCell<Machine> = OnceCell::new();
    MACHINE.get_or_init(|| read(with_gpus))
}

fn read(with_gpus: bool) -> Machine {
    let mut machine = Machine::default();
    let cpus = start_of("/proc/cpuinfo");
    machine.cpu = field(&cpus, "model name").unwrap_or_default().to_owned();
    machine.cpu_mhz = field(&cpus, "cpu MHz").and_then(|mhz| mhz.parse().ok());
    machine.cpus = online(&start_of("/sys/devices/system/cpu/online"));
    machine.load = start_of("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok());
    if with_gpus {
        machine.gpus = gpus();
    }
    machine
}

#[cfg(feature = "cuda")]
fn gpus() -> Vec<range_model::summary::GpuClocks> {
    let clocks = gpu_activity::nvml::clocks().into_iter().map(|of| {
        let mut clocks = range_model::summary::GpuClocks::default();
        (clocks.name, clocks.uuid) = (of.name, of.uuid);
        (clocks.sm_mhz, clocks.memory_mhz, clocks.most_sm_mhz) = (of.sm_mhz, of.memory_mhz, of.most_sm_mhz);
        clocks.held_by = of.held_by;
        clocks
    });
    clocks.collect()
}

#[cfg(not(feature = "cuda"))]
fn gpus() -> Vec<range_model::summary::GpuClocks> {
    Vec::new()
}

/// Empty where it cannot be read, as on other systems than Linux.
fn start_of(path: &str) -> String {
    let mut bytes = Vec::new();
    // An error leaves what was read before it.
    let _ = File::open(path).and_then(|file| file.take(FIRST).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How many there are in a list such as `0-3,8`, of the whole machine: the load is that of the machine, too.
fn online(list: &str) -> u32 {
    let of = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.trim().split(',').filter_map(of).fold(0, u32::saturating_add)
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.trim() == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_processor_is_read() {
        let text = "processor\t: 0\nmodel name\t: Some: CPU @ 2.00GHz\ncpu MHz\t\t: 2000.5\n\nmodel name\t: other\n";
        assert_eq!([field(text, "model name"), field(text, "cpu MHz")], [Some("Some: CPU @ 2.00GHz"), Some("2000.5")]);
        assert_eq!(field(text, "flags"), None);
        assert_eq!(["0-3,8\n", "0\n", "", "3-1,x"].map(online), [5, 1, 0, 0]);
    }
}

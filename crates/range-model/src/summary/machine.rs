//! The machine that a run ran on, as far as it decides how fast the run is.

use super::schema::figures;

figures! {
    /// The machine of a run, read at its end.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Machine {
        /// Model of the processor; empty where it is not known.
        #[serde(default)]
        cpu: String;
        /// Processors of the machine; 0 where it is not known.
        #[serde(default)]
        cpus: u32;
        /// Clock of the first processor, in MHz. `None` where it is not known, as on most virtual machines of Arm.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpu_mhz: Option<f64>;
        /// Average number of threads of all programs that ran or could run, over the last minute.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        load: Option<f64>;
        /// The GPUs of the machine, by their numbers in NVML. Empty where the process did not measure a GPU.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        gpus: Vec<GpuClocks>;
    }
}

figures! {
    /// A GPU and its clocks, read from NVML at the end of the run.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GpuClocks {
        /// Name of the product.
        #[serde(default)]
        name: String;
        /// Its UUID, as `GPU-1b2c...`.
        #[serde(default)]
        uuid: String;
        /// Clock of the multiprocessors, in MHz.
        #[serde(default)]
        sm_mhz: u32;
        /// Clock of the memory, in MHz.
        #[serde(default)]
        memory_mhz: u32;
        /// The largest clock of the multiprocessors, in MHz.
        #[serde(default)]
        most_sm_mhz: u32;
        /// What holds the clocks down, as NVML's bits: see [`is_throttled`](Self::is_throttled).
        #[serde(default)]
        held_by: u64;
    }
}

impl GpuClocks {
    /// Whether power or heat holds the clocks down: the bits of NVML for its power cap, slowdowns of the hardware and
    /// of the software, and the power brake. That the GPU is idle, or that someone set its clocks, is no throttling.
    ///
    /// ```
    /// let mut gpu = range_model::summary::GpuClocks::default();
    /// gpu.held_by = 1; // idle
    /// assert!(!gpu.is_throttled());
    /// gpu.held_by = 0x40; // hot
    /// assert!(gpu.is_throttled());
    /// ```
    #[must_use]
    pub const fn is_throttled(&self) -> bool {
        const POWER_CAP: u64 = 0x4;
        const SLOWDOWN: u64 = 0x8;
        const SOFTWARE_THERMAL: u64 = 0x20;
        const HARDWARE_THERMAL: u64 = 0x40;
        const POWER_BRAKE: u64 = 0x80;
        self.held_by & (POWER_CAP | SLOWDOWN | SOFTWARE_THERMAL | HARDWARE_THERMAL | POWER_BRAKE) != 0
    }
}

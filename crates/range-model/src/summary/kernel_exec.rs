//! From the launch of a kernel to its end.

use super::schema::figures;
use super::times::Times;

figures! {
    /// Executions of one kernel that one thread launched by one function: a row of Nsight Systems'
    /// `cuda_kern_exec_sum`.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct KernelExecStats {
        /// The thread, as the operating system counts.
        tid: u32;
        /// Device number.
        device: u32;
        /// The function, with the version of its interface.
        api: String;
        /// The kernel, by its whole name.
        kernel: String;
        /// The times.
        execution: KernelExecution;
    }
}

figures! {
    /// The same by the range that was open at the launch, on all threads and devices.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct RangeExecStats {
        /// Name of the range; `None` outside of any.
        range: Option<String>;
        /// The function, with the version of its interface.
        api: String;
        /// The kernel, by its whole name.
        kernel: String;
        /// The times.
        execution: KernelExecution;
    }
}

figures! {
    /// From the start of the call that launched a kernel to the kernel's end, and the parts of it.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct KernelExecution {
        /// From the start of the call to the end of the kernel, or of the call where that is later.
        total: Times;
        /// The call.
        call: Times;
        /// From the end of the call to the start of the kernel, of kernels that did not start before.
        queue: Times;
        /// The kernel.
        kernel: Times;
    }
}

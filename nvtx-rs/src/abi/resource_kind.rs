//! The kinds of objects that a resource names.

/// What a resource is: its class and its number within the class.
///
/// ```
/// use nvtx_rs::ResourceKind;
/// assert_eq!(ResourceKind::PTHREAD_MUTEX, ResourceKind::new(3, 1));
/// assert_eq!(ResourceKind::PTHREAD_MUTEX.class(), 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ResourceKind {
    class: u16,
    index: u16,
}

macro_rules! kinds {
    ($($class:literal: $($name:ident = $index:literal, $what:literal;)*)*) => {
        impl ResourceKind {
            $($(
                #[doc = concat!("Identified by ", $what, ".")]
                pub const $name: Self = Self::new($class, $index);
            )*)*
        }
    };
}

kinds! {
    1:
        POINTER = 1, "the address of any object";
        HANDLE = 2, "a handle of any kind";
        NATIVE_THREAD = 3, "the number of a thread of the operating system";
        PTHREAD = 4, "a `pthread_t`";
    2:
        LINUX_MUTEX = 1, "a mutex of the Linux kernel";
        LINUX_FUTEX = 2, "the address of a futex";
        LINUX_SEMAPHORE = 3, "a semaphore of the Linux kernel";
        LINUX_COMPLETION = 4, "a completion of the Linux kernel";
        LINUX_SPINLOCK = 5, "a spinlock of the Linux kernel";
        LINUX_SEQLOCK = 6, "a sequence lock of the Linux kernel";
        LINUX_RCU = 7, "an RCU lock of the Linux kernel";
        WINDOWS_MUTEX = 1, "a mutex of Windows";
        WINDOWS_SEMAPHORE = 2, "a semaphore of Windows";
        WINDOWS_EVENT = 3, "an event of Windows";
        WINDOWS_CRITICAL_SECTION = 4, "a critical section of Windows";
        WINDOWS_SRWLOCK = 5, "a reader-writer lock of Windows";
    3:
        PTHREAD_MUTEX = 1, "a `pthread_mutex_t*`";
        PTHREAD_CONDITION = 2, "a `pthread_cond_t*`";
        PTHREAD_RWLOCK = 3, "a `pthread_rwlock_t*`";
        PTHREAD_BARRIER = 4, "a `pthread_barrier_t*`";
        PTHREAD_SPINLOCK = 5, "a `pthread_spinlock_t*`";
        PTHREAD_ONCE = 6, "a `pthread_once_t*`";
    4:
        CU_DEVICE = 1, "a `CUdevice`";
        CU_CONTEXT = 2, "a `CUcontext`";
        CU_STREAM = 3, "a `CUstream`";
        CU_EVENT = 4, "a `CUevent`";
    5:
        CUDA_DEVICE = 0, "a device's ordinal in the CUDA runtime";
        CUDA_STREAM = 1, "a `cudaStream_t`";
        CUDA_EVENT = 2, "a `cudaEvent_t`";
    6:
        CL_DEVICE = 1, "a `cl_device_id`";
        CL_CONTEXT = 2, "a `cl_context`";
        CL_COMMAND_QUEUE = 3, "a `cl_command_queue`";
        CL_MEM_OBJECT = 4, "a `cl_mem`";
        CL_SAMPLER = 5, "a `cl_sampler`";
        CL_PROGRAM = 6, "a `cl_program`";
        CL_EVENT = 7, "a `cl_event`";
}

impl ResourceKind {
    /// A kind by its numbers.
    #[must_use]
    pub const fn new(class: u16, index: u16) -> Self {
        Self { class, index }
    }

    /// The number of the class.
    #[must_use]
    pub const fn class(self) -> u16 {
        self.class
    }

    /// The number within the class.
    #[must_use]
    pub const fn index(self) -> u16 {
        self.index
    }

    pub(crate) fn identifier_type(self) -> i32 {
        i32::from(self.class) << 16 | i32::from(self.index)
    }
}

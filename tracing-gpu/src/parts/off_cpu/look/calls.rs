//! Names of the system calls in which threads wait.

use std::borrow::Cow;

use libc as c;

/// The name of a system call, and whether its first argument is a descriptor.
pub(crate) fn call(number: i64) -> (Cow<'static, str>, bool) {
    if number < 0 {
        return ("page fault or stop".into(), false);
    }
    let of = |names: &[(c::c_long, &'static str)]| names.iter().find(|(known, _)| *known == number).map(|row| row.1);
    match of(WITH_DESCRIPTOR) {
        Some(name) => (name.into(), true),
        None => (of(OTHERS).map_or_else(|| format!("system call {number}").into(), Cow::from), false),
    }
}

const WITH_DESCRIPTOR: &[(c::c_long, &str)] = &[
    (c::SYS_read, "read"),
    (c::SYS_write, "write"),
    (c::SYS_ioctl, "ioctl"),
    (c::SYS_pread64, "pread"),
    (c::SYS_pwrite64, "pwrite"),
    (c::SYS_readv, "readv"),
    (c::SYS_writev, "writev"),
    (c::SYS_preadv, "preadv"),
    (c::SYS_pwritev, "pwritev"),
    (c::SYS_recvfrom, "recv"),
    (c::SYS_recvmsg, "recvmsg"),
    (c::SYS_recvmmsg, "recvmmsg"),
    (c::SYS_sendto, "send"),
    (c::SYS_sendmsg, "sendmsg"),
    (c::SYS_sendmmsg, "sendmmsg"),
    (c::SYS_sendfile, "sendfile"),
    (c::SYS_splice, "splice"),
    (c::SYS_copy_file_range, "copy_file_range"),
    (c::SYS_connect, "connect"),
    (c::SYS_accept, "accept"),
    (c::SYS_accept4, "accept"),
    (c::SYS_flock, "flock"),
    (c::SYS_fcntl, "fcntl"),
    (c::SYS_fsync, "fsync"),
    (c::SYS_fdatasync, "fdatasync"),
    (c::SYS_fallocate, "fallocate"),
    (c::SYS_ftruncate, "ftruncate"),
    (c::SYS_fstat, "fstat"),
    (c::SYS_getdents64, "getdents"),
    (c::SYS_close, "close"),
    (c::SYS_io_uring_enter, "io_uring_enter"),
];

/// Those whose first argument is no descriptor, or one that says nothing more.
const OTHERS: &[(c::c_long, &str)] = &[
    (c::SYS_futex, "futex (lock or condition)"),
    (c::SYS_nanosleep, "nanosleep"),
    (c::SYS_clock_nanosleep, "clock_nanosleep"),
    (c::SYS_epoll_pwait, "epoll_wait"),
    (c::SYS_ppoll, "poll"),
    (c::SYS_pselect6, "select"),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_epoll_wait, "epoll_wait"),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_poll, "poll"),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_select, "select"),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_open, "open"),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_stat, "stat"),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_unlink, "unlink"),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_rename, "rename"),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_pause, "pause"),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_vfork, "vfork"),
    #[cfg(target_arch = "x86_64")]
    (c::SYS_newfstatat, "stat"),
    (c::SYS_openat, "open"),
    (c::SYS_statx, "stat"),
    (c::SYS_unlinkat, "unlink"),
    (c::SYS_renameat2, "rename"),
    (c::SYS_wait4, "wait"),
    (c::SYS_waitid, "wait"),
    (c::SYS_clone, "clone"),
    (c::SYS_execve, "execve"),
    (c::SYS_exit, "exit"),
    (c::SYS_exit_group, "exit"),
    (c::SYS_rt_sigsuspend, "sigsuspend"),
    (c::SYS_rt_sigtimedwait, "sigwait"),
    (c::SYS_sched_yield, "sched_yield"),
    (c::SYS_mmap, "mmap"),
    (c::SYS_munmap, "munmap"),
    (c::SYS_mprotect, "mprotect"),
    (c::SYS_mremap, "mremap"),
    (c::SYS_madvise, "madvise"),
    (c::SYS_msync, "msync"),
    (c::SYS_brk, "brk"),
    (c::SYS_mlock, "mlock"),
    (c::SYS_membarrier, "membarrier"),
    (c::SYS_msgrcv, "msgrcv"),
    (c::SYS_msgsnd, "msgsnd"),
    (c::SYS_semop, "semop"),
    (c::SYS_semtimedop, "semop"),
    (c::SYS_mq_timedreceive, "mq_receive"),
    (c::SYS_mq_timedsend, "mq_send"),
    (c::SYS_io_getevents, "io_getevents"),
    (c::SYS_sync, "sync"),
    (c::SYS_getrandom, "getrandom"),
    (c::SYS_restart_syscall, "restarted sleep or wait"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_names() {
        assert_eq!(call(c::SYS_read), ("read".into(), true));
        assert_eq!(call(c::SYS_futex), ("futex (lock or condition)".into(), false));
        assert_eq!(call(9_999), ("system call 9999".into(), false));
        assert_eq!(call(-1), ("page fault or stop".into(), false));
    }

    #[test]
    fn each_number_has_one_name() {
        let mut all: Vec<c::c_long> = WITH_DESCRIPTOR.iter().chain(OTHERS).map(|row| row.0).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}

// Makes wakes and writes late, as an idle virtual processor and a slow tool do: after each wait that another thread or
// a timer has ended, and after each write, the thread spins for so many microseconds. Preloaded by `run`, which sets
// LATE_WAKE_US and LATE_WRITE_US.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void spin(const char *variable) {
    int kept = errno;
    const char *text = getenv(variable);
    long ns = text ? 1000 * atol(text) : 0;
    struct timespec began, now;
    clock_gettime(CLOCK_MONOTONIC, &began);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - began.tv_sec) * 1000000000L + now.tv_nsec - began.tv_nsec < ns);
    errno = kept;
}

#define LATE(variable, type, name, parameters, arguments)                      \
    type name parameters {                                                     \
        static type(*next) parameters;                                         \
        if (!next)                                                             \
            next = (type(*) parameters)dlsym(RTLD_NEXT, #name);                \
        type result = next arguments;                                          \
        spin(variable);                                                        \
        return result;                                                         \
    }

LATE("LATE_WAKE_US", int, epoll_wait, (int fd, struct epoll_event *all, int most, int ms), (fd, all, most, ms))
LATE("LATE_WAKE_US", int, poll, (struct pollfd *all, nfds_t count, int ms), (all, count, ms))
LATE("LATE_WAKE_US", int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
LATE("LATE_WAKE_US", int, clock_nanosleep,
     (clockid_t clock, int flags, const struct timespec *time, struct timespec *left), (clock, flags, time, left))
LATE("LATE_WRITE_US", ssize_t, write, (int fd, const void *bytes, size_t count), (fd, bytes, count))

// Rust waits for locks and threads by this.
long syscall(long number, ...) {
    static long (*next)(long, ...);
    if (!next)
        next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
    va_end(list);
    long result = next(number, a, b, c, d, e, f);
    if (number == SYS_futex && ((b & 127) == 0 || (b & 127) == 9))
        spin("LATE_WAKE_US");
    return result;
}

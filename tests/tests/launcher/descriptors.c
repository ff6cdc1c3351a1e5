/* Does with its descriptors, its limits and its functions what the first argument says. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <nvtx3/nvToolsExt.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void work(const char *name) {
    nvtxRangePushA(name);
    nvtxRangePop();
}

/* Closes what is not its own, as daemons do, and opens so many files that all numbers are its own. */
static void reuse(void) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max < 1024 ? files.rlim_max : 1024;
    setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 3; i < 1024; i++)
        close(i);
    for (int i = 0; i < 600; i++) {
        char name[32];
        snprintf(name, sizeof name, "file-%d", i);
        if (open(name, O_CREAT | O_RDWR, 0644) < 0)
            perror(name);
    }
}

/* Its standard error is a pipe that nobody reads. */
static void unread(void) {
    int ends[2];
    if (pipe(ends) || dup2(ends[1], 2) != 2)
        _exit(9);
    close(ends[0]);
    close(ends[1]);
}

static void no_files(void) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
}

/* As where a limit on threads or on memory is met. */
static void no_threads(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(9);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    if (!strcmp(way, "reuse")) {
        work("before");
        reuse();
    }
    if (!strcmp(way, "unread"))
        unread();
    if (!strcmp(way, "unread") || !strcmp(way, "limit"))
        no_files();
    if (!strcmp(way, "no threads"))
        no_threads();
    work("work");
    return 0;
}

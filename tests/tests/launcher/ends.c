/* Makes ranges and ends in the way that its argument names. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void work(const char *name) {
    for (int i = 0; i < 3; i++) {
        nvtxRangePushA(name);
        nvtxRangePop();
    }
}

static void ready(void) {
    puts("ready");
    fflush(stdout);
}

static void *numbered(void *unused) {
    (void)unused;
    for (;;) {
        nvtxRangePushA("numbered, number = 1");
        nvtxRangePop();
    }
    return NULL;
}

static void *in_thread(void *unused) {
    (void)unused;
    work("thread");
    return NULL;
}

/* 1,000 names of 100 bytes, each three times. */
static void *with_names(void *unused) {
    for (int i = 0; i < 1000; i++) {
        char name[128];
        snprintf(name, sizeof name, "%0100d;", i);
        work(name);
    }
    return unused;
}

static void *pops(void *unused) {
    for (int i = 0; i < 3; i++) nvtxRangePop();
    return unused;
}

static atomic_int new_names;

static void *until_cancelled(void *unused) {
    (void)unused;
    for (;;) {
        char name[128];
        snprintf(name, sizeof name, "%0100d;", new_names++);
        work(name);
        pthread_testcancel();
    }
    return NULL;
}

static volatile long handled;

static void handler(int signal) {
    (void)signal;
    nvtxRangePushA("handler");
    nvtxRangePop();
    handled++;
}

static void leave(int signal) {
    (void)signal;
    exit(0);
}

/* Calls for names that are new, in a few domains, and for start/end ranges, until a signal comes. Nothing is allocated
   here. */
static void call_until_left(void) {
    nvtxDomainHandle_t domains[] = {nvtxDomainCreateA("one"), nvtxDomainCreateA("two"), nvtxDomainCreateA("three"),
                                    nvtxDomainCreateA("four"), nvtxDomainCreateA("five"), nvtxDomainCreateA("six")};
    nvtxEventAttributes_t within = {0};
    within.version = NVTX_VERSION;
    within.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    within.messageType = NVTX_MESSAGE_TYPE_ASCII;
    within.message.ascii = "within";
    for (unsigned number = 0;; number++) {
        char name[16] = {0};
        for (unsigned at = 0, rest = number; at < 8; at++, rest /= 10) name[at] = 'a' + rest % 10;
        nvtxRangePushA(name);
        nvtxRangePop();
        nvtxRangeEnd(nvtxRangeStartA("started"));
        for (int at = 0; at < 6; at++) nvtxDomainRangePushEx(domains[at], &within);
        for (int at = 0; at < 6; at++) nvtxDomainRangePop(domains[at]);
    }
}

/* Allows so many more bytes of memory than are in use. */
static int limit_memory(long more) {
    long pages = 0;
    FILE *used = fopen("/proc/self/statm", "r");
    if (!used || fscanf(used, "%ld", &pages) != 1) return 0;
    fclose(used);
    rlim_t most = pages * 4096 + more;
    return setrlimit(RLIMIT_AS, &(struct rlimit){most, most}) == 0;
}

static int is(const char *way, const char *name) { return strcmp(way, name) == 0; }

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "return";
    if (is(way, "fork first")) { /* what the parent does not use, its child may */
        if (fork() == 0) {
            work("child");
            exit(0);
        }
        wait(NULL);
        return 0;
    }
    work("step");
    if (is(way, "exit")) exit(3);
    if (is(way, "cleared environment")) {
        clearenv();
        if (fork() == 0) {
            work("child");
            exit(0);
        }
        wait(NULL);
    }
    if (is(way, "generations")) { /* each forked off the one before */
        for (int i = 0; i < 64; i++) {
            if (fork() != 0) {
                wait(NULL);
                exit(0);
            }
            work("child");
        }
    }
    if (is(way, "quick_exit")) quick_exit(4);
    if (is(way, "thread")) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    }
    if (is(way, "_exit")) _exit(5);
    if (is(way, "exit_group")) syscall(SYS_exit_group, 5);
    if (is(way, "last thread")) syscall(SYS_exit, 5);
    if (is(way, "abort")) abort();
    if (is(way, "segv")) raise(SIGSEGV);
    if (is(way, "fault")) *(volatile int *)arguments[count] = 0;
    if (is(way, "kill")) kill(getpid(), SIGKILL);
    if (is(way, "strict")) { /* in which no clock can be read, and little else be done */
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        work("strict");
        syscall(SYS_exit, 0);
    }
    if (is(way, "names")) { /* more than one block of rows and of the log has room for */
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, with_names, NULL);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        kill(getpid(), SIGKILL);
    }
    if (is(way, "errno")) {
        for (int i = 0; i < 300; i++) {
            char name[32];
            snprintf(name, sizeof name, "name %d;", i);
            errno = 77;
            work(name);
            if (errno != 77) return 95;
        }
    }
    if (is(way, "cancel")) { /* while a thread meets new names */
        for (int i = 0; i < 100; i++) {
            pthread_t thread;
            pthread_create(&thread, NULL, until_cancelled, NULL);
            while (new_names < i * 20) continue;
            pthread_cancel(thread);
            pthread_join(thread, NULL);
        }
    }
    if (is(way, "handler")) { /* that interrupts other calls */
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 200}, {0, 200}}, NULL);
        for (int i = 0; handled < 2000; i++) {
            char name[32];
            snprintf(name, sizeof name, "name %d;", i % 20000);
            nvtxRangePushA(name);
            nvtxRangePop();
        }
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
        printf("%ld\n", handled);
    }
    if (is(way, "no more files") || is(way, "no more files, not ours either")) {
        for (int i = 3; i < 1024 && !is(way, "no more files"); i++) close(i);
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0});
        pthread_t thread;
        pthread_create(&thread, NULL, with_names, NULL);
        pthread_join(thread, NULL);
    }
    if (is(way, "elsewhere")) { /* as goroutines do */
        pthread_t thread;
        for (int i = 0; i < 3; i++) nvtxRangePushA("moved");
        pthread_create(&thread, NULL, pops, NULL);
        pthread_join(thread, NULL);
    }
    if (is(way, "limit")) setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
    if (is(way, "memory")) { /* no more of it than there is */
        if (!limit_memory(0)) return 95;
        for (int i = 0; i < 60000; i++) {
            char name[16];
            snprintf(name, sizeof name, "name %d", i);
            work(name);
        }
    }
    if (is(way, "exit in a handler")) {
        for (int child = 0; child < 200; child++) {
            if (fork() == 0) {
                signal(SIGALRM, leave);
                work("first");
                setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 1000 + child * 9}}, NULL);
                call_until_left();
            }
            int status = -1;
            if (wait(&status) < 0 || status != 0) return 94;
        }
    }
    if (is(way, "memory at the end")) { /* for rows, and too little for a summary of them */
        for (int i = 0; i < 20000; i++) {
            char name[16];
            snprintf(name, sizeof name, "name %d;", i);
            work(name);
        }
        if (!limit_memory(8 << 20)) return 95;
    }
    if (is(way, "raise")) raise(SIGTERM), work("after");
    if (is(way, "close all and raise")) { /* as daemons do */
        for (int i = 3; i < 256; i++) close(i);
        raise(SIGINT), work("after");
    }
    if (is(way, "close all and open")) { /* takes all low numbers for a file of its own */
        for (int i = 3; i < 256; i++) close(i);
        for (int i = 3; i < 256; i++) {
            if (open(getenv("OWN"), O_CREAT | O_WRONLY, 0600) < 0) return 96;
        }
    }
    if (is(way, "full for a while")) { /* as a disk is */
        struct rlimit before, none = {0};
        getrlimit(RLIMIT_FSIZE, &before);
        none.rlim_max = before.rlim_max;
        setrlimit(RLIMIT_FSIZE, &none);
        usleep(1500000);
        setrlimit(RLIMIT_FSIZE, &before);
        work("later");
        usleep(2500000);
        _exit(0);
    }
    if (is(way, "pthread_exit")) {
        pthread_t thread;
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_exit(NULL);
    }
    if (is(way, "open")) {
        nvtxRangePushA("endless");
        kill(getpid(), SIGKILL);
    }
    if (is(way, "wait")) {
        ready();
        for (;;) pause();
    }
    if (is(way, "wait for input")) { /* whatever becomes of the command */
        ready();
        while (getchar() != EOF) continue;
        work("handled");
        puts("handled");
    }
    if (is(way, "handled")) { /* a program that ends itself in order */
        sigset_t set;
        int signal = 0;
        sigemptyset(&set);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGUSR1);
        sigaddset(&set, SIGXCPU);
        sigaddset(&set, SIGWINCH);
        sigaddset(&set, SIGPWR);
        sigaddset(&set, SIGRTMIN);
        sigaddset(&set, SIGRTMAX);
        sigprocmask(SIG_BLOCK, &set, NULL);
        ready();
        sigset_t pending; /* for no thread of this process: none of a tool may take it */
        do sigpending(&pending), sigandset(&pending, &pending, &set);
        while (sigisemptyset(&pending) && !sigismember(&pending, SIGRTMIN) && !sigismember(&pending, SIGRTMAX));
        sigwait(&set, &signal);
        work("handled");
        return signal;
    }
    if (is(way, "count interrupts")) { /* until SIGUSR1 comes */
        sigset_t set;
        int signal = 0, interrupts = -1;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGQUIT);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, NULL);
        ready();
        printf("command %d\n", getppid());
        fflush(stdout);
        for (; signal != SIGUSR1; interrupts++) {
            sigwait(&set, &signal);
            printf("signal %d\n", signal);
            fflush(stdout);
        }
        printf("interrupts %d\n", interrupts);
        return 0;
    }
    if (is(way, "exec")) execl(arguments[0], arguments[0], "again", NULL);
    if (is(way, "again")) work("again");
    if (is(way, "fork")) {
        if (fork() == 0) {
            work("child");
            exit(0);
        }
        wait(NULL);
    }
    if (is(way, "clone")) { /* as sandboxes do: no handler of forks runs */
        if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
            work("child");
            _exit(0);
        }
        wait(NULL);
        work("step");
    }
    if (is(way, "fork and _exit")) {
        if (fork() == 0) {
            work("child");
            _exit(0);
        }
        wait(NULL);
    }
    if (is(way, "many _exit")) {
        for (int i = 0; i < 5; i++) {
            if (fork() == 0) {
                work("child");
                _exit(0);
            }
        }
        while (wait(NULL) > 0) continue;
    }
    if (is(way, "unload")) { /* a library with ranges of its own, which goes and comes back */
        for (int i = 0; i < 2; i++) {
            void *library = dlopen(getenv("PLUGIN"), RTLD_NOW);
            void (*ranges)(void) = NULL;
            if (library) *(void **)&ranges = dlsym(library, "ranges");
            if (!ranges) return 98;
            ranges();
            dlclose(library);
            if (dlopen(getenv("PLUGIN"), RTLD_NOW | RTLD_NOLOAD)) return 97;
        }
    }
    if (is(way, "forks")) { /* while another thread makes ranges and snapshots are made */
        pthread_t thread;
        for (int i = 0; i < 200; i++) {
            pthread_create(&thread, NULL, in_thread, NULL);
            if (fork() == 0) {
                work("child");
                exit(0);
            }
            pthread_join(thread, NULL);
            wait(NULL);
        }
    }
    if (is(way, "forks beside numbers")) { /* a child that hangs is killed */
        pthread_t thread;
        pthread_create(&thread, NULL, numbered, NULL);
        for (int i = 0; i < 200; i++) {
            if (fork() == 0) {
                alarm(5);
                nvtxRangePushA("child, number = 1");
                nvtxRangePop();
                exit(0);
            }
            wait(NULL);
        }
    }
    if (is(way, "spawn")) {
        pid_t child;
        char *again[] = {arguments[0], "again", NULL};
        if (posix_spawn(&child, arguments[0], NULL, NULL, again, environ) != 0) return 99;
        waitpid(child, NULL, 0);
    }
    if (is(way, "daemon")) { /* goes on until its input ends */
        pid_t parent = getpid();
        if (fork() == 0) {
            while (getppid() == parent) usleep(1000);
            work("daemon");
            ready();
            getchar();
            _exit(0);
        }
        return 6;
    }
    if (is(way, "background")) {
        pid_t parent = getpid();
        if (fork() == 0) {
            setsid();
            while (getppid() == parent) usleep(1000);
            work("background");
            exit(0);
        }
        return 6;
    }
    return 0;
}

/* Makes ranges and ends in the way that its argument names. What must be in a snapshot waits for one. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

/* Returns when a snapshot has begun after this call. Two new ones: the first may have begun before. */
static void kept(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.snapshot", getenv("TRACING_GPU_RUN"), getpid());
    ino_t last = 0;
    for (int changes = 0; changes < 3; usleep(1000)) {
        struct stat now;
        if (stat(path, &now) == 0 && now.st_ino != last) {
            last = now.st_ino;
            changes++;
        }
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
    if (is(way, "_exit")) kept(), _exit(5);
    if (is(way, "abort")) kept(), abort();
    if (is(way, "segv")) kept(), raise(SIGSEGV);
    if (is(way, "kill")) kept(), kill(getpid(), SIGKILL);
    if (is(way, "limit")) setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0});
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
        kept();
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
        sigprocmask(SIG_BLOCK, &set, NULL);
        ready();
        sigset_t pending; /* for no thread of this process: none of a tool may take it */
        do sigpending(&pending);
        while (!sigismember(&pending, SIGTERM) && !sigismember(&pending, SIGUSR1));
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
    if (is(way, "exec")) kept(), execl(arguments[0], arguments[0], "again", NULL);
    if (is(way, "again")) work("again");
    if (is(way, "fork")) {
        if (fork() == 0) {
            work("child");
            exit(0);
        }
        wait(NULL);
    }
    if (is(way, "fork and _exit")) {
        if (fork() == 0) {
            work("child");
            kept();
            _exit(0);
        }
        wait(NULL);
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
            kept();
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

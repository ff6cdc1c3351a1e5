// Threads that wait inside of NVTX ranges, and one that does not. The program prints how long each waited by its own
// clock: `name seconds`. Its arguments: seconds of each wait, and the number of threads that read beside `main`.
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double seconds;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void nap(double time) {
    struct timespec rest = {(time_t)time, (time - (time_t)time) * 1e9};
    while (nanosleep(&rest, &rest) != 0) {
    }
}

// Writes to a pipe after a while.
static void *writer(void *into) {
    nap(seconds);
    return write(*(int *)into, "x", 1) == 1 ? NULL : into;
}

// Has the mutex for a while.
static void *holder(void *ready) {
    pthread_mutex_lock(&mutex);
    if (write(*(int *)ready, "x", 1) != 1) abort();
    nap(seconds);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void read_pipe(const char *name) {
    int ends[2];
    char byte;
    pthread_t thread;
    if (pipe(ends) != 0 || pthread_create(&thread, NULL, writer, &ends[1]) != 0) abort();
    nvtxRangePushA(name);
    double start = now();
    if (read(ends[0], &byte, 1) != 1) abort();
    double took = now() - start;
    nvtxRangePop();
    pthread_join(thread, NULL);
    printf("%s %f\n", name, took);
}

static void *reader(void *name) {
    read_pipe(name);
    return NULL;
}

int main(int count, char **arguments) {
    seconds = atof(arguments[1]);
    int readers = count > 2 ? atoi(arguments[2]) : 0;
    pthread_t threads[256], thread;
    for (int i = 0; i < readers; i++) pthread_create(&threads[i], NULL, reader, "many");
    nvtxRangePushA("all");
    read_pipe("pipe");

    nvtxRangePushA("sleep");
    double start = now();
    nap(seconds);
    printf("sleep %f\n", now() - start);
    nvtxRangePop();

    int ready[2];
    char byte;
    if (pipe(ready) != 0 || pthread_create(&thread, NULL, holder, &ready[1]) != 0) abort();
    if (read(ready[0], &byte, 1) != 1) abort();
    nvtxRangePushA("lock");
    start = now();
    pthread_mutex_lock(&mutex);
    printf("lock %f\n", now() - start);
    nvtxRangePop();
    pthread_join(thread, NULL);

    // Waits that are shorter than the pause between two looks: a third of each turn is a sleep.
    start = now();
    double slept = 0;
    while (now() - start < seconds) {
        double turn = now();
        while (now() - turn < 0.002) {
        }
        nvtxRangePushA("short");
        turn = now();
        nap(0.001);
        slept += now() - turn;
        nvtxRangePop();
    }
    printf("short %f\n", slept);

    nvtxRangePushA("spin");
    start = now();
    while (now() - start < seconds) {
    }
    nvtxRangePop();
    printf("spin 0\n");
    nvtxRangePop();
    for (int i = 0; i < readers; i++) pthread_join(threads[i], NULL);
    return 0;
}

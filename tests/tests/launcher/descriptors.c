/* Does with its descriptors, its limits and its functions what the first argument says. */
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
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

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    if (!strcmp(way, "reuse")) {
        work("before");
        reuse();
    }
    work("work");
    return 0;
}

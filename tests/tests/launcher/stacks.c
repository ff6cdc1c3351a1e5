/* NVTX calls on stacks that are small, or that leave little room beside large thread-locals. The first argument says
 * which. */
#define _GNU_SOURCE
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#ifndef LARGE
#define LARGE 1
#endif
static __thread char large[LARGE];

enum { PAINTED = 256 << 10, PAINT = 0xA5 };
static __thread ucontext_t caller, coroutine;
static __thread void (*work)(void);

static void begin(void) { work(); }

/* Runs it on this stack. */
static void on_stack(char *stack, size_t size, void (*what)(void)) {
    work = what;
    getcontext(&coroutine);
    coroutine.uc_stack.ss_sp = stack;
    coroutine.uc_stack.ss_size = size;
    coroutine.uc_link = &caller;
    makecontext(&coroutine, begin, 0);
    swapcontext(&caller, &coroutine);
}

/* Prints how many bytes of stack it takes. */
static void measure(const char *name, void (*what)(void)) {
    static __thread char *stack;
    if (!stack)
        stack = malloc(PAINTED);
    memset(stack, PAINT, PAINTED);
    on_stack(stack, PAINTED, what);
    size_t untouched = 0;
    while (untouched < PAINTED && (unsigned char)stack[untouched] == PAINT)
        untouched++;
    printf("%s: %zu\n", name, PAINTED - untouched);
}

static void pair(const char *name) {
    nvtxRangePushA(name);
    nvtxRangePop();
}

static nvtxEventAttributes_t attributes(const char *name, uint32_t category) {
    nvtxEventAttributes_t event = {0};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.category = category;
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = name;
    return event;
}

static void first(void) { pair("first"); }
static void other(void) { pair("other"); }
static void numbered(void) { pair("aten::item, seq = 84, op_id = 315"); }
static void wide(void) {
    nvtxRangePushW(L"wide");
    nvtxRangePop();
}
static void mark(void) { nvtxMarkA("mark"); }
static void started(void) { nvtxRangeEnd(nvtxRangeStartA("started")); }
static void named_category(void) {
    nvtxNameCategoryA(7, "category");
    nvtxEventAttributes_t event = attributes("categorised", 7);
    nvtxRangePushEx(&event);
    nvtxRangePop();
}
static void crossed(void) {
    nvtxDomainHandle_t domain = nvtxDomainCreateA("domain");
    nvtxEventAttributes_t event = attributes("crossed", 0);
    nvtxDomainRangePushEx(domain, &event);
    nvtxRangePushA("crossing");
    nvtxDomainRangePop(domain);
    nvtxRangePop();
}
static void deep(void) {
    static const char names[][4] = {"a", "b", "c", "d"};
    for (int level = 0; level < 80; level++)
        nvtxRangePushA(names[level % 4]);
    for (int level = 0; level < 80; level++)
        nvtxRangePop();
}

static void measure_all(void) {
    measure("first of the process", first);
    measure("again", first);
    measure("other name", other);
    measure("numbered", numbered);
    measure("wide", wide);
    measure("mark", mark);
    measure("started", started);
    measure("category", named_category);
    measure("crossed", crossed);
    measure("deep", deep);
}

static void *on_thread(void *how) {
    if (how)
        measure("first of a thread", first);
    else
        first();
    large[LARGE / 2] = 1;
    return 0;
}

static void run_thread(size_t stack_size, void *how) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (stack_size)
        pthread_attr_setstacksize(&attributes, stack_size);
    if (pthread_create(&thread, &attributes, on_thread, how))
        abort();
    pthread_join(thread, 0);
}

static pthread_barrier_t all;

static void *wait_for_all(void *unused) {
    first();
    pthread_barrier_wait(&all);
    pthread_barrier_wait(&all);
    return unused;
}

static long resident(void) {
    long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2)
        abort();
    fclose(file);
    return pages * 4;
}

/* Prints the KiB in memory while so many threads are alive. */
static void crowd(int count) {
    pthread_t threads[count];
    first(); /* the first call of a process is a race of NVTX's own */
    pthread_barrier_init(&all, 0, count + 1);
    for (int thread = 0; thread < count; thread++)
        if (pthread_create(&threads[thread], 0, wait_for_all, 0))
            abort();
    pthread_barrier_wait(&all);
    printf("%ld\n", resident());
    pthread_barrier_wait(&all);
    for (int thread = 0; thread < count; thread++)
        pthread_join(threads[thread], 0);
}

int main(int count, char **arguments) {
    const char *way = arguments[1];
    size_t size = count > 2 ? (size_t)atol(arguments[2]) << 10 : 0;
    if (!strcmp(way, "paint")) {
        measure_all();
        run_thread(0, large);
    } else if (!strcmp(way, "coroutine")) {
        on_stack(malloc(size), size, first);
    } else if (!strcmp(way, "thread")) {
        run_thread(size, 0);
    } else if (!strcmp(way, "crowd")) {
        crowd(atoi(arguments[2]));
    }
    return 0;
}

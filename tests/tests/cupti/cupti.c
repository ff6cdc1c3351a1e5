/* A libcupti that makes records of what it is told was launched. It insists on the order in which a session is to
   begin. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID_PARAMETER = 1, OUT_OF_ORDER = 7, END = 12, INVALID_KIND = 21, MOST = 512, CALLS = 900 };

static void (*on_call)(void *, uint32_t, uint32_t, const void *);
static void *user;
static void (*request)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint64_t no_clock(void) { return 0; }
static uint64_t (*now)(void) = no_clock;
static uint8_t kinds[64], calls[4][CALLS], recorded[6][CALLS];
static size_t dropped;

/* Buffers that hold records; the last one is written to. Launches and flushes may be of two threads. */
static struct buffer { uint8_t *memory; size_t size, used; } held[MOST];
static int holding;
static size_t flushes;
static pthread_mutex_t holds = PTHREAD_MUTEX_INITIALIZER;

/* Where what comes next runs, and when; 0 for now. */
static struct { uint32_t device, context, stream; uint64_t node, at; } place;
static int32_t result;
/* The one thread that a flush serves, until others may; one that keeps back what is not complete; a call that it
   makes. */
static pthread_t alone;
static int is_alone, keeps_back;
static uint32_t calls_itself;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t opened = PTHREAD_COND_INITIALIZER;

static int setting(const char *name, int otherwise) {
  const char *value = getenv(name);
  return value ? atoi(value) : otherwise;
}

/* FAKE_FAILS=N:CODE has the N-th call fail with this code, and do nothing; FAKE_LOOKUP_FAILS the N-th of those that
   look something up, of which there are many. */
static int counts[2];
int fake_calls(size_t lookups) { return counts[lookups]; }
static int failure(int lookup) {
  const char *which = getenv(lookup ? "FAKE_LOOKUP_FAILS" : "FAKE_FAILS"), *code = which ? strchr(which, ':') : 0;
  int number = __atomic_fetch_add(&counts[lookup], 1, __ATOMIC_RELAXED);
  return code && number == atoi(which) ? atoi(code + 1) : 0;
}
#define FAILS(lookup) for (int code = failure(lookup); code; ) return code

static size_t stride(uint32_t kind) {
  switch (kind) {
    case 10: return setting("FAKE_KERNEL", 216);
    case 1: case 22: return 96;
    case 2: return 88;
    case 4: case 5: return 40;
    case 17: case 36: case 38: return 56;
    case 37: return 24;
    case 49: return 128;
    case 51: return 56;
    case 77: return 32; /* beyond the kinds that are measured */
    default: return 0;
  }
}

int cuptiGetVersion(uint32_t *version) {
  FAILS(0);
  return *version = setting("FAKE_VERSION", 130001), OK;
}
int cuptiGetResultString(int code, const char **name) {
  FAILS(1);
  return *name = "NAME_OF_THE_CODE", OK;
}
int cuptiGetCallbackName(uint32_t domain, uint32_t number, const char **name) {
  FAILS(1);
  static const struct { uint32_t domain, number; const char *name; } named[] = {
    { 1, 5, "cuDeviceGetName" }, { 1, 17, "cuCtxSynchronize" }, { 1, 119, "cuEventRecord" },
    { 1, 249, "cuMemsetD8_v2" }, { 1, 277, "cuMemcpyHtoDAsync_v2" }, { 1, 295, "cuStreamWaitEvent" },
    { 1, 304, "cuCtxGetCurrent" }, { 1, 689, "cuGraphAddKernelNode_v2" }, { 1, 307, "cuLaunchKernel" },
    { 1, 690, "cuGraphAddNode_v2" }, { 1, 691, "cuIpcOpenMemHandle_v2" },
    { 1, 308, "cuProfilerStart" }, { 1, 309, "cuProfilerStop" }, { 1, 324, "cuCtxPushCurrent_v2" },
    { 1, 122, "cuEventQuery" }, { 2, 211, "cudaLaunchKernel_v7000" }, { 2, 17, "cudaGetDevice_v3020" },
  };
  for (size_t each = 0; each < sizeof named / sizeof *named; each++)
    if (named[each].domain == domain && named[each].number == number) return *name = named[each].name, OK;
  return INVALID_PARAMETER;
}
int cuptiSubscribe(void **subscriber, void *callback, void *its_user) {
  FAILS(0);
  int code = setting("FAKE_SUBSCRIBE", OK);
  if (code) return code;
  if (on_call) return 39;
  *(void **)&on_call = callback;
  user = its_user;
  *subscriber = &user;
  return OK;
}
int cuptiUnsubscribe(void *subscriber) {
  FAILS(0);
  if (subscriber != &user || !on_call) return INVALID_PARAMETER;
  on_call = 0;
  memset(calls, 0, sizeof calls);
  return OK;
}
int cuptiEnableCallback(uint32_t enable, void *subscriber, uint32_t domain, uint32_t number) {
  FAILS(0);
  if (subscriber != &user || domain > 3 || number >= 800) return INVALID_PARAMETER;
  calls[domain][number] = enable;
  return OK;
}
int cuptiEnableDomain(uint32_t enable, void *subscriber, uint32_t domain) {
  FAILS(0);
  if (subscriber != &user || domain > 3) return INVALID_PARAMETER;
  memset(calls[domain], enable, CALLS);
  return OK;
}
int cuptiActivityRegisterCallbacks(void *its_request, void *its_complete) {
  FAILS(0);
  *(void **)&request = its_request;
  *(void **)&complete = its_complete;
  return on_call ? OK : OUT_OF_ORDER;
}
int cuptiActivityRegisterTimestampCallback(void *clock) {
  FAILS(0);
  *(void **)&now = clock;
  for (int kind = 0; kind < 64; kind++)
    if (kinds[kind]) return OUT_OF_ORDER;
  return on_call ? OK : OUT_OF_ORDER;
}
/* Whether whole graphs are no longer recorded, while kernels are. */
static int nodes_recorded;
int cuptiActivityEnable(uint32_t kind) {
  FAILS(0);
  if (!on_call || !request || now == no_clock) return OUT_OF_ORDER;
  if (kind == (uint32_t)setting("FAKE_REFUSED", 0)) return 35;
  /* As the real one of 13.0 does at the next launch of a graph whose nodes were recorded. */
  if (kind == 51 && nodes_recorded) abort();
  return kinds[kind] = 1, OK;
}
#ifndef BEFORE_12_5
/* Records of one function, whether or not its kind is enabled. */
static int record_function(uint32_t kind, uint32_t number, uint8_t on) {
  FAILS(1);
  if (!on_call || !request || now == no_clock) return OUT_OF_ORDER;
  if (number >= CALLS) return INVALID_PARAMETER;
  return recorded[kind][number] = on, OK;
}
int cuptiActivityEnableDriverApi(uint32_t number, uint8_t on) { return record_function(4, number, on); }
int cuptiActivityEnableRuntimeApi(uint32_t number, uint8_t on) { return record_function(5, number, on); }
#endif
/* Newer ones have these. A graph, and a node of a graph, is its own number. */
static int times_events;
int cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t on) {
  FAILS(0);
  return times_events = on, OK;
}
/* The device of a context stands in its low bits. */
int cuptiGetDeviceId(void *context, uint32_t *device) {
  FAILS(1);
  return *device = (uint32_t)(uint64_t)context & 3, OK;
}
int cuptiGetGraphId(void *graph, uint32_t *number) {
  FAILS(1);
  return *number = (uint32_t)(uint64_t)graph, OK;
}
int cuptiGetGraphExecId(void *graph, uint32_t *number) {
  return cuptiGetGraphId(graph, number);
}
int cuptiGetGraphNodeId(void *node, uint64_t *number) {
  FAILS(1);
  return *number = (uint64_t)node, OK;
}
/* As the real one does of 13.0, with kinds that were enabled inside of cuInit. */
static int has_launched;
int cuptiActivityDisable(uint32_t kind) {
  FAILS(0);
  if (setting("FAKE_CRASHES", 0) && !has_launched) abort();
  if (kind == 51 && on_call && kinds[10]) nodes_recorded = 1;
  return kinds[kind] = 0, OK;
}
int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
  FAILS(0);
  *count = dropped;
  dropped = 0;
  return OK;
}
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
  FAILS(1);
  uint8_t *next = buffer;
  uint32_t kind;
  if (*record) {
    memcpy(&kind, *record, 4);
    if (!stride(kind)) return INVALID_KIND;
    next = *record + stride(kind);
  }
  if (next >= buffer + valid) return END;
  memcpy(&kind, next, 4);
  if (!stride(kind)) return INVALID_KIND;
  return *record = next, OK;
}

/* What was held when a flush was asked for. */
struct flush { int after, count; struct buffer buffers[MOST]; };

static void *hand_over(void *given) {
  struct flush *flush = given;
  usleep(flush->after);
  for (struct buffer *each = flush->buffers; each < flush->buffers + flush->count; each++) {
    if (each != flush->buffers) usleep(setting("FAKE_BETWEEN", 0));
    complete(0, 0, each->memory, each->size, each->used);
  }
  free(flush);
  return 0;
}

void fake_call(uint32_t number, uint32_t correlation, void *context);

int cuptiActivityFlushAll(uint32_t forced) {
  FAILS(0);
  struct flush *flush;
  pthread_t thread;
  if (forced && setting("FAKE_HANG", 0)) sleep(1000);
  pthread_mutex_lock(&gate);
  while (is_alone && !pthread_equal(alone, pthread_self())) pthread_cond_wait(&opened, &gate);
  pthread_mutex_unlock(&gate);
  if (calls_itself) fake_call(17, calls_itself, 0);
  calls_itself = 0;
  if (keeps_back && !forced) return OK;
  flush = malloc(sizeof *flush);
  flush->after = setting("FAKE_THREAD", 0);
  pthread_mutex_lock(&holds);
  flush->count = holding;
  memcpy(flush->buffers, held, sizeof held);
  holding = 0;
  flushes++;
  pthread_mutex_unlock(&holds);
  if (!flush->after) return hand_over(flush), OK;
  pthread_create(&thread, 0, hand_over, flush);
  return pthread_detach(thread);
}

/* What the test tells of. */

static void new_buffer(void) {
  size_t most;
  request(&held[holding].memory, &held[holding].size, &most);
  held[holding++].used = 0;
}

void fake_new_buffer(void) {
  pthread_mutex_lock(&holds);
  new_buffer();
  pthread_mutex_unlock(&holds);
}

/* One that is never given back. */
void fake_keep_buffer(void) {
  struct buffer kept;
  size_t most;
  request(&kept.memory, &kept.size, &most);
}

static void put(uint32_t kind, const void *record, size_t bytes) {
  pthread_mutex_lock(&holds);
  if (!holding || held[holding - 1].used + bytes > held[holding - 1].size) new_buffer();
  memcpy(held[holding - 1].memory + held[holding - 1].used, record, bytes);
  memcpy(held[holding - 1].memory + held[holding - 1].used, &kind, 4);
  held[holding - 1].used += bytes;
  pthread_mutex_unlock(&holds);
}

/* From here on what comes runs there, at that time. */
void fake_place(uint32_t device, uint32_t context, uint32_t stream, uint64_t node, uint64_t at) {
  place.device = device, place.context = context, place.stream = stream, place.node = node, place.at = at;
}

/* How often all that was there was asked for. */
size_t fake_flushes(void) {
  size_t count;
  pthread_mutex_lock(&holds);
  count = flushes;
  pthread_mutex_unlock(&holds);
  return count;
}

/* Flushes of other threads wait until `fake_together`. */
void fake_alone(void) { alone = pthread_self(), is_alone = 1; }
void fake_together(void) {
  pthread_mutex_lock(&gate);
  is_alone = 0;
  pthread_cond_broadcast(&opened);
  pthread_mutex_unlock(&gate);
}

void fake_keep_back(size_t on) { keeps_back = on; }
void fake_result(size_t of_calls) { result = of_calls; }
void fake_calls_itself(size_t correlation) { calls_itself = correlation; }

static void called(uint32_t kind, uint32_t number, uint32_t correlation, uint64_t start) {
  uint32_t record[10] = { kind, number };
  uint64_t end = now();
  if (!kinds[kind] && !recorded[kind][number]) return;
  memcpy(&record[2], &start, 8);
  memcpy(&record[4], &end, 8);
  record[6] = 4321, record[7] = (uint32_t)(uintptr_t)pthread_self(), record[8] = correlation, record[9] = result;
  put(kind, record, sizeof record);
}

/* The parameters of the function that is called. */
static void *parameters;
void fake_call(uint32_t number, uint32_t correlation, void *context) {
  has_launched = 1;
  struct { uint32_t site; const char *function; void *parameters, *result; const char *symbol; void *context;
    uint32_t id; uint64_t *own; uint32_t correlation; } data = { 0, "", parameters, 0, "", context, 1, 0, correlation };
  uint64_t start = now();
  if (on_call && calls[1][number]) {
    on_call(user, 1, number, &data);
    data.site = 1;
    on_call(user, 1, number, &data);
  }
  called(4, number, correlation, start);
}

/* A function of the runtime that calls one of the driver, which comes under the same id and is over before. */
void fake_runtime(uint32_t number, uint32_t of_driver, uint32_t correlation, void *context) {
  uint64_t start = now();
  fake_call(of_driver, correlation, context);
  called(5, number, correlation, start);
}

/* The driver was called by somebody else than the test. */
void fake_reported(uint32_t number, void *context) {
  static uint32_t next = 1 << 20;
  if (on_call) fake_call(number, next++, context);
}

/* Where the library is preloaded: whether no thread can be started. */
static int no_threads;
void fake_no_threads(size_t on) { no_threads = on; }
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *given) {
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
  return no_threads ? EAGAIN : create(thread, attributes, body, given);
}

static uint64_t begin(uint64_t ns) { return !ns ? 0 : place.at ? place.at : now(); }

static void times(uint8_t *record, uint64_t ns) {
  uint64_t start = begin(ns), stop = start + ns;
  memcpy(record + 16, &start, 8);
  memcpy(record + 24, &stop, 8);
}

void fake_kernel(uint32_t correlation, const char *name, uint64_t ns) {
  uint8_t record[216] = { 0 };
  uint64_t address = (uint64_t)name;
  times(record, ns);
  memcpy(record + 40, &place, 12);
  memcpy(record + 92, &correlation, 4);
  memcpy(record + 104, &address, 8);
  memcpy(record + 144, &place.node, 8);
  if (kinds[10]) put(10, record, sizeof record);
}

/* A copy of this kind, or where that is 0 a set. */
void fake_memory(uint32_t correlation, uint8_t kind, uint64_t bytes, uint64_t ns) {
  uint8_t record[96] = { 0 };
  times(record, ns);
  if (kind) record[4] = kind, record[5] = 2, record[6] = 3;
  memcpy(record + 8, &bytes, 8);
  memcpy(record + 32, &place, 12);
  memcpy(record + 44, &correlation, 4);
  memcpy(record + 64, &place.node, 8);
  if (!kind) record[50] = 3;
  if (kinds[kind ? 1 : 2]) put(kind ? 1 : 2, record, kind ? 96 : 88);
}

void fake_other(uint32_t kind) {
  uint8_t record[32] = { 0 };
  put(kind, record, sizeof record);
}

/* Any record of a kind that is enabled. */
void fake_record(uint32_t kind, const void *record) {
  if (kinds[kind]) put(kind, record, stride(kind));
}

/* A node of this type is added by the function that adds any. */
void fake_add_node(uint32_t number, uint32_t correlation, void *context, uint32_t type) {
  void *of[] = { 0, 0, 0, 0, 0, &type };
  parameters = of;
  fake_call(number, correlation, context);
  parameters = 0;
}

/* Something of this number happened to a graph. */
void fake_graph(uint32_t number, void *graph, void *node, void *original) {
  void *of[7] = { graph, 0, node, original, 0, 0, graph }, *data[3] = { 0, 0, of };
  if (on_call && calls[3][number]) on_call(user, 3, number, data);
}

/* Whether a kind is enabled, a callback of a domain, records of a function (4 and 5: the kinds of their APIs), or for
   kind 0 the times of events. */
int fake_enabled(uint32_t domain, uint32_t number) {
  if (domain > 3) return recorded[domain][number];
  return domain ? calls[domain][number] : number ? kinds[number] : times_events;
}

void fake_begin(void *context) {
  if (on_call && calls[3][1]) on_call(user, 3, 1, &context);
}
void fake_destroy(void *context) {
  if (on_call && calls[3][2]) on_call(user, 3, 2, &context);
}

void fake_drop(size_t count) { dropped += count; }

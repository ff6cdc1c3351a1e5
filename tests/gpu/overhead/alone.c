// CUPTI alone, as a library for CUDA_INJECTION64_PATH: what records cost without anybody who reads them. ALONE says
// which: `kernels` (with copies and sets), `weighty` (also the calls that `tracing-gpu` records by default),
// `callbacks` (the same, but callbacks write the records of calls), or `all` (also all calls). `_graphs` behind it:
// graphs as a whole, too. They are recorded from cuProfilerStart to cuProfilerStop; with ALONE_WHOLE, from begin to
// end.
#include <cupti.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 4 << 20, MOST = 64 };
static struct { uint8_t *memory; int is_out; } pool[MOST];
static volatile int lock;

static void enter(void) {
  while (__sync_lock_test_and_set(&lock, 1)) {}
}

static void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *most) {
  int each = 0;
  enter();
  while (each < MOST && pool[each].is_out) each++;
  if (each == MOST) abort();
  if (!pool[each].memory) pool[each].memory = memset(aligned_alloc(4096, SIZE), 0, SIZE);
  pool[each].is_out = 1;
  __sync_lock_release(&lock);
  *buffer = pool[each].memory, *size = SIZE, *most = 0;
}

static void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t used) {
  enter();
  for (int each = 0; each < MOST; each++)
    if (pool[each].memory == buffer) pool[each].is_out = 0;
  __sync_lock_release(&lock);
}

// The functions that are left out: see `SLIGHT` in range-report.
static const char *const SLIGHT[] = {
  "CtxGetApiVersion", "CtxGetCurrent", "CtxGetDevice", "CtxGetFlags", "CtxGetId", "CtxPopCurrent", "CtxPushCurrent",
  "CtxSetCurrent", "DeviceGet", "DevicePrimaryCtxGetState", "DriverGetVersion", "EventElapsedTime", "FuncGetAttribute",
  "GetDevice", "GetDriverEntryPoint", "GetDriverEntryPointByVersion", "GetErrorName", "GetErrorString", "GetLastError",
  "GetProcAddress", "OccupancyMaxActiveBlocksPerMultiprocessor",
  "OccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "PeekAtLastError", "PopCallConfiguration",
  "PushCallConfiguration", "RuntimeGetVersion", "StreamGetCaptureInfo", "StreamGetCtx", "StreamGetDevice",
  "StreamGetFlags", "StreamGetId", "StreamGetPriority", "StreamIsCapturing", "ThreadExchangeStreamCaptureMode",
};

// The same for the driver alone.
static const char *const IN_DRIVER[] = {
  "DeviceGetAttribute", "DeviceGetCount", "PointerGetAttribute", "PointerGetAttributes",
};

static int is_in(const char *const *names, size_t count, const char *name) {
  for (size_t each = 0; each < count; each++) {
    size_t length = strlen(names[each]);
    if (!strncmp(name, names[each], length) && (!name[length] || name[length] == '_')) return 1;
  }
  return 0;
}

static int is_slight(const char *name) {
  while (*name == '_') name++;
  int is_driver = strncmp(name, "cuda", 4) != 0;
  name += is_driver ? 2 : 4;
  return is_in(SLIGHT, sizeof SLIGHT / sizeof *SLIGHT, name) ||
    (is_driver && is_in(IN_DRIVER, sizeof IN_DRIVER / sizeof *IN_DRIVER, name));
}

static void record(CUpti_ActivityKind kind, int is_on) {
  if (is_on) cuptiActivityEnable(kind);
  else cuptiActivityDisable(kind);
}

static void record_functions(int is_on) {
  const char *name;
  for (uint32_t number = 1; number < 1024; number++) {
    if (!cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, number, &name) && name && !is_slight(name))
      cuptiActivityEnableRuntimeApi(number, is_on);
    if (!cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, number, &name) && name && !is_slight(name))
      cuptiActivityEnableDriverApi(number, is_on);
  }
}

// Calls by callbacks: a time at each end, and a record of ours.
typedef struct { uint64_t begin, end; uint32_t number, domain, correlation, result; } Call;
enum { CALLS = 1 << 16 };
static __thread Call *calls;
static __thread uint32_t count, depth;
static __thread uint64_t begun[8];

static uint64_t ticks(void) {
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t)high << 32 | low;
}

static void called_back(CUpti_CallbackDomain domain, CUpti_CallbackId number, const CUpti_CallbackData *data) {
  if (data->callbackSite == CUPTI_API_ENTER) {
    begun[depth++ & 7] = ticks();
    return;
  }
  if (!calls) calls = calloc(CALLS, sizeof *calls);
  Call *call = &calls[count++ % CALLS];
  *call = (Call){ begun[--depth & 7], ticks(), number, domain, data->correlationId, *(int *)data->functionReturnValue };
}

static CUpti_SubscriberHandle subscriber;

static void call_back_functions(int is_on) {
  const char *name;
  for (uint32_t number = 1; number < 1024; number++) {
    if (!cuptiGetCallbackName(CUPTI_CB_DOMAIN_RUNTIME_API, number, &name) && name && !is_slight(name))
      cuptiEnableCallback(is_on, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, number);
    if (!cuptiGetCallbackName(CUPTI_CB_DOMAIN_DRIVER_API, number, &name) && name && !is_slight(name) &&
        strncmp(name, "cuProfiler", 10))
      cuptiEnableCallback(is_on, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, number);
  }
}

static void switch_records(int is_on) {
  const char *which = getenv("ALONE") ? getenv("ALONE") : "";
  if (strstr(which, "_graphs")) record(CUPTI_ACTIVITY_KIND_GRAPH_TRACE, is_on);
  record(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, is_on);
  record(CUPTI_ACTIVITY_KIND_MEMCPY, is_on);
  record(CUPTI_ACTIVITY_KIND_MEMSET, is_on);
  if (!strncmp(which, "all", 3)) {
    record(CUPTI_ACTIVITY_KIND_RUNTIME, is_on);
    record(CUPTI_ACTIVITY_KIND_DRIVER, is_on);
  } else if (!strncmp(which, "weighty", 7)) {
    record_functions(is_on);
  } else if (!strncmp(which, "callbacks", 9)) {
    call_back_functions(is_on);
  }
}

// The program calls cuProfilerStart or cuProfilerStop.
static void CUPTIAPI called(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId number, const void *data) {
  int starts = number == CUPTI_DRIVER_TRACE_CBID_cuProfilerStart;
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API || !(starts || number == CUPTI_DRIVER_TRACE_CBID_cuProfilerStop))
    return called_back(domain, number, data);
  if (((const CUpti_CallbackData *)data)->callbackSite == (starts ? CUPTI_API_EXIT : CUPTI_API_ENTER))
    switch_records(starts);
}

int InitializeInjection(void) {
  cuptiActivityRegisterCallbacks(request, complete);
  if (getenv("ALONE_WHOLE")) {
    switch_records(1);
  } else {
    cuptiSubscribe(&subscriber, called, NULL);
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuProfilerStart);
    cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuProfilerStop);
  }
  return 1;
}

/* A driver with one device that does nothing. It counts how often each context is waited for.

   `cuInit` holds a lock, and in it loads the library that CUDA_INJECTION64_PATH names, as the real one does. Whoever
   calls the driver from there ends the process; with another driver it would wait for ever. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *current;
static int waited[16];
/* Whom calls are told to, by the number that CUPTI gives them. */
static void (*report)(unsigned number, void *context);
void fake_report_to(void (*to)(unsigned, void *)) { report = to; }

static int setting(const char *name, int otherwise) {
  const char *value = getenv(name);
  return value ? atoi(value) : otherwise;
}

static pthread_mutex_t initializing = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static void enter(const char *function) {
  if (!pthread_mutex_lock(&initializing)) return;
  fprintf(stderr, "%s was called inside cuInit\n", function);
  abort();
}
static void leave(void) { pthread_mutex_unlock(&initializing); }
static void wait_for_init(const char *function) {
  enter(function);
  leave();
}
static void told(unsigned number, const char *function) {
  wait_for_init(function);
  if (report) report(number, current);
}
static void inject(void) {
  const char *path = getenv("CUDA_INJECTION64_PATH");
  void *library = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : 0;
  int (*initialize)(void) = 0;
  if (library) *(void **)&initialize = dlsym(library, "InitializeInjection");
  if (initialize) initialize();
}

int cuInit(unsigned flags) {
  static int injected;
  enter("cuInit");
  if (!injected++) inject();
  leave();
  return flags ? 1 : setting("FAKE_INIT", 0);
}
int cuDeviceGetCount(int *count) {
  wait_for_init("cuDeviceGetCount");
  *count = setting("FAKE_DEVICES", 1);
  return 0;
}
int cuDeviceGetName(char *name, int length, int device) {
  told(5, "cuDeviceGetName");
  if (setting("FAKE_UNNAMED", 0)) return 999;
  snprintf(name, length, "Made-up GPU %c", 'A' + device);
  return 0;
}
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  *active = setting("FAKE_ACTIVE", 0);
  return 0;
}
int cuDriverGetVersion(int *version) {
  *version = setting("FAKE_DRIVER", 13000);
  return 0;
}
int cuCtxGetCurrent(void **context) {
  told(304, "cuCtxGetCurrent");
  *context = current;
  return 0;
}
int cuCtxSetCurrent(void *context) {
  wait_for_init("cuCtxSetCurrent");
  current = context;
  return 0;
}
int cuCtxPushCurrent_v2(void *context) {
  told(324, "cuCtxPushCurrent_v2");
  current = context;
  return 0;
}
int cuCtxPopCurrent_v2(void **context) {
  *context = current;
  current = 0;
  return 0;
}
int cuCtxSynchronize(void) {
  told(17, "cuCtxSynchronize");
  waited[(unsigned long)current % 16]++;
  while (setting("FAKE_NEVER_DONE", 0)) pause();
  return setting("FAKE_WAIT", 0);
}
int fake_waited(unsigned long context) { return waited[context % 16]; }

int cuThreadExchangeStreamCaptureMode(unsigned *mode) {
  static _Thread_local unsigned held;
  wait_for_init("cuThreadExchangeStreamCaptureMode");
  unsigned given = *mode;
  *mode = held;
  held = given;
  return 0;
}

/* What is looked for by name, and not called. */
#define NOT_CALLED(name) \
  int name(void) { return 801; }
NOT_CALLED(cuCtxGetDevice)
NOT_CALLED(cuStreamIsCapturing)
NOT_CALLED(cuStreamGetCtx)
NOT_CALLED(cuStreamCreate)
NOT_CALLED(cuStreamDestroy_v2)
NOT_CALLED(cuEventCreate)
NOT_CALLED(cuEventDestroy_v2)
NOT_CALLED(cuEventRecord)
NOT_CALLED(cuEventQuery)
NOT_CALLED(cuEventSynchronize)
NOT_CALLED(cuEventElapsedTime_v2)

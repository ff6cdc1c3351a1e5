/* A driver with one device that does nothing. It counts how often each context is waited for. */

#include <stdio.h>
#include <stdlib.h>

static void *current;
static int waited[16];
/* Whom calls are told to, by the number that CUPTI gives them. */
static void (*report)(unsigned number, void *context);
void fake_report_to(void (*to)(unsigned, void *)) { report = to; }
static void told(unsigned number) {
  if (report) report(number, current);
}

static int setting(const char *name, int otherwise) {
  const char *value = getenv(name);
  return value ? atoi(value) : otherwise;
}

int cuInit(unsigned flags) { return flags ? 1 : setting("FAKE_INIT", 0); }
int cuDeviceGetCount(int *count) {
  *count = setting("FAKE_DEVICES", 1);
  return 0;
}
int cuDeviceGetName(char *name, int length, int device) {
  if (setting("FAKE_UNNAMED", 0)) return 999;
  snprintf(name, length, "Made-up GPU %c", 'A' + device);
  return 0;
}
int cuDriverGetVersion(int *version) {
  *version = setting("FAKE_DRIVER", 13000);
  return 0;
}
int cuCtxGetCurrent(void **context) {
  told(304);
  *context = current;
  return 0;
}
int cuCtxSetCurrent(void *context) {
  current = context;
  return 0;
}
int cuCtxPushCurrent_v2(void *context) {
  told(324);
  current = context;
  return 0;
}
int cuCtxPopCurrent_v2(void **context) {
  *context = current;
  current = 0;
  return 0;
}
int cuCtxSynchronize(void) {
  told(17);
  waited[(unsigned long)current % 16]++;
  return setting("FAKE_WAIT", 0);
}
int fake_waited(unsigned long context) { return waited[context % 16]; }

int cuThreadExchangeStreamCaptureMode(unsigned *mode) {
  static _Thread_local unsigned held;
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

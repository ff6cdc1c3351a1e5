/* Makes NVTX calls of every kind through NVIDIA's own headers. */

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static nvtxDomainHandle_t solver, io;

static void work(long ns) {
  struct timespec from, now;
  clock_gettime(CLOCK_MONOTONIC, &from);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - from.tv_sec) * 1000000000L + now.tv_nsec - from.tv_nsec < ns);
}

/* The first calls of a thread. Nsight Systems takes 50 us for the first one, and 70 us where its first buffer is full,
 * within 40 ranges. That is less than 1 % of this row of six threads. */
static void first(void) {
  for (int i = 0; i < 50; i++) {
    nvtxRangePushA("first");
    work(200000);
    nvtxRangePop();
  }
}

static nvtxEventAttributes_t event(const char *text) {
  nvtxEventAttributes_t event;
  memset(&event, 0, sizeof event);
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = text;
  return event;
}

/* Nsight Systems takes 3 us at the end of each 14th range, whose buffer is full: less than 1 % of 14 x 100 us. */
static void nested(void) {
  for (int i = 0; i < 10; i++) {
    nvtxRangePushA("step");
    for (int j = 0; j < 3; j++) {
      nvtxRangePushW(L"größe");
      work(100000);
      nvtxRangePop();
    }
    nvtxRangePop();
  }
}

/* The range of one domain ends while one of another that began later is open. Its body is long beside what a tool then
   does before it passes the call on. */
static void interleaved(void) {
  nvtxEventAttributes_t outer = event("outer"), inner = event("inner"), plain = event("plain");
  for (int i = 0; i < 20; i++) {
    nvtxDomainRangePushEx(solver, &outer);
    nvtxDomainRangePushEx(io, &inner);
    nvtxRangePushEx(&plain);
    work(120000);
    nvtxDomainRangePop(solver);
    work(120000);
    nvtxRangePop();
    work(120000);
    nvtxDomainRangePop(io);
  }
}

static void described(void) {
  nvtxNameCategoryA(7, "reading");
  nvtxDomainNameCategoryA(io, 7, "writing");
  nvtxEventAttributes_t read = event("read");
  read.category = 7;
  read.colorType = NVTX_COLOR_ARGB;
  read.color = 0xFF00A000;
  read.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  read.payload.dValue = 0.5;
  for (int i = 0; i < 5; i++) {
    nvtxRangePushEx(&read);
    work(150000);
    nvtxRangePop();
  }
  read.category = 8; /* has no name */
  nvtxRangePushEx(&read);
  work(150000);
  nvtxRangePop();
  nvtxEventAttributes_t write = event("");
  write.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  write.message.registered = nvtxDomainRegisterStringA(io, "write");
  write.category = 7;
  for (int i = 0; i < 5; i++) {
    nvtxDomainRangePushEx(io, &write);
    work(150000);
    nvtxDomainRangePop(io);
  }
  write.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  write.payload.ullValue = 12;
  nvtxDomainMarkEx(io, &write);
  nvtxMarkA("half way");
}

/* One buffer, with another text each time. Each such range is entered once, in code that has left the caches. Nsight
 * Systems then takes 0.3 us, and 1 us on a busy host: less than 1 % of 300 us (tests/nsight.rs). */
static void numbered(void) {
  char name[64];
  for (int i = 0; i < 50; i++) {
    snprintf(name, sizeof name, "aten::linear, seq = %d, op_id = %d", i, 3 * i);
    nvtxRangePushA(name);
    work(300000);
    nvtxRangePop();
    snprintf(name, sizeof name, "block %d", i % 2 + 1);
    nvtxRangePushA(name);
    work(150000);
    nvtxRangePop();
  }
}

static void *worker(void *number) {
  char name[16];
  snprintf(name, sizeof name, "worker %ld", (long)number);
  nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), name);
  first();
  nested();
  interleaved();
  return NULL;
}

static sem_t is_there, is_named;
static uint32_t late_number;

/* Has a name before its first call. */
static void *late(void *none) {
  late_number = (uint32_t)syscall(SYS_gettid);
  sem_post(&is_there);
  sem_wait(&is_named);
  nvtxRangePushA("late");
  work(10000000); /* long beside what Nsight Systems does at the first call of a thread */
  nvtxRangePop();
  return none;
}

static void *ender(void *ids) {
  first();
  for (int i = 0; i < 10; i++) {
    work(150000);
    nvtxRangeEnd(((nvtxRangeId_t *)ids)[i]);
  }
  return NULL;
}

int main(int count, char **arguments) {
  solver = nvtxDomainCreateA("solver");
  io = nvtxDomainCreateW(L"io");
  first();
  nested();
  interleaved();
  described();
  numbered();

  pthread_t threads[4];
  for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, worker, (void *)i);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);

  sem_init(&is_there, 0, 0);
  sem_init(&is_named, 0, 0);
  pthread_create(&threads[0], NULL, late, NULL);
  sem_wait(&is_there);
  nvtxNameOsThreadA(late_number, "named elsewhere");
  sem_post(&is_named);
  pthread_join(threads[0], NULL);

  nvtxRangeId_t ids[10];
  nvtxEventAttributes_t request = event("request");
  for (int i = 0; i < 10; i++) ids[i] = i % 2 ? nvtxRangeStartA("transfer") : nvtxDomainRangeStartEx(io, &request);
  pthread_create(&threads[0], NULL, ender, ids);
  pthread_join(threads[0], NULL);

  if (count > 1 && !strcmp(arguments[1], "open")) {
    nvtxRangePop(); /* of nothing */
    nvtxDomainRangePop(solver);
    nvtxRangeEnd(12345);
    nvtxRangeStartA("never ended");
    nvtxRangePushA("open at the end");
    nvtxDomainRangePushEx(solver, &request);
  }
  return 0;
}

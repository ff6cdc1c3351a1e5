// Programs that nobody changed for a profiler: `work NAME`. Kernels take a time that depends on the GPU's clock alone.
#include "common.h"
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <cstring>
#include <thread>
#include <vector>

__global__ void spin(float *data, int rounds) {
  float value = data[threadIdx.x];
  for (int round = 0; round < rounds; round++) value = value * 1.0001f + 0.5f;
  data[threadIdx.x] = value;
}
template <typename T> __global__ void scale(T *data, T by, int rounds) {
  T value = data[threadIdx.x];
  for (int round = 0; round < rounds; round++) value = value * by + T(1);
  data[threadIdx.x] = value;
}

enum { COUNT = 1 << 20, BYTES = COUNT * sizeof(float), LONG = 40000, SHORT = 10000 };

static float *device_memory() {
  float *memory;
  CHECK(cudaMalloc(&memory, BYTES));
  CHECK(cudaMemset(memory, 0, BYTES));
  return memory;
}

// Copies and kernels in ranges, in one inside another, in another domain, and in none.
static void plain() {
  nvtxDomainHandle_t solver = nvtxDomainCreateA("solver");
  std::vector<float> host(COUNT, 1.0f);
  float *device = device_memory();
  {
    Range range("copy in");
    CHECK(cudaMemcpy(device, host.data(), BYTES, cudaMemcpyHostToDevice));
  }
  for (int step = 0; step < 20; step++) {
    Range range("step");
    spin<<<1, 128>>>(device, LONG);
    Range inner("inner", solver);
    for (int each = 0; each < 5; each++) scale<<<1, 128>>>(device, 1.5f, LONG);
  }
  scale<<<1, 128>>>((double *)device, 1.5, SHORT);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  {
    Range range("copy out");
    CHECK(cudaMemcpy(host.data(), device, BYTES, cudaMemcpyDeviceToHost));
  }
  CHECK(cudaFree(device));
}

static void streams() {
  float *pinned[2], *device[2];
  cudaStream_t stream[2];
  cudaEvent_t copied;
  CHECK(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  for (int each = 0; each < 2; each++) {
    device[each] = device_memory();
    CHECK(cudaMallocHost(&pinned[each], BYTES));
    std::memset(pinned[each], 0, BYTES);
    CHECK(cudaStreamCreateWithFlags(&stream[each], cudaStreamNonBlocking));
  }
  for (int batch = 0; batch < 50; batch++) {
    Range range("batch");
    CHECK(cudaMemcpyAsync(device[0], pinned[0], BYTES, cudaMemcpyHostToDevice, stream[0]));
    CHECK(cudaEventRecord(copied, stream[0]));
    CHECK(cudaStreamWaitEvent(stream[1], copied, 0));
    spin<<<1, 128, 0, stream[1]>>>(device[0], SHORT);
    spin<<<1, 128, 0, stream[0]>>>(device[1], LONG);
    CHECK(cudaMemcpyAsync(pinned[1], device[1], BYTES, cudaMemcpyDeviceToHost, stream[0]));
    CHECK(cudaStreamSynchronize(stream[0]));
  }
  CHECK(cudaDeviceSynchronize());
}

// A graph of five nodes, launched ten times.
static void graph() {
  float *device = device_memory();
  cudaStream_t stream;
  cudaGraph_t captured;
  cudaGraphExec_t ready;
  CHECK(cudaStreamCreate(&stream));
  {
    Range range("capture");
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(device, 0, BYTES, stream));
    for (int each = 0; each < 3; each++) spin<<<1, 128, 0, stream>>>(device, SHORT * (each + 1));
    CHECK(cudaMemcpyAsync(device, device + COUNT / 2, BYTES / 2, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaStreamEndCapture(stream, &captured));
    CHECK(cudaGraphInstantiate(&ready, captured, 0));
  }
  for (int each = 0; each < 10; each++) {
    Range range("replay");
    CHECK(cudaGraphLaunch(ready, stream));
  }
  CHECK(cudaStreamSynchronize(stream));
}

// Threads that begin with NVTX and CUDA at once, each with a stream of its own.
static void threads() {
  std::vector<std::thread> all;
  for (int thread = 0; thread < 12; thread++) {
    all.emplace_back([thread] {
      Range range(thread % 2 ? "odd thread" : "even thread");
      float *device = device_memory();
      cudaStream_t stream;
      CHECK(cudaStreamCreate(&stream));
      for (int each = 0; each < 25; each++) {
        Range inner("launch");
        spin<<<1, 128, 0, stream>>>(device, SHORT);
      }
      CHECK(cudaStreamSynchronize(stream));
    });
  }
  for (std::thread &thread : all) thread.join();
}

static void devices() {
  int count;
  CHECK(cudaGetDeviceCount(&count));
  for (int device = 0; device < count; device++) {
    CHECK(cudaSetDevice(device));
    float *memory = device_memory();
    Range range("on a device");
    spin<<<1, 128>>>(memory, LONG);
    CHECK(cudaDeviceSynchronize());
  }
}

// Takes CUDA down before it ends.
static void reset() {
  plain();
  CHECK(cudaDeviceReset());
}

// Ends while a kernel runs, some seconds before that ends.
static void unfinished() {
  float *device = device_memory();
  spin<<<1, 128>>>(device, LONG);
  CHECK(cudaDeviceSynchronize());
  spin<<<1, 128>>>(device, 2000000000);
}

// Two parts that are marked for profilers, with work before, between and after. A range is open around all of it.
static void captured() {
  std::vector<float> host(COUNT, 1.0f);
  float *device = device_memory();
  Range around("around");
  for (int part = 1; part <= 2; part++) {
    spin<<<1, 128>>>(device, SHORT);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaProfilerStart());
    CHECK(cudaMemcpy(device, host.data(), BYTES, cudaMemcpyHostToDevice));
    for (int step = 0; step < 5 * part; step++) {
      Range range("step");
      spin<<<1, 128>>>(device, LONG);
    }
    CHECK(cudaProfilerStop()); // before the kernels have ended
    spin<<<1, 128>>>(device, SHORT);
    Range after("after");
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaFree(device));
}

int main(int count, char **names) {
  static const struct { const char *name; void (*run)(); } programs[] = {
    { "plain", plain }, { "streams", streams }, { "graph", graph }, { "threads", threads },
    { "devices", devices }, { "reset", reset }, { "unfinished", unfinished }, { "captured", captured },
  };
  for (const auto &program : programs)
    if (count == 2 && !std::strcmp(names[1], program.name)) return program.run(), 0;
  return 2;
}

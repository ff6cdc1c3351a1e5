// What a launch costs the program, a replay of a graph of 200 kernels, a pair of NVTX calls, or two readings of the
// clock: `cost launch`, `cost graph`, `cost nvtx`, `cost clock`. In ns, the median of batches.
#include "common.h"
#include <algorithm>
#include <chrono>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>
#include <x86intrin.h>

__global__ void nothing() {}

// The queue of launches, some 1,000 long, never fills.
enum { BATCH = 500, BATCHES = 400, WARM = 100 };

template <typename Once, typename After> static void measure(int times, Once once, After after) {
  std::vector<double> batches;
  for (int batch = 0; batch < WARM + BATCHES; batch++) {
    auto begun = std::chrono::steady_clock::now();
    for (int each = 0; each < times; each++) once();
    std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
    after();
    if (batch >= WARM) batches.push_back(took.count() / times);
  }
  std::nth_element(batches.begin(), batches.begin() + BATCHES / 2, batches.end());
  std::printf("%.1f\n", batches[BATCHES / 2]);
}

int main(int count, char **names) {
  if (count == 2 && !std::strcmp(names[1], "nvtx")) {
    measure(10 * BATCH, [] { nvtxRangePushA("range"), nvtxRangePop(); }, [] {});
  } else if (count == 2 && !std::strcmp(names[1], "clock")) {
    static volatile unsigned long long last;
    measure(10 * BATCH, [] { last = __rdtsc(), last = __rdtsc(); }, [] {});
  } else if (count == 2 && !std::strcmp(names[1], "launch")) {
    measure(BATCH, [] { nothing<<<1, 1>>>(); }, [] { CHECK(cudaDeviceSynchronize()); });
  } else if (count == 2 && !std::strcmp(names[1], "graph")) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t made;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int each = 0; each < 200; each++) nothing<<<1, 1, 0, stream>>>();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&made, graph, 0));
    measure(20, [&] { CHECK(cudaGraphLaunch(made, stream)); CHECK(cudaStreamSynchronize(stream)); }, [] {});
  } else {
    return 2;
  }
}

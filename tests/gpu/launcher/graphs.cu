// CUDA graphs in each form. Kernel N is captured, or added, in the range "capture N", and replayed in "replay FORM".
// Kernels 41 to 43 also run without a graph, in the range "eager".
#include "common.h"
#include <cuda_runtime.h>
#include <string>
#include <thread>

template <int N> __global__ void kernel(long cycles) {
  for (long begun = clock64(); clock64() - begun < cycles;) {}
}

static constexpr long CYCLES = 30000;
static constexpr int REPLAYS = 20;

static std::string capture_of(int number) { return "capture " + std::to_string(number); }

template <int N> void launch(cudaStream_t stream, long cycles = CYCLES) {
  Range range(capture_of(N).c_str());
  kernel<N><<<1, 32, 0, stream>>>(cycles);
}

template <class Body> cudaGraph_t captured(cudaStream_t stream, Body body) {
  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  body();
  CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

template <int N> cudaGraphNode_t add(cudaGraph_t graph, const cudaGraphNode_t *after) {
  Range range(capture_of(N).c_str());
  long cycles = CYCLES;
  void *arguments[] = {&cycles};
  cudaKernelNodeParams parameters = {};
  parameters.func = (void *)kernel<N>;
  parameters.gridDim = dim3(1);
  parameters.blockDim = dim3(32);
  parameters.kernelParams = arguments;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, after, after ? 1 : 0, &parameters));
  return node;
}

static cudaGraphNode_t add_child(cudaGraph_t graph, const cudaGraphNode_t *after, cudaGraph_t child) {
  cudaGraphNode_t node;
  CHECK(cudaGraphAddChildGraphNode(&node, graph, after, after ? 1 : 0, child));
  return node;
}

static cudaGraphExec_t executable(cudaGraph_t graph) {
  cudaGraphExec_t made;
  CHECK(cudaGraphInstantiate(&made, graph, 0));
  return made;
}

static void replay(const char *form, cudaGraphExec_t graph, cudaStream_t stream, int replays = REPLAYS,
                   bool wait = true) {
  for (int each = 0; each < replays; each++) {
    Range range((std::string("replay ") + form).c_str());
    CHECK(cudaGraphLaunch(graph, stream));
    if (wait) CHECK(cudaStreamSynchronize(stream));
  }
}

int main() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  int *device, *host;
  CHECK(cudaMalloc(&device, 4096));
  CHECK(cudaMallocHost(&host, 4096));

  cudaGraph_t flat = captured(stream, [&] {
    launch<1>(stream);
    {
      Range range("copies");
      CHECK(cudaMemcpyAsync(device, host, 4096, cudaMemcpyHostToDevice, stream));
      CHECK(cudaMemsetAsync(device, 0, 4096, stream));
    }
    launch<2>(stream);
  });
  cudaGraphExec_t first = executable(flat);
  replay("flat", first, stream);

  // An update keeps the nodes, and the spans that captured them.
  cudaGraph_t other = captured(stream, [&] {
    launch<3>(stream);
    CHECK(cudaMemcpyAsync(device, host, 2048, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemsetAsync(device, 1, 2048, stream));
    launch<4>(stream);
  });
  cudaGraphExecUpdateResultInfo result;
  CHECK(cudaGraphExecUpdate(first, other, &result));
  replay("updated", first, stream);
  CHECK(cudaGraphExecDestroy(first));

  // Kernel 10, a child with kernels 11 and 12 in a child of its own and kernel 13, a child with 14 and 15, kernel 16.
  cudaGraph_t inner = captured(stream, [&] { launch<11>(stream); launch<12>(stream); });
  cudaGraph_t middle;
  CHECK(cudaGraphCreate(&middle, 0));
  cudaGraphNode_t last = add_child(middle, nullptr, inner);
  add<13>(middle, &last);
  cudaGraph_t pair = captured(stream, [&] { launch<14>(stream); launch<15>(stream); });
  cudaGraph_t outer;
  CHECK(cudaGraphCreate(&outer, 0));
  last = add<10>(outer, nullptr);
  last = add_child(outer, &last, middle);
  last = add_child(outer, &last, pair);
  add<16>(outer, &last);
  cudaGraphExec_t nested = executable(outer);
  CHECK(cudaGraphDestroy(outer));
  replay("nested", nested, stream);

  // Kernel 20, a condition that holds around kernels 21 and 22, kernel 23.
  cudaGraph_t conditional;
  CHECK(cudaGraphCreate(&conditional, 0));
  last = add<20>(conditional, nullptr);
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, conditional, 1, cudaGraphCondAssignDefault));
  cudaGraphNodeParams parameters = {cudaGraphNodeTypeConditional};
  parameters.conditional.handle = handle;
  parameters.conditional.type = cudaGraphCondTypeIf;
  parameters.conditional.size = 1;
  cudaGraphNode_t condition;
#if CUDART_VERSION >= 13000
  CHECK(cudaGraphAddNode(&condition, conditional, &last, nullptr, 1, &parameters));
#else
  CHECK(cudaGraphAddNode(&condition, conditional, &last, 1, &parameters));
#endif
  CHECK(cudaStreamBeginCaptureToGraph(stream, parameters.conditional.phGraph_out[0], nullptr, nullptr, 0,
                                      cudaStreamCaptureModeThreadLocal));
  launch<21>(stream);
  launch<22>(stream);
  CHECK(cudaStreamEndCapture(stream, nullptr));
  add<23>(conditional, &condition);
  // Ranges of two names in turns, so that a kernel of the body that counts for another replay is seen.
  cudaGraphExec_t made = executable(conditional);
  for (int each = 0; each < REPLAYS; each++) {
    replay(each % 2 ? "conditional odd" : "conditional even", made, stream, 1, each < REPLAYS / 2);
  }
  CHECK(cudaStreamSynchronize(stream));

  // The same work without a graph and in one, in turns.
  auto work = [&] { launch<41>(stream, 100000); launch<42>(stream, 200000); launch<43>(stream, 400000); };
  cudaGraphExec_t worked = executable(captured(stream, work));
  for (int turn = 0; turn < REPLAYS; turn++) {
    {
      Range range("eager");
      work();
      CHECK(cudaStreamSynchronize(stream));
    }
    replay("work", worked, stream, 1);
  }

  // Two threads that capture, make executable and replay at once.
  auto both = [](auto body, const char *form) {
    cudaStream_t own;
    CHECK(cudaStreamCreate(&own));
    for (int round = 0; round < 10; round++) {
      cudaGraph_t graph = captured(own, [&] { body(own); });
      cudaGraphExec_t made = executable(graph);
      CHECK(cudaGraphDestroy(graph));
      replay(form, made, own);
      CHECK(cudaGraphExecDestroy(made));
    }
  };
  std::thread one([&] { both([](cudaStream_t own) { launch<31>(own); launch<32>(own); }, "one"); });
  std::thread two([&] { both([](cudaStream_t own) { launch<33>(own); launch<34>(own); }, "two"); });
  one.join();
  two.join();
  return 0;
}

// Programs made at random that keep a GPU idle for causes that they write down, for check.py.
//
//   idle SEED LOG
//
// Each thread has a stream of its own, and a third thread a context of its own. Kernels write the moments at which they
// began and ended, by the clock of the device. LOG has one line for each of a thread's phases,
// `state THREAD FROM TO CAUSE RANGE`, and one for each operation, `operation THREAD LAUNCHED START END`: nanoseconds of
// the host's clock. `unsure RANGE NS`: calls of NVTX took so long, in which a range began or ended.
#include <cuda.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <time.h>
#include <vector>

#define CHECK(call)                                                                        \
  do {                                                                                     \
    cudaError_t error = (call);                                                            \
    if (error != cudaSuccess) {                                                            \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));       \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

#define CHECK_DRIVER(call)                                                                 \
  do {                                                                                     \
    CUresult result = (call);                                                              \
    if (result != CUDA_SUCCESS) {                                                          \
      fprintf(stderr, "%s:%d: error %d of the driver\n", __FILE__, __LINE__, result);      \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

static uint64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static __device__ uint64_t device_now() {
  uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void spin(uint64_t ns, uint64_t *times) {
  uint64_t start = device_now(), end = start;
  while (end - start < ns) end = device_now();
  times[0] = start;
  times[1] = end;
}

__global__ void answer(volatile uint64_t *asked, volatile uint64_t *answered, int rounds) {
  for (int round = 1; round <= rounds; round++) {
    while (*asked != round) {
    }
    answered[1] = device_now();
    __threadfence_system();
    answered[0] = round;
  }
}

// What to subtract from the device's clock at a moment of it: from the question that was answered fastest.
struct Offset {
  uint64_t at;
  int64_t ns;
};

static Offset clock_offset() {
  const int rounds = 2000;
  volatile uint64_t *shared;
  CHECK(cudaHostAlloc((void **)&shared, 64, cudaHostAllocMapped));
  for (int i = 0; i < 3; i++) shared[i] = 0;
  answer<<<1, 1>>>(shared, shared + 1, rounds);
  uint64_t fastest = ~0ull;
  Offset offset = {0, 0};
  for (uint64_t round = 1; round <= rounds; round++) {
    uint64_t before = now();
    shared[0] = round;
    while (shared[1] != round) {
    }
    uint64_t after = now();
    if (after - before < fastest) {
      fastest = after - before;
      offset = {shared[2], (int64_t)(shared[2] - (before + after) / 2)};
    }
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFreeHost((void *)shared));
  fprintf(stderr, "clocks compared in %llu ns\n", (unsigned long long)fastest);
  return offset;
}

// The clocks drift: the offset of a moment lies between those that were measured before and after.
static uint64_t on_host(uint64_t time, Offset first, Offset last) {
  double part = ((double)time - first.at) / ((double)last.at - first.at);
  return time - first.ns - (int64_t)(part * (last.ns - first.ns));
}

struct Numbers {
  uint64_t state;
  uint64_t next() {
    state += 0x9e3779b97f4a7c15;
    uint64_t mixed = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
  }
  uint64_t between(uint64_t from, uint64_t to) { return from + next() % (to - from); }
};

struct State {
  uint64_t from, to;
  const char *cause, *range;
};

struct Operation {
  uint64_t launched;
  int slot;            // of its times on the device
  uint64_t start, end; // where it has none
};

const int KERNELS = 4000;
static const char *NAMES[] = {"load", "forward", "backward", "log"};

struct Program {
  int thread;
  bool is_alone;
  Numbers numbers;
  CUcontext context;
  cudaStream_t stream;
  uint64_t *times, *pinned;
  int kernels = 0;
  std::vector<const char *> open;
  std::vector<State> states;
  std::vector<Operation> operations;
  std::vector<std::pair<const char *, uint64_t>> unsure;
  size_t code_from = 0; // the first state since the last call

  const char *range() { return open.empty() ? "-" : open.back(); }

  void code_until(uint64_t end) {
    uint64_t from = states.empty() ? end : states.back().to;
    states.push_back({from, end, "?", range()});
  }

  void busy_wait(uint64_t ns) {
    for (uint64_t end = now() + ns; now() < end;) {
    }
    code_until(now());
  }

  // Code between two calls is a phase of the host from 100 us on.
  void settle(const char *otherwise) {
    if (code_from == states.size()) return;
    bool is_phase = states.back().to - states[code_from].from >= 100000;
    for (; code_from < states.size(); code_from++) {
      State &state = states[code_from];
      state.cause = !is_phase ? otherwise : state.range[0] == '-' ? "no_work" : "host";
    }
  }

  template <typename Call>
  uint64_t call(const char *cause, Call make) {
    uint64_t before = now();
    make();
    uint64_t after = now();
    code_until(before);
    settle(std::string(cause) == "synchronising" ? cause : "launching");
    states.push_back({before, after, cause, range()});
    code_from = states.size();
    return after;
  }

  void launch(uint64_t ns) {
    if (kernels == KERNELS) return;
    uint64_t launched = call("launching", [&] { spin<<<1, 1, 0, stream>>>(ns, times + 2 * kernels); });
    operations.push_back({launched, kernels++, 0, 0});
  }

  void synchronise() {
    call("synchronising", [&] { CHECK(cudaStreamSynchronize(stream)); });
  }

  void act() {
    switch (numbers.between(0, 13)) {
    case 0:
    case 1:
      if (open.size() < 3) {
        code_until(now());
        unsure.push_back({range(), 0});
        open.push_back(NAMES[numbers.between(0, 4)]);
        unsure.push_back({range(), 0});
        nvtxRangePushA(open.back());
        took();
      }
      break;
    case 2:
    case 3:
      close();
      break;
    case 4:
    case 5:
      for (int i = numbers.between(5, 20); i > 0; i--) {
        busy_wait(numbers.between(1000, 30000));
        launch(numbers.between(2000, 40000));
      }
      break;
    case 6:
      launch(numbers.between(500000, 3000000));
      break;
    case 7:
      synchronise();
      busy_wait(numbers.between(300000, 3000000));
      break;
    case 8: {
      if (!is_alone) break; // when it ran is known to a few microseconds only where nothing holds it up
      synchronise();
      uint64_t launched = call("copying", [&] {
        CHECK(cudaMemcpy(pinned, times, 64, cudaMemcpyDeviceToHost));
      });
      operations.push_back({launched, -1, launched - 8000, launched - 6000}); // it takes some 2 us near the end
      break;
    }
    case 9: {
      if (!is_alone) break; // another thread's call may hold this one up before CUPTI sees it
      synchronise();
      void *memory;
      call("allocating", [&] { CHECK(cudaMalloc(&memory, numbers.between(8, 512) << 20)); });
      call("allocating", [&] { CHECK(cudaFree(memory)); });
      launch(20000);
      break;
    }
    case 10: {
      code_until(now());
      timespec time = {0, (long)numbers.between(300000, 4000000)};
      nanosleep(&time, nullptr);
      code_until(now());
      launch(20000);
      break;
    }
    case 11:
      if (!is_alone) break; // as above
      // Code between the calls of a capture is part of it. Nothing of the graph runs.
      call("building_graphs", [&] {
        cudaGraph_t graph;
        cudaGraphExec_t executable;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int i = numbers.between(5, 50); i > 0; i--) {
          spin<<<1, 1, 0, stream>>>(1000, times);
          for (uint64_t end = now() + numbers.between(1000, 200000); now() < end;) {
          }
        }
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&executable, graph, 0));
        CHECK(cudaGraphExecDestroy(executable));
        CHECK(cudaGraphDestroy(graph));
      });
      launch(20000);
      break;
    default:
      synchronise();
      launch(numbers.between(5000, 300000));
    }
  }

  void close() {
    if (open.empty()) return;
    code_until(now());
    nvtxRangePop();
    unsure.push_back({range(), 0});
    open.pop_back();
    unsure.push_back({range(), 0});
    took();
  }

  // The call of NVTX since the last phase.
  void took() {
    uint64_t ns = now() - states.back().to;
    for (size_t i = unsure.size() - 2; i < unsure.size(); i++) unsure[i].second = ns;
  }

  void run() {
    CHECK_DRIVER(cuCtxSetCurrent(context));
    code_from = 0;
    states.push_back({now(), now(), "?", "-"});
    CHECK(cudaStreamSynchronize(stream)); // this thread's first call is over
    states[0].from = states[0].to = now();
    nvtxRangePushA("main");
    open.push_back("main");
    busy_wait(1000);
    close();
    for (int i = 0; i < 150; i++) act();
    while (!open.empty()) close();
    launch(20000); // ends the last idle time, before the main thread copies
    synchronise();
    code_until(now() + 1000000000);
    settle("launching");
  }
};

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "idle SEED LOG\n");
    return 2;
  }
  Numbers numbers = {strtoull(arguments[1], nullptr, 10)};
  int threads = 1 + numbers.next() % 3;
  Offset first_offset = clock_offset();
  CUcontext first;
  CHECK_DRIVER(cuCtxGetCurrent(&first));
  std::vector<Program> programs(threads);
  for (int i = 0; i < threads; i++) {
    Program &program = programs[i];
    program.thread = i;
    program.is_alone = threads == 1;
    program.numbers.state = numbers.next();
    program.context = first;
    if (i == 2) {
#if CUDA_VERSION >= 13000
      CHECK_DRIVER(cuCtxCreate(&program.context, nullptr, 0, 0));
#else
      CHECK_DRIVER(cuCtxCreate(&program.context, 0, 0));
#endif
    }
    CHECK_DRIVER(cuCtxSetCurrent(program.context));
    CHECK(cudaStreamCreateWithFlags(&program.stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&program.times, 16 * KERNELS));
    CHECK(cudaMallocHost(&program.pinned, 64));
    spin<<<1, 1, 0, program.stream>>>(1000, program.times); // loads it
    CHECK(cudaDeviceSynchronize());
  }
  uint64_t begin = now();
  std::vector<std::thread> all;
  for (Program &program : programs) all.emplace_back([&] { program.run(); });
  for (std::thread &thread : all) thread.join();
  CHECK_DRIVER(cuCtxSetCurrent(first));
  Offset last_offset = clock_offset();

  FILE *log = fopen(arguments[2], "w");
  if (!log) {
    perror(arguments[2]);
    return 1;
  }
  fprintf(log, "begin %llu\n", (unsigned long long)begin);
  std::vector<uint64_t> times(2 * KERNELS);
  for (Program &program : programs) {
    CHECK_DRIVER(cuCtxSetCurrent(program.context));
    CHECK(cudaMemcpy(times.data(), program.times, 16 * KERNELS, cudaMemcpyDeviceToHost));
    for (State &state : program.states)
      fprintf(log, "state %d %llu %llu %s %s\n", program.thread, (unsigned long long)state.from,
              (unsigned long long)state.to, state.cause, state.range);
    for (auto &call : program.unsure)
      fprintf(log, "unsure %s %llu\n", call.first, (unsigned long long)call.second);
    for (Operation &operation : program.operations) {
      uint64_t start = operation.start, end = operation.end;
      if (operation.slot >= 0) {
        start = on_host(times[2 * operation.slot], first_offset, last_offset);
        end = on_host(times[2 * operation.slot + 1], first_offset, last_offset);
      }
      fprintf(log, "operation %d %llu %llu %llu\n", program.thread, (unsigned long long)operation.launched,
              (unsigned long long)start, (unsigned long long)end);
    }
  }
  fclose(log);
}

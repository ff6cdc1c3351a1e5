// The driver's API alone: a module from PTX, launches, copies and sets.
#include "common.h"
#include <cuda.h>
#include <vector>

static const char *PTX = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry add_one(.param .u64 data, .param .u32 rounds) {
  .reg .u64 %address, %offset;
  .reg .u32 %thread, %left;
  .reg .f32 %value;
  .reg .pred %more;
  ld.param.u64 %address, [data];
  ld.param.u32 %left, [rounds];
  mov.u32 %thread, %tid.x;
  mul.wide.u32 %offset, %thread, 4;
  add.u64 %address, %address, %offset;
  ld.global.f32 %value, [%address];
AGAIN:
  fma.rn.f32 %value, %value, 0f3F800347, 0f3F000000;
  sub.u32 %left, %left, 1;
  setp.ne.u32 %more, %left, 0;
  @%more bra AGAIN;
  st.global.f32 [%address], %value;
  ret;
}
)";

int main() {
  enum { BYTES = 4 << 20 };
  CUcontext context;
  CUmodule module;
  CUfunction kernel;
  CUstream stream;
  CUdeviceptr data;
  std::vector<char> host(BYTES);
  unsigned rounds = 40000;
  void *parameters[] = { &data, &rounds };
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuModuleLoadData(&module, PTX));
  CHECK(cuModuleGetFunction(&kernel, module, "add_one"));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemAlloc(&data, BYTES));
  CHECK(cuMemsetD8Async(data, 0, BYTES, stream));
  CHECK(cuMemcpyHtoD(data, host.data(), BYTES));
  for (int step = 0; step < 100; step++) {
    Range range("step");
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr));
  }
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH(host.data(), data, BYTES));
  CHECK(cuMemFree(data));
}

// Multiplications of matrices by cuBLAS, in a range each.
#include "common.h"
#include <cublas_v2.h>
#include <cuda_runtime.h>

int main() {
  enum { SIDE = 1024 };
  const float one = 1.0f, zero = 0.0f;
  float *matrices[3];
  cublasHandle_t handle;
  CHECK(cublasCreate(&handle));
  for (float *&matrix : matrices) {
    CHECK(cudaMalloc(&matrix, SIDE * SIDE * sizeof(float)));
    CHECK(cudaMemset(matrix, 0, SIDE * SIDE * sizeof(float)));
  }
  for (int each = 0; each < 30; each++) {
    Range range("multiply");
    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, SIDE, SIDE, SIDE, &one, matrices[0], SIDE, matrices[1], SIDE,
                      &zero, matrices[2], SIDE));
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cublasDestroy(handle));
}

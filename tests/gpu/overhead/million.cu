// A million launches of an empty kernel. Prints the median over batches of the time of a launch, in ns.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

__global__ void nothing() {}

enum { BATCH = 500, BATCHES = 2000, WARM = 100 };

int main() {
  std::vector<double> took;
  for (int batch = 0; batch < WARM + BATCHES; batch++) {
    auto began = std::chrono::steady_clock::now();
    for (int each = 0; each < BATCH; each++) nothing<<<1, 1>>>();
    auto ended = std::chrono::steady_clock::now();
    cudaDeviceSynchronize();
    if (batch >= WARM) took.push_back(std::chrono::duration<double, std::nano>(ended - began).count() / BATCH);
  }
  std::nth_element(took.begin(), took.begin() + BATCHES / 2, took.end());
  std::printf("measured %.1f ns a launch\n", took[BATCHES / 2]);
}

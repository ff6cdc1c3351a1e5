// A million launches of an empty kernel. Prints the time of a launch: the median over all batches,
// and the least median of an eighth of them.
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
  auto median = [](auto begin, auto end) {
    std::nth_element(begin, begin + (end - begin) / 2, end);
    return *(begin + (end - begin) / 2);
  };
  double least = 1e9;
  for (int part = 0; part < 8; part++) {
    auto begin = took.begin() + part * BATCHES / 8;
    least = std::min(least, median(begin, begin + BATCHES / 8));
  }
  std::printf("measured %.1f %.1f ns a launch\n", median(took.begin(), took.end()), least);
}

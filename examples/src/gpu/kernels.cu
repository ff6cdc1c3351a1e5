// The operations of the networks, for NVRTC. All numbers are 32-bit, all batches in NCHW order.
// TILE and THREADS, the extents of the blocks, are defined by the caller.

struct Convolution {
    int in_channels, height, width;
    int out_channels, out_height, out_width;
    int size, stride, padding;
};

// For each image (blockIdx.z) a product of matrices: the filters, a row for each output channel, by the patches, a
// column for each output pixel. Every block of TILE by TILE threads computes a tile of it, one number a thread, from
// tiles of both in shared memory. The patches are gathered there tile by tile and are never whole in memory.
extern "C" __global__ void convolve(
    float *output, const float *input, const float *weights, const float *bias, const Convolution c
) {
    __shared__ float filters[TILE][TILE];
    __shared__ float patches[TILE][TILE];
    const int filter_length = c.in_channels * c.size * c.size;
    const int pixels = c.out_height * c.out_width;
    const int column = threadIdx.x, row = threadIdx.y;
    const int pixel = blockIdx.x * TILE + column;
    const int channel = blockIdx.y * TILE + row;
    const int top = pixel / c.out_width * c.stride - c.padding;
    const int left = pixel % c.out_width * c.stride - c.padding;
    const float *image = input + blockIdx.z * c.in_channels * c.height * c.width;

    float sum = 0.0f;
    for (int first = 0; first < filter_length; first += TILE) {
        int k = first + column;
        const bool weighted = channel < c.out_channels && k < filter_length;
        filters[row][column] = weighted ? weights[channel * filter_length + k] : 0.0f;

        k = first + row;
        const int in_channel = k / (c.size * c.size);
        const int y = top + k / c.size % c.size;
        const int x = left + k % c.size;
        const bool inside = pixel < pixels && k < filter_length && 0 <= y && y < c.height && 0 <= x && x < c.width;
        patches[row][column] = inside ? image[(in_channel * c.height + y) * c.width + x] : 0.0f;

        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += filters[row][i] * patches[i][column];
        __syncthreads();
    }
    if (pixel < pixels && channel < c.out_channels) {
        output[(blockIdx.z * c.out_channels + channel) * pixels + pixel] = sum + bias[channel];
    }
}

extern "C" __global__ void relu(float *values, const int count) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < count) values[i] = fmaxf(values[i], 0.0f);
}

extern "C" __global__ void add(float *values, const float *others, const int count) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < count) values[i] += others[i];
}

// The largest number of every two by two square; `count` squares in all, an odd last row or column left out.
extern "C" __global__ void max_pool(
    float *output, const float *input, const int count, const int height, const int width
) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= count) return;
    const int columns = width / 2, rows = height / 2;
    const int x = i % columns * 2, y = i / columns % rows * 2, plane = i / columns / rows;
    const float *square = input + (plane * height + y) * width + x;
    output[i] = fmaxf(fmaxf(square[0], square[1]), fmaxf(square[width], square[width + 1]));
}

struct Sum {
    static __device__ float of(float a, float b) { return a + b; }
};

struct Largest {
    static __device__ float of(float a, float b) { return fmaxf(a, b); }
};

// One number from those of all THREADS threads of the block, the same for each of them.
template <typename Operation> __device__ float all(const float value) {
    __shared__ float values[THREADS];
    const int thread = threadIdx.x;
    values[thread] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (thread < half) values[thread] = Operation::of(values[thread], values[thread + half]);
        __syncthreads();
    }
    const float result = values[0];
    __syncthreads(); // before the next call writes
    return result;
}

// The mean of a channel of an image: one block each.
extern "C" __global__ void global_average_pool(float *output, const float *input, const int plane) {
    const float *values = input + blockIdx.x * plane;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < plane; i += THREADS) sum += values[i];
    sum = all<Sum>(sum);
    if (threadIdx.x == 0) output[blockIdx.x] = sum / plane;
}

// An output (blockIdx.x) of an image (blockIdx.y): one block each.
extern "C" __global__ void fully_connected(
    float *output, const float *input, const float *weights, const float *bias, const int length
) {
    const float *image = input + blockIdx.y * length, *row = weights + blockIdx.x * length;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < length; i += THREADS) sum += row[i] * image[i];
    sum = all<Sum>(sum);
    if (threadIdx.x == 0) output[blockIdx.y * gridDim.x + blockIdx.x] = sum + bias[blockIdx.x];
}

// The probabilities of an image: one block each.
extern "C" __global__ void softmax(float *output, const float *input, const int length) {
    const float *numbers = input + blockIdx.x * length;
    float *probabilities = output + blockIdx.x * length;
    float largest = numbers[0];
    for (int i = threadIdx.x; i < length; i += THREADS) largest = fmaxf(largest, numbers[i]);
    largest = all<Largest>(largest);
    float sum = 0.0f;
    for (int i = threadIdx.x; i < length; i += THREADS) sum += expf(numbers[i] - largest);
    sum = all<Sum>(sum);
    for (int i = threadIdx.x; i < length; i += THREADS) probabilities[i] = expf(numbers[i] - largest) / sum;
}

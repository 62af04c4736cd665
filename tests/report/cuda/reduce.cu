// Sums of blocks of 256, with interleaved and with sequential addresses in shared memory.
extern "C" __global__ void interleaved(const float* __restrict__ in, float* __restrict__ out)
{
    __shared__ float data[256];
    int t = threadIdx.x;
    data[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
    if (t < 64) data[4 * t] += data[4 * t + 2];
    __syncthreads();
    if (t == 0) out[blockIdx.x] = data[0];
}

extern "C" __global__ void sequential(const float* __restrict__ in, float* __restrict__ out)
{
    __shared__ float data[256];
    int t = threadIdx.x;
    data[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
#pragma unroll 1
    for (int s = 128; s > 0; s >>= 1) {
        if (t < s) data[t] += data[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = data[0];
}

// What one iteration of a loop loads, a later one loads again.
extern "C" __global__ void smooth(int n, const float* __restrict__ in, float* __restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
    for (int j = 1; j < n - 1; j++)
        out[j * n + i] = in[(j - 1) * n + i] + in[j * n + i] + in[(j + 1) * n + i];
}

extern "C" __global__ void thread_rows(int n, const float* __restrict__ in, float* __restrict__ out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
#pragma unroll 1
    for (int i = 1; i < n; i++)
        s += in[t * 1024 + i] * in[t * 1024 + i - 1];
    out[t] = s;
}

extern "C" __global__ void strided(int n, const float* __restrict__ in, float* __restrict__ out)
{
    float s = 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += 128)
        s += in[i] * in[i + 128] - in[i + 64];
    out[threadIdx.x] = s;
}

extern "C" __global__ void sliding(const float* __restrict__ in, float* __restrict__ out)
{
    float s = 0;
#pragma unroll 1
    for (int k = 0; k < 16; k++)
        s += in[blockIdx.x * blockDim.x + threadIdx.x + k];
    out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}

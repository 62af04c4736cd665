// Every thread adds to one place. Mended: a warp adds up first, and one lane of it goes there.
extern "C" __global__ void total(int n, const float *__restrict__ in, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = i < n ? in[i] : 0.0f;
#ifdef MENDED
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_down_sync(~0u, x, step);
    if (threadIdx.x % 32 == 0)
        atomicAdd(sum, x);
#else
    atomicAdd(sum, x);
#endif
}

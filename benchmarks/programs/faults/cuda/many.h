// A sum that needs WIDE values at a time.
template <int WIDE>
__device__ __forceinline__ void many(int n, const float *__restrict__ in, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v[WIDE];
#pragma unroll
    for (int k = 0; k < WIDE; k++)
        v[k] = in[k * 4096 + i];
#pragma unroll 1
    for (int turn = 0; turn < n; turn++)
#pragma unroll
        for (int k = 0; k < WIDE; k++)
            v[k] = v[k] * v[(k + 1) % WIDE] + v[(k + 7) % WIDE];
#pragma unroll
    for (int k = 0; k < WIDE; k++)
        out[k * 4096 + i] = v[k];
}

// Shared memory in elements of 8 and 16 bytes, strided, and shared by lanes.
extern "C" __global__ void doubles(const double* __restrict__ in, double* __restrict__ out)
{
    __shared__ double tile[2 * 256];
    int t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    out[t] = tile[t] + tile[2 * t] + tile[255 - t];
}

extern "C" __global__ void quads(const float4* __restrict__ in, float4* __restrict__ out)
{
    __shared__ float4 tile[256];
    int t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    out[t] = tile[255 - t];
}

extern "C" __global__ void bytes(const unsigned char* __restrict__ in, unsigned char* __restrict__ out)
{
    __shared__ unsigned char tile[4096];
    int t = threadIdx.x;
    tile[t] = in[t];
    tile[t * 4 + 1024] = in[t];
    __syncthreads();
    out[t] = tile[t ^ 1] + tile[t * 16] + tile[t / 2];
}

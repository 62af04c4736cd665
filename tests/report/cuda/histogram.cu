// Histograms of bytes: in global memory, in shared memory, and in a copy of it for each warp.
extern "C" __global__ void global_bins(int n, const unsigned char* __restrict__ in, unsigned* bins)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[in[i]], 1u);
}

extern "C" __global__ void shared_bins(int n, const unsigned char* __restrict__ in, unsigned* bins)
{
    __shared__ unsigned local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&local[in[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

extern "C" __global__ void lane_bins(int n, const unsigned char* __restrict__ in, unsigned* bins)
{
    __shared__ unsigned local[64][32];
    int lane = threadIdx.x % 32;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&local[in[i] & 63][lane], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x % 64], local[threadIdx.x % 64][lane]);
}

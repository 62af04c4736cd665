// The same with doubles and 16 threads a row.
#define SIDE 16
#ifdef MENDED
#define PAD 1
#else
#define PAD 0
#endif

extern "C" __global__ void __block_size__((SIDE, SIDE, 1))
tile16(const double *__restrict__ in, double *__restrict__ out)
{
    __shared__ double t[SIDE][SIDE + PAD];
    int b = blockIdx.x * SIDE * SIDE;
    t[threadIdx.y][threadIdx.x] = in[b + threadIdx.y * SIDE + threadIdx.x];
    __syncthreads();
    out[b + threadIdx.y * SIDE + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}

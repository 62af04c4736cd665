// The lanes read a column of a tile whose rows hold 32 floats: one bank serves them all.
#define SIDE 32
#ifdef MENDED
#define PAD 1
#else
#define PAD 0
#endif

extern "C" __global__ void __block_size__((SIDE, SIDE, 1))
tile(const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float t[SIDE][SIDE + PAD];
    int b = blockIdx.x * SIDE * SIDE;
    t[threadIdx.y][threadIdx.x] = in[b + threadIdx.y * SIDE + threadIdx.x];
    __syncthreads();
    out[b + threadIdx.y * SIDE + threadIdx.x] = t[threadIdx.x][threadIdx.y];
}

// A stencil in three dimensions: the plane in shared memory, the column in registers.
// run 2x2 8x8 4 random:1536:f32 zeros:1536:f32
extern "C" __global__ void __launch_bounds__(64) march_in_z(int depth, const float *in, float *out)
{
    __shared__ float plane[8][8];
    int tx = threadIdx.x, ty = threadIdx.y;
    size_t pitch = (size_t)gridDim.x * 8, slice = pitch * gridDim.y * 8;
    size_t at = (blockIdx.y * 8 + ty) * pitch + blockIdx.x * 8 + tx;
    float below = in[at], here = in[at + slice];
#pragma unroll 1
    for (int z = 0; z < depth; z++) {
        float above = in[at + 2 * slice];
        plane[ty][tx] = here;
        __syncthreads();
        float left = tx > 0 ? plane[ty][tx - 1] : 0.0f, up = ty > 0 ? plane[ty - 1][tx] : 0.0f;
        out[at + slice] = below + above + left + up - 4 * here;
        __syncthreads();
        below = here;
        here = above;
        at += slice;
    }
}

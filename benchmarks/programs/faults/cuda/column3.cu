// A thread walks up a column and loads three planes in each iteration, two of which it had before.
extern "C" __global__ void column3(int nz, const float *__restrict__ in, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    float below = in[i], here = in[4096 + i];
#pragma unroll 1
    for (int z = 1; z < nz - 1; z++) {
        float above = in[(z + 1) * 4096 + i];
        out[z * 4096 + i] = below - 2.0f * here + above;
        below = here, here = above;
    }
#else
#pragma unroll 1
    for (int z = 1; z < nz - 1; z++)
        out[z * 4096 + i] = in[(z - 1) * 4096 + i] - 2.0f * in[z * 4096 + i]
                            + in[(z + 1) * 4096 + i];
#endif
}

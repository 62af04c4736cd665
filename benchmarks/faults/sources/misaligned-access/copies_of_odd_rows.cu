// Copies of 16 bytes into rows of 33 floats.
// run 1 32 random:1024:f32 zeros:1024:f32
extern "C" __global__ void __launch_bounds__(32) copies_of_odd_rows(const float *in, float *out)
{
#ifdef MENDED
    const int pitch = 36;
#else
    const int pitch = 33;
#endif
    __shared__ __align__(16) float tile[32 * pitch];
    int t = threadIdx.x, row = t / 8, quad = t % 8 * 4;
#pragma unroll 1
    for (int k = row; k < 32; k += 4) {
        unsigned to = (unsigned)__cvta_generic_to_shared(&tile[k * pitch + quad]);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" // fault: misaligned-access
                     :: "r"(to), "l"(in + k * 32 + quad) : "memory"); // fault: misaligned-access
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    for (int k = 0; k < 32; k++)
        out[k * 32 + t] = tile[t * pitch + k];
}

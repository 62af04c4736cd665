// A buffer of bytes with a word for each thread in front, and doubles behind an odd number of words.
// run 1 33 random:33:f64 zeros:33:f64
extern "C" __global__ void __launch_bounds__(33) doubles_in_a_buffer(const double *in, double *out)
{
#ifdef MENDED
    __shared__ __align__(8) char buffer[34 * 4 + 33 * 8];
    double *values = (double *)(buffer + 34 * 4);
#else
    __shared__ __align__(8) char buffer[33 * 4 + 33 * 8];
    double *values = (double *)(buffer + 33 * 4);
#endif
    int *order = (int *)buffer, t = threadIdx.x;
    order[t] = 32 - t;
    values[t] = in[t]; // fault: misaligned-access
    __syncthreads();
    out[t] = values[order[t]];
}

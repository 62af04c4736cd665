// Each block puts its elements into bit-reversed order, as before a Fourier transform.
extern "C" __global__ void __launch_bounds__(1 << BITS)
bitreversal(const REAL* in, REAL* out)
{
    __shared__ REAL all[1 << BITS];
    int t = threadIdx.x, start = blockIdx.x << BITS;
    all[t] = in[start + t];
    __syncthreads();
    out[start + t] = all[__brev(t) >> (32 - BITS)];
}

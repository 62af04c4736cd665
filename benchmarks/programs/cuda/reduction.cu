// The sum of each block's elements, added in pairs 2*s*t and 2*s*t + s: the farther apart they lie,
// the more lanes meet in a bank.
extern "C" __global__ void __launch_bounds__(SIZE) reduction(const REAL* in, REAL* out)
{
    __shared__ REAL part[SIZE];
    int t = threadIdx.x;
    part[t] = in[blockIdx.x * SIZE + t];
    __syncthreads();
    for (int s = 1; s < SIZE; s *= 2) {
        int at = 2 * s * t;
        if (at < SIZE)
            part[at] += part[at + s];
        __syncthreads();
    }
    if (t == 0)
        out[blockIdx.x] = part[0];
}

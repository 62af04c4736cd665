// A generator of random numbers in registers; hashes wrap and are meant to.
// run 2 64 10 zeros:128:u32
extern "C" __global__ void __launch_bounds__(64) random_walk(int turns, unsigned *out)
{
    unsigned i = blockIdx.x * 64 + threadIdx.x, state = i * 747796405u + 2891336453u;
    for (int k = 0; k < turns; k++)
        state = (state ^ state >> 13) * 1664525u + 1013904223u;
    out[i] = state;
}

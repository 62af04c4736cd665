// Each block sorts its elements (Batcher): threads exchange pairs that lie `step` apart.
extern "C" __global__ void __launch_bounds__(SIZE / 2) bitonic(const unsigned* in, unsigned* out)
{
    __shared__ unsigned all[SIZE];
    int t = threadIdx.x, start = blockIdx.x * SIZE;
    all[t] = in[start + t];
    all[t + SIZE / 2] = in[start + t + SIZE / 2];
    for (int run = 2; run <= SIZE; run *= 2) {
        for (int step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            int low = 2 * t - (t & (step - 1));
            unsigned a = all[low], b = all[low + step];
            if ((a > b) == ((low & run) == 0)) {
                all[low] = b;
                all[low + step] = a;
            }
        }
    }
    __syncthreads();
    out[start + t] = all[t];
    out[start + t + SIZE / 2] = all[t + SIZE / 2];
}

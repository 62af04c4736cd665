// Sums of all elements before each one in its block (Blelloch): up and down a tree of pairs, whose
// partners lie twice as far apart in each step. No padding.
extern "C" __global__ void __launch_bounds__(SIZE / 2) scan(const TYPE* in, TYPE* out)
{
    __shared__ TYPE all[SIZE];
    int t = threadIdx.x, start = blockIdx.x * SIZE;
    all[2 * t] = in[start + 2 * t];
    all[2 * t + 1] = in[start + 2 * t + 1];
    int offset = 1;
    for (int pairs = SIZE / 2; pairs > 0; pairs /= 2) {
        __syncthreads();
        if (t < pairs)
            all[offset * (2 * t + 2) - 1] += all[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0)
        all[SIZE - 1] = 0;
    for (int pairs = 1; pairs < SIZE; pairs *= 2) {
        offset /= 2;
        __syncthreads();
        if (t < pairs) {
            int left = offset * (2 * t + 1) - 1, right = offset * (2 * t + 2) - 1;
            TYPE sum = all[left];
            all[left] = all[right];
            all[right] += sum;
        }
    }
    __syncthreads();
    out[start + 2 * t] = all[2 * t];
    out[start + 2 * t + 1] = all[2 * t + 1];
}

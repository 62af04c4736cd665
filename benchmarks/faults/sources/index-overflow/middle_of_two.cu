// The middle of two large indices is half of a sum that wraps.
// run 1 32 1000 iota:1000:s32 random:32:s32 zeros:32:s32
// unseen: the launch that wraps is too large
extern "C" __global__ void __launch_bounds__(32)
middle_of_two(int n, const int *sorted, const int *keys, int *out)
{
    int key = keys[threadIdx.x], low = 0, high = n;
#pragma unroll 1
    while (low < high) {
#ifdef MENDED
        int middle = low + (high - low) / 2;
#else
        int middle = (low + high) / 2; // fault: index-overflow
#endif
        if (sorted[middle] < key) // fault: index-overflow
            low = middle + 1;
        else
            high = middle;
    }
    out[threadIdx.x] = low;
}

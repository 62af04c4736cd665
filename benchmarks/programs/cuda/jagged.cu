// Rows of lengths of their own, at most `most`, of which the first elements lie together, then the
// second ones, as in ELLPACK. The sum of each row is kept in memory.
extern "C" __global__ void jagged(int n, int most, const int* length, const float* a, float* sum)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < n) {
        int elements = min(length[i], most);
        for (int k = 0; k < elements; ++k)
            sum[i] += a[i + k * n];
    }
}

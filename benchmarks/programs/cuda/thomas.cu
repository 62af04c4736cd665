// Thomas's solver of tridiagonal systems, in place, one system a thread: what an iteration stores the
// next one loads, first upwards, then downwards.
extern "C" __global__ void thomas(
    int n, int rows, const float* lower, const float* upper, float* diagonal, float* right)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    for (int k = 1; k < rows; ++k) {
        float w = lower[i + k * n] / diagonal[i + (k - 1) * n];
        diagonal[i + k * n] -= w * upper[i + (k - 1) * n];
        right[i + k * n] -= w * right[i + (k - 1) * n];
    }
    right[i + (rows - 1) * n] /= diagonal[i + (rows - 1) * n];
    for (int k = rows - 2; k >= 0; --k)
        right[i + k * n] = (right[i + k * n] - upper[i + k * n] * right[i + (k + 1) * n])
            / diagonal[i + k * n];
}

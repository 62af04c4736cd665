// A step of a wavelet over rows of odd length, whose two loops are collapsed into one.
void wavelet(int half, int rows, const float* x, float* details)
{
#pragma acc parallel loop gang vector vector_length(32) collapse(2) deviceptr(x, details)
    for (int j = 0; j < rows; ++j)
        for (int i = 0; i < half; ++i) {
            const float* p = x + (2 * half + 1) * j + 2 * i;
            details[half * j + i] = p[1] - 0.5f * (p[0] + p[2]);
        }
}

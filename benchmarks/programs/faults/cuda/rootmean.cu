// The function of doubles where the one of floats was meant, and a literal of doubles.
extern "C" __global__ void rootmean(const float *__restrict__ x, const float *__restrict__ y,
                                    float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
#ifdef MENDED
    out[i] = sqrtf((x[i] * x[i] + y[i] * y[i]) * 0.5f + 1e-7f);
#else
    out[i] = sqrt((x[i] * x[i] + y[i] * y[i]) * 0.5 + 1e-7);
#endif
}

// Literals without `f`: floats are widened, computed in double precision and rounded again.
extern "C" __global__ void damped(int n, const float *__restrict__ in, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.0f;
#pragma unroll 1
    for (int k = 0; k < n; k++)
#ifdef MENDED
        s = s * 0.99f + in[k * 4096 + i] * 1.7f;
#else
        s = s * 0.99 + in[k * 4096 + i] * 1.7;
#endif
    out[i] = s;
}

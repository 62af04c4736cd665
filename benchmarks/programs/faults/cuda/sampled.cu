// Every fourth element is read. Where the samples were stored densely, lanes would be neighbours.
#ifdef MENDED
#define STEP 1
#else
#define STEP 4
#endif

extern "C" __global__ void sampled(int n, const float *__restrict__ in, float *__restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = 2.0f * in[i * STEP];
}

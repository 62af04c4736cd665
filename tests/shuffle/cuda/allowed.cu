// Each kernel is the right-hand neighbour of one in refusals.cu: the detail that made it wrong is
// gone, and the load is rewritten.

extern "C" __global__ void plain_load(const float *u, float *v, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t + 1 < n)
        v[t] = u[t] + u[t + 1];
}

extern "C" __global__ void barrier_before(const float *u, float *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    __syncthreads();
    float a = u[t];
    v[t] = a * u[t + 1];
}

extern "C" __global__ void barrier_between_read_only(const float *__restrict__ u, float *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = __ldg(u + t);
    __syncthreads();
    v[t] = a * __ldg(u + t + 1);
}

extern "C" __global__ void shared_store_between(const float *u, float *v)
{
    __shared__ float s[1024];
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = u[t];
    s[threadIdx.x] = a;
    float b = u[t + 1];
    v[t] = a * b + s[threadIdx.x ^ 1];
}

extern "C" __global__ void store_apart(float *u, float *v)
{
    // What is stored lies between what is loaded: odd elements against even ones.
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = u[2 * t];
    u[2 * t + 1] = a;
    float b = u[2 * t + 2];
    v[t] = a * b;
}

extern "C" __global__ void source_above_if(const float *__restrict__ u, float *v, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = __ldg(u + t), b = 0;
    if (n > 7)
        b = __ldg(u + t + 1);
    v[t] = a + b;
}

extern "C" __global__ void uniform_row(const int *__restrict__ start, const float *__restrict__ u,
                                       float *v)
{
    int t = threadIdx.x;
    int s = start[blockIdx.x];
    v[t] = u[s + t] + u[s + t + 1];
}

extern "C" __global__ void after_uniform_loop(const float *__restrict__ u, float *v, float limit)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int i = 0;
    float x = 1.0f;
    do {
        x *= 1.5f;
        i += 32;
    } while (x < limit);
    v[t] = u[t + i] + u[t + i + 1] + x;
}

extern "C" __global__ void store_before_barrier(float *u, int n)
{
    int t = threadIdx.x;
    u[t] = 1.0f;
    __syncthreads();
    float a = u[t + 32], b = u[t + 33];
    u[t + n] = a * b;
}

extern "C" __global__ void near_enough(const float *__restrict__ u, float *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = u[t] * u[t + 31];
}

extern "C" __global__ void reversed_rows(const float *__restrict__ u, float *v, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = u[n - t] * u[n - t - 1];
}

extern "C" __global__ void pairs(const float *__restrict__ u, float *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = u[2 * t] * u[2 * t + 2];
}

extern "C" __global__ void doubles(const double *__restrict__ u, double *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = u[t] * u[t + 1];
}

extern "C" __global__ void longs(const long long *__restrict__ u, long long *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = u[t] ^ (3 * u[t + 2]);
}

extern "C" __global__ void shorts(const short *__restrict__ u, int *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = u[t] - 3 * u[t + 1];
}

extern "C" __global__ void bytes(const unsigned char *__restrict__ u, unsigned char *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = (u[t] + 2 * u[t + 1] + u[t + 2]) / 4;
}

extern "C" __global__ void other_sign(const short *__restrict__ u, int *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = u[t] * ((const unsigned short *)u)[t + 1];
}

extern "C" __global__ void vectors(const float2 *__restrict__ u, float *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float2 a = u[t], b = u[t + 1];
    v[t] = a.x * b.y - a.y * b.x;
}

extern "C" __global__ void masked_index(const float *__restrict__ u, float *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = u[t & 1023] * u[(t + 1) & 1023];
}

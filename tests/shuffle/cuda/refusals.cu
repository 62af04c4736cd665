// One kernel for each rule of a shuffle's legality: every one is refused, by the reason that its test names.
// Compiled by `make.py` beside this file.

extern "C" __global__ void volatile_load(const volatile float *u, float *v, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t + 1 < n)
        v[t] = u[t] + u[t + 1];
}

extern "C" __global__ void barrier_between(const float *u, float *v, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = u[t];
    __syncthreads();
    float b = u[t + 1];
    v[t] = a * b;
}

extern "C" __global__ void store_between(const float *u, float *v, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = u[t];
    v[t] = a;
    v[t] = u[t + 1];
}

extern "C" __global__ void atomic_between(const float *u, float *v, int *count)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = u[t];
    int old = atomicAdd(count, 1);
    float b = u[t + 1];
    v[t] = a * b + old;
}

extern "C" __global__ void source_in_if(const float *__restrict__ u, float *v, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = 0;
    if (threadIdx.x % 3 == 0) {
        a = __ldg(u + t);
        v[t + n] = a * sinf(a);
    }
    v[t] = a + __ldg(u + t + 1);
}

extern "C" __global__ void csr(const int *__restrict__ start, const float *__restrict__ u, float *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int s = start[t];
    v[t] = u[s + t] + u[s + t + 1];
}

extern "C" __global__ void after_varying_loop(const float *__restrict__ u, float *v,
                                              const int *__restrict__ count)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    int i = 0;
    float x = 1.0f;
    do {
        x *= 1.5f;
        i += 32;
    } while (x < (float)count[t]);
    v[t] = u[t + i] + u[t + i + 1] + x;
}

extern "C" __global__ void own_store_before(float *u, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    u[t] = 1.0f;
    float a = u[t + 32], b = u[t + 33];
    u[t + n] = a * b;
}

extern "C" __global__ void fence_between(const float *u, float *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = u[t];
    __threadfence();
    v[t] = a * u[t + 1];
}

extern "C" __global__ void far(const float *__restrict__ u, float *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = u[t] * u[t + 32];
}

extern "C" __global__ void other_type(const float *__restrict__ u, float *v)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = u[t] * ((const short *)u)[2 * t + 2];
}

extern "C" __global__ void store_on_the_way(float *u, float *v)
{
    // Apart in one lane, a hit in the next: lane t stores what lane t + 1 loads.
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = u[t];
    u[t] = 2.0f * a;
    float b = u[t + 1];
    v[t] = a * b;
}

extern "C" __global__ void acquire_between(const float *u, float *v, int *flag)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = u[t];
    int ready;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(ready) : "l"(flag) : "memory");
    } while (!ready);
    float b = u[t + 1];
    v[t] = a * b;
}

extern "C" __global__ void columns(const float *__restrict__ u, float *v, int n)
{
    // Neighbouring lanes read neighbouring rows: there is no constant distance.
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    v[t] = u[t * n] * u[(t + 1) * n];
}

extern "C" __global__ void loop_between(const float *u, float *v, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    float a = u[t], x = 0;
    for (int i = 0; i < n; i++)
        x += a * u[t + 1 + 64 * i];
    v[t] = x;
}

// Calls, recursion, local memory, generic addresses, printf.
#include <cstdio>

struct Pair { int a; float b[3]; };
typedef int (*Function)(int);

__device__ __noinline__ int ackermann(int m, int n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}
extern "C" __global__ void recursion(const int *in, int *out) {
    out[threadIdx.x] = ackermann(threadIdx.x % 3, in[threadIdx.x]);
}

__device__ __noinline__ int twice(int x) { return 2 * x; }
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int negate(int x) { return x > 20 ? 0 : -x; }
__device__ Function functions[3] = {twice, square, negate};
extern "C" __global__ void indirect(int *out) {
    out[threadIdx.x] = functions[threadIdx.x % 3](threadIdx.x);
}

__device__ __noinline__ float pick(Pair p, int k) { return p.a + p.b[k]; }
extern "C" __global__ void structs(float *out, Pair p) { out[threadIdx.x] = pick(p, threadIdx.x % 3); }

extern "C" __global__ void sorted(const int *in, int *out) {
    int local[8];
    for (int k = 0; k < 8; k++) local[(k * 3) & 7] = in[threadIdx.x * 8 + k];
    for (int i = 1; i < 8; i++)
        for (int j = i; j > 0 && local[j - 1] > local[j]; j--) {
            int t = local[j]; local[j] = local[j - 1]; local[j - 1] = t;
        }
    for (int k = 0; k < 8; k++) out[threadIdx.x * 8 + k] = local[k];
}

extern "C" __global__ void generic(int *out) {
    __shared__ int inside[32];
    int mine[4] = {1, 2, 3, 4};
    inside[threadIdx.x] = 100 + threadIdx.x;
    __syncthreads();
    int *p = threadIdx.x % 3 == 0 ? &inside[(threadIdx.x + 1) & 31]
           : threadIdx.x % 3 == 1 ? &mine[threadIdx.x & 3] : &out[64 + threadIdx.x];
    *p += 1000;
    out[threadIdx.x] = *p;
    out[32 + threadIdx.x] = __isShared(p) * 4 + __isLocal(p) * 2 + __isGlobal(p);
}

extern "C" __global__ void speak(const double *in) {
    if (threadIdx.x & 1) printf("thread %d of %u: %.3f %s %5lld|%-4c|%%\n", threadIdx.x, blockDim.x,
                                in[threadIdx.x], "text", (long long)threadIdx.x << 40, 'x');
}

extern "C" __global__ void borrowed(int *out) {
    int *p = (int *)malloc(8 + 8 * threadIdx.x);
    for (int k = 0; k <= threadIdx.x; k++) p[k] = k * threadIdx.x;
    out[threadIdx.x] = p[threadIdx.x] + (malloc(1 << 21) == 0);
    free(p);
}

// Barriers, shared memory, atomics: threads of a block together.
#include <cassert>

extern "C" __global__ void reduce_shared(const int *in, int *out, int n) {
    __shared__ int part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}

// The same without the barriers: a race.
extern "C" __global__ void reduce_racy(const int *in, int *out) {
    __shared__ int part[64];
    part[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (int step = 32; step > 0; step /= 2)
        if (threadIdx.x < step) ((volatile int *)part)[threadIdx.x] += part[threadIdx.x + step];
    if (threadIdx.x == 0) out[0] = part[0];
}

extern "C" __global__ void transpose(const float *in, float *out, int n) {
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x, y = blockIdx.x * 16 + threadIdx.y;
    if (x < n && y < n) out[y * n + x] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void histogram(const unsigned char *in, unsigned *out, int n) {
    __shared__ unsigned bins[64];
    if (threadIdx.x < 64) bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[in[i] & 63], 1u);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

extern "C" __global__ void atomics(int *s, unsigned *u, float *f, unsigned long long *w) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicMin(&s[0], 50 - i);
    atomicMax(&s[1], i - 7);
    atomicAnd(&s[2], ~(1 << (i % 31)));
    atomicOr(&s[3], 1 << (i % 5));
    atomicXor(&s[4], i * 77);
    atomicInc(&u[0], 9);
    atomicDec(&u[1], 9);
    u[3 + i] = atomicAdd(&u[2], 2);
    atomicAdd(&f[0], 0.5f);
    atomicAdd(&w[0], 1ull << 33);
    // A maximum of floats by compare and swap.
    unsigned *p = (unsigned *)&f[1], old = *p, seen;
    float mine = (i * 37 % 101) * 0.25f;
    do {
        seen = old;
        if (__uint_as_float(seen) >= mine) break;
        old = atomicCAS(p, seen, __float_as_uint(mine));
    } while (old != seen);
}

// Lanes of a warp fight for a lock: forward progress for each thread is needed.
extern "C" __global__ void spin_lock(int *lock, int *counter) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            *(volatile int *)counter += 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

extern "C" __global__ void counts(const int *in, int *out) {
    int v = in[threadIdx.x];
    int many = __syncthreads_count(v > 0);
    int every = __syncthreads_and(v > -5), some = __syncthreads_or(v > 90);
    out[threadIdx.x] = many * 4 + every * 2 + some;
}

// Warp 0 produces, warp 1 consumes, through a named barrier of 64 threads each way.
extern "C" __global__ void producer(int *out, int rounds) {
    __shared__ int box[32];
    int lane = threadIdx.x & 31;
    for (int r = 0; r < rounds; r++) {
        if (threadIdx.x < 32) {
            box[lane] = lane * 10 + r;
            asm volatile("bar.arrive 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[r * 32 + lane] = box[31 - lane];
            asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
    }
}

extern __shared__ float dynamic[];
extern "C" __global__ void rotate(const float *in, float *out) {
    dynamic[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = dynamic[(threadIdx.x + 5) % blockDim.x];
}

__device__ int ticket = 40;
__constant__ int weights[4] = {3, -1, 4, 1};
__device__ short table[3][2] = {{1, 2}, {3, 4}, {5, 6}};
__device__ int *where = &ticket;
extern "C" __global__ void variables(int *out) {
    out[threadIdx.x] = weights[threadIdx.x & 3] * table[threadIdx.x % 3][threadIdx.x & 1];
    if (threadIdx.x == 0) *where += 2;
}

// Half of the warp waits for lanes that have gone another way.
extern "C" __global__ void never(int *out) {
    if (threadIdx.x < 16) {
        out[threadIdx.x] = __shfl_sync(0xffffffff, threadIdx.x, 3);
    } else {
        __syncthreads();
    }
}

extern "C" __global__ void checked(const int *in, int n) { assert(in[threadIdx.x] < n); }

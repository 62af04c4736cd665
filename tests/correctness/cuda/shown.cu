// Each kernel with a fault, and with `ok` behind its name the same without.
#define K extern "C" __global__ void
#define REDUCE(name, wait) K name(float *out, const float *in, int n) { \
    __shared__ float s[256]; \
    int t = threadIdx.x, i = blockIdx.x * 256 + t; \
    s[t] = i < n ? in[i] : 0; \
    __syncthreads(); \
    for (int k = 128; k > 0; k >>= 1) { if (t < k) s[t] += s[t + k]; if (wait) __syncthreads(); } \
    if (t == 0) out[blockIdx.x] = s[0]; }
REDUCE(reduce, k > 32)
REDUCE(reduce_ok, true)

#define TRANSPOSE(name, wait) K name(float *out, const float *in, int w, int h) { \
    __shared__ float s[16][17]; \
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y; \
    if (x < w && y < h) s[threadIdx.y][threadIdx.x] = in[y * w + x]; \
    wait; \
    x = blockIdx.y * 16 + threadIdx.x, y = blockIdx.x * 16 + threadIdx.y; \
    if (x < h && y < w) out[y * h + x] = s[threadIdx.x][threadIdx.y]; }
TRANSPOSE(transpose, )
TRANSPOSE(transpose_ok, __syncthreads())

#define ROW(name, load, i) K name(float *b, float *a, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i > 0 && i < n - 1) load[i] = a[i - 1] + a[i + 1]; }
ROW(stencil, a, i)
ROW(stencil_ok, b, i)

#define TOTAL(name, add) K name(float *sum, const float *a, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i < n) add; }
TOTAL(total, *sum += a[i])
TOTAL(total_ok, atomicAdd(sum, a[i]))

#define BROADCAST(name, wait) K name(float *out, const float *in, int n) { \
    __shared__ float mean; \
    for (int r = 0; r < 4; r++) { \
        if (threadIdx.x == 0) mean = in[blockIdx.x * 4 + r]; \
        __syncthreads(); \
        out[(blockIdx.x * 4 + r) * blockDim.x + threadIdx.x] = mean; \
        wait; } }
BROADCAST(broadcast, )
BROADCAST(broadcast_ok, __syncthreads())

#define SHUFFLE(name, before, after) K name(float *out, const float *in, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    before { float v = i < n ? in[i] : 0; v += __shfl_xor_sync(0xffffffff, v, 16); after out[i] = v; } }
SHUFFLE(shuffle, if (i < n), )
SHUFFLE(shuffle_ok, , if (i < n))

#define MASK(name, mask) K name(float *out, const float *in) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    float v = in[i]; \
    if (threadIdx.x % 2) v = __shfl_xor_sync(mask, v, 2); \
    out[i] = v; }
MASK(mask, 0x55555555)
MASK(mask_ok, 0xaaaaaaaa)

#define BARRIER(name, condition) K name(float *out, const float *in, int n) { \
    __shared__ float s[64]; \
    int i = blockIdx.x * 64 + threadIdx.x; \
    s[threadIdx.x] = 0; \
    float v = 0; \
    if (condition) { s[threadIdx.x] = in[i]; __syncthreads(); v = s[0]; } \
    out[i] = v; }
BARRIER(barrier, i < n)
BARRIER(barrier_ok, n > 3)

#define UNWRITTEN(name, last) K name(float *out, const float *in) { \
    __shared__ float s[64]; \
    if (threadIdx.x < last) s[threadIdx.x] = in[threadIdx.x]; \
    __syncthreads(); \
    out[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x]; }
UNWRITTEN(unwritten, 40)
UNWRITTEN(unwritten_ok, 64)

#define BEYOND(name, index) K name(float *out, const float *in) { \
    __shared__ float s[64]; \
    s[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x]; \
    __syncthreads(); \
    out[blockIdx.x * 64 + threadIdx.x] = s[index]; }
BEYOND(beyond, threadIdx.x + 1)
BEYOND(beyond_ok, (threadIdx.x + 1) % 64)

#define VECTOR(name, index) K name(float4 *out, const float *in, int n) { \
    int i = blockIdx.x * blockDim.x + threadIdx.x; \
    if (i < n) out[i] = *(const float4 *)(in + index); }
VECTOR(vector, i)
VECTOR(vector_ok, 4 * i)

#define WAIT(name, give) K name(volatile int *flag, float *out) { \
    if (threadIdx.x) return; \
    if (blockIdx.x == 1) { out[0] = 1; __threadfence(); give; } \
    else { while (*flag == 0) {} __threadfence(); out[1] = out[0]; } }
WAIT(wait_for, )
WAIT(wait_for_ok, *flag = 1)

#define COUNT(name, many) K name(float *out, const float *in) { \
    __shared__ float s[64]; \
    int t = threadIdx.x; \
    if (t < 32) { s[t] = in[t]; asm volatile("bar.arrive 1, " many ";" ::: "memory"); } \
    else { asm volatile("bar.sync 1, " many ";" ::: "memory"); out[blockIdx.x * 32 + t - 32] = s[t - 32]; } }
COUNT(count, "96")
COUNT(count_ok, "64")

#define COPY(name, wait) K name(float *out, const float *in) { \
    __shared__ float s[64]; \
    unsigned at = __cvta_generic_to_shared(s + threadIdx.x); \
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at), "l"(in + threadIdx.x) : "memory"); \
    asm volatile("cp.async.commit_group;" ::: "memory"); \
    asm volatile(wait ::: "memory"); \
    __syncthreads(); \
    out[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x]; }
COPY(copy, "cp.async.wait_group 1;")
COPY(copy_ok, "cp.async.wait_group 0;")

#define BINS(name, count) K name(int *out, const int *key) { \
    __shared__ int s[100]; \
    for (int k = threadIdx.x; k < 100; k += 128) s[k] = 0; \
    __syncthreads(); \
    count(s[key[blockIdx.x * 128 + threadIdx.x]]); \
    __syncthreads(); \
    for (int k = threadIdx.x; k < 100; k += 128) atomicAdd(&out[k], s[k]); }
#define PLAIN(x) x++
#define ATOMIC(x) atomicAdd(&x, 1)
BINS(bins, PLAIN)
BINS(bins_ok, ATOMIC)

#define SET_FIRST(name, order) K name(int *flag, int *out) { \
    if (threadIdx.x) return; \
    if (blockIdx.x == 0) { __threadfence(); atomicExch(flag, 1); } \
    else { order; __threadfence(); *out = 1; } }
SET_FIRST(loaded_once, { int seen = *(volatile int *)flag; while (!seen) asm volatile("" ::: "memory"); })
SET_FIRST(loaded_once_ok, while (*(volatile int *)flag == 0) {})

K warps(float *out, const float *in) {
    __shared__ float s[32];
    int t = threadIdx.x;
    float v = in[blockIdx.x * blockDim.x + t];
    for (int k = 16; k; k >>= 1) v += __shfl_down_sync(~0u, v, k);
    if (t % 32 == 0) s[t / 32] = v;
    if (t < 32) {
        v = t < blockDim.x / 32 ? s[t] : 0;
        for (int k = 16; k; k >>= 1) v += __shfl_down_sync(~0u, v, k);
        if (t == 0) out[blockIdx.x] = v;
    }
    __syncthreads();
}

K rarely(float *out, int n) {
    if (blockIdx.x == 9 && n == 777) out[threadIdx.x / 2] = threadIdx.x;
}

#define COUNTED(name, barrier) K name(const unsigned char *in, int *out, int n) { \
    __shared__ int s[256]; \
    for (int k = threadIdx.x; k < 256; k += 64) s[k] = 0; \
    barrier; \
    int i = blockIdx.x * 64 + threadIdx.x; \
    if (i < n) atomicAdd(&s[in[i]], 1); \
    __syncthreads(); \
    for (int k = threadIdx.x; k < 256; k += 64) atomicAdd(&out[k], s[k]); }
COUNTED(counted, )
COUNTED(counted_ok, __syncthreads())

// The last element of a row is the first one of the next.
#define ROWS(name, off) K name(float *out, const float *in, int h, int w) { \
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y; \
    if (x < w && y < h) { \
        out[2 * y * w + x] = in[y * w + x]; \
        out[(2 * y + 1) * w + x + off] = in[y * w + x] * 2; } }
ROWS(rows_off, 1)
ROWS(rows_off_ok, 0)

// Only a loop that goes round often comes by its fourth copy.
#define ROUNDS(name, off) K name(float *out, const float *in, int n) { \
    int step = gridDim.x * 64, i = blockIdx.x * 64 + threadIdx.x; \
    for (; i + 3 * step < n; i += 4 * step) { \
        out[i] = in[i]; out[i + step] = in[i + step]; out[i + 2 * step] = in[i + 2 * step]; \
        out[i + 3 * step + off] = in[i + 3 * step]; } }
ROUNDS(rounds, -1)
ROUNDS(rounds_ok, 0)

#define PLACED(name, other) K name(const int *key, int *out, int bit) { \
    __shared__ int zeros[2]; \
    int t = threadIdx.x, warp = t / 32, lane = t % 32; \
    bool one = key[blockIdx.x * 64 + t] >> bit & 1; \
    unsigned ones = __ballot_sync(~0u, one), below = (1u << lane) - 1; \
    if (lane == 0) zeros[warp] = 32 - __popc(ones); \
    __syncthreads(); \
    int place = one ? zeros[0] + zeros[1] + __popc(ones & below) + (warp ? 32 - zeros[0] : 0) \
                    : __popc(~ones & below) + (warp ? zeros[other] : 0); \
    out[blockIdx.x * 64 + place] = t; }
PLACED(placed, 1)
PLACED(placed_ok, 0)

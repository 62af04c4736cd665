// Kernels whose callers keep a promise: without it they would go wrong. Nothing is to be said.
#define K extern "C" __global__ void

K scatter(float *out, const int *to, int n) {  // `to` holds different indices
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[to[i]] = i;
}
K by_two_tables(float *out, const int *to, const int *via, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[via[to[i]]] += 1;
}
K rows_of_csr(float *out, const int *row, const int *column, const float *a, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = row[i]; k < row[i + 1]; k++) sum += a[k] * x[column[k]];
    out[i] = sum;
}
K rows(float *out, const float *in, int ld, int n) {  // ld >= n
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < n; r++) out[i * ld + r] = in[i * ld + r] * 2;
}
K batch(float *out, const float *in, int stride, int ld, int n, int m) {  // stride >= ld * m
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < n && y < m) out[blockIdx.z * stride + y * ld + x] = in[y * ld + x];
}
K halves(float *a, int half, int n) {  // half >= n
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i + half] = a[i] * 2;
}
K chunks(float *out, const float *in, int n) {  // n <= 4
    __shared__ float s[1024];
    int t = threadIdx.x;
    for (int j = 0; j < n; j++) s[t * 4 + j] = in[t * n + j];
    float v = 0;
    for (int j = 0; j < n; j++) v += s[t * 4 + j];
    out[t] = v;
}
K table(float *out, const float *in, const float *w, int n, int m) {  // m <= 64
    __shared__ float s[64];
    for (int j = threadIdx.x; j < m; j += blockDim.x) s[j] = w[j];
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = 0;
    for (int j = 0; j < m; j++) v += s[j] * in[i + j];
    if (i < n) out[i] = v;
}
K bins(int *out, const int *key, int n) {  // keys below 64
    __shared__ int s[64];
    for (int k = threadIdx.x; k < 64; k += blockDim.x) s[k] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&s[key[i]], 1);
    __syncthreads();
    for (int k = threadIdx.x; k < 64; k += blockDim.x) atomicAdd(&out[k], s[k]);
}
K tile(float *out, const float *in, int w, int h) {  // blocks of 16 x 16
    __shared__ float s[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) s[threadIdx.y][threadIdx.x] = in[y * w + x];
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x, y = blockIdx.x * 16 + threadIdx.y;
    if (x < h && y < w) out[y * h + x] = s[threadIdx.x][threadIdx.y];
}
K one_warp(float *out, const float *in) {  // blocks of 32
    __shared__ float s[32];
    s[threadIdx.x & 31] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncwarp();
    out[blockIdx.x * blockDim.x + threadIdx.x] = s[31 - (threadIdx.x & 31)];
}
K vectors(float4 *out, const float *in, int ld) {  // ld is a multiple of 4
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = *(const float4 *)(in + i * ld);
}
K vectors_at(float4 *out, const float *in, const int *at) {  // so is all that `at` holds
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = *(const float4 *)(in + at[i]);
}
K grid_barrier(float *a, volatile int *arrived, int blocks) {  // as many blocks as there are
    a[blockIdx.x * blockDim.x + threadIdx.x] *= 2;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd((int *)arrived, 1);
        while (*arrived < blocks) {}
        __threadfence();
    }
    __syncthreads();
    int other = (blockIdx.x + 1) % gridDim.x;
    float v = a[other * blockDim.x + threadIdx.x];
    a[(gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x] = v;
}
K lock(int *taken, int *count) {
    if (threadIdx.x == 0) {
        while (atomicCAS(taken, 0, 1)) {}
        __threadfence();
        count[0] = count[0] + blockIdx.x;
        __threadfence();
        atomicExch(taken, 0);
    }
}
K ticket(int *next, volatile int *serving, float *sum, const float *in) {
    int mine = atomicAdd(next, 1);
    for (bool done = false; !done;) {
        if (*serving == mine) {
            __threadfence();
            sum[0] += in[blockIdx.x * blockDim.x + threadIdx.x];
            __threadfence();
            *serving = mine + 1;
            done = true;
        }
    }
}
K last_block(float *out, const float *in, float *part, unsigned *count, int n) {
    __shared__ float s[256];
    __shared__ bool last;
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? in[i] : 0;
    __syncthreads();
    for (int k = 128; k > 0; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        __threadfence();
        last = atomicAdd(count, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) {
        __threadfence();
        float v = 0;
        for (int k = t; k < gridDim.x; k += 256) v += part[k];
        out[t] = v;
    }
}
K wide_rows(float *out, int w, int ld, int n) {  // ld >= w
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i / w * ld + i % w] = i;
}
K dynamic(float *out, const float *in, int n) {  // as much shared memory as there are threads
    extern __shared__ float s[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? in[i] : 0;
    __syncthreads();
    if (i < n) out[i] = s[blockDim.x - 1 - threadIdx.x];
}
K mask_given(float *out, const float *in, unsigned mask) {  // of the lanes that come
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = __shfl_xor_sync(mask, in[i], 1);
}
K one_thread(float *out, const float *in, int n) {  // a single thread
    float v = 0;
    for (int i = 0; i < n; i++) v += in[i];
    out[0] = v;
}
K shifted(float *out, const float *in, int shift) {  // shift < 20
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i << shift] = in[i];
}
K divided(float *out, const float *in, int w) {  // w = 1
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i / w] = in[i];
}
struct Sizes { int stride[3]; };
K strides(float *out, const float *in, Sizes to) {  // each larger than what the one before reaches
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    out[x * to.stride[0] + y * to.stride[1] + z * to.stride[2]] = in[(z * 64 + y) * 64 + x];
}
K two_arrays(float *out, const float *in, int n) {  // n = blockDim.x
    extern __shared__ float s[];
    float *a = s, *b = s + n;
    a[threadIdx.x] = in[threadIdx.x];
    b[threadIdx.x] = in[threadIdx.x + n];
    __syncthreads();
    out[threadIdx.x] = a[n - 1 - threadIdx.x] + b[threadIdx.x];
}
K ring(float *buffer, const float *in, int head, int capacity) {  // at least as many as threads
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    buffer[(head + i) % capacity] = in[i];
}
K hashed(float *out, const float *in, unsigned a, unsigned n) {  // a and n have no common divisor
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i * a % n] = in[i];
}
K product(float *c, const float *a, const float *b, int n) {  // n is a multiple of 16
    __shared__ float s[16][16], t[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        s[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        t[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + col];
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += s[threadIdx.y][j] * t[j][threadIdx.x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
K scan(float *out, const float *in, int n) {  // n = 2 * blockDim.x, a power of two
    extern __shared__ float s[];
    int t = threadIdx.x, offset = 1;
    s[2 * t] = in[2 * t];
    s[2 * t + 1] = in[2 * t + 1];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == 0) s[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            float v = s[offset * (2 * t + 1) - 1];
            s[offset * (2 * t + 1) - 1] = s[offset * (2 * t + 2) - 1];
            s[offset * (2 * t + 2) - 1] += v;
        }
    }
    __syncthreads();
    out[2 * t] = s[2 * t];
    out[2 * t + 1] = s[2 * t + 1];
}
K append(float *out, int *count, const float *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && in[i] > 0) out[atomicAdd(count, 1)] = in[i];
}
K levels(int *level, const int *from, const int *to, int now, int n) {  // edges of a graph
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e < n && level[from[e]] == now && level[to[e]] > now + 1) level[to[e]] = now + 1;
}
K expand(int *out, const int *row, const int *value, int n) {  // row starts grow
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) for (int k = row[i]; k < row[i + 1]; k++) out[k] = value[i];
}
K bitonic(float *a, int n) {  // n = 2 * blockDim.x, a power of two
    extern __shared__ float s[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = a[i];
    for (int k = 2; k <= n; k *= 2)
        for (int j = k / 2; j > 0; j /= 2) {
            __syncthreads();
            int i = 2 * threadIdx.x - (threadIdx.x & (j - 1));
            if (i + j < n) {
                float x = s[i], y = s[i + j];
                if ((x > y) == ((i & k) == 0)) s[i] = y, s[i + j] = x;
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) a[i] = s[i];
}
K reversed(float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 2) {
        float v = a[i];
        a[i] = a[n - 1 - i];
        a[n - 1 - i] = v;
    }
}
K turned(float *a, int n) {  // in place; blocks of 16 x 16, n is a multiple of 16
    __shared__ float s[16][17], t[16][17];
    if (blockIdx.x > blockIdx.y) return;
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    int u = blockIdx.y * 16 + threadIdx.x, v = blockIdx.x * 16 + threadIdx.y;
    s[threadIdx.y][threadIdx.x] = a[y * n + x];
    t[threadIdx.y][threadIdx.x] = a[v * n + u];
    __syncthreads();
    a[v * n + u] = s[threadIdx.x][threadIdx.y];
    if (blockIdx.x != blockIdx.y) a[y * n + x] = t[threadIdx.x][threadIdx.y];
}
K counted_barrier(float *out, const float *in, int threads) {  // as many as a block has
    __shared__ float s[1024];
    s[threadIdx.x] = in[threadIdx.x];
    asm volatile("bar.sync 1, %0;" :: "r"(threads) : "memory");
    out[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
K first_ones(float *out, const float *in, int n) {  // n <= blockDim.x
    __shared__ float s[1024];
    if (threadIdx.x < n) s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    float v = 0;
    for (int j = 0; j < n; j++) v += s[j];
    out[threadIdx.x] = v;
}
K two_arrays_of(float *out, const float *const *in, int n) {  // pointers to pointers
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[blockIdx.x][threadIdx.x];
}
K host_flag(volatile int *stop, int *turns) {  // somebody else writes it, and this thread the count
    if (threadIdx.x == 0) for (int k = 0; k < 100; k++) { *turns = k; if (*stop) return; }
}
K window(float *out, const float *in, int n, int r) {  // r <= 8
    __shared__ float s[64 + 16];
    int i = blockIdx.x * 64 + threadIdx.x;
    s[threadIdx.x + r] = i < n ? in[i] : 0;
    if (threadIdx.x < r) {
        s[threadIdx.x] = i >= r && i - r < n ? in[i - r] : 0;
        s[threadIdx.x + 64 + r] = i + 64 < n ? in[i + 64] : 0;
    }
    __syncthreads();
    float v = 0;
    for (int k = -r; k <= r; k++) v += s[threadIdx.x + r + k];
    if (i < n) out[i] = v;
}

// The width of its rows is that of its block, which is none of the usual ones.
K odd_tile(const double *in, double *out, int w, int h) {
    __shared__ double t[24][25];
    int x = blockIdx.x * 24 + threadIdx.x, y = blockIdx.y * 24;
    for (int j = threadIdx.y; j < 24; j += 8)
        if (x < w && y + j < h) t[j][threadIdx.x] = in[(size_t)(y + j) * w + x];
    __syncthreads();
    int xo = blockIdx.y * 24 + threadIdx.x, yo = blockIdx.x * 24;
    for (int j = threadIdx.y; j < 24; j += 8)
        if (xo < h && yo + j < w) out[(size_t)(yo + j) * h + xo] = t[threadIdx.x][j];
}

// Elements of one colour, which have no neighbour in common.
K of_one_colour(float *x, const int *of_colour, const int *next, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int e = of_colour[i];
    x[e] += 1;
    x[next[e]] += 1;
}
K one_to_the_right(float *out, int ld, int w, int h) {  // ld > w
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[y * ld + x + 1] = x;
}
K inside(float *out, int ld, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x + 1 < ld && y < h) out[y * ld + x + 1] = x;
}
K slices(float *out, int stride, int w, int h) {  // stride >= w * h
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) out[blockIdx.z * stride + y * w + x] = x;
}
K slices_of_64_rows(float *out, int stride) {  // stride >= 64 times the height
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < 64) out[blockIdx.z * stride + y * 64 + x] = x;
}
K by_a_sum(float *out, const int *length, int n) {  // lengths that add up to a place in `out`
    __shared__ int s[64];
    s[threadIdx.x] = length[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    int at = 0;
    for (int j = 0; j < threadIdx.x; j++) at += s[j];
    out[blockIdx.x * n + at] = threadIdx.x;
}

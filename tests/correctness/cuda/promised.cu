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

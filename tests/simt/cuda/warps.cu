// Lanes of a warp together, and apart.
extern "C" __global__ void warp_sum(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? in[i] : 0.0f;
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    if ((threadIdx.x & 31) == 0) out[i / 32] = v;
}

extern "C" __global__ void shuffles(const int *in, int *out) {
    int i = threadIdx.x, v = in[i];
    unsigned mask = __activemask();
    int *o = out + 8 * i;
    o[0] = __shfl_up_sync(mask, v, 3);
    o[1] = __shfl_down_sync(mask, v, 5);
    o[2] = __shfl_xor_sync(mask, v, 1);
    o[3] = __shfl_sync(mask, v, 7);
    o[4] = __shfl_up_sync(mask, v, 2, 8);
    o[5] = __shfl_down_sync(mask, v, 1, 16);
    o[6] = __shfl_sync(mask, v, i + 1, 4);
    o[7] = __shfl_xor_sync(mask, v, 4, 8);
}

extern "C" __global__ void votes(const int *in, unsigned *out) {
    int i = threadIdx.x, v = in[i];
    unsigned mask = __activemask(), *o = out + 10 * i;
    int same;
    o[0] = __ballot_sync(mask, v > 3);
    o[1] = __any_sync(mask, v == 5);
    o[2] = __all_sync(mask, v < 9);
    o[3] = __match_any_sync(mask, v);
    o[4] = __match_all_sync(mask, v, &same);
    o[5] = same;
    o[6] = __reduce_add_sync(mask, v);
    o[7] = __reduce_max_sync(mask, v);
    o[8] = __reduce_xor_sync(mask, (unsigned)v);
    if (v & 1) mask = __activemask();
    o[9] = mask;
}

// Two different shuffles that the halves of a warp reach on their own ways.
extern "C" __global__ void halves(const int *in, int *out) {
    int i = threadIdx.x, v = in[i];
    if ((i & 31) < 16) out[i] = __shfl_xor_sync(0x0000ffff, v * 2, 1);
    else out[i] = __shfl_xor_sync(0xffff0000, v * 3, 2);
    __syncwarp();
    out[i] += __shfl_sync(0xffffffff, v, 0);
}

extern "C" __global__ void collatz(const int *in, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = in[i], steps = 0;
    while (v != 1) {
        if (v <= 0) { steps = -1; break; }
        if (v & 1) v = 3 * v + 1; else v /= 2;
        if (++steps == 1000) break;
    }
    out[i] = steps;
}

extern "C" __global__ void choose(const int *in, int *out) {
    int i = threadIdx.x, v = in[i], r = 0;
    switch (v) {
    case 0: r = 5; break;
    case 1: r = v * 31 + i;
    case 2: r += 7; break;
    case 3: for (int k = 0; k < i; k++) r += k ^ v; break;
    case 4: r = i / 3; break;
    case 5: r = i % 7; break;
    case 6: r = -i; break;
    default: r = v; break;
    }
    out[i] = r;
}

// A lane takes what was never defined: the neighbour is not there.
extern "C" __global__ void beyond(const int *in, int *out) {
    int v = in[threadIdx.x];
    if (threadIdx.x < 20) out[threadIdx.x] = __shfl_down_sync(0xfffff, v, 1 + (threadIdx.x == 19));
}

extern "C" __global__ void which(int *out) {
    unsigned lane, lt, ge, warp;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lt));
    asm("mov.u32 %0, %%lanemask_ge;" : "=r"(ge));
    asm("mov.u32 %0, %%nwarpid;" : "=r"(warp));
    int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    int *o = out + 4 * (b * blockDim.x * blockDim.y * blockDim.z + t);
    o[0] = lane; o[1] = lt; o[2] = ge; o[3] = warp;
}

// A transform of 64 points in shared memory, radix 2.
// run 2 32 random:128:f32 random:128:f32:1 zeros:256:f32
extern "C" __global__ void __launch_bounds__(32)
fourier_shared(const float *re, const float *im, float2 *out)
{
    __shared__ float2 s[64];
    int t = threadIdx.x, first = blockIdx.x * 64;
    for (int k = t; k < 64; k += 32)
        s[__brev(k) >> 26] = make_float2(re[first + k], im[first + k]);
#pragma unroll 1
    for (int half = 1; half < 64; half *= 2) {
        __syncthreads();
        int k = t & (half - 1), i = 2 * (t - k) + k;
        float c, w;
        __sincosf(-3.14159265f * k / half, &w, &c);
        float2 a = s[i], b = s[i + half];
        float2 turned = make_float2(b.x * c - b.y * w, b.x * w + b.y * c);
        s[i] = make_float2(a.x + turned.x, a.y + turned.y);
        s[i + half] = make_float2(a.x - turned.x, a.y - turned.y);
    }
    __syncthreads(); // true: redundant-barrier
    out[first + t] = s[t];
    out[first + t + 32] = s[t + 32];
}

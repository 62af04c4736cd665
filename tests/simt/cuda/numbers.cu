// Arithmetic of all kinds.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void integers(const unsigned *a, const unsigned *b, unsigned *out) {
    int i = threadIdx.x;
    unsigned x = a[i], y = b[i], *o = out + 12 * i;
    o[0] = __umulhi(x, y);
    o[1] = __popc(x) + (__clz(x) << 8) + (__ffs(x) << 16);
    o[2] = __brev(x);
    o[3] = __byte_perm(x, y, 0x6240);
    o[4] = __funnelshift_l(x, y, x & 63);
    o[5] = __usad(x, y, 7);
    o[6] = (int)x / (int)(y | 1);
    o[7] = x % (y | 1);
    o[8] = (int)x >> (y & 31);
    o[9] = __dp4a((int)x, (int)y, 5);
    unsigned long long w = (unsigned long long)x * y + ((unsigned long long)y << 32 | x);
    o[10] = w >> 29;
    o[11] = __umul64hi(w, w * 0x9e3779b97f4a7c15ull) >> 13;
}

extern "C" __global__ void wide(const unsigned long long *a, unsigned long long *out) {
    int i = threadIdx.x;
    unsigned __int128 x = (unsigned __int128)a[2 * i + 1] << 64 | a[2 * i];
    x = x * x + a[i];
    out[2 * i] = x, out[2 * i + 1] = x >> 64;
}

extern "C" __global__ void singles(const float *a, const float *b, const float *c, float *out) {
    int i = threadIdx.x;
    float x = a[i], y = b[i], z = c[i], *o = out + 12 * i;
    o[0] = fmaf(x, y, z);
    o[1] = __fadd_rz(x, y), o[2] = __fadd_ru(x, y), o[3] = __fmul_rd(x, y);
    o[4] = __fdiv_rn(x, y), o[5] = __fsqrt_rn(fabsf(x));
    o[6] = fminf(x, y), o[7] = fmaxf(x, z);
    o[8] = __saturatef(x), o[9] = rintf(x) + floorf(y) * 2 + truncf(z);
    o[10] = __fmaf_rz(x, y, z), o[11] = (float)(int)x + (float)(unsigned char)(int)y;
}

extern "C" __global__ void doubles(const double *a, const double *b, const double *c, double *out) {
    int i = threadIdx.x;
    double x = a[i], y = b[i], z = c[i], *o = out + 6 * i;
    o[0] = fma(x, y, z), o[1] = x / y, o[2] = sqrt(fabs(x));
    o[3] = __dadd_rd(x, y), o[4] = (double)(long long)x, o[5] = (float)y;
}

extern "C" __global__ void halfs(const __half2 *a, const __half2 *b, __half2 *out, __nv_bfloat162 *brain) {
    int i = threadIdx.x;
    out[3 * i] = __hfma2(a[i], b[i], a[i]);
    out[3 * i + 1] = __hadd2(a[i], b[i]);
    out[3 * i + 2] = __hmul2(a[i], b[i]);
    float2 x = __half22float2(a[i]), y = __half22float2(b[i]);
    brain[i] = __hfma2(__float22bfloat162_rn(x), __float22bfloat162_rn(y), __float22bfloat162_rn(y));
}

extern "C" __global__ void textured(cudaTextureObject_t t, float *out) {
    out[threadIdx.x] = tex1Dfetch<float>(t, threadIdx.x);
}

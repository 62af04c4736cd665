// One query against all keys: scores, a running largest and sum, and the values.
// run 2 32 12 random:64:f32 random:384:f32:1 random:384:f32:2 zeros:64:f32
extern "C" __global__ void __launch_bounds__(32)
attention_row(int keys, const float *q, const float *k, const float *v, float *out)
{
    int t = threadIdx.x;
    float mine = q[blockIdx.x * 32 + t], most = -1e30f, sum = 0, total = 0;
#pragma unroll 1
    for (int n = 0; n < keys; n++) {
        float score = mine * k[(size_t)n * 32 + t];
        for (int d = 16; d > 0; d >>= 1)
            score += __shfl_xor_sync(0xffffffff, score, d);
        float next = fmaxf(most, score), scale = __expf(most - next), weight = __expf(score - next);
        sum = sum * scale + weight;
        total = total * scale + weight * v[(size_t)n * 32 + t];
        most = next;
    }
    out[blockIdx.x * 32 + t] = total / sum;
}

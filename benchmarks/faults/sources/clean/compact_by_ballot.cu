// Positive values move together: a ballot, and one atomic of each warp.
// run 2 64 120 random:120:f32 zeros:120:f32 zeros:1:u32
extern "C" __global__ void __launch_bounds__(64)
compact_by_ballot(int n, const float *in, float *out, unsigned *count)
{
    int i = blockIdx.x * 64 + threadIdx.x, lane = threadIdx.x % 32;
    float v = i < n ? in[i] : 0.0f;
    unsigned takers = __ballot_sync(0xffffffff, v > 0), first = 0;
    if (lane == 0 && takers)
        first = atomicAdd(count, __popc(takers));
    first = __shfl_sync(0xffffffff, first, 0);
    if (v > 0)
        out[first + __popc(takers & ((1u << lane) - 1))] = v;
}

// Forces of all bodies on each: tiles of bodies in shared memory.
// run 2 64 random:512:f32 zeros:384:f32
extern "C" __global__ void __launch_bounds__(64) bodies_in_tiles(const float4 *bodies, float *force)
{
    __shared__ float4 tile[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    float4 me = bodies[i];
    float fx = 0, fy = 0, fz = 0;
#pragma unroll 1
    for (int k = 0; k < gridDim.x; k++) {
        tile[t] = bodies[(size_t)k * 64 + t];
        __syncthreads();
#pragma unroll 4
        for (int n = 0; n < 64; n++) {
            float4 you = tile[n];
            float dx = you.x - me.x, dy = you.y - me.y, dz = you.z - me.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float f = you.w * r * r * r;
            fx += f * dx;
            fy += f * dy;
            fz += f * dz;
        }
        __syncthreads();
    }
    force[(size_t)i * 3] = fx;
    force[(size_t)i * 3 + 1] = fy;
    force[(size_t)i * 3 + 2] = fz;
}

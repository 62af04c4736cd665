// Direct n-body: each thread loads every body by itself, the same as all others of its block.
#define THREADS 256

__global__ void bodies(int n, const float4 *__restrict__ body, float4 *__restrict__ force)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    float4 own = body[i];
    float x = 0, y = 0, z = 0;
#ifdef MENDED
    __shared__ float4 tile[THREADS];
    for (int t = 0; t < n; t += THREADS) {
        tile[threadIdx.x] = body[t + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < THREADS; j++) {
            float4 other = tile[j];
#else
    {
        for (int j = 0; j < n; j++) {
            float4 other = body[j];
#endif
            float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-6f);
            float f = other.w * inverse * inverse * inverse;
            x += f * dx;
            y += f * dy;
            z += f * dz;
        }
#ifdef MENDED
        __syncthreads();
#endif
    }
    force[i] = make_float4(x, y, z, 0);
}

void launch(int n, const float4 *body, float4 *force)
{
    bodies<<<n / THREADS, THREADS>>>(n, body, force);
}

// Four adjacent floats of each thread in four loads and four stores.
extern "C" __global__ void quads(int n, float s, float *v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i >= n)
        return;
#ifdef MENDED
    float4 q = reinterpret_cast<float4 *>(v)[i];
    q.x *= s, q.y *= s, q.z *= s, q.w *= s;
    reinterpret_cast<float4 *>(v)[i] = q;
#else
    float a = v[4 * i], b = v[4 * i + 1], c = v[4 * i + 2], d = v[4 * i + 3];
    v[4 * i] = a * s, v[4 * i + 1] = b * s, v[4 * i + 2] = c * s, v[4 * i + 3] = d * s;
#endif
}

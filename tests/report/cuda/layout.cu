// The same three floats of a point: as an array of structures, as three arrays, as one float4.
struct Point { float x, y, z; };

extern "C" __global__ void structures(const Point* __restrict__ p, float* __restrict__ length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    length[i] = p[i].x * p[i].x + p[i].y * p[i].y + p[i].z * p[i].z;
}

extern "C" __global__ void arrays(const float* __restrict__ x, const float* __restrict__ y,
                                  const float* __restrict__ z, float* __restrict__ length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    length[i] = x[i] * x[i] + y[i] * y[i] + z[i] * z[i];
}

extern "C" __global__ void vectors(const float4* __restrict__ p, float* __restrict__ length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 q = p[i];
    length[i] = q.x * q.x + q.y * q.y + q.z * q.z;
}

extern "C" __global__ void shifted(const float* __restrict__ in, double* __restrict__ out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i + 1] + in[31 - i];
}

// Hamilton's product of quaternions: two of four floats loaded, one stored, none aligned to more
// than a float.
struct Quaternion { float w, x, y, z; };

extern "C" __global__ void quaternions(int n, const Quaternion* a, const Quaternion* b,
                                       Quaternion* out)
{
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i >= n)
        return;
    Quaternion p = a[i], q = b[i];
    out[i] = {p.w * q.w - p.x * q.x - p.y * q.y - p.z * q.z,
              p.w * q.x + p.x * q.w + p.y * q.z - p.z * q.y,
              p.w * q.y - p.x * q.z + p.y * q.w + p.z * q.x,
              p.w * q.z + p.x * q.y - p.y * q.x + p.z * q.w};
}

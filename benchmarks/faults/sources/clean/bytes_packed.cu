// Four bytes of each thread become words of its warp's rows.
// run 2 32 random:256:u8 zeros:64:u32
extern "C" __global__ void __launch_bounds__(32) bytes_packed(const unsigned char *in, unsigned *out)
{
    __shared__ __align__(4) unsigned char s[128];
    int t = threadIdx.x;
    size_t first = (size_t)blockIdx.x * 128;
    for (int k = 0; k < 4; k++)
        s[k * 32 + t] = in[first + k * 32 + t] + 1;
    __syncwarp();
    out[blockIdx.x * 32 + t] = ((unsigned *)s)[t];
}

// Pixels of four bytes in two dimensions, under a guard.
// run 2x3 16x8 30 20 random:2400:u8 zeros:2400:u8
extern "C" __global__ void __launch_bounds__(128)
picture_invert(int width, int height, const uchar4 *in, uchar4 *out)
{
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (x < width && y < height) {
        size_t i = (size_t)y * width + x;
        uchar4 v = in[i];
        out[i] = make_uchar4(255 - v.x, 255 - v.y, 255 - v.z, v.w);
    }
}

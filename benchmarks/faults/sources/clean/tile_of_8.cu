// Tiles of eight lanes that exchange through shared memory.
// run 2 64 random:128:f32 zeros:128:f32
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void __launch_bounds__(64) tile_of_8(const float *in, float *out)
{
    __shared__ float s[64];
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
    int t = threadIdx.x, rank = tile.thread_rank();
    s[t] = in[blockIdx.x * 64 + t];
    tile.sync();
    float v = s[t - rank + 7 - rank];
    tile.sync();
    s[t] = v + tile.shfl_xor(v, 1);
    tile.sync();
    out[blockIdx.x * 64 + t] = s[t ^ 2];
}

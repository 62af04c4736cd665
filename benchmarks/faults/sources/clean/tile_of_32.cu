// A sum by a tile of cooperative groups.
// run 2 64 random:128:f32 zeros:4:f32
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void __launch_bounds__(64) tile_of_32(const float *in, float *out)
{
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(cg::this_thread_block());
    int i = blockIdx.x * 64 + threadIdx.x;
    float v = cg::reduce(tile, in[i], cg::plus<float>());
    if (tile.thread_rank() == 0)
        out[i / 32] = v;
}

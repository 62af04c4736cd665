#include "cutlass/cutlass.h"
#include "cute/tensor.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
using namespace cute;
template <class Arch, class E, class Sched, class Epi, class Tile, class Cluster>
struct G {
  using LC = cutlass::layout::RowMajor;
  using Epilogue = typename cutlass::epilogue::collective::CollectiveBuilder<Arch, cutlass::arch::OpClassTensorOp, Tile, Cluster,
     cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, LC, 8, cutlass::half_t, LC, 8, Epi>::CollectiveOp;
  using Main = typename cutlass::gemm::collective::CollectiveBuilder<Arch, cutlass::arch::OpClassTensorOp, E, cutlass::layout::RowMajor, 16,
     E, cutlass::layout::ColumnMajor, 16, float, Tile, Cluster,
     cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>, Sched>::CollectiveOp;
  using Kernel = cutlass::gemm::kernel::GemmUniversal<Shape<int,int,int,int>, Main, Epilogue>;
  using Device = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;
};
#ifdef S90
using A = cutlass::arch::Sm90;
using Coop = G<A, cutlass::half_t, cutlass::gemm::KernelTmaWarpSpecializedCooperative, cutlass::epilogue::TmaWarpSpecializedCooperative, Shape<_128,_128,_64>, Shape<_1,_1,_1>>;
using Ping = G<A, cutlass::half_t, cutlass::gemm::KernelTmaWarpSpecializedPingpong, cutlass::epilogue::TmaWarpSpecialized, Shape<_64,_128,_64>, Shape<_2,_1,_1>>;
using F8 = G<A, cutlass::float_e4m3_t, cutlass::gemm::KernelTmaWarpSpecialized, cutlass::epilogue::TmaWarpSpecialized, Shape<_64,_128,_128>, Shape<_1,_1,_1>>;
template __global__ void cutlass::device_kernel<Coop::Kernel>(__grid_constant__ typename Coop::Kernel::Params const);
template __global__ void cutlass::device_kernel<Ping::Kernel>(__grid_constant__ typename Ping::Kernel::Params const);
template __global__ void cutlass::device_kernel<F8::Kernel>(__grid_constant__ typename F8::Kernel::Params const);
#else
using A = cutlass::arch::Sm100;
using One = G<A, cutlass::half_t, cutlass::gemm::KernelTmaWarpSpecialized1SmSm100, cutlass::epilogue::TmaWarpSpecialized1Sm, Shape<_128,_128,_64>, Shape<_1,_1,_1>>;
template __global__ void cutlass::device_kernel<One::Kernel>(__grid_constant__ typename One::Kernel::Params const);
#endif

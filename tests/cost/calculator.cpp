// Asks NVIDIA's occupancy calculator, which comes with the CUDA toolkit, one question a line:
// the properties of a device, then a block; see `ask` in test_occupancy.py.
#include <climits>
#include <cstdio>
#include <cstring>

#include "cuda_occupancy.h"

int main() {
  cudaOccDeviceProp device;
  cudaOccFuncAttributes kernel;
  cudaOccDeviceState state;
  unsigned long block_shared, shared, optin, reserved, dynamic;
  int threads, registers, barriers, carveout;
  device.warpSize = 32;
  device.numSms = 1;
  while (std::scanf("%d %d %d %d %d %d %lu %lu %lu %lu %d %d %lu %d %d", &device.computeMajor,
                    &device.computeMinor, &device.maxThreadsPerBlock,
                    &device.maxThreadsPerMultiprocessor, &device.regsPerBlock,
                    &device.regsPerMultiprocessor, &block_shared, &shared, &optin, &reserved,
                    &threads, &registers, &dynamic, &barriers, &carveout) == 15) {
    device.sharedMemPerBlock = block_shared;
    device.sharedMemPerMultiprocessor = shared;
    device.sharedMemPerBlockOptin = optin;
    device.reservedSharedMemPerBlock = reserved;
    kernel.maxThreadsPerBlock = INT_MAX;
    kernel.numRegs = registers;
    kernel.sharedSizeBytes = 0;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = dynamic;
    kernel.numBlockBarriers = barriers;
    kernel.virtualResourceCount = 0;
    state.cacheConfig = CACHE_PREFER_NONE;
    state.carveoutConfig = carveout;
    cudaOccResult result;
    std::memset(&result, 0, sizeof result);
    cudaOccError error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state,
                                                                 threads, dynamic);
    std::printf("%d\n", error == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -error);
  }
}

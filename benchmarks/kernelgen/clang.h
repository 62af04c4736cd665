// What clang needs of CUDA where no headers are given (-nocudainc): the keywords, the indices, and
// the two functions of the device library that sincos calls, left external.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))

struct Index {
    int x, y, z;
};
#define index(name)                                                              \
    Index { __nvvm_read_ptx_sreg_##name##_x(), __nvvm_read_ptx_sreg_##name##_y(), \
            __nvvm_read_ptx_sreg_##name##_z() }
#define threadIdx (index(tid))
#define blockIdx (index(ctaid))
#define blockDim (index(ntid))
#define gridDim (index(nctaid))

extern "C" __device__ float sinf(float);
extern "C" __device__ float cosf(float);
extern "C" __device__ double sin(double);
extern "C" __device__ double cos(double);

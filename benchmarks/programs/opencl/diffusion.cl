// Seven points in space. An index of OpenCL has 64 bits.

inline size_t get_global_id(uint dimension)
{
    switch (dimension) {
    case 0:
        return (size_t)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x()
            + __nvvm_read_ptx_sreg_tid_x();
    case 1:
        return (size_t)__nvvm_read_ptx_sreg_ctaid_y() * __nvvm_read_ptx_sreg_ntid_y()
            + __nvvm_read_ptx_sreg_tid_y();
    default:
        return (size_t)__nvvm_read_ptx_sreg_ctaid_z() * __nvvm_read_ptx_sreg_ntid_z()
            + __nvvm_read_ptx_sreg_tid_z();
    }
}

#define AT(x, y, z) ((((z) * height) + (y)) * width + (x))

kernel void diffusion(ulong width, ulong height, ulong depth, global const float *in,
                      global float *out)
{
    size_t x = get_global_id(0) + 1, y = get_global_id(1) + 1, z = get_global_id(2) + 1;
    if (x < width - 1 && y < height - 1 && z < depth - 1) {
        float around = in[AT(x - 1, y, z)] + in[AT(x + 1, y, z)];
        around += in[AT(x, y - 1, z)] + in[AT(x, y + 1, z)];
        around += in[AT(x, y, z - 1)] + in[AT(x, y, z + 1)];
        out[AT(x, y, z)] = in[AT(x, y, z)] * 0.25f + around * 0.125f;
    }
}

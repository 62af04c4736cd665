"""The names that PTX itself declares: special registers (chapter 10 of the manual)."""

from __future__ import annotations

from ptxsw.ptx.operand_shapes import VECTOR_SPECIALS

_SCALARS = """
    laneid warpid nwarpid smid nsmid gridid is_explicit_cluster cluster_ctarank cluster_nctarank
    lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi clock64
    globaltimer globaltimer_lo globaltimer_hi total_smem_size aggr_smem_size dynamic_smem_size
    current_graph_exec reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap
    reserved_smem_offset_0 reserved_smem_offset_1
"""

SPECIAL_REGISTERS = frozenset({
    *VECTOR_SPECIALS, *(f"%{name}" for name in _SCALARS.split()),
    *(f"%envreg{number}" for number in range(32)),
    *(f"%pm{number}{wide}" for number in range(8) for wide in ("", "_64")),
})  # fmt: skip
"""Their names, those of vectors without `.x`."""

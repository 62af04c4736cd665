"""Special registers: their variance and the bits that may be set.

PTX manual, chapter 10, and the limits of CUDA's compute capabilities. What is not here may
change from read to read.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxsw.terms.node import Variance

_U, _R, _L = Variance.UNIFORM, Variance.ROW, Variance.LANE
SPECIALS: Mapping[str, tuple[Variance, int]] = {
    "%tid.x": (_L, 0x3FF), "%tid.y": (_R, 0x3FF), "%tid.z": (_R, 0x3F),
    "%ntid.x": (_U, 0x7FF), "%ntid.y": (_U, 0x7FF), "%ntid.z": (_U, 0x7F),
    "%ctaid.x": (_U, 0x7FFFFFFF), "%ctaid.y": (_U, 0xFFFF), "%ctaid.z": (_U, 0xFFFF),
    "%nctaid.x": (_U, 0x7FFFFFFF), "%nctaid.y": (_U, 0xFFFF), "%nctaid.z": (_U, 0xFFFF),
    "%laneid": (_L, 0x1F),
    "%clusterid.x": (_U, 0x7FFFFFFF), "%clusterid.y": (_U, 0xFFFF), "%clusterid.z": (_U, 0xFFFF),
    "%nclusterid.x": (_U, 0x7FFFFFFF), "%nclusterid.y": (_U, 0xFFFF),
    "%nclusterid.z": (_U, 0xFFFF),
    "%cluster_ctaid.x": (_U, 0x1F), "%cluster_ctaid.y": (_U, 0x1F),
    "%cluster_ctaid.z": (_U, 0x1F), "%cluster_ctarank": (_U, 0x1F),
    "%cluster_nctaid.x": (_U, 0x1F), "%cluster_nctaid.y": (_U, 0x1F),
    "%cluster_nctaid.z": (_U, 0x1F), "%cluster_nctarank": (_U, 0x1F),
    "%total_smem_size": (_U, 0x7FFFFFFF), "%dynamic_smem_size": (_U, 0x7FFFFFFF),
}  # fmt: skip

THREADS, BLOCKS = (frozenset(f"%{size}.{axis}" for axis in "xyz") for size in ("ntid", "nctaid"))
"""How many threads a block has along each axis, and how many blocks the grid."""

THREAD, BLOCK = (frozenset(f"%{place}.{axis}" for axis in "xyz") for place in ("tid", "ctaid"))
"""Where a thread lies in its block, and where that lies in the grid."""

SIZES = THREADS | BLOCKS
"""Of a block in threads, and of the grid in blocks."""

OF_LAUNCH = SIZES | {
    "%cluster_nctarank", "%total_smem_size", "%dynamic_smem_size",
    *(f"%{size}.{axis}" for size in ("nclusterid", "cluster_nctaid") for axis in "xyz"),
}  # fmt: skip
"""What all threads of a launch read alike."""

GRID = SIZES | {"%ctaid.x", "%ctaid.y", "%ctaid.z"}

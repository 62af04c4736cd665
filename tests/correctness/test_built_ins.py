"""Functions of OpenCL and of complex numbers, which compilers leave for later."""

from __future__ import annotations

import pytest

from ptxsw.correctness.built_ins import built_in
from tests.correctness.small_kernels import is_absent, kernel, proof

DECLARED = """.func (.param .b64 r) _Z13get_global_idj(.param .b32 d);
.func _Z7barrierj(.param .b32 f);
"""


def number(axis: int | str, into: str = "%d3") -> str:
    return f"""{{ .param .b32 d; st.param.b32 [d], {axis}; .param .b64 r;
        call (r), _Z13get_global_idj, (d); ld.param.b64 {into}, [r]; }}"""


def stores(index: str) -> str:
    """Each work item writes an element."""
    return kernel(f"""{index} ld.param.u64 %d1, [out]; shl.b64 %d3, %d3, 2;
        add.u64 %d1, %d1, %d3; st.global.u32 [%d1], 1; ret;""", ahead=DECLARED)  # fmt: skip


def test_work_items_have_different_numbers() -> None:
    found = proof("data_race", stores(number(0)))
    assert found is not None and is_absent(found)


def test_the_number_of_a_dimension_that_is_computed_is_not_known() -> None:
    found = proof("data_race", stores("mov.u32 %r1, %tid.x;" + number("%r1")))
    assert found is not None and found.unknown.endswith("_Z13get_global_idj, which is not followed")


def test_a_barrier_of_a_work_group_is_one_of_the_block() -> None:
    text = """st.shared.u32 [s], 1; { .param .b32 f; st.param.b32 [f], 1; call _Z7barrierj, (f); }
        ld.shared.u32 %r2, [s]; ret;"""
    found = proof("divergent_barrier", kernel(text, ahead=f"{DECLARED}.shared .b32 s;\n"))
    assert found is not None and is_absent(found)


def test_a_complex_result_is_any_two_numbers() -> None:
    text = """mov.u64 %d2, frame; cvta.local.u64 %d3, %d2; mov.f32 %f1, 0f3F800000;
        { .param .b64 p; st.param.b64 [p], %d3; .param .b32 re; st.param.f32 [re], %f1;
        .param .b32 im; st.param.f32 [im], %f1; call cexpf, (p, re, im); }
        ld.u32 %r2, [%d3+4]; st.shared.u32 [s], %r2; ret;"""
    declared = """.extern .func cexpf(.param .b64 p, .param .f32 a, .param .f32 b);
.shared .b32 s;
"""
    found = proof("undefined_value", kernel(f".local .b8 frame[8]; {text}", ahead=declared))
    assert found is not None and is_absent(found)


KNOWN = {
    "_Z13get_global_idj": (0,), "_Z12get_group_idj": (2,), "_Z14get_local_sizej": (1,),
    "_Z15get_global_sizej": (0,), "_Z17get_global_offsetj": (0,), "_Z18work_group_barrierj": (3,),
    "_Z10atomic_incPU3AS1Vi": (None,), "_Z10atomic_subPU3AS3Vjj": (None, None),
    "_Z14atomic_cmpxchgPU3AS1Viii": (None,) * 3, "_Z8atom_addPU3AS1Vxx": (None, None),
    "_Z10vload_halfjPU3AS1KDh": (None, None), "_Z11vstore_halffmPDh": (None,) * 3,
    "cexpf": (None,) * 3, "__muldc3": (None,) * 5,
}  # fmt: skip


@pytest.mark.parametrize("size", [32, 64])
@pytest.mark.parametrize("name", KNOWN)
def test_each_has_a_body_that_parses(name: str, size: int) -> None:
    function = built_in(name, KNOWN[name], size)
    assert function is not None and function.name == name
    assert function.body.instructions[-1].opcode == "ret"
    assert len(function.params) == len(KNOWN[name])


@pytest.mark.parametrize(
    ("name", "given"),
    [("_Z13get_global_idj", (None,)), ("_Z13get_global_idj", (3,)), ("_Z3foov", ()), ("f", ())],
)
def test_others_are_not_known(name: str, given: tuple[int | None, ...]) -> None:
    assert built_in(name, given, 64) is None

"""C++ names: what is shown for a mangled one, and by which names a kernel can be asked for."""

from __future__ import annotations

import pytest

from ptxsw.ptx import cxx_names as names

# Mangled by nvcc 13.0; what they are is what the sources say.
NAMES = {
    "_ZN3app6jacobiIfLi4EEEvPKT_PS1_NS_4GridE": "app::jacobi<float, 4>",
    "_ZN3app6jacobiIdLin1EEEvPKT_PS1_NS_4GridE": "app::jacobi<double, -1>",
    "_ZN3app4eachIZ4mainEUliE_EEvT_Pf": "app::each<main::{lambda(int)#1}>",
    "_ZN40_GLOBAL__N__61e4b33d_8_names_cu_200829206hiddenEPf": "(anonymous namespace)::hidden",
    "_Z4manyILb1EJifPKcEEvPfDpT0_": "many<true, int, float, char const*>",
    "_Z4manyILb0EJEEvPfDpT0_": "many<false>",
    "_Z5plainPdyPKPKi4dim36float4": "plain",
    "_Z2stPf": "st",
    "_ZN13numba_kernels4axpyB2v1B3cw5E5ArrayIdLi1EE": "numba_kernels::axpy",
}


@pytest.fixture(autouse=True)
def _library() -> None:
    if names._demangler() is None:
        pytest.skip("no C++ run-time library")


@pytest.mark.parametrize(("mangled", "shown"), NAMES.items())
def test_readable(mangled: str, shown: str) -> None:
    assert names.readable(mangled) == shown
    assert names.matches(mangled, mangled) and names.matches(mangled, shown)
    assert names.matches(mangled, names.demangled(mangled))
    assert not names.matches(mangled, shown[:-1])


@pytest.mark.parametrize("name", ["jacobi", "_Z", "_Zjacobi", "_ZN3app6jaco", "Z4many", ""])
def test_what_is_not_mangled_stays(name: str) -> None:
    assert names.readable(name) is None and names.demangled(name) == name
    assert names.matches(name, name) and not names.matches(name, "other")


def test_short_names_mean_all_their_kernels() -> None:
    mangled = "_ZN3app6jacobiIfLi4EEEvPKT_PS1_NS_4GridE"
    for wanted in (
        "jacobi", "app::jacobi", "jacobi<float,4>", "app::jacobi<float,4>",
        "void app::jacobi<float, 4>",
    ):  # fmt: skip
        assert names.matches(mangled, wanted)
    for wanted in ("app", "jacobi<double, -1>", "acobi", "jacobi<float>"):
        assert not names.matches(mangled, wanted)


def test_without_the_library_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    names.demangled.cache_clear()
    monkeypatch.setattr(names, "_demangler", lambda: None)
    assert names.readable("_Z2stPf") is None
    assert names.matches("_Z2stPf", "_Z2stPf") and not names.matches("_Z2stPf", "st")
    names.demangled.cache_clear()

"""PTX that never meets a ptxas: rewritten in the process that makes it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ptxsw.driver.pipeline import Options
from ptxsw.integrations import rewrite

KERNELS = Path(__file__).parents[2] / "benchmarks" / "kernelgen" / "ptx"
FORCE = Options(mode="force")


def test_rewrite() -> None:
    text = (KERNELS / "jacobi.ptx").read_text()
    assert rewrite(text, FORCE).count("shfl.sync") == 6
    assert rewrite(text) == text


def test_what_is_no_ptx_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="ptxsw"):
        assert rewrite("this is no PTX {") == "this is no PTX {"
    assert "PTX left unchanged" in caplog.text


# ---------------------------------------------------------------- Triton


@pytest.fixture
def triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    triton = pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    yield triton
    from ptxsw.integrations import triton as ours

    ours.uninstall()


def test_triton_hook(triton: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from ptxsw.integrations import triton as ours

    seen = []
    before = []

    def mark(ptx: str, options: Options | None) -> str:
        seen.append(options)
        return ptx + "// x"

    monkeypatch.setattr(ours, "rewrite", mark)

    def other(*arguments: Any) -> Any:
        before.append(arguments)
        return None if arguments else ("other", "hash")

    triton.knobs.runtime.add_stages_inspection_hook = other
    ours.install(FORCE)
    hook = triton.knobs.runtime.add_stages_inspection_hook
    key, digest = hook()
    assert "ptxsw" in key and key.endswith("other") and len(digest) == 64
    stages = {"ptx": lambda source, metadata: source + "ptx"}
    hook("backend", stages, "options", "language", 80)
    assert stages["ptx"]("a", {}) == "aptx// x" and seen == [FORCE] and len(before) == 2
    ours.uninstall()
    assert triton.knobs.runtime.add_stages_inspection_hook is other
    triton.knobs.runtime.add_stages_inspection_hook = None


@pytest.mark.parametrize("arch", [80, 90])
def test_triton_compiles(triton: Any, arch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel compiled for a machine that is not here, with and without the hook."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from ptxsw.integrations import triton as ours
    from tests.integrations.triton_kernels import add

    signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "block": "constexpr"}
    source = ASTSource(fn=add, signature=signature, constexprs={"block": 128})
    target = GPUTarget("cuda", arch, 32)
    plain = triton.compile(source, target=target)
    calls = []

    def spy(ptx: str, options: Options | None) -> str:
        calls.append(ptx)
        return rewrite(ptx, options)

    monkeypatch.setattr(ours, "rewrite", spy)
    ours.install(FORCE)
    hooked = triton.compile(source, target=target)
    assert len(calls) == 1 and calls[0] == plain.asm["ptx"]
    assert hooked.asm["cubin"].startswith(b"\x7fELF")


# ---------------------------------------------------------------- Numba


def test_numba_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    cuda = pytest.importorskip("numba.cuda")
    from ptxsw.integrations import numba as ours

    def blur(source, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if 0 < i < source.size - 1:
            out[i] = source[i - 1] + source[i] + source[i + 1]

    def compiled() -> str:
        from numba import float32

        kind = float32[::1]
        try:
            ptx, _ = cuda.compile_ptx(blur, (kind, kind), cc=(8, 0))
        except Exception as error:  # no libNVVM on this machine
            pytest.skip(f"Numba cannot compile: {error}")
        return str(ptx)

    monkeypatch.setattr(ours, "rewrite", lambda ptx, options: rewrite(ptx, options) + "// seen")
    plain = compiled()
    ours.install(FORCE)
    try:
        hooked = compiled()
    finally:
        ours.uninstall()
    assert ".entry" in plain and "// seen" not in plain + compiled()
    assert hooked.endswith("// seen")
    shuffles = rewrite(plain, FORCE).count("shfl.sync")
    assert shuffles > 0 and hooked.count("shfl.sync") == shuffles


# ---------------------------------------------------------------- NVRTC

SOURCE = b"""
extern "C" __global__ void blur(int n, const float *__restrict__ a, float *__restrict__ out)
{
    for (int i = threadIdx.x + 1; i < n - 1; i += blockDim.x)
        out[i] = a[i - 1] + a[i] + a[i + 1];
}
"""


def test_nvrtc() -> None:
    """What NVRTC makes is rewritten, and ptxas takes it."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    from ptxsw.toolchain import ptxas

    try:
        error, program = nvrtc.nvrtcCreateProgram(SOURCE, b"blur.cu", 0, [], [])
    except RuntimeError:
        pytest.skip("no libnvrtc")
    option = b"--gpu-architecture=compute_80"
    if error or nvrtc.nvrtcCompileProgram(program, 1, [option])[0]:
        pytest.skip("NVRTC does not work here")
    size = nvrtc.nvrtcGetPTXSize(program)[1]
    data = b" " * size
    nvrtc.nvrtcGetPTX(program, data)
    text = data.rstrip(b"\0").decode()
    rewritten = rewrite(text, FORCE)
    assert rewritten.count("shfl.sync") == 2
    try:
        ptxas.assemble(text, "sm_80")
    except (ptxas.NoPtxas, ptxas.AssemblyError) as reason:
        pytest.skip(f"no ptxas for it: {reason}")
    assert ptxas.assemble(rewritten, "sm_80").cubin

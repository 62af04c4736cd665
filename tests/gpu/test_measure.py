"""Measuring on a device that a test stands in for: bits, medians, noise, the parameter block."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from ptxsw.driver import pipeline
from ptxsw.gpu.driver import GpuError, LoadedKernel
from ptxsw.gpu.measure import ORIGINAL, Effort, Measured, Unfit, Variant, measure
from ptxsw.gpu.problem import DeviceArray, PreparedLaunch, Stage, Structure, from_launch
from ptxsw.gpu.results import LEAST_GAIN, choose, tuned
from ptxsw.parser import parse
from ptxsw.toolchain.tuned import KEEP
from ptxsw.verify.launches import from_json
from tests.gpu.fake import APART, DEVICE, FIRST, FakeDriver, drifting, unpack

PTX = Path(__file__).parents[2] / "benchmarks" / "kernelgen" / "ptx"
TEXT = (PTX / "laplacian.ptx").read_text()
FUNCTION = parse(TEXT).functions[0]
SIZES = (67, 5, 4)


def problem(block: int = 64) -> PreparedLaunch:
    random = np.random.default_rng(3)
    source = random.random(SIZES[::-1], np.float32)
    return PreparedLaunch(
        (4, 3, 1), (block, 1, 1),
        (*SIZES, 0.5, 0.1, DeviceArray(source), DeviceArray(np.zeros_like(source))),
    )  # fmt: skip


@pytest.fixture(scope="module")
def variants() -> list[Variant]:
    options = pipeline.Options(mode="force", scheme="paper", form="keep")
    return [
        Variant(ORIGINAL, "", TEXT),
        Variant("paper", "keep", pipeline.optimize(TEXT, options).text),
    ]


def test_equal_and_timed(variants: list[Variant]) -> None:
    driver = FakeDriver(cost=lambda text: 2e-5 if "shfl" in text else 3e-5)
    original, rewritten = measure(driver, FUNCTION, variants, problem())
    assert (original.scheme, original.seconds, original.speedup) == (ORIGINAL, 3e-5, 1.0)
    assert (rewritten.name, rewritten.block) == ("paper keep", (64, 1, 1))
    assert rewritten.seconds == pytest.approx(2e-5)
    assert rewritten.speedup == pytest.approx(1.5)
    assert (rewritten.noise, rewritten.wrong, rewritten.registers) == (0, None, 32)
    assert driver.loaded == ["sm_80", "sm_80"]
    assert not driver.memory  # all given back
    grid, block, arguments = driver.launches[0]
    assert (grid, block) == ((4, 3, 1), (64, 1, 1))
    assert unpack(FUNCTION, arguments)[:4] == [*SIZES, 0.5]


def test_the_device_ran_the_problem() -> None:
    """Not only are the buffers compared: they hold what numpy computes."""
    driver, given = FakeDriver(), problem()
    with Stage(driver, FUNCTION, given) as stage:
        _, found = stage.results(driver.load(TEXT, "laplacian", "sm_80"))
        u = given.values[5].array  # type: ignore[union-attr]
        inner = found.view(np.float32).reshape(u.shape)[1:-1, 1:-1, 1:-1]
        faces = u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2]
        faces = faces + u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
        faces = faces + u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1]
        expected = np.float32(0.5) * u[1:-1, 1:-1, 1:-1] + np.float32(0.1) * faces
        np.testing.assert_allclose(inner, expected, rtol=1e-5)


def test_one_bit_is_told(variants: list[Variant]) -> None:
    def spoil(text: str, memory: dict[int, np.ndarray]) -> None:
        if "shfl" in text:
            list(memory.values())[3][402] ^= 1  # the working copy of the second buffer

    original, rewritten = measure(FakeDriver(change=spoil), FUNCTION, variants, problem())
    assert rewritten.wrong is not None
    assert "buffer 1: 1 of 5360 bytes differ, the first at 402" in rewritten.wrong
    assert rewritten.seconds is rewritten.speedup is rewritten.noise is None
    assert original.wrong is None and original.seconds is not None
    assert choose([original, rewritten]).why == "no variant gives the original's results"


def test_a_wrong_shuffle_is_told(variants: list[Variant]) -> None:
    upside_down = Variant("mine", "keep", variants[1].text.replace(".sync.down", ".sync.up"))
    _, rewritten = measure(FakeDriver(), FUNCTION, [variants[0], upside_down], problem())
    assert rewritten.wrong is not None and rewritten.wrong.startswith("buffer 1: ")


def test_an_unsteady_original_proves_nothing(variants: list[Variant]) -> None:
    count = iter(range(100))

    def race(text: str, memory: dict[int, np.ndarray]) -> None:
        list(memory.values())[3][0] = next(count)

    _, rewritten = measure(FakeDriver(change=race), FUNCTION, variants, problem())
    assert rewritten.wrong is not None
    assert rewritten.wrong.startswith("the original's own results vary from run to run")


def test_median_and_noise(variants: list[Variant]) -> None:
    """Five samples in each series after one to warm up; outliers do not count, drift shows."""
    quiet, loud = [1.0, 1.0, 1.0, 9.0, 1.0], [1.2, 1.2, 0.1, 1.2, 1.2]
    samples = iter([5.0, *quiet, 5.0, *loud])
    driver = FakeDriver(cost=lambda text: 1e-2, noise=samples)
    (only,) = measure(
        driver, FUNCTION, variants[:1], problem(), effort=Effort(warm_up=1, samples=5)
    )
    assert only.noise == pytest.approx(0.2)
    assert only.seconds == pytest.approx(1.1e-2)


def test_series_are_apart_in_time(variants: list[Variant]) -> None:
    """With a clock that slows down steadily every kernel shows noise, and none a speed-up beyond
    it: the kernels take turns."""
    driver = FakeDriver(cost=lambda text: 1e-2, noise=drifting(0.001))
    rows = measure(driver, FUNCTION, variants, problem(), effort=Effort(2, 10))
    noise = [row.noise for row in rows if row.noise is not None]
    assert all(0.02 < each < 0.03 for each in noise)
    assert rows[1].speedup is not None and abs(rows[1].speedup - 1) < min(noise)
    assert choose(rows).scheme == KEEP


def test_a_cached_problem_is_evicted(variants: list[Variant]) -> None:

    small, large = FakeDriver(), FakeDriver(device=replace(DEVICE, l2=1 << 10))
    for driver in (small, large):
        measure(driver, FUNCTION, variants[:1], problem(), effort=Effort(1, 5))
    assert small.copied - large.copied == 10  # one for each sample


def test_blocks_a_variant_is_too_large_for(variants: list[Variant]) -> None:
    driver = FakeDriver(threads=lambda text: 32 if "shfl" in text else 1024)
    _, rewritten = measure(driver, FUNCTION, variants, problem())
    assert rewritten.wrong == "it needs too many registers for 64 threads a block"
    driver = FakeDriver(threads=lambda text: 32)
    with pytest.raises(Unfit):
        measure(driver, FUNCTION, variants, problem())
    assert not driver.memory


def test_a_kernel_that_fails(variants: list[Variant]) -> None:
    given = problem()
    outside = PreparedLaunch(given.grid, given.block, (999, *given.values[1:]))
    with pytest.raises(GpuError, match="running a kernel"):
        measure(FakeDriver(), FUNCTION, variants, outside)


def test_a_variant_that_fails_is_named(variants: list[Variant]) -> None:
    """On a device that is unusable from then on, so that not even memory can be given back."""
    driver = FakeDriver()

    def fail(text: str, memory: object) -> None:
        if "shfl" in text:
            driver.broken = True
            raise GpuError("an illegal memory access was encountered")

    driver.change = fail
    with pytest.raises(GpuError, match=r"^laplacian as paper keep: an illegal memory access"):
        measure(driver, FUNCTION, variants, problem())


def test_arguments_have_to_fit() -> None:
    given = problem()
    for values, message in (
        (given.values[:-1], "has 7 parameters, the launch gives 6"),
        ((given.values[5], *given.values[1:]), "a buffer is given for a parameter of type u32"),
        ((1.5, *given.values[1:]), "1.5 is given for a parameter of type u32"),
    ):
        driver = FakeDriver()
        with pytest.raises(ValueError, match=message):
            Stage(driver, FUNCTION, PreparedLaunch(given.grid, given.block, values))
        assert not driver.memory


STRUCTURE = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u8 a, .param .f64 b, .param .align 8 .b8 s[16], .param .u16 c)
{ ret; }
"""


def test_the_parameter_block() -> None:
    function = parse(STRUCTURE).functions[0]
    array = np.arange(8, dtype=np.float32)
    values = (7, 2.5, Structure(((0, "u64", DeviceArray(array, 8)), (12, "s32", -2))), 9)
    driver = FakeDriver()
    with Stage(driver, function, PreparedLaunch((1, 1, 1), (1, 1, 1), values)) as stage:
        stage.results(driver.load(STRUCTURE, "k", "sm_80"))
    block = driver.launches[0][2]
    assert block[:16] == bytes([7, *[0] * 7]) + np.float64(2.5).tobytes()
    working = FIRST + APART
    assert block[16:24] == (working + 8).to_bytes(8, "little")
    assert block[24:] == bytes(4) + (-2 % 2**32).to_bytes(4, "little") + bytes([9, 0])


def test_launches_of_verify() -> None:
    (launch,) = from_json(
        '{"grid": 2, "block": [32], "args": [3, "iota:64:f32+8", {"0:u64": "zeros:4:f64"}]}'
    )
    made = from_launch(launch)
    assert (made.grid, made.block, made.bytes) == ((2, 1, 1), (32, 1, 1), 64 * 4 + 32)
    assert made.values[1].before == 32  # type: ignore[union-attr]
    for extra in ('"only": [0, 1]', '"memory": {"0x1000": "zeros:4:f32"}'):
        (launch,) = from_json('{"grid": 1, "block": 1, "args": [], ' + extra + "}")
        with pytest.raises(ValueError, match="on a GPU"):
            from_launch(launch)


def row(
    scheme: str, speedup: float | None, noise: float = 0.0, wrong: str | None = None
) -> Measured:
    return Measured(
        "k", scheme, "keep" if scheme != ORIGINAL else "", (1, 1, 1), (32, 1, 1),
        None if speedup is None else 1e-3 / speedup, noise, speedup, wrong=wrong,
    )  # fmt: skip


def test_bounds_are_timed_and_never_chosen(variants: list[Variant]) -> None:
    """Their results are wrong, and as fast as may be."""
    nonsense = variants[1].text.replace("shfl.sync.down", "shfl.sync.up")
    made = [variants[0], Variant("noload", "", nonsense, bound=True)]
    driver = FakeDriver(cost=lambda text: 1e-6 if "shfl" in text else 1e-3)
    rows = measure(driver, FUNCTION, made, problem())
    assert rows[1].wrong is None and rows[1].speedup == pytest.approx(1000)
    choice = choose(rows)
    assert choice.scheme == KEEP
    assert [t.scheme for t in tuned(rows, choice, DEVICE, "k").timings] == [ORIGINAL]


@pytest.mark.parametrize(
    ("rows", "scheme", "why"),
    [
        ([row("a", 1.5), row("b", 1.2)], "a", "1.500 times as fast"),
        ([row("a", 1.5), row("a", 0.9), row("b", 1.2), row("b", 1.1)], "b", "1.149 times"),
        ([row("a", 1.5), row("a", 0.9)], KEEP, "1.162 times as fast on average, but slower"),
        ([row("a", 0.5), row("b", 0.8)], KEEP, "the best, b keep, takes 1.250 times as long"),
        ([row("a", 1.1, noise=0.12)], KEEP, "1.100 times as fast, and it takes more than 1.120"),
        ([row("a", 1 + LEAST_GAIN / 2)], KEEP, "it takes more than 1.020"),
        ([row("a", None, wrong="differs"), row("b", 1.3)], "b", "1.300"),
        ([row("a", 2.0), row("a", None, wrong="differs")], KEEP, "no variant gives"),
        ([], KEEP, "no scheme changes it"),
    ],
)
def test_choice(rows: list[Measured], scheme: str, why: str) -> None:
    choice = choose([row(ORIGINAL, 1.0), *rows])
    assert choice.scheme == scheme
    assert why in choice.why
    assert (choice.speedup == 1.0) == (scheme == KEEP)
    stored = tuned([row(ORIGINAL, 1.0), *rows], choice, DEVICE, "k")
    assert (stored.scheme, stored.device, stored.driver) == (scheme, "Imaginary 1", "580.1")
    assert [t.equal for t in stored.timings[1:]] == [r.wrong is None for r in rows]
    assert json.dumps(stored.timings[0].seconds) == "0.001"


def test_fresh_samples(variants: list[Variant]) -> None:
    """Each is one launch, on what the buffers held at first."""
    driver = FakeDriver(cost=lambda text: 1e-6, noise=iter([1.0] * 4 + [1.0, 3.0, 2.0] * 4))
    effort = Effort(warm_up=1, samples=3, fresh=True)
    rows = measure(driver, FUNCTION, variants, problem(), effort=effort)
    assert all(row.quartiles is not None and row.seconds is not None for row in rows)
    low, high = rows[0].quartiles or (0.0, 0.0)
    assert low <= (rows[0].seconds or 0.0) <= high
    buffers, turns, kernels = len(problem().buffers), 2, len(variants)
    before = buffers * (kernels + 1 + turns * kernels)  # for results, and each series
    assert driver.copied == before + turns * kernels * 3 * (buffers + 1)


def test_machine_code_made_beforehand(variants: list[Variant]) -> None:
    class Recorder(FakeDriver):
        def load(
            self, text: str, kernel: str, arch: str, cubin: bytes | None = None
        ) -> LoadedKernel:
            self.codes = [*getattr(self, "codes", []), cubin]
            return super().load(text, kernel, arch, cubin)

    driver = Recorder()
    given = [replace(each, cubin=each.name.encode()) for each in variants]
    measure(driver, FUNCTION, given, problem(), effort=Effort(1, 1))
    assert driver.codes == [b"original", b"paper keep"]

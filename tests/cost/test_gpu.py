"""The files that describe GPUs, and what is said of wrong ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ptxsw.cost import gpu as module
from ptxsw.cost.account import Account, Interval, exactly
from ptxsw.cost.estimate import estimate
from ptxsw.cost.gpu import BadGpu, Figure, Gpu, UnknownGpu, find, gpus, of_target, read
from ptxsw.cost.occupancy import limits

HOME = Path(module.__file__).with_name("gpus")
NAMES = sorted(path.stem for path in HOME.glob("*.toml"))
TEXT = (HOME / "v100.toml").read_text()


def test_the_gpus_that_are_described() -> None:
    assert NAMES == [
        "a100", "b200", "gb300", "h100", "h200", "k40", "l4", "l40s", "p100", "rtx-3090",
        "rtx-4090", "rtx-5090", "t4", "titan-x", "v100",
    ]  # fmt: skip
    assert sorted(gpus()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_number_has_a_source_and_a_sensible_size(name: str) -> None:
    gpu = find(name)
    figures = [getattr(gpu, field) for field in gpu.__struct_fields__]
    assert all(f.source for f in figures if isinstance(f, Figure))
    figures += [figure for own in gpu.deviations.values() for figure in own.values()]
    figures += gpu.tensor.values()
    named = {n for f in figures if isinstance(f, Figure) for n in f.source}
    assert named == set(range(1, len(gpu.sources) + 1)), "a source that no number has"
    assert gpu.of("dram_copy").high <= gpu.of("dram_peak").high
    latencies = [gpu.of(f"{level}_latency") for level in ("alu", "l1", "l2", "dram")]
    assert all(a.low < b.low and a.high < b.high for a, b in pairwise(latencies))
    assert limits(gpu.arch).warps >= 32


UNREAD = "could not be read"
ONLY_UNREAD = {
    "b200": {"sm_110 fp64"},
    "h100": {"tensor mma_share"},
    "h200": {"tensor mma_share"},
    "k40": {"alu_latency", "fp64_latency", "l2_latency", "shared_latency"},
    "rtx-3090": {"dram_peak", "fp64_latency"},
    **{name: {"fp64_latency"} for name in ("l4", "l40s", "rtx-4090", "rtx-5090")},
    "t4": {"fp64_latency", "tensor i8", "tensor i4"},
    "titan-x": {"fp64_latency", "l1_latency", "shared_latency"},
}
"""Numbers of which no source could be read when all were checked: the files say so."""


@pytest.mark.parametrize("name", NAMES)
def test_numbers_whose_sources_could_not_be_read_are_few_and_named(name: str) -> None:
    gpu = find(name)
    figures = [(field, getattr(gpu, field)) for field in gpu.__struct_fields__]
    figures += [(f"{a} {k}", f) for a, own in gpu.deviations.items() for k, f in own.items()]
    figures += [(f"tensor {kind}", figure) for kind, figure in gpu.tensor.items()]
    assert ONLY_UNREAD.get(name, set()) == {
        field
        for field, figure in figures
        if isinstance(figure, Figure) and all(UNREAD in gpu.sources[n - 1] for n in figure.source)
    }


@pytest.mark.parametrize("given", ["rtx-4090", "RTX 4090", "GeForce RTX 4090", "rtx4090"])
def test_a_gpu_has_several_names(given: str) -> None:
    assert find(given).name == "GeForce RTX 4090"


def test_a_gpu_stands_for_its_architecture() -> None:
    assert of_target("sm_90a").name == "H100-SXM5-80GB"
    assert of_target("sm_35").name == "Tesla K40"


def test_no_architecture_has_two_gpus() -> None:
    named = [arch for gpu in gpus().values() for arch in gpu.architectures]
    assert len(named) == len(set(named))
    assert {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"} <= set(named)


def test_an_architecture_has_numbers_of_its_own() -> None:
    """A P100 stands for sm_61, whose multiprocessors have twice the cores and 4 for doubles."""
    other = of_target("sm_61")
    assert (other.arch, other.of("fma").low, other.of("fp64").low) == ("sm_61", 128, 4)
    assert find("p100").of("fma").low == 64


@pytest.mark.parametrize("name", NAMES)
def test_pipes_that_are_not_described_are_not_slower_than_issue(name: str) -> None:
    gpu = find(name)
    assert gpu.lanes("unknown") == gpu.of("issue") * 32
    assert all(gpu.lanes(p).high <= gpu.of("issue").high * 32 for p in ("fma", "alu", "lsu"))


def test_gpus_that_are_not_there() -> None:
    with pytest.raises(UnknownGpu) as error:
        find("voodoo")
    assert str(error.value) == f"unknown GPU 'voodoo'; known: {', '.join(NAMES)}"
    with pytest.raises(UnknownGpu, match="no known GPU of sm_20; known: sm_30, sm_35, "):
        of_target("sm_20")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("value = 80,", "", "sms needs either value, or low and high"),
        ("value = 80", "low = 80", "sms needs both low and high"),
        ("value = 80", "value = 0", "sms must be above 0, and low no more than high"),
        ("low = 1245", "low = 1600", "clock must be above 0, and low no more than high"),
        ("value = 80", "value = 8e7", "sms is too large for its unit"),
        ("source = [1, ", "source = [99, ", "sms names no source, or one that is not in sources"),
        (
            'arch = "sm_70"',
            'arch = "volta"',
            "'volta' is not an architecture; use one such as sm_80",
        ),
        (
            'architectures = ["sm_70", "sm_72"]',
            'architectures = ["x"]',
            "'x' is not an architecture; use one such as sm_80",
        ),
        (
            "sources = [",
            "deviations.sm_99.fma = { value = 1, source = [1] }\nsources = [",
            "deviations.sm_99 is not among the architectures",
        ),
        (
            "sources = [",
            "deviations.sm_72.fmm = { value = 1, source = [1] }\nsources = [",
            "deviations.sm_72.fmm is not a number of a GPU",
        ),
        (
            "sources = [",
            "deviations.sm_72.fma = { value = 0, source = [1] }\nsources = [",
            "deviations.sm_72.fma must be above 0, and low no more than high",
        ),
        ("high = 869", "high = 901", "dram_copy is above dram_peak"),
        ("sms =", "smx =", "Object contains unknown field `smx`"),
        ("value = 80", 'value = "80"', "Expected `float | null`, got `str` - at `$.sms.value`"),
        ("sms =", "sms", "Expected '=' after a key"),
    ],
)
def test_a_wrong_file(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(BadGpu) as error:
        read(path)
    assert str(error.value).startswith(f"wrong.toml: {said}")


# ---------------------------------------------------------------- peak rates, as published

PEAKS: dict[str, dict[str, float]] = {  # tera-operations a second, dense; two for each multiply-add
    "v100": {"f16_f32": 125},
    "t4": {"f16_f16": 65, "i8": 130, "i4": 260},
    "a100": {"f16_f32": 312, "bf16": 312, "tf32": 156, "f64": 19.5, "i8": 624, "i4": 1248},
    "rtx-3090": {"f16_f16": 142, "f16_f32": 71, "tf32": 35.6, "i8": 284},
    "rtx-4090": {"f16_f16": 330.3, "f16_f32": 165.2, "f8_f16": 660.6, "f8_f32": 330.3, "i8": 660.6},
    "l4": {"f16_f32": 121, "bf16": 121, "tf32": 60, "f8_f32": 242.5, "i8": 242.5},
    "l40s": {"f16_f32": 366.4, "tf32": 183.2, "f8_f32": 732.9, "i8": 732.9, "i4": 1470},
    "rtx-5090": {"f16_f16": 419, "f16_f32": 209.5, "f8_f16": 838, "i8": 838, "f4": 1676},
    "h100": {"f16_f32": 989, "tf32": 494, "f8_f32": 1979, "i8": 1979, "f64": 67},
    "b200": {"f16_f32": 2250, "tf32": 1120, "f8_f32": 4500, "f4": 9000},
    "gb300": {"f16_f32": 2500, "tf32": 1250, "f8_f32": 5000, "f4": 15000, "i8": 165},
}
FLOATS = {"rtx-5090": 104.8, "l40s": 91.6, "l4": 30.3, "gb300": 80, "rtx-4090": 82.6}
DOUBLES = {"gb300": 1.39, "rtx-5090": 1.64, "l40s": 1.43, "l4": 0.47}


def at_peak(gpu: Gpu, rate: Interval) -> tuple[float, float]:
    """Tera-operations a second, at the lowest and at the highest clock."""
    ends = [(sms, clock) for sms in ends_of(gpu, "sms") for clock in ends_of(gpu, "clock")]
    each = [2e-6 * sms * clock * end for sms, clock in ends for end in (rate.low, rate.high)]
    return min(each), max(each)


def ends_of(gpu: Gpu, name: str) -> tuple[float, float]:
    return gpu.of(name).low, gpu.of(name).high


@pytest.mark.parametrize("name", PEAKS)
def test_rates_of_tensor_cores_give_the_published_peaks(name: str) -> None:
    gpu = find(name)
    for kind, peak in PEAKS[name].items():
        rate = gpu.tensor_rate(kind, "wgmma")
        assert rate is not None
        low, high = at_peak(gpu, rate)
        assert low * 0.98 <= peak <= high * 1.02, kind


@pytest.mark.parametrize("name", FLOATS)
def test_lanes_give_the_published_peaks(name: str) -> None:
    gpu = find(name)
    for peaks, pipe in ((FLOATS, "fma"), (DOUBLES, "fp64")):
        low, high = at_peak(gpu, gpu.of(pipe))
        assert name not in peaks or low * 0.94 <= peaks[name] <= high * 1.06


@pytest.mark.parametrize("name", ["rtx-5090", "l4", "l40s", "gb300"])
def test_a_copy_and_products_take_what_closed_forms_say(name: str) -> None:
    gpu = find(name)
    copied = estimate(gpu, Account(blocks=1e6, dram_bytes=exactly(1e12), resident=4))
    assert copied.bound == "dram"
    assert copied.time.low == pytest.approx(1e3 / gpu.of("dram_copy").high)
    rate = gpu.tensor_rate("f16_f32", "mma")
    assert rate is not None
    products = {("mma", "f16_f32"): exactly(1e15)}
    multiplied = estimate(gpu, Account(blocks=1e6, tensor=products, unmodelled=("latency",)))
    assert multiplied.bound == "tensor" and multiplied.is_open
    most = rate.high * gpu.of("sms").high * gpu.of("clock").high * 1e6
    assert multiplied.time.low == pytest.approx(1e15 / most)


def test_what_has_no_rate_is_named() -> None:
    gpu = find("gb300")
    work = Account(tensor={("mma", "f64"): exactly(1e6)})
    assert estimate(gpu, work).unmodelled == ("f64 in mma on GB300",)

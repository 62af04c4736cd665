"""The files that describe GPUs, and what is said of wrong ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ptxsw.cost import gpu as module
from ptxsw.cost.gpu import BadGpu, Figure, UnknownGpu, find, gpus, of_target, read
from ptxsw.cost.occupancy import limits

HOME = Path(module.__file__).with_name("gpus")
NAMES = sorted(path.stem for path in HOME.glob("*.toml"))
TEXT = (HOME / "v100.toml").read_text()


def test_the_gpus_that_are_described() -> None:
    assert NAMES == [
        "a100", "b200", "h100", "h200", "k40", "p100", "rtx-3090", "rtx-4090", "t4", "titan-x",
        "v100",
    ]  # fmt: skip
    assert sorted(gpus()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_number_has_a_source_and_a_sensible_size(name: str) -> None:
    gpu = find(name)
    figures = [getattr(gpu, field) for field in gpu.__struct_fields__]
    assert all(f.source for f in figures if isinstance(f, Figure))
    figures += [figure for own in gpu.deviations.values() for figure in own.values()]
    named = {n for f in figures if isinstance(f, Figure) for n in f.source}
    assert named == set(range(1, len(gpu.sources) + 1)), "a source that no number has"
    assert gpu.of("dram_copy").high <= gpu.of("dram_peak").high
    latencies = [gpu.of(f"{level}_latency") for level in ("alu", "l1", "l2", "dram")]
    assert all(a.low < b.low and a.high < b.high for a, b in pairwise(latencies))
    assert limits(gpu.arch).warps >= 32


UNREAD = "could not be read"
ONLY_UNREAD = {
    "b200": {"sm_103 fp64", "sm_110 fp64"},
    "k40": {"alu_latency", "fp64_latency", "l2_latency", "shared_latency"},
    "rtx-3090": {"dram_peak", "fp64_latency"},
    "rtx-4090": {"fp64_latency"},
    "t4": {"fp64_latency"},
    "titan-x": {"fp64_latency", "l1_latency", "shared_latency"},
}
"""Numbers of which no source could be read when all were checked: the files say so."""


@pytest.mark.parametrize("name", NAMES)
def test_numbers_whose_sources_could_not_be_read_are_few_and_named(name: str) -> None:
    gpu = find(name)
    figures = [(field, getattr(gpu, field)) for field in gpu.__struct_fields__]
    figures += [(f"{a} {k}", f) for a, own in gpu.deviations.items() for k, f in own.items()]
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
    assert str(error.value) == f"no GPU 'voodoo' is described; there are {', '.join(NAMES)}"
    with pytest.raises(UnknownGpu, match="no GPU of sm_20 is described; there are sm_30, sm_35, "):
        of_target("sm_20")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("value = 80,", "", "sms needs either value, or low and high"),
        ("value = 80", "low = 80", "sms needs both low and high"),
        ("value = 80", "value = 0", "sms has to be above 0, and low no more than high"),
        ("low = 1245", "low = 1600", "clock has to be above 0, and low no more than high"),
        ("value = 80", "value = 8e7", "sms is too large for its unit"),
        ("source = [1, ", "source = [99, ", "sms names no source, or one that is not in sources"),
        ('arch = "sm_70"', 'arch = "volta"', "'volta' is no architecture; write one such as sm_80"),
        (
            'architectures = ["sm_70", "sm_72"]',
            'architectures = ["x"]',
            "'x' is no architecture; write one such as sm_80",
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
            "deviations.sm_72.fma has to be above 0, and low no more than high",
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

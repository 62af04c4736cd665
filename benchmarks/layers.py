"""What each layer that answers "is it so?" is asked, how often it answers, and what that takes.

    python -m benchmarks.layers [FILE ...] [--corpus DIR] [--tests PATH ...] [--without NAME ...]

A row for each layer: how often it was asked, how often it gave an answer (a yes, a number, another
term), in how many files or tests, and its CPU time with that of the layers which it asks in turn. A
layer without an answer should leave. Without files: `benchmarks/programs` and KernelGen's
operators, and of a corpus each sixth file, all in mode force; with `--tests`, these tests of the
repository instead. `--without` takes layers away, as if they never answered. The last line has a
hash of all texts that were written, and the CPU time.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from time import process_time
from typing import Any

from msgspec import Struct

from ptxsw.driver.pipeline import Options, optimize
from ptxsw.ptx.errors import PtxError
from ptxsw.terms.node import Term
from ptxsw.terms.solver import Proved

HERE = Path(__file__).parent
LARGEST = 60_000  # bytes of a file of the corpus


def _given(result: object, _: Sequence[object]) -> bool:
    return result is not None and bool(result)


def _proved(result: object, _: Sequence[object]) -> bool:
    return isinstance(result, Proved)


def _known(result: object, _: Sequence[object]) -> bool:
    return result is not None


def _changed(result: object, args: Sequence[object]) -> bool:
    """Has a layer that gives a term given another one than it was asked about?"""
    if isinstance(result, tuple):
        return result not in args and any(term not in args for term in result)
    terms = [arg for arg in args if isinstance(arg, Term)]
    return isinstance(result, Term) and bool(terms) and result is not terms[0]


class Layer(Struct):
    """One function that answers, and its figures."""

    place: str
    """Module, and name in it."""
    answers: Callable[[object, Sequence[object]], bool] = _given
    nothing: object = False
    """What it gives where it has no answer; its first term, where that is `...`."""
    asked: int = 0
    answered: int = 0
    seconds: float = 0.0
    depth: int = 0
    files: set[str] = set()

    @property
    def name(self) -> str:
        return self.place.partition(":")[2]


LAYERS = (
    Layer("ptxsw.facts.equality:Equality.same"),
    Layer("ptxsw.facts.simplifier:Simplifier.simplified", _changed, ...),
    Layer("ptxsw.facts.simplifier:Simplifier.settled", _changed, ...),
    Layer("ptxsw.facts.equality:steady", _changed, ...),
    Layer("ptxsw.facts.equality:Equality._from_below", _known, None),
    Layer("ptxsw.facts.equality:Equality._matched"),
    Layer("ptxsw.facts.equality:Equality._lasting"),
    Layer("ptxsw.facts.equality:lifted_sum", _changed, ...),
    Layer("ptxsw.facts.equality:Equality._case_by_case"),
    Layer("ptxsw.facts.equality:Equality._unwrapped"),
    Layer("ptxsw.facts.equality:Equality._split", _given, None),
    Layer("ptxsw.facts.equality:Equality._equated"),
    Layer("ptxsw.facts.equality:Equality._in_cases"),
    Layer("ptxsw.facts.prover:Prover.unrelated"),
    Layer("ptxsw.facts.prover:Prover.same_extended"),
    Layer("ptxsw.facts.prover:Prover.written_out", _changed, ...),
    Layer("ptxsw.facts.prover:Prover.ordered"),
    Layer("ptxsw.facts.prover:Prover.proved"),
    Layer("ptxsw.facts.prover:Prover.contradictory"),
    Layer("ptxsw.facts.integer_facts:Numbers.holds"),
    Layer("ptxsw.validate.indices:Indices.same"),
    Layer("ptxsw.validate.indices:Indices.apart"),
    Layer("ptxsw.validate.indices:Indices.distance", _known, None),
    Layer("ptxsw.validate.alias_analysis:AliasAnalysis._are_apart"),
    Layer("ptxsw.validate.alias_analysis:AliasAnalysis._soon"),
    Layer("ptxsw.facts.bit_sums:BitSums.same"),
    Layer("ptxsw.facts.lane_equality:prove_disjoint", _known, None),
    Layer("ptxsw.facts.lane_equality:_pair_up", _known, None),
    Layer("ptxsw.facts.lane_equality:_parted", _known, None),
    Layer("ptxsw.facts.extensions:discharge", _known, None),
    Layer("ptxsw.facts.grid_facts:GridFacts._fitting", _known, None),
    Layer("ptxsw.facts.grid_facts:GridFacts._next", _known, None),
    Layer("ptxsw.facts.grid_facts:GridFacts._kept_apart"),
    Layer("ptxsw.terms.enumeration:Enumeration.contradict"),
    Layer("ptxsw.terms.samples:Samples.refutes", _known, None),
    Layer("ptxsw.terms.samples:Samples._repaired", _known, None),
    Layer("ptxsw.terms.solver:Solver.contradicts"),
    Layer("ptxsw.terms.solver:Solver.soon"),
    Layer("ptxsw.terms.solver:Solver.prove", _proved),
    Layer("ptxsw.terms.solver:Solver._check", _known, None),
    Layer("ptxsw.terms.solver:Solver._exact", _proved),
)


class _Meter:
    """Puts itself before the layers. `now` is the file or test that is run."""

    def __init__(self, without: Sequence[str]) -> None:
        self.now = ""
        for layer in LAYERS:
            layer.files = set()
            module, _, path = layer.place.partition(":")
            owner: Any = importlib.import_module(module)
            *outer, name = path.split(".")
            for part in outer:
                owner = getattr(owner, part)
            setattr(owner, name, self._metered(layer, getattr(owner, name), layer.name in without))

    def _metered(self, layer: Layer, ask: Callable[..., Any], absent: bool) -> Callable[..., Any]:
        def missing(*args: Any, **_: Any) -> Any:
            if layer.nothing is not ...:
                return layer.nothing
            terms = [arg for arg in args if isinstance(arg, (Term, tuple))]
            return tuple(terms) if layer.name == "steady" else terms[0]

        asked = missing if absent else ask

        @wraps(ask)
        def metered(*args: Any, **more: Any) -> Any:
            layer.asked += 1
            layer.depth += 1
            begin = process_time()
            try:
                result = asked(*args, **more)
            finally:
                layer.depth -= 1
                if not layer.depth:  # what asks itself counts once
                    layer.seconds += process_time() - begin
            if layer.answers(result, args):
                layer.answered += 1
                layer.files.add(self.now)
            return result

        return metered


def table() -> str:
    """The figures of all layers."""
    heads = f"{'layer':36} {'asked':>9} {'answered':>9} {'in':>5} {'CPU s':>8}"
    rows = (
        f"{one.name:36} {one.asked:9} {one.answered:9} {len(one.files):5} {one.seconds:8.2f}"
        for one in LAYERS
    )
    return "\n".join((heads, *rows))


def _files(corpus: Path | None) -> list[Path]:
    """The programs and operators, and each sixth file of a corpus."""
    own = [*(HERE / "programs").rglob("*.ptx"), *(HERE / "kernelgen").rglob("*.ptx")]
    others = [] if corpus is None else [*corpus.rglob("*.ptx")]
    small = (path for path in others if path.stat().st_size < LARGEST)
    sampled = (p for p in small if int(hashlib.sha256(p.name.encode()).hexdigest(), 16) % 6 == 0)
    return [*sorted(own), *sorted(sampled)]


def _optimize(meter: _Meter, files: Sequence[Path]) -> str:
    digest, begin = hashlib.sha256(), process_time()
    for path in files:
        meter.now = str(path)
        with suppress(PtxError):
            text = optimize(path.read_text(errors="surrogateescape"), Options(mode="force")).text
            digest.update(text.encode(errors="surrogateescape"))
    seconds = process_time() - begin
    return f"{len(files)} files, texts {digest.hexdigest()[:16]}, {seconds:.1f} s CPU"


def _test(meter: _Meter, paths: Sequence[str]) -> str:
    import pytest

    class Plugin:
        def pytest_runtest_setup(self, item: pytest.Item) -> None:
            meter.now = item.nodeid

    status = pytest.main(["-q", "-n", "0", *paths], [Plugin()])
    return f"tests: exit status {int(status)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--corpus", type=Path, default=os.environ.get("PTXSW_CORPUS"))
    parser.add_argument("--tests", nargs="+")
    parser.add_argument("--without", nargs="+", default=())
    args = parser.parse_args()
    meter = _Meter(args.without)
    if args.tests:
        last = _test(meter, args.tests)
    else:
        corpus = None if args.corpus is None else Path(args.corpus)
        last = _optimize(meter, args.files or _files(corpus))
    print(table(), last, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Small distances between two threads, solved stride by stride.

    -4 < 128·m·(by' - by) + 4·m·(ty' - ty) + 128·(bx' - bx) + 4·(tx' - tx) < 4

Where the rest cannot make up for one step of a stride, nobody steps along it. What is multiplied
with it is 0 then, which is an equation of its own: `32·(by' - by) + (ty' - ty) = 0`, and so is what
is left. An equation that cannot hold means that the threads do not meet. Where the atoms that turn
out to be equal are all that tells two threads apart, they are one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from math import gcd

from msgspec import Struct

from ptxsw.facts.thread_bounds import DistanceProof, ThreadBounds
from ptxsw.terms.node import Term
from ptxsw.terms.polynomial import Polynomial

_MOST_ROUNDS = 24

SameThread = Callable[[Callable[[Term], bool]], bool]
"""Are the threads one, where some values are the same in both?"""


class Equation(Struct, frozen=True):
    """`low <= value <= high`."""

    value: Polynomial
    low: int
    high: int

    @property
    def tightened(self) -> Equation | None:
        """With bounds that the value, a sum of multiples, can have; None where there are none."""
        step = gcd(*(factor for monomial, factor in self.value if monomial))
        shift = self.value.offset
        if step == 0:
            return self if self.low <= shift <= self.high else None
        least, most = -((shift - self.low) // step), (self.high - shift) // step
        if least > most:
            return None
        return Equation(self.value, shift + step * least, shift + step * most)


class AlongStride(Struct, frozen=True):
    """`stride · along + rest`."""

    stride: Polynomial
    along: Polynomial
    rest: Polynomial


class Strides:
    """Solves equations of the bytes of two threads."""

    def __init__(self, bounds: ThreadBounds, same_thread: SameThread) -> None:
        self._bounds, self._same_thread = bounds, same_thread

    def contradict(
        self, first: Equation, evidence: DistanceProof, *, promised: bool, tiled: bool = False
    ) -> bool:
        """Does an equation hold for no two different threads? `promised`: strides may be taken to
        be at least what they separate; then that is a condition. `tiled`: and a block or grid to
        be no larger than the distance of what its threads write."""
        equations, equal, pinned = [first], set[Term](), dict[Term, bool]()

        def same(atom: Term) -> bool:
            if atom in equal or self._bounds.other(atom) is atom:
                return True
            if atom not in pinned:
                pinned[atom] = self._bounds.pinned(atom, evidence)
            return pinned[atom]

        for _ in range(_MOST_ROUNDS):
            tightened = [equation.tightened for equation in equations]
            if None in tightened or any(self._fails(e, evidence) for e in tightened if e):
                return True
            if self._same_thread(same):
                return True
            equations = [e for e in tightened if e is not None and e.value.atoms]
            found = self._progress(equations, evidence, promised=False)
            if found is None and promised:
                found = self._progress(equations, evidence, promised=True)
            if found is None:
                return tiled and any(self._fails(e, evidence, promised=True) for e in equations)
            at, step = found
            held = equations[at]
            equations[at] = Equation(step.rest, held.low, held.high)
            atom = self.one_atom(step.along)
            if atom is not None:
                equal.add(atom)
            else:
                equations.append(Equation(step.along, 0, 0))
        return False

    def _fails(
        self, equation: Equation, evidence: DistanceProof, *, promised: bool = False
    ) -> bool:
        """Is the value always too large, or too small?"""
        return any(
            self._bounds.settle(excess, evidence, promised=promised)
            for excess in (
                equation.value * -1 + equation.high + 1, equation.value - equation.low + 1,
            )
        )  # fmt: skip

    def _progress(
        self, equations: list[Equation], evidence: DistanceProof, *, promised: bool
    ) -> tuple[int, AlongStride] | None:
        """A stride along which nobody steps."""
        for at, equation in enumerate(equations):
            steps = self._steps(equation.value)
            # A launch is asked for what separates most, and not for the contrary.
            for step in islice(steps, 1) if promised else steps:
                # A number times a sum of several atoms, and no more, is no news.
                news = step.rest.atoms or step.stride.atoms or self.one_atom(step.along)
                if news and self._is_still(equation, step, evidence, promised=promised):
                    return at, step
        return None

    def _is_still(
        self, equation: Equation, step: AlongStride, evidence: DistanceProof, *, promised: bool
    ) -> bool:
        """Can the rest not make up for one step?"""
        tried = evidence.copy()
        up = step.rest * -1 - step.stride + equation.high + 1
        down = step.rest - step.stride - equation.low + 1
        if not all(self._bounds.settle(one, tried, promised=promised) for one in (up, down)):
            return False
        evidence.become(tried)
        return True

    # ------------------------------------------------------------ taking a value apart

    def _steps(self, value: Polynomial) -> Iterator[AlongStride]:
        """The ways to see a stride in a value, the widest first."""
        is_own = self._bounds.is_own
        factors = {a for a in value.atoms if not is_own(a)}
        for atom in sorted(factors, key=lambda a: -a.id):
            parted = value.parted(atom)
            if parted is None or not any(map(is_own, parted[0].atoms)):
                continue
            shared = gcd(*(factor for _, factor in parted[0]))
            along = parted[0] / shared
            yield AlongStride(Polynomial.atom(atom) * shared, along, parted[1])
        yield from self.groups(value)

    def groups(self, value: Polynomial) -> list[AlongStride]:
        """A value by the factors of its atoms; empty where atoms of threads are multiplied with
        each other."""
        is_own, strides = self._bounds.is_own, dict[Polynomial, Polynomial]()
        for atom in sorted((a for a in value.atoms if is_own(a)), key=lambda a: a.id):
            parted = value.parted(atom)
            if parted is None or any(map(is_own, parted[0].atoms)):
                return []
            stride, sign = parted[0], 1
            if max(stride, key=lambda item: len(item[0]))[1] < 0:
                stride, sign = stride * -1, -1
            strides[stride] = strides.get(stride, Polynomial()) + Polynomial.atom(atom) * sign
        ordered = sorted(strides.items(), key=lambda item: _width(item[0]), reverse=True)
        return [AlongStride(s, along, value - s * along) for s, along in ordered]

    def one_atom(self, along: Polynomial) -> Term | None:
        """The atom that is the same in both threads where a sum is 0, if it is one."""
        if len(along.items) != 2:
            return None
        for (a, factor), (b, other) in (along.items, along.items[::-1]):
            if len(a) == len(b) == 1 and factor == -other and self._bounds.pairs.get(a[0]) is b[0]:
                return b[0]
        return None


def _width(stride: Polynomial) -> tuple[int, int]:
    """Products of more sizes are taken to be wider; then what is multiplied with more."""
    degree = max((len(monomial) for monomial, _ in stride), default=0)
    return degree, max((abs(f) for m, f in stride if len(m) == degree), default=0)

"""What a rewritten text claims: where each load that is not as it was gets its value from.

The lines are run lane by lane as in `ptxsw.verify.local`, and what each register is seen to hold
becomes a plan. Nothing is judged here: a claim read wrongly is one that is not legal, or that the
text does not carry out.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from ptxsw.emulator.node import Term
from ptxsw.ir import Function, Mem, Module, Reg
from ptxsw.plan import ElementSource, HoistedLoad
from ptxsw.verify.align import Aligned
from ptxsw.verify.lanes import WARP
from ptxsw.verify.segment_runner import Extra, Loaded, Mismatch, SegmentRunner


class InferredRewrite(Struct, frozen=True):
    """The registers of load `dest` hold `parts`. In some lanes a part may come from a load made
    for others: `displaced` holds pairs of a part's number and the distance in bytes from which
    lane i + delta -+ 32 has loaded it."""

    dest: int
    parts: tuple[ElementSource, ...]
    displaced: tuple[tuple[int, int], ...] = ()


class Claims(Struct, frozen=True):
    """All claims of a text, and the loads that it makes earlier."""

    rewrites: tuple[InferredRewrite, ...]
    hoists: tuple[HoistedLoad, ...]


class _Seen(Struct, frozen=True):
    """What one lane finds in a register: what `other` has there of a load, original or added."""

    what: Loaded | tuple[Extra, int]
    lane: int
    other: int


def read(first: Function, module: Module, second: Function, aligned: tuple[Aligned, ...]) -> Claims:
    """The claims of a text. Raises Wrong where they cannot be read."""
    reader = _Reader(first, module, second, aligned)
    reader.run()
    unique = {claim.dest: claim for claim in reader.claims}
    hoists = dict.fromkeys(reader.hoists)
    return Claims(tuple(unique[dest] for dest in sorted(unique)), tuple(hoists))


class _Stretch(Struct):
    """What was seen since the stretch of the original began."""

    seen: list[tuple[Aligned, list[list[_Seen]]]] = field(default_factory=list)
    extras: list[Extra] = field(default_factory=list)
    places: dict[int, Term] = field(default_factory=dict)  # addresses of the original's loads


class _Reader(SegmentRunner):
    def __init__(
        self, first: Function, module: Module, second: Function, aligned: tuple[Aligned, ...]
    ) -> None:
        super().__init__(first, module, second, aligned)
        self.claims: list[InferredRewrite] = []
        self.hoists: list[HoistedLoad] = []
        self._stretch = _Stretch()

    def added_load(self, extra: Extra) -> None:
        self._stretch.extras.append(extra)

    def passed(self, one: Aligned) -> None:
        self._stretch.places[one.index] = self.addresses[one.index]

    def discharge(self, one: Aligned, values: tuple[Term, ...]) -> None:
        self.passed(one)
        found = [
            list(self._seen(one, value, mine))
            for value, mine in zip(values, self.loaded(one.index), strict=True)
        ]
        self._stretch.seen.append((one, found))

    def _seen(self, one: Aligned, value: Term, mine: Term) -> Iterator[_Seen]:
        for lane in range(WARP):
            own = self.lanes.at(mine, lane)
            here = self.lanes.at(value, lane)
            for leaf, _ in self.cases(one.instruction, here, frozenset(), lane):
                if leaf is own or self.lanes.is_poison(leaf) or self.lanes.is_unset(leaf):
                    continue
                term, other = self.lanes.origin(leaf) or (leaf, lane)
                what = self.loads.get(term) or self.extras.get(term)
                if what is None:
                    raise Mismatch(one.instruction, "where a load gets its value from is not read")
                yield _Seen(what, lane, other)

    # ------------------------------------------------------------ the end of a stretch

    def finish(self) -> None:
        stretch, self._stretch = self._stretch, _Stretch()
        meant = dict(self._moved(stretch))
        for one, found in stretch.seen:
            claim = self._claim(one, found, meant, stretch)
            if claim is not None:
                self.claims.append(claim)

    def _moved(self, stretch: _Stretch) -> Iterator[tuple[Extra, int]]:
        """Added loads that are made by all lanes: which load of the original each of them is."""
        replaced = {one.index for one, _ in stretch.seen}
        for extra in stretch.extras:
            same = [
                index
                for index, address in stretch.places.items()
                if index >= extra.index
                and address is extra.address
                and self.instructions[index].name == extra.instruction.name
            ]
            if extra.guard is not self.machine.true or not same:
                continue
            index = min(same, key=lambda i: (i not in replaced, i))
            memory = extra.instruction.operands[1]
            assert isinstance(memory, Mem)
            if isinstance(memory.base, Reg):
                self.hoists.append(HoistedLoad(index, extra.index, memory.base, memory.offset))
                yield extra, index

    def _claim(
        self, one: Aligned, found: list[list[_Seen]], meant: dict[Extra, int], stretch: _Stretch
    ) -> InferredRewrite | None:
        parts: list[ElementSource] = []
        displaced: list[tuple[int, int]] = []
        for number, seen in enumerate(found):
            direct, beyond = self._sorted(one.index, number, seen, meant, stretch)
            if not direct:
                continue
            part = _part(one, direct)
            parts.append(part)
            for extra, lane, other in beyond:
                far = self._distance(extra, part.source, meant, stretch, other)
                if far is None or abs(part.delta + lane - other) != WARP:
                    raise Mismatch(one.instruction, "where a load gets its value from is not read")
                displaced.append((number, far))
        if not parts:
            return None
        if len(parts) < len(found):
            raise Mismatch(
                one.instruction, "some registers of a load come from elsewhere, some not"
            )
        return InferredRewrite(one.index, tuple(parts), tuple(dict.fromkeys(displaced)))

    def _sorted(
        self, index: int, element: int, seen: list[_Seen], meant: dict[Extra, int],
        stretch: _Stretch,
    ) -> tuple[list[tuple[Loaded, int, int]], list[tuple[Extra, int, int]]]:  # fmt: skip
        """What comes from loads of the original, and what from loads made for others; not what
        the load itself gives, made a little earlier."""
        direct: list[tuple[Loaded, int, int]] = []
        beyond: list[tuple[Extra, int, int]] = []
        for one in seen:
            what = one.what
            if not isinstance(what, Loaded):
                extra, number = what
                if extra.index == index and extra.address is stretch.places[index]:
                    what = Loaded(index, number)
                elif extra in meant:
                    what = Loaded(meant[extra], number)
                else:
                    beyond.append((extra, one.lane, one.other))
                    continue
            if what != Loaded(index, element) or one.other != one.lane:
                direct.append((what, one.lane, one.other))
        return direct, beyond

    def _distance(
        self, extra: Extra, lead: int, meant: dict[Extra, int], stretch: _Stretch, lane: int
    ) -> int | None:
        """How many bytes behind the lead's address an added load of a lane is."""
        made = next((e.address for e, index in meant.items() if index == lead), None)
        address = made if made is not None else stretch.places.get(lead)
        if address is None:
            return None
        distance = self.lanes.at(self.terms.sub(extra.address, address), lane)
        if distance.kind != "const":
            return None
        value: int = distance.value
        return value - (value >> (distance.width - 1) << distance.width)


def _part(one: Aligned, seen: list[tuple[Loaded, int, int]]) -> ElementSource:
    """The one part that all lanes show."""
    sources = {loaded for loaded, _, _ in seen}
    ahead = {other - lane for _, lane, other in seen}
    together = {other + lane for _, lane, other in seen}
    if len(sources) == 1 and len(ahead) == 1:
        (loaded,) = sources
        return ElementSource(loaded.index, loaded.element, ahead.pop())
    if len(sources) == 1 and len(together) == 1:
        (loaded,) = sources
        return ElementSource(loaded.index, loaded.element, together.pop(), mirror=True)
    raise Mismatch(one.instruction, "a load gets its value from several places")
